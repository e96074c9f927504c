"""The model that the killed processes save: all variables hold the number of the step, so a torn checkpoint is detected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aioexec as tf
from aioexec.train.checkpoints.saver import Saver

MANNERS = ("numbered", "overwriting", "sharded")
"""Each save a checkpoint of its own; each over the former one; each by two devices."""
KEPT = 2


@dataclass
class Model:
    graph: tf.Graph
    step: Any
    variables: list[Any]
    set_all: Any
    manner: str
    saver: Saver

    def session(self) -> tf.Session:
        return tf.Session(graph=self.graph, config=tf.ConfigProto(device_count={"CPU": 2}))

    async def save(self, session: tf.Session, folder: str, step: int) -> str:
        """Give all variables the value `step`, and save them."""
        await session.run(self.set_all, {self.step: step})
        number = None if self.manner == "overwriting" else step
        path = await self.saver.save(session, f"{folder}/model", global_step=number)
        assert path is not None
        return path

    async def restored(self, session: tf.Session, path: str) -> int:
        """The step a checkpoint is of; all of it must be of that one."""
        await self.saver.restore(session, path)
        values = await session.run(self.variables)
        found = {float(each) for value in values for each in np.unique(value)}
        assert len(found) == 1, f"{path} has {found}"
        return int(found.pop())


def model(manner: str) -> Model:
    with tf.Graph().as_default() as graph:
        step = tf.placeholder(tf.float32, [])
        variables = []
        for k, (shape, is_resource) in enumerate((((), False), ((40,), True), ((30, 7), False))):
            with tf.device(f"/cpu:{k % 2}"):
                variables.append(
                    tf.Variable(tf.zeros(shape), use_resource=is_resource, name=f"v{k}", dtype=tf.float32)
                )
        set_all = tf.group(*(v.assign(tf.fill(v.shape.as_list(), step)) for v in variables))
        saver = Saver(max_to_keep=KEPT, sharded=manner == "sharded")
    return Model(graph, step, variables, set_all, manner, saver)
