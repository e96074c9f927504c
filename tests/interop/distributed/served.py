"""The programs of `tests.interop.behaviours` with our sessions on servers; TensorFlow's direct one yields the expected values.

A module that uses the fixture `agree` of this one runs them with our sessions on each kind of server.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

import aioexec as ax
from aioexec.distributed.transport import channels
from tests.interop.behaviours.both import Engine, Here, Program, There, disagreement
from tests.interop.distributed.tensorflow_server import TensorFlowServer

NOT_ON_TENSORFLOW = {
    # there is no session state
    "test_a_tensor_stays_in_the_session_and_is_read_by_its_handle",
    "test_a_deleted_tensor_is_gone",
    # "Distributed session does not support session thread pool options."
    "test_threads_change_no_result",
    "test_a_run_chooses_its_pool",
    "test_a_step_that_waits_in_one_pool_does_not_stop_the_other",
    "test_a_named_pool_keeps_its_number_of_threads",
    # functions of this process are none of another's
    "test_a_python_function_computes",
    "test_a_stateful_python_function_runs_in_each_step",
    "test_what_a_python_function_raises_has_a_canonical_class",
    "test_what_a_python_function_returns_must_be_what_it_said",
    # said in another way: the texts of dead fetches, of frames, of partial runs, of queues, nodes of partitions
    "test_a_dead_tensor_cannot_be_fetched",
    "test_a_frame_with_two_parents_is_refused",
    "test_what_was_not_announced_or_comes_again_is_refused",
    "test_queues_that_are_not_what_they_must_be_are_refused",
    "test_partition_graphs_come_when_they_are_asked_for",
    # a step whose call was cancelled runs for a moment longer, and may take what the next one puts
    "test_a_cancelled_run_takes_nothing",
    # done by us alone
    "test_what_stands_above_a_fed_tensor_is_not_waited_for_here_only",
    # not done there
    "test_a_static_graph_is_not_extended_after_its_first_run",
}
"""Tests whose programs a server of TensorFlow's answers otherwise than its direct session."""

PARTS_MET = "ValidateDevices called before initialization"
"""The error of a TensorFlow server for a part of a partial run that arrives during the setup of the first one."""


class HereOnServer(Here):
    """aioexec's sessions on a server, TensorFlow's or ours."""

    def __init__(self, target: str) -> None:
        super().__init__("off")
        self._target = target

    @contextlib.asynccontextmanager
    async def session(self, target: str = "", text: str = "", **options: Any) -> AsyncIterator[Any]:
        async with super().session(target or self._target, text, **options) as session:
            yield session

    async def reset(self, containers: Sequence[str] = ()) -> None:
        await ax.Session.reset(self._target, list(containers))


class ThereOnServer(There):
    """TensorFlow's sessions on a server of TensorFlow's."""

    def __init__(self, tf: Any, target: str) -> None:
        super().__init__(tf)
        self._target = target

    @contextlib.asynccontextmanager
    async def session(self, target: str = "", text: str = "", **options: Any) -> AsyncIterator[Any]:
        async with super().session(target or self._target, text, **options) as session:
            yield session

    async def reset(self, containers: Sequence[str] = ()) -> None:
        await asyncio.to_thread(self.tf.Session.reset, self._target, list(containers))


async def agreed_on_server(tf: Any, target: str, program: Program) -> Any:
    """Run a program with TensorFlow's direct session and with ours on a server; our result, which is the same."""
    ours, theirs = await apart_on_server(tf, target, program)
    problem = disagreement(ours, theirs)
    assert not problem, problem
    return ours


async def apart_on_server(tf: Any, target: str, program: Program) -> tuple[Any, Any]:
    """Run a program with both; returns the results on the server, and with TensorFlow."""
    theirs = await _result(There(tf), program)
    here = HereOnServer(target)
    await here.reset()  # what a program before this has left there
    return await _result(here, program), theirs


async def agreed_of_clients(tf: Any, tf_target: str, target: str, program: Program) -> Any:
    """Run a program with TensorFlow's session on TensorFlow's server, and with ours on either; the result of both."""
    there = ThereOnServer(tf, tf_target)
    await there.reset()
    theirs = await _result(there, program)
    here = HereOnServer(target)
    await here.reset()
    ours = await _result(here, program)
    problem = disagreement(ours, theirs)
    assert not problem, problem
    return ours


async def of_program(engine: Engine, program: Program) -> Any:
    """The result of a program in a new graph; repeated if parts of a partial run met at TensorFlow's server."""
    failures = 0
    while True:
        with engine.tf.Graph().as_default():
            try:
                return await program(engine)
            except Exception as error:
                failures += 1
                if failures == 5 or PARTS_MET not in str(error):
                    raise
        await engine.reset()


async def _result(engine: Engine, program: Program) -> Any:
    try:
        return await of_program(engine, program)
    except Exception as error:
        error.add_note(f"with {'aioexec' if engine.is_ours else 'TensorFlow'}")
        raise


@pytest.fixture(scope="session")
def tf_target() -> Iterator[str]:
    """A server of TensorFlow's in a process of its own."""
    with TensorFlowServer() as server:
        yield server.target


@pytest.fixture(scope="package")
def tf_of_1x(tf) -> Iterator[Any]:
    """`tensorflow.compat.v1`, whose conditionals and loops are made of Switch and Merge."""
    was_enabled = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    yield tf
    if was_enabled:
        tf.enable_control_flow_v2()


KINDS = ("tensorflow", "aioexec", "aioexec by gRPC")


def kinds_for(test: str) -> list[str]:
    """The kinds of servers with which a test is run."""
    return [kind for kind in KINDS if kind != "tensorflow" or test not in NOT_ON_TENSORFLOW]


@pytest.fixture
async def target(request, monkeypatch, tf_target) -> AsyncIterator[str]:
    """The target of a server: TensorFlow's, ours in the same loop, and that one reached over a socket."""
    if request.param == "tensorflow":
        yield tf_target
        return
    if request.param == "aioexec by gRPC":
        monkeypatch.setattr(channels, "local_channel", lambda address: None)
    async with ax.train.Server.create_local_server() as server:
        yield server.target


@pytest.fixture
def agree(tf_of_1x, target) -> Callable[[Program], Awaitable[Any]]:
    """Runs a program with both; returns their common result."""
    return partial(agreed_on_server, tf_of_1x, target)


@pytest.fixture
def differ(tf_of_1x, target) -> Callable[[Program], Awaitable[tuple[Any, Any]]]:
    """Runs a program whose result differs on purpose; returns ours and TensorFlow's."""
    return partial(apart_on_server, tf_of_1x, target)


@pytest.fixture
def clients_agree(tf_of_1x, tf_target, target) -> Callable[[Program], Awaitable[Any]]:
    """Runs a program with TensorFlow's client and server, and with our client; returns their common result."""
    return partial(agreed_of_clients, tf_of_1x, tf_target, target)
