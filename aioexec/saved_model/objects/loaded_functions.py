"""Functions of a loaded model: `await model.f(x, training=False)`.

A function was traced for some kinds of arguments; each trace is a function of the graph's library. A call takes the first trace
that its arguments fit, as TensorFlow's loaded functions do: first without converting them, then with conversion. At the first
call of a trace its body is built in a thread, and a call of it is added to the graph; further calls are steps of the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError
from aioexec.graph.graph import Graph
from aioexec.graph.name_attr_list import NameAttrList
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.static_values import variable_dims
from aioexec.in_thread import in_thread
from aioexec.ops.array.identity import placeholder
from aioexec.saved_model.objects.captured_tensors import CapturedTensors
from aioexec.saved_model.objects.object_graph import Parameters, Trace
from aioexec.saved_model.objects.structures import (
    MismatchError,
    TensorSpec,
    describe,
    matched,
    rebuilt,
    specs,
    tensor_count,
)
from aioexec.saved_model.signature import Runner
from aioexec.sessions.feeds import LARGE
from aioexec.train.off_loop import off_loop

_FASTER: Final = 64
"""How many elements of an array of numbers are converted in the time of one of a list."""

Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]
"""The values of positional parameters, and of those given by keyword."""


@dataclass(frozen=True, slots=True)
class AddedCall:
    """A call of a function in the graph: what to feed, what to fetch; the operation if it has no outputs."""

    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    op: Operation


class CalledFunctions:
    """The calls of concrete functions that were added to one graph.

    Constant: the graph, the session that runs it, the tensors of captured objects. Growing: `_added`, the calls by name of the
    function; changed by the task that holds `_lock`. Belongs to the session's event loop.
    """

    def __init__(self, graph: Graph, session: Runner, captured: CapturedTensors) -> None:
        self._graph = graph
        self._session = session
        self._captured = captured
        self._added: dict[str, AddedCall] = {}
        self._lock = asyncio.Lock()

    async def run(self, trace: Trace, arrays: Sequence[Any]) -> list[Any]:
        """Run a step that calls a function; return its outputs.

        Raises:
            OpError: the function cannot be called, or the step failed.
        """
        call = self._added.get(trace.name) or await self._add(trace)
        feeds = dict(zip(call.inputs, arrays, strict=True))
        if not call.outputs:
            await self._session.run([call.op], feeds)
            return []
        found: list[Any] = await self._session.run(list(call.outputs), feeds)
        return found

    async def _add(self, trace: Trace) -> AddedCall:
        async with self._lock:
            if trace.name not in self._added:
                captured = [self._captured.tensor(number) for number in trace.captured]
                await off_loop(self._build, trace, captured)
                self._added[trace.name] = self._add_nodes(trace, captured)
            return self._added[trace.name]

    def _build(self, trace: Trace, captured: Sequence[Tensor]) -> None:
        """Build the function's body, and infer the shapes of its outputs. Blocks."""
        function = self._graph.functions.function(trace.name)
        given = [spec.dims for spec in specs((trace.args, trace.kwargs)) if isinstance(spec, TensorSpec)]
        dims = [*given, *(tensor.dims for tensor in captured)]
        function.output_dims({}, dims, [*[None] * len(given), *map(variable_dims, captured)])

    def _add_nodes(self, trace: Trace, captured: Sequence[Tensor]) -> AddedCall:
        function = self._graph.functions.function(trace.name)
        with (
            self._graph.as_default(),
            self._graph.undo_on_error(),
            self._graph.control_dependencies(None),
            self._graph.name_scope(trace.name.strip("_") or None),
        ):
            inputs = [
                placeholder(spec.dtype, spec.dims, name=_node_name(spec.name))
                for spec in specs((trace.args, trace.kwargs))
                if isinstance(spec, TensorSpec)
            ]
            body = function.graph
            op_type = "StatefulPartitionedCall" if function.definition.is_stateful else "PartitionedCall"
            types = [tensor.dtype.base_dtype for tensor in body.outputs]
            attrs = {"f": NameAttrList(trace.name), "Tout": types}
            op = self._graph.create_op(op_type, [*inputs, *captured], name="call", attrs=attrs)
        return AddedCall(inputs, op.outputs, op)


def _node_name(name: str) -> str:
    allowed = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)
    return allowed if allowed[:1].isalnum() else f"input{allowed}"


class LoadedFunction:
    """A function of a loaded model; `await function(…)` runs a step.

    Constant: `name` in the model; `traces`, its concrete functions; its parameters, None if they are not known.
    """

    def __init__(
        self, name: str, traces: Sequence[Trace], parameters: Parameters | None, calls: CalledFunctions
    ) -> None:
        self.name = name
        self.traces = list(traces)
        self._parameters = parameters
        self._calls = calls

    def __repr__(self) -> str:
        return f"LoadedFunction({self.name!r}, {'; '.join(map(_arguments, self.traces))})"

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; return its results, tensors as arrays.

        Raises:
            InvalidArgumentError: the arguments fit none of the traces.
            OpError: the step failed.
        """
        if _is_large((args, kwargs)):
            trace, arrays = await in_thread(self._chosen, args, kwargs)
        else:
            trace, arrays = self._chosen(args, kwargs)
        return rebuilt(trace.results, iter(await self._calls.run(trace, arrays)))

    def _chosen(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Trace, list[Any]]:
        """The first trace that the arguments fit, and the arrays to feed."""
        mismatches: list[MismatchError] = []
        for converts in (False, True):
            mismatches.clear()
            for trace in self.traces:
                try:
                    return trace, [*self._matched(trace, args, kwargs, converts)]
                except MismatchError as mismatch:
                    mismatches.append(mismatch)
        if len(mismatches) == 1:
            raise InvalidArgumentError(f"function {self.name!r}: {mismatches[0].message}") from mismatches[0]
        options = "; ".join(
            f"{_arguments(trace)} ({mismatch.message})"
            for trace, mismatch in zip(self.traces, mismatches, strict=True)
        )
        raise InvalidArgumentError(
            f"function {self.name!r}: expected arguments of one of {len(self.traces)} kinds, got others: {options}"
        )

    def _matched(
        self, trace: Trace, args: tuple[Any, ...], kwargs: Mapping[str, Any], converts: bool
    ) -> Iterator[Any]:
        positional, named = self._bound(trace, args, kwargs)
        for place, (expected, value) in enumerate(zip(trace.args, positional, strict=True)):
            yield from matched(expected, value, f"argument {self._name_of(expected, place)!r}", converts)
        for key, expected in trace.kwargs.items():
            yield from matched(expected, named[key], f"argument {key!r}", converts)

    def _name_of(self, expected: Any, place: int) -> str | int:
        if self._parameters is not None and place < len(self._parameters.names):
            return self._parameters.names[place]
        return expected.name if isinstance(expected, TensorSpec) and expected.name else place

    def _bound(self, trace: Trace, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        """The arguments of a call, with the defaults of those left out, as a trace takes them."""
        named = dict(kwargs)
        positional = list(args)
        for place in range(len(args), len(trace.args)):
            name, found = self._argument(trace, place, named)
            if not found:
                raise MismatchError(f"expected argument {name!r}, got none")
            positional.append(named.pop(name) if name in named else self._defaults()[name])
        for name in trace.kwargs:
            if name not in named and name in self._defaults():
                named[name] = self._defaults()[name]
        if len(positional) != len(trace.args):
            raise MismatchError(f"expected {len(trace.args)} positional arguments, got {len(args)}")
        if named.keys() != trace.kwargs.keys():
            raise MismatchError(f"expected arguments by keyword {sorted(trace.kwargs)}, got {sorted(named)}")
        return tuple(positional), named

    def _defaults(self) -> Mapping[str, Any]:
        return {} if self._parameters is None else self._parameters.defaults

    def _argument(self, trace: Trace, place: int, named: Mapping[str, Any]) -> tuple[str, bool]:
        """The name of a positional parameter that the call does not give by position, and whether it has a value."""
        name = str(self._name_of(trace.args[place], place))
        return name, name in named or name in self._defaults()


class LoadedTrace(LoadedFunction):
    """A concrete function: its arguments may be given in the order of its tensors, or by their names."""

    def __init__(self, name: str, trace: Trace, keywords: Sequence[str], calls: CalledFunctions) -> None:
        super().__init__(name, [trace], None, calls)
        self._keywords = list(keywords)

    def _bound(self, trace: Trace, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        count = tensor_count((trace.args, trace.kwargs))
        names = self._keywords[:count]
        values = dict(zip(names, args, strict=False))
        twice = values.keys() & kwargs.keys()
        values.update(kwargs)
        if len(args) > len(names) or twice or values.keys() != {*names}:
            raise MismatchError(
                f"expected arguments {names}, got {len(args)} by position and {sorted(kwargs)}"
            )
        ordered = iter([values[name] for name in names])
        args, kwargs = rebuilt((trace.args, trace.kwargs), ordered)
        return args, kwargs


def _arguments(trace: Trace) -> str:
    shown = [describe(each) for each in trace.args]
    return f"({', '.join([*shown, *(f'{key}={describe(each)}' for key, each in trace.kwargs.items())])})"


def _is_large(value: Any) -> bool:
    """Whether converting arguments would block the event loop."""
    count, waiting = 0, [value]
    while waiting and count <= LARGE:
        item = waiting.pop()
        if isinstance(item, Mapping):
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item[: LARGE + 1])
        if isinstance(item, np.ndarray):
            count += item.size if item.dtype.hasobject else item.size // _FASTER
        else:
            count += 1
    return count > LARGE
