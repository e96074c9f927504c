"""Two synchronous replicas against TensorFlow's: parameters, steps and slots after each round; names; errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from tests.interop.building import values
from tests.interop.train.engines import Measured, compare, kind_of_variables, table

pytestmark = pytest.mark.interop

ROUNDS = 3
GIVEN = [[values(10 * k + replica, 3, 2) for replica in range(2)] for k in range(ROUNDS)]
Make = Callable[[Any], Any]


class Model:
    """A model with a train op and a hook for each of two replicas, which share accumulators and tokens by name."""

    def __init__(self, tf: Any, make: Make, is_sparse: bool) -> None:
        self.step = tf.train.get_or_create_global_step()
        var = tf.get_variable("v", initializer=values(1, 3, 2))
        self.fed = [tf.placeholder(tf.float32, [3, 2]) for _ in range(2)]
        self.train_ops, self.hooks = [], []
        for k, x in enumerate(self.fed):
            loss = tf.reduce_sum((tf.gather(var, [2, 0, 2]) if is_sparse else var * var) * x)
            optimizer = tf.train.SyncReplicasOptimizer(make(tf), 2)
            train = optimizer.minimize(loss, global_step=self.step)
            self.train_ops.append(train.op)
            hook = optimizer.make_session_run_hook(k == 0, num_tokens=0)
            hook.begin()
            self.hooks.append(hook)
        self.init = tf.group(tf.global_variables_initializer(), tf.local_variables_initializer())
        # The moments of sparse gradients decay before the gradient is taken, so the chief's next round, which waits for
        # gradients, has decayed them already or not; what they come to shows in the parameter.
        decays = {"v/Adam", "v/Adam_1"} if is_sparse else set()
        self.state = [kept for kept in tf.global_variables() if kept.op.name not in decays]


def theirs(tf: Any, make: Make, is_sparse: bool, resource: bool) -> list[Any]:
    with tf.Graph().as_default(), kind_of_variables(tf, resource):
        model = Model(tf, make, is_sparse)
        coordinator, found = tf.train.Coordinator(), []
        with tf.Session() as session, ThreadPoolExecutor(2) as pool:
            session.run(model.init)
            for hook in model.hooks:
                hook.after_create_session(session, coordinator)
            for given in GIVEN:
                steps = [
                    pool.submit(session.run, train, {x: value})
                    for train, x, value in zip(model.train_ops, model.fed, given, strict=True)
                ]
                for step in steps:
                    step.result()
                found.append(session.run(model.state))
            coordinator.request_stop()
        return found


async def ours(make: Make, is_sparse: bool, resource: bool) -> list[Any]:
    with ax.Graph().as_default(), kind_of_variables(ax, resource):
        model = Model(ax, make, is_sparse)
        coordinator, found = ax.train.Coordinator(), []
        async with ax.Session() as session:
            await session.run(model.init)
            for hook in model.hooks:
                await hook.after_create_session(session, coordinator)
            for given in GIVEN:
                steps = zip(model.train_ops, model.fed, given, strict=True)
                await asyncio.gather(*(session.run(train, {x: value}) for train, x, value in steps))
                found.append(await session.run(model.state))
            coordinator.request_stop()
            await coordinator.join()
        return found


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])
@pytest.mark.parametrize("kind", ["GradientDescent", "Adam", "Adagrad"])
async def test_replicas_train_as_tensorflows(tf: Any, kind: str, is_sparse: bool, resource: bool):
    def make(module: Any) -> Any:
        return getattr(module.train, f"{kind}Optimizer")(0.1)

    expected, found = theirs(tf, make, is_sparse, resource), await ours(make, is_sparse, resource)

    for one, other in zip(found, expected, strict=True):
        for got, wanted in zip(one, other, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-7)


ROWS, add = table()


def built(aggregate: int, total: int | None, tokens: int = -1, **options: Any) -> Callable[[Any], Measured]:
    """The nodes a program sees: initialisers, tokens, the runner of the chief."""

    def build(tf: Any) -> Measured:
        var, step = tf.get_variable("v", initializer=[1.0, 2.0]), tf.train.get_or_create_global_step()
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.MomentumOptimizer(0.1, 0.9), aggregate, total, **options
        )
        optimizer.minimize(tf.reduce_sum(var), global_step=step)
        runner = optimizer.get_chief_queue_runner()
        seen = [runner.queue.queue_ref.op, optimizer.get_init_tokens_op(tokens), *optimizer.variables()]
        for node in (*seen, optimizer.chief_init_op, optimizer.get_slot(var, "momentum")):
            tf.add_to_collection("seen", node)
        return Measured([optimizer.ready_for_local_init_op], after=[])

    return build


add("as many gradients as replicas", built(2, None))
add("fewer gradients than replicas", built(2, 3, name="mine", use_locking=True))
add("more gradients than replicas", built(3, 2, tokens=1))
add("too few tokens", built(3, 1, tokens=1))
add("no tokens", built(2, 2, tokens=0))


def mistake(use: Callable[[Any, Any, Any], Any]) -> Callable[[Any], Measured]:
    def build(tf: Any) -> Measured:
        var = tf.get_variable("v", initializer=[1.0, 2.0])
        use(tf, tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 1), var)
        return Measured([], [])

    return build


add("no step", mistake(lambda tf, o, v: o.minimize(tf.reduce_sum(v))))
add("no gradients", mistake(lambda tf, o, v: o.apply_gradients([], tf.train.get_or_create_global_step())))
add("a runner too soon", mistake(lambda tf, o, v: o.get_chief_queue_runner()))
add("tokens too soon", mistake(lambda tf, o, v: o.get_init_tokens_op()))
add("a hook too soon", mistake(lambda tf, o, v: o.make_session_run_hook(True).begin()))


@pytest.mark.parametrize("name", ROWS)
async def test_nodes_and_mistakes_are_tensorflows(tf: Any, name: str):
    assert await compare(tf, ROWS[name]) == []
