"""Common parts of engine tests: sessions on each tier, and ops made for one test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import aioexec  # noqa: F401  (wires operators and evaluation)
from aioexec import dtypes
from aioexec.execution.executor import Executor
from aioexec.execution.programs import program as program_module, program_run
from aioexec.formats.protos import ConfigProto
from aioexec.graph import registry
from aioexec.graph.apply import apply_any_op
from aioexec.graph.graph import Graph
from aioexec.graph.kernels.kernel import plain
from aioexec.graph.kernels.launches import expression
from aioexec.graph.registry import NOT_DIFFERENTIABLE
from aioexec.ops.array.identity import placeholder
from aioexec.planning.layout.variant import ProgramRow
from aioexec.planning.parallelism import lanes
from aioexec.sessions.direct import DirectSession
from aioexec.sessions.session import Session

TIERS = ("reference", "inline", "worker")
"""NumPy kernels; native programs on the event loop; native programs on worker threads."""

op = apply_any_op


def session_on(graph: Graph, jit: str) -> Session:
    config = ConfigProto()
    config.aioexec.jit = jit
    return Session(graph=graph, config=config)


class Tier:
    """Opens sessions that run everything on one tier."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def is_native(self) -> bool:
        return self.name != "reference"

    def session(self, graph: Graph) -> Session:
        return session_on(graph, "eager" if self.is_native else "off")

    @contextlib.contextmanager
    def chosen(self) -> Iterator[None]:
        """Programs made inside run where this tier wants them."""
        with pytest.MonkeyPatch.context() as patch:
            for bound in ("JUMPING_INLINE_LIMIT_NS", "INLINE_LIMIT_NS"):
                usual = getattr(program_module, bound)
                patch.setattr(program_module, bound, {"worker": -1, "inline": 10**12}.get(self.name, usual))
            if self.name == "worker":
                patch.setattr(program_run, "_LONGEST_ALONE_NS", -1)
            yield


def runtime(session: Session) -> DirectSession:
    """The runtime of a session that has been used."""
    assert isinstance(session._runtime, DirectSession)
    return session._runtime


def executors(session: Session) -> list[Executor]:
    """The executors of the signatures a session has run, in the order it met them."""
    return list(runtime(session)._by_asked.values())


def run_nowait(executor: Executor, feeds: Iterable[Any]) -> Any:
    """The result of the fast path for a step, in a tick with its full budget."""
    executor.engine.budget.spent = 0
    return executor.run_nowait(feeds)


def programs(session: Session) -> list[program_module.Program]:
    return [
        program
        for executor in executors(session)
        for runner in executor.runners
        for program in runner.cache.programs.values()
    ]


def op_of_each_row(program: program_module.Program) -> list[str]:
    """The kinds of the nodes that rows do, in order; of several the first."""
    rows = [row for row in program.variant.rows if isinstance(row, ProgramRow)]
    places = [row.parts[0][0] if row.parts else row.position for row in rows]
    return [program.variant.instructions[place].node.row.name for place in places]


def with_slow(cases: Iterable[str], *slow: str) -> list[Any]:
    """Parameters of a test; those are marked slow whose kernels do not come with the package, and take a second to compile."""
    return [pytest.param(case, marks=pytest.mark.slow) if case in slow else case for case in cases]


def share_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everything that can be shared by workers cut into the smallest shares."""
    monkeypatch.setattr(lanes, "SHARE_NS", 1)
    monkeypatch.setattr(lanes, "_PART_NS", 1)
    monkeypatch.setattr(lanes, "_LEAST_GRAIN_NS", 1)
    monkeypatch.setattr(lanes, "_TASK_NS", 0)


@contextlib.contextmanager
def graph() -> Iterator[Graph]:
    with Graph().as_default() as made:
        yield made


def feed(shape: Any = None, dtype: str = "float32", name: str | None = None) -> Any:
    return placeholder(dtype, shape, name)


def constant(value: Any, dtype: str = "float32") -> Any:
    return op("Const", value=np.asarray(value, dtype), dtype=dtypes.as_dtype(dtype))


def resource(shape: Any, dtype: str = "float32", name: str | None = None) -> Any:
    """The handle of a resource variable."""
    return op("VarHandleOp", dtype=dtypes.as_dtype(dtype), shape=shape, name=name)


def reference(shape: Any, dtype: str = "float32", name: str | None = None) -> Any:
    """A reference variable."""
    return op("VariableV2", dtype=dtypes.as_dtype(dtype), shape=shape, name=name)


def read(handle: Any, dtype: str = "float32") -> Any:
    return op("ReadVariableOp", handle, dtype=dtypes.as_dtype(dtype))


class Ops:
    """Registers ops for one test; `forget` takes them out of the registry again."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def add(self, signature: str, compute: Callable[..., Any], **row: Any) -> None:
        """An op whose kernel is `compute`, or that of the factory `kernel`; the output has the shape of input 0."""
        row.setdefault("shape", lambda context: [context.inputs[0] if context.inputs else ()])
        kernel = row.pop("kernel", plain(compute))
        made = registry.register(signature, kernel=kernel, gradient=NOT_DIFFERENTIABLE, **row)
        self._names.append(made.name)

    def broken(self, name: str, compute: Callable[..., Any]) -> None:
        """A stateful op x -> y of x's shape without a native form: it breaks programs."""
        self.add(f"{name}(x:T) -> (y:T) [T:type] {{stateful}}", compute)

    def native(self, name: str, compute: Callable[..., Any], text: str, **native: Any) -> None:
        """An elementwise op x -> y with a native form."""
        self.add(f"{name}(x:T) -> (y:T) [T:type]", compute, native=expression(text, **native))

    def forget(self) -> None:
        for name in self._names:
            del registry._registry.rows[name]


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest) -> Iterator[Tier]:
    """Each of the engine's tiers in turn."""
    chosen = Tier(request.param)
    with chosen.chosen():
        yield chosen


@pytest.fixture
def ops() -> Iterator[Ops]:
    """Makes ops for this test only."""
    made = Ops()
    yield made
    made.forget()
