"""Runs one program with both engines and compares the results: the form of the tests of behaviours.

A program is written once, against an `Engine`:

    async def program(engine):
        a = engine.tf.constant(1.0)
        async with engine.session() as session:
            return await session.run(a), await failure(lambda: session.run("b:0"), "not found")

    await agree(program)

It runs with each engine in a new graph; its results must be equal, errors (`Failure`) in their class. TensorFlow's calls block,
so each is made in a separate thread: a program may leave one waiting in a task, as here.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pytest
from google.protobuf import text_format

import aioexec as ax
from aioexec.formats import protos
from tests.interop.comparing import difference


class Engine(Protocol):
    """What a program is written against.

    Attributes:
        tf: the module with TensorFlow's names.
        is_ours: whether it is aioexec. Only for what deliberately differs.
    """

    tf: Any
    is_ours: bool

    def session(
        self, target: str = "", text: str = "", **options: Any
    ) -> contextlib.AbstractAsyncContextManager[Any]:
        """A session on the default graph; its ConfigProto comes from text and fields. Its methods are awaited."""

    def proto(self, kind: str, text: str = "", **fields: Any) -> Any:
        """A message of the engine's own, from text and fields."""

    async def reset(self, containers: Sequence[str] = ()) -> None:
        """`Session.reset` of the sessions in this process."""


Program = Callable[[Engine], Awaitable[Any]]


class Here:
    """aioexec: `jit` selects its kernels."""

    tf: Any = ax
    is_ours: bool = True

    def __init__(self, jit: str = "off") -> None:
        self._config = f'aioexec {{ jit: "{jit}" }} '

    @contextlib.asynccontextmanager
    async def session(self, target: str = "", text: str = "", **options: Any) -> AsyncIterator[Any]:
        async with ax.Session(
            target, config=self.proto("ConfigProto", self._config + text, **options)
        ) as session:
            yield session

    def proto(self, kind: str, text: str = "", **fields: Any) -> Any:
        return _message(getattr(protos, kind), text, fields)

    async def reset(self, containers: Sequence[str] = ()) -> None:
        await ax.Session.reset("", list(containers))


class There:
    """TensorFlow."""

    is_ours: bool = False

    def __init__(self, tf: Any) -> None:
        self.tf = tf

    @contextlib.asynccontextmanager
    async def session(self, target: str = "", text: str = "", **options: Any) -> AsyncIterator[Any]:
        config = self.proto("ConfigProto", text, **options)
        if not (target or config.inter_op_parallelism_threads or config.session_inter_op_thread_pool):
            # A staging area that waits keeps a thread; of those for all sessions there are as many as processors. Servers have
            # their own, and refuse this.
            config.use_per_session_threads, config.inter_op_parallelism_threads = True, 8
        graph = self.tf.get_default_graph()
        session = AwaitedSession(await asyncio.to_thread(self.tf.Session, target, graph, config))
        try:
            yield session
        finally:
            await session.close()

    def proto(self, kind: str, text: str = "", **fields: Any) -> Any:
        if hasattr(self.tf, kind):
            return _message(getattr(self.tf, kind), text, fields)
        return _message(
            getattr(importlib.import_module("tensorflow.core.protobuf.config_pb2"), kind), text, fields
        )

    async def reset(self, containers: Sequence[str] = ()) -> None:
        await asyncio.to_thread(self.tf.Session.reset, "", list(containers))


class AwaitedSession:
    """A session of TensorFlow's whose calls are made in threads, so that they can be awaited."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return _awaited(getattr(self._session, name))

    def make_callable(self, *args: Any, **kwargs: Any) -> Any:
        return _awaited(self._session.make_callable(*args, **kwargs))

    async def _make_callable_from_options(self, options: Any) -> AwaitedCallable:
        return AwaitedCallable(await asyncio.to_thread(self._session._make_callable_from_options, options))


class AwaitedCallable:
    """A callable of TensorFlow's, awaited; it is released when Python forgets it, which `release` makes it do."""

    def __init__(self, function: Any) -> None:
        self._function = function

    async def __call__(self, *values: Any, **options: Any) -> Any:
        return await asyncio.to_thread(self._function, *values, **options)

    async def release(self) -> None:
        await asyncio.to_thread(self._function.__del__)


def _awaited(method: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    return functools.partial(asyncio.to_thread, method)


def _message(kind: Any, text: str, fields: Mapping[str, Any]) -> Any:
    message = text_format.Parse(text, kind())
    message.MergeFrom(kind(**fields))
    return message


@dataclass(frozen=True)
class Failure:
    """An error, as far as it can be compared: its classes, the most derived first, and its canonical code if it has one."""

    classes: tuple[str, ...]
    code: int | None
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        names = tuple(each.__name__ for each in type(error).__mro__)
        return cls(names, getattr(error, "error_code", None), getattr(error, "message", None) or str(error))


def floats(values: Any) -> np.ndarray[Any, Any]:
    """An array of float32, to feed or to compare with."""
    return np.array(values, np.float32)


async def failure(call: Callable[[], Any], *fragments: str) -> Failure:
    """The error that a call raises, which must say all the fragments.

    Args:
        call: makes the call; what it returns is awaited if it can be.
    """
    found = await outcome(call)
    if not isinstance(found, Failure):
        pytest.fail(f"expected an error, got {found!r}")
    for fragment in fragments:
        assert fragment in found.message, f"{found.classes[0]} lacks {fragment!r}: {found.message}"
    return found


async def outcome(call: Callable[[], Any]) -> Any:
    """The result of a call, awaited if it can be, or the error it raises."""
    try:
        result = call()
        return await result if inspect.isawaitable(result) else result
    except Exception as error:
        return Failure.of(error)


async def agreed(tf: Any, program: Program) -> Any:
    """Run a program with both engines, ours with reference kernels and with native ones; the result, the same of all."""
    theirs = await _result(There(tf), program)
    for jit in ("eager", "off"):
        ours = await _result(Here(jit), program)
        problem = disagreement(ours, theirs)
        assert not problem, f"{jit}: {problem}"
    return ours


async def apart(tf: Any, program: Program) -> tuple[Any, Any]:
    """Run a program with both engines; returns the results here and with TensorFlow."""
    theirs = await _result(There(tf), program)
    return await _result(Here(), program), theirs


async def _result(engine: Engine, program: Program) -> Any:
    with engine.tf.Graph().as_default():
        try:
            return await program(engine)
        except Exception as error:
            error.add_note(f"with {'aioexec' if engine.is_ours else 'TensorFlow'}")
            raise


def disagreement(ours: Any, theirs: Any) -> str:
    """Where two results differ; "" if they do not."""
    if isinstance(theirs, Failure):
        return _failures_differ(ours, theirs)
    if isinstance(theirs, Mapping):
        if not isinstance(ours, Mapping) or ours.keys() != theirs.keys():
            return f"{ours!r} instead of {theirs!r}"
        return _first({key: disagreement(ours[key], theirs[key]) for key in theirs})
    if isinstance(theirs, list | tuple):
        if type(ours).__name__ != type(theirs).__name__ or len(ours) != len(theirs):
            return f"{ours!r} instead of {theirs!r}"
        return _first(
            {place: disagreement(*pair) for place, pair in enumerate(zip(ours, theirs, strict=True))}
        )
    if isinstance(theirs, np.ndarray | np.generic):
        if not isinstance(ours, np.ndarray | np.generic):
            return f"{type(ours)} instead of {type(theirs)}"
        return difference(ours, theirs, 1.0)  # a scalar is an array here
    return "" if ours == theirs else f"{ours!r} instead of {theirs!r}"


def _first(problems: Mapping[Any, str]) -> str:
    return next((f"[{place!r}] {problem}" for place, problem in problems.items() if problem), "")


def _failures_differ(ours: Any, theirs: Failure) -> str:
    """Code that catches theirs has to catch ours: the same class or one derived from it."""
    if not isinstance(ours, Failure):
        return f"no error, but {ours!r}, instead of {theirs!r}"
    if theirs.classes[0] not in ours.classes or theirs.code not in (None, ours.code):
        return f"{ours!r} instead of {theirs!r}"
    return ""
