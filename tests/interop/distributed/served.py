"""The programs of `tests.interop.behaviours` with sessions on servers: TensorFlow's session on its own server says what is right.

A module whose fixture `agree` is the one here runs them with our sessions on each kind of server.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

import aioexec as ax
from aioexec.distributed import channels
from tests.interop.behaviours.both import Engine, Here, Program, There, disagreement


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


async def agreed_on_servers(tf: Any, tf_target: str, target: str, program: Program) -> Any:
    """Run a program with TensorFlow's session and ours; our result, which is the same."""
    ours, theirs = await apart_on_servers(tf, tf_target, target, program)
    problem = disagreement(ours, theirs)
    assert not problem, problem
    return ours


async def apart_on_servers(tf: Any, tf_target: str, target: str, program: Program) -> tuple[Any, Any]:
    """Run a program with both; what it gives by our session and by TensorFlow's."""
    theirs = await _result(ThereOnServer(tf, tf_target), program)
    return await _result(HereOnServer(target), program), theirs


async def _result(engine: Engine, program: Program) -> Any:
    await engine.reset()  # what a program before this has left there
    with engine.tf.Graph().as_default():
        try:
            return await program(engine)
        except Exception as error:
            error.add_note(f"with {'aioexec' if engine.is_ours else 'TensorFlow'}")
            raise


@pytest.fixture(scope="session")
def tf_target(tf) -> str:
    """A server of TensorFlow's in this process, with threads of its own; it lives until the process ends."""
    return tf.distribute.Server.create_local_server().target


@pytest.fixture(scope="package")
def tf_of_1x(tf) -> Iterator[Any]:
    """`tensorflow.compat.v1`, whose conditionals and loops are made of Switch and Merge."""
    was_enabled = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    yield tf
    if was_enabled:
        tf.enable_control_flow_v2()


@pytest.fixture(params=["tensorflow", "aioexec", "aioexec by gRPC"])
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
def agree(tf_of_1x, tf_target, target) -> Callable[[Program], Awaitable[Any]]:
    """Runs a program with a session of either kind; gives their common result."""
    return partial(agreed_on_servers, tf_of_1x, tf_target, target)


@pytest.fixture
def differ(tf_of_1x, tf_target, target) -> Callable[[Program], Awaitable[tuple[Any, Any]]]:
    """Runs a program whose result differs on purpose; gives ours and TensorFlow's."""
    return partial(apart_on_servers, tf_of_1x, tf_target, target)
