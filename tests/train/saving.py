"""Models of a few variables for the tests of savers."""

from __future__ import annotations

from typing import Any

import numpy as np

import aioexec as tf
from aioexec.train import Saver


class Model:
    """Variables `v` [2, 3] and `w` [4] in a graph of their own, and a saver of them."""

    def __init__(self, use_resource: bool = False, **options: Any) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.variables = [
                tf.Variable(tf.zeros(shape), name=name, use_resource=use_resource)
                for name, shape in (("v", [2, 3]), ("w", [4]))
            ]
            self.number = tf.placeholder(tf.float32, [])
            self.set_all = tf.group(
                *(each.assign(tf.fill(each.shape.as_list(), self.number)) for each in self.variables)
            )
            self.saver = Saver(**options)

    def session(self) -> tf.Session:
        return tf.Session(graph=self.graph)

    async def save(self, session: tf.Session, path: Any, number: float, **options: Any) -> str:
        await session.run(self.set_all, {self.number: number})
        saved = await self.saver.save(session, path, **options)
        assert saved is not None
        return saved

    async def restored(self, session: tf.Session, path: Any) -> float:
        """The number that all variables have in a checkpoint."""
        await session.run(self.set_all, {self.number: -1})
        await self.saver.restore(session, path)
        return await self.value(session)

    async def value(self, session: tf.Session) -> float:
        values = await session.run(self.variables)
        (number,) = {float(each) for value in values for each in np.unique(value)}
        return number
