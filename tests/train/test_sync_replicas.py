"""SyncReplicasOptimizer: synchronous replicas, stale gradients, the hook, and errors.

Replicas are optimizers in one graph and session: their accumulators and token queue are shared by name, as between tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.train.callbacks import settle
from aioexec.train.errors import TrainingStateError

START = np.array([1.0, 2.0], np.float32)
KINDS = pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])


class Replicas:
    """A model, and a train op for each replica; replica 0 is the chief."""

    def __init__(
        self, count: int, aggregate: int, use_resource: bool, sparse: bool = False, **options: Any
    ) -> None:
        self.step = ax.train.get_or_create_global_step()
        self.var = ax.get_variable("var", initializer=START, use_resource=use_resource)
        self.gradients = [ax.placeholder(ax.float32, [1] if sparse else [2]) for _ in range(count)]
        self.optimizers = []
        self.train_ops = []
        for gradient in self.gradients:
            inner = ax.train.GradientDescentOptimizer(0.5)
            optimizer = ax.train.SyncReplicasOptimizer(inner, aggregate, count, **options)
            given = ax.IndexedSlices(gradient, ax.constant([1]), ax.constant([2])) if sparse else gradient
            self.train_ops.append(optimizer.apply_gradients([(given, self.var)], self.step))
            self.optimizers.append(optimizer)
        self.hooks = [
            optimizer.make_session_run_hook(k == 0, num_tokens=0)
            for k, optimizer in enumerate(self.optimizers)
        ]
        for hook in self.hooks:
            hook.begin()
        self.session: Any = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        coordinator = ax.train.Coordinator()
        init = ax.global_variables_initializer()
        async with ax.Session() as self.session:
            await self.session.run(init)
            for hook in self.hooks:
                await settle(hook.after_create_session(self.session, coordinator))
            yield
            coordinator.request_stop()
            await coordinator.join()

    async def train(self, replica: int, gradient: Any) -> None:
        value = np.array(gradient, np.float32)
        await self.session.run(self.train_ops[replica].op, {self.gradients[replica]: value})

    async def state(self) -> tuple[Any, int]:
        value, step = await self.session.run([self.var, self.step])
        return value, int(step)


@KINDS
async def test_replicas_step_together_along_the_mean_of_their_gradients(use_resource: bool):
    with ax.Graph().as_default():
        replicas = Replicas(2, 2, use_resource)
        async with replicas.running():
            for k in range(3):
                await asyncio.gather(replicas.train(0, [1, 2]), replicas.train(1, [3, -2]))

                value, step = await replicas.state()
                np.testing.assert_allclose(value, START - 0.5 * (k + 1) * np.array([2, 0]))
                assert step == k + 1


async def test_a_replica_waits_until_there_are_enough_gradients():
    with ax.Graph().as_default():
        replicas = Replicas(2, 2, use_resource=True)
        async with replicas.running():
            first = asyncio.create_task(replicas.train(0, [1, 1]))
            await replicas.session.run(replicas.step)
            assert not first.done()

            await replicas.train(1, [1, 1])
            await first

            assert (await replicas.state())[1] == 1


async def test_a_gradient_that_comes_too_late_is_dropped_and_its_replica_catches_up():
    with ax.Graph().as_default():
        replicas = Replicas(3, 2, use_resource=True)
        async with replicas.running():
            await asyncio.gather(replicas.train(0, [1, 1]), replicas.train(1, [1, 1]))
            before, step = await replicas.state()
            assert step == 1

            await replicas.train(2, [100, 100])  # of step 0

            np.testing.assert_array_equal((await replicas.state())[0], before)
            await asyncio.gather(replicas.train(2, [4, 4]), replicas.train(1, [2, 2]))  # of step 1
            value, step = await replicas.state()
            np.testing.assert_allclose(value, before - 0.5 * 3)
            assert step == 2


async def test_of_sparse_gradients_each_row_has_its_own_mean():
    with ax.Graph().as_default():
        replicas = Replicas(2, 2, use_resource=True, sparse=True)
        async with replicas.running():
            await asyncio.gather(replicas.train(0, [1]), replicas.train(1, [3]))

            np.testing.assert_allclose((await replicas.state())[0], [1, 2 - 0.5 * 2])


@KINDS
async def test_averages_are_updated_after_each_step(use_resource: bool):
    with ax.Graph().as_default():
        averages = ax.train.ExponentialMovingAverage(0.5)
        replicas = Replicas(1, 1, use_resource, variable_averages=averages)
        async with replicas.running():
            await replicas.train(0, [2, 2])
            await replicas.train(0, [2, 2])  # the runner has finished the first step

            found = await replicas.session.run(averages.average(replicas.var))
            assert found[0] <= 0.5


async def test_a_replica_of_a_model_that_is_not_there_yet_says_what_is_missing():
    with ax.Graph().as_default():
        replicas = Replicas(1, 1, use_resource=True)
        async with ax.Session() as session:
            with pytest.raises(TrainingStateError, match="Variables not initialized: global_step, var"):
                await settle(replicas.hooks[0].after_create_session(session, ax.train.Coordinator()))


async def test_a_monitored_session_trains_with_the_hook():
    with ax.Graph().as_default():
        step = ax.train.get_or_create_global_step()
        var = ax.get_variable("var", initializer=START)
        optimizer = ax.train.SyncReplicasOptimizer(ax.train.GradientDescentOptimizer(0.1), 1)
        train_op = optimizer.minimize(ax.reduce_sum(var * var), global_step=step)
        hooks = [optimizer.make_session_run_hook(True), ax.train.StopAtStepHook(num_steps=5)]
        async with ax.train.MonitoredTrainingSession(hooks=hooks) as session:
            while not session.should_stop():
                _, last = await session.run([train_op, step])

    assert last >= 4


def test_slots_and_variables_are_those_of_the_wrapped_optimizer():
    with ax.Graph().as_default():
        var = ax.get_variable("var", initializer=START)
        inner = ax.train.MomentumOptimizer(0.1, 0.9)
        optimizer = ax.train.SyncReplicasOptimizer(inner, 1)
        optimizer.minimize(ax.reduce_sum(var), ax.train.get_or_create_global_step())

        assert optimizer.get_slot_names() == ["momentum"]
        assert optimizer.get_slot(var, "momentum") is inner.get_slot(var, "momentum")
        assert optimizer.variables() == inner.variables()


def test_mistakes_are_errors():
    with ax.Graph().as_default():
        var, step = ax.get_variable("var", initializer=START), ax.train.get_or_create_global_step()
        optimizer = ax.train.SyncReplicasOptimizer(ax.train.GradientDescentOptimizer(0.1), 3, 1)
        with pytest.raises(GraphValueError, match="Global step is required"):
            optimizer.minimize(ax.reduce_sum(var))
        with pytest.raises(GraphValueError, match="at least one variable"):
            optimizer.apply_gradients([], step)
        with pytest.raises(GraphTypeError, match="Unknown grad type"):
            optimizer.apply_gradients([(START, var)], step)
        with pytest.raises(GraphValueError, match="after apply_gradients"):
            optimizer.get_chief_queue_runner()
        with pytest.raises(GraphValueError, match="after apply_gradients"):
            optimizer.make_session_run_hook(True).begin()
        optimizer.minimize(ax.reduce_sum(var), step)
        with pytest.raises(GraphValueError, match="Too few tokens"):
            optimizer.get_init_tokens_op(1)
