"""Runs a call on each tier, and reports foreign exceptions, disagreement of tiers, and crashes of the planner."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

import aioexec as ax
from aioexec import dtypes as dt, errors
from aioexec.graph.graph import Graph
from aioexec.graph.node import Operation, Tensor
from aioexec.shapes import is_fully_defined
from tests.campaigns.operand_calls import CONSTANT, KNOWN, PARTLY, UNKNOWN, Call, Leaf, Out, all_calls
from tests.interop.parity.table import dtype_of
from tests.tiers import Tier

Array = np.ndarray[Any, Any]
Steps = Sequence[Sequence[tuple[Call, "int | None"]]]
"""The fetches of each step: an output of a call, or all of them."""

CPU_LIMIT_S = 5.0
"""The most processor time of one run."""
BLOCKED_MS = 100
"""A step that may wait for a queue fails after so long."""
TIMEOUT_MS = 60_000
ROUNDS = 3
"""Rounds of the loop a call is put in."""

UNCOMPARED = frozenset({"Empty", "_ParallelConcatStart", "Timestamp", "AccumulatorNumAccumulated"})
"""Ops whose values are not given."""
RANDOM = frozenset({"Multinomial", "TruncatedNormal", "Where"})


@dataclass
class Outcome:
    """The outcome of a call on a tier: values of each step, or the class and text of an error."""

    error: str = ""
    message: str = ""
    values: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.error}: {self.message[:300]}" if self.error else f"values {_shapes(self.values)}"


def _shapes(values: list[Any]) -> list[Any]:
    return [getattr(value, "shape", type(value).__name__) for value in values]


class ForeignExceptionError(Exception):
    """An exception that is none of aioexec's."""


@dataclass
class Built:
    """A graph for a call: feeds, what to run before, and what to fetch in each step."""

    graph: Graph
    feeds: dict[Tensor, Any] = field(default_factory=dict)
    init: list[Operation] = field(default_factory=list)
    reads: list[Tensor] = field(default_factory=list)
    steps: list[list[Any]] = field(default_factory=list)
    may_block: bool = False
    sources: list[tuple[Tensor, Leaf | Call]] = field(default_factory=list)

    def feed_again(self) -> None:
        """Feed what the operands and initial values are now."""
        for tensor, source in self.sources:
            self.feeds[tensor] = source.value if isinstance(source, Leaf) else source.initial


class Builder:
    """Builds the graph of a call; `where` is "plain", or the call itself is inside of a "loop" or of a "branch".

    With `fed`, initial values are fed, in any shape.
    """

    def __init__(self, call: Call, steps: Steps | None, where: str, taken: bool, fed: bool = False) -> None:
        self.call, self.where, self.taken, self.fed = call, where, taken, fed
        self.steps = steps
        self.built = Built(Graph())
        self._made: dict[int, Operation] = {}
        self._leaves: dict[int, Tensor] = {}

    def build(self) -> Built:
        with self.built.graph.as_default():
            if self.where == "loop":
                self.built.steps = [self._in_loop()]
            elif self.where == "branch":
                self.built.steps = [self._in_branch()]
            else:
                steps = [[(self.call, None)]] if self.steps is None else self.steps
                made = [[self._fetches(call, index) for call, index in step] for step in steps]
                self.built.steps = [[each for some in step for each in some] for step in made]
        self.built.may_block = any(op.row.asynchronous for op in self.built.graph.get_operations())
        return self.built

    def _fetches(self, call: Call, index: int | None) -> list[Any]:
        op = self._operation(call)
        tensors = op.outputs if index is None else op.outputs[index : index + 1]
        return _shown(tensors) or [op]

    def _operation(self, call: Call) -> Operation:
        if id(call) not in self._made:
            inputs = [self._tensor(operand) for operand in call.operands()]
            controls = [self._operation(each) for each in call.after]
            attrs = dict(call.attrs)
            if call.op_type == "VarHandleOp":
                attrs.setdefault("shared_name", f"v{len(self._made)}")
            with self.built.graph.control_dependencies(controls):
                op = self.built.graph.create_op(call.op_type, inputs, attrs=attrs)
            self._made[id(call)] = op
            if call.initial is not None:
                self._initialise(op, call, call.initial)
        return self._made[id(call)]

    def _initialise(self, op: Operation, call: Call, initial: Array) -> None:
        create = self.built.graph.create_op
        value = self._source(initial, UNKNOWN if self.fed else CONSTANT)
        is_ref = op.type == "VariableV2"
        attrs = {"validate_shape": False} if is_ref and self.fed else {}
        assign = create("Assign" if is_ref else "AssignVariableOp", (op.outputs[0], value), attrs=attrs)
        if self.fed:
            self.built.sources.append((value, call))
        self.built.init.append(assign)
        if is_ref:
            self.built.reads.append(op.outputs[0])
        else:
            read = create("ReadVariableOp", (op.outputs[0],), attrs={"dtype": dtype_of(initial)})
            self.built.reads.append(read.outputs[0])

    def _tensor(self, operand: Leaf | Out) -> Tensor:
        if isinstance(operand, Out):
            return self._operation(operand.call).outputs[operand.index]
        if id(operand) not in self._leaves:
            tensor = self._leaves[id(operand)] = self._source(operand.value, operand.static)
            if operand.static != CONSTANT:
                self.built.sources.append((tensor, operand))
        return self._leaves[id(operand)]

    def _source(self, value: Array, static: str) -> Tensor:
        create, dtype = self.built.graph.create_op, dtype_of(value)
        if static == CONSTANT:
            return create("Const", (), attrs={"value": value, "dtype": dtype}).outputs[0]
        shape = {KNOWN: value.shape, PARTLY: (None,) * value.ndim, UNKNOWN: None}[static]
        tensor = create("Placeholder", (), attrs={"dtype": dtype, "shape": shape}).outputs[0]
        self.built.feeds[tensor] = value
        return tensor

    # In loops and branches

    def _inner(self, counter: Any) -> list[Tensor]:
        """The call with the operands it has in this round; outside of loops there is none."""
        inputs: list[Tensor] = []
        for operand in self.call.operands():
            tensor = self._tensor(operand)
            if isinstance(operand, Leaf) and operand.later is not None and counter is not None:
                tensor = ax.where_v2(counter < 1, tensor, self._later[id(operand)])
            inputs.append(tensor)
        return list(
            self.built.graph.create_op(self.call.op_type, inputs, attrs=dict(self.call.attrs)).outputs
        )

    def _outside(self) -> None:
        """Make what is outside of the loop or branch."""
        self._later = {}
        for operand in self.call.operands():
            self._tensor(operand)
            if isinstance(operand, Leaf) and operand.later is not None:
                self._later[id(operand)] = self._source(operand.later, KNOWN)

    def _in_loop(self) -> list[Any]:
        self._outside()
        counter = ax.constant(0)
        template = [_blank(tensor) for tensor in _shown(self._inner(None))]

        def body(count: Any, *before: Any) -> Any:
            return [count + 1, *_shown(self._inner(count))]

        invariants = [counter.shape, *(_invariant(tensor) for tensor in template)]
        result = ax.while_loop(
            lambda count, *_: count < ROUNDS, body, [counter, *template], shape_invariants=invariants
        )
        return list(result) if isinstance(result, list | tuple) else [result]

    def _in_branch(self) -> list[Any]:
        self._outside()
        taken = self._source(np.array(self.taken), KNOWN)
        template = [_blank(tensor) for tensor in _shown(self._inner(None))]
        result = ax.cond(
            taken, lambda: [ax.constant(1), *_shown(self._inner(None))], lambda: [ax.constant(0), *template]
        )
        return list(result)


def _shown(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor.dtype.base_dtype not in (dt.resource, dt.variant)]


def _blank(tensor: Tensor) -> Any:
    """A tensor of the same dtype, and of its shape if that is known and small."""
    dims = tensor.dims if is_fully_defined(tensor.dims) else ()
    if int(np.prod([dim or 0 for dim in dims or ()], dtype=object)) > 1 << 16:
        dims = ()
    return ax.constant(np.zeros([dim or 0 for dim in dims or ()], tensor.dtype.base_dtype.numpy))


def _invariant(tensor: Any) -> Any:
    return tensor.shape if tensor.dims else ax.TensorShape(None)


def where_of(call: Call, random: Random) -> str:
    """Where a call is to be: references stay outside of loops."""
    dtypes = [arg for arg in (*call.definition.inputs, *call.definition.outputs) if arg.is_ref]
    if dtypes or not call.definition.outputs or call.initial is not None or call.after:
        return "plain"
    return random.choices(("plain", "loop", "branch"), (6, 3, 1))[0]


class _Crashes(logging.Handler):
    """Records planner crashes, which are logged before the fallback to NumPy."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.said.append(self.format(record))


@contextlib.contextmanager
def _planner_crashes() -> Iterator[list[str]]:
    crashes, logger = _Crashes(), logging.getLogger("aioexec.execution.program_cache")
    logger.addHandler(crashes)
    propagates, logger.propagate = logger.propagate, False
    try:
        yield crashes.said
    finally:
        logger.propagate = propagates
        logger.removeHandler(crashes)


class Runs:
    """Runs graphs in one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def outcome(self, built: Built, jit: str, repeats: int) -> Outcome:
        """The outcome in a new session, the last of several runs."""
        with self.session(built, jit) as run:
            return [run() for _ in range(repeats)][-1]

    @contextlib.contextmanager
    def session(self, built: Built, jit: str) -> Iterator[Callable[[], Outcome]]:
        """A function that runs the graph with what is fed to it now, in a session with this value of `jit`.

        It raises a ForeignExceptionError where another exception than those of `errors` leaves a call.
        """
        config = ax.ConfigProto(operation_timeout_in_ms=BLOCKED_MS if built.may_block else TIMEOUT_MS)
        config.aioexec.jit = jit
        session, opened = ax.Session(graph=built.graph, config=config), time.process_time()
        try:
            yield lambda: self._outcome(session, built, jit, opened)
        finally:
            self._loop.run_until_complete(session.close())

    def _outcome(self, session: ax.Session, built: Built, jit: str, opened: float) -> Outcome:
        began = time.perf_counter()
        with warnings.catch_warnings(), _planner_crashes() as crashes:
            warnings.simplefilter("ignore")
            found = self._loop.run_until_complete(_outcome(session, built, jit))
        if crashes:
            raise ForeignExceptionError(f"{jit}: the planner crashed: {crashes[0]}")
        if jit == "off" and time.perf_counter() - began > CPU_LIMIT_S < (
            spent := time.process_time() - opened
        ):
            raise ForeignExceptionError(f"{jit}: took {spent:.1f} s of the processor, then {found}")
        return found


async def _outcome(session: ax.Session, built: Built, jit: str) -> Outcome:
    outcome = Outcome()
    try:
        if built.init:
            await session.run(built.init, built.feeds)
        for step in built.steps:
            outcome.values += await session.run(step, built.feeds)
        if built.reads:
            outcome.values += await session.run(built.reads)
    except errors.OpError as error:
        return Outcome(type(error).__name__, str(error))
    except Exception as error:
        raise ForeignExceptionError(
            f"{jit}: {type(error).__name__} left run: {error}{_place(error)}"
        ) from error
    return outcome


def built_of(make: Callable[[], Built]) -> Built | Outcome:
    """The graph, or why there is none."""
    try:
        return make()
    except errors.OpError as error:
        return Outcome(type(error).__name__, str(error))
    except Exception as error:
        raise ForeignExceptionError(f"building: {type(error).__name__}: {error}{_place(error)}") from error


def _place(error: BaseException) -> str:
    """Where an exception comes from."""
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    return "" if where is None else f" at {where.tb_frame.f_code.co_filename}:{where.tb_lineno}"


def difference(call: Call, one: Outcome, other: Outcome) -> str | None:
    """In what the outcome of the reference tier and another differ; None if in nothing that counts.

    Where the reference tier has too little memory, which it needs more of, nothing is to be compared.
    """
    if "DeadlineExceededError" in (one.error, other.error) or one.error == "ResourceExhaustedError":
        return None
    if one.error != other.error:
        return f"{one}, but {other}"
    if one.error:
        return None
    if len(one.values) != len(other.values):
        return f"{len(one.values)} values, but {len(other.values)}"
    calls = all_calls(call)
    compared = not any(each.op_type in UNCOMPARED or _is_random(each) for each in calls)
    tame = all(map(_is_tame, calls))
    for k, (ours, theirs) in enumerate(zip(one.values, other.values, strict=True)):
        try:
            what = _unlike(ours, theirs, compared, tame)
        except MemoryError:  # too large to be compared
            continue
        if what:
            return f"value {k}: {what}"
    return None


def _is_random(call: Call) -> bool:
    return "Random" in call.op_type or "Sampler" in call.op_type or call.op_type in RANDOM


def _least_normal(dtype: np.dtype[Any]) -> float:
    """The smallest normal number: native kernels flush smaller ones to 0."""
    return 0.0 if dtype in (np.float64, np.complex128) else float(np.finfo(np.float32).tiny)


def _is_tame(call: Call) -> bool:
    """Whether the sums and products of a call's operands are the same in any order, but for rounding, and none is subnormal."""
    arrays = [
        each
        for operand in call.operands()
        if isinstance(operand, Leaf)
        for each in (operand.value, operand.later)
    ]
    arrays.append(call.initial)
    arrays += [np.array(attr) for attr in call.attrs.values() if isinstance(attr, float)]
    for array in arrays:
        if array is not None and (array.dtype.kind in "fcV") and not array.dtype.fields:
            with np.errstate(all="ignore"):
                wide = np.abs(array.astype(np.complex128))
            if not np.all(wide < 1e4) or np.any((wide > 0) & (wide < _least_normal(array.dtype))):
                return False
    return True


def _unlike(ours: Any, theirs: Any, compared: bool, tame: bool) -> str | None:
    if not isinstance(ours, np.ndarray | np.generic) or not isinstance(theirs, np.ndarray | np.generic):
        return None
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return f"{ours.dtype}{ours.shape}, but {theirs.dtype}{theirs.shape}"
    if not compared or ours.dtype.fields or _is_opaque(ours):
        return None
    is_real = ours.dtype.kind in "fcV"
    if not is_real:
        return None if not tame or np.array_equal(ours, theirs) else f"{_text(ours)}, but {_text(theirs)}"
    if not tame:
        return None
    tolerance = {2: 5e-2, 4: 1e-3, 8: 1e-6 if ours.dtype.kind == "f" else 1e-3}.get(ours.dtype.itemsize, 1e-6)
    with np.errstate(all="ignore"):
        a, b = (np.asarray(each, np.complex128) for each in (ours, theirs))
        finite = np.isfinite(a) & np.isfinite(b)
        scale = max(float(np.max(np.abs(a[finite]), initial=0.0)), 1.0)
        close = np.allclose(a[finite], b[finite], rtol=tolerance, atol=tolerance * scale)
    same = np.array_equal(np.isfinite(a), np.isfinite(b))
    return None if close and same else f"{_text(ours)}, but {_text(theirs)}"


def _is_opaque(array: Any) -> bool:
    """Whether it holds queues, tables and the like."""
    return array.dtype == object and not all(isinstance(each, bytes) for each in array.reshape(-1))


def _text(array: Any) -> str:
    return np.array2string(np.asarray(array).reshape(-1)[:12], threshold=12).replace("\n", " ")


def tier_differences(
    runs: Runs, call: Call, built: Built, random: Random, native: bool
) -> tuple[Outcome, str | None]:
    """The outcome of a call on the reference tier, and the differences of another tier."""
    expected = runs.outcome(built, "off", 1)
    if not native:
        return expected, None
    found = runs.outcome(built, "eager", 2)
    reported = difference(call, expected, found)
    if reported is None and random.random() < 0.2:
        with Tier("worker").chosen():
            found = runs.outcome(built, "eager", 2)
        reported = difference(call, expected, found)
        reported = None if reported is None else f"in workers {reported}"
    if reported is None and random.random() < 0.1:
        found = runs.outcome(built, "background", 4)
        reported = difference(call, expected, found)
        reported = None if reported is None else f"in the background {reported}"
    return expected, reported
