"""Graph functions made from Python functions: `Defun`.

The Python function is called once, at the first use, to build the body; each call adds a node. Tensors of the enclosing graph
that it uses become additional inputs; variables that it creates are created in the enclosing graph.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType, as_dtype
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.func_graph import FuncGraph, as_func_graph
from aioexec.graph.function_library import Function, content
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import GradientRule
from aioexec.ops.state.variable_scope import Getter, variable_scope

_ANY_NUMBER: Final = 1_000_000
_EXTRA_VARIABLES: Final = "extra_variables"
"""The collection of a body that lists the variables created for it."""


class Defun:
    """A decorator that turns a Python function of tensors into a graph function.

        @Defun(ax.float32, ax.float32)
        def weighted(x, y):
            return 2.0 * x + y

    Args:
        input_types: dtypes of the arguments; without them, one function is created for each combination of dtypes.
        func_name: the name in the graph; by default that of the Python function and a hash of the body.
        grad_func: the DefinedFunction of inputs and output gradients that computes the gradient.
        python_grad_func: the gradient function `(op, *output_gradients)` of a call.
        out_names: names of the outputs.
        capture_by_value: copy captured tensors that depend on constants only into the body.
        attrs: private attributes of the function.
    """

    def __init__(
        self,
        *input_types: Any,
        func_name: str | None = None,
        grad_func: DefinedFunction | None = None,
        python_grad_func: GradientRule | None = None,
        out_names: Sequence[str] | None = None,
        capture_by_value: bool = False,
        **attrs: Any,
    ) -> None:
        self._input_types = [as_dtype(dtype) for dtype in input_types]
        private = {f"_{name}": value for name, value in attrs.items()}
        self._options = _Options(func_name, grad_func, python_grad_func, out_names, capture_by_value, private)

    def __call__(self, func: Callable[..., Any]) -> Any:  # a DefinedFunction or an OverloadedFunction
        if not callable(func):
            raise GraphValueError(f"Function {func!r} must be a callable")
        names, fewest, most = _arguments(func)
        types = self._input_types
        if types and not fewest <= len(types) <= most:
            raise GraphValueError(
                f"The number of tf.function input types is not compatible with the allowed arguments of {func!r}: "
                f"in the range [{fewest}, {most}], got {len(types)}"
            )
        if types or most == 0:
            return DefinedFunction(func, names, types, self._options)
        return OverloadedFunction(func, names, self._options)


@dataclass(slots=True)
class _Options:
    """The options of a Defun."""

    name: str | None = None
    grad_func: DefinedFunction | None = None
    python_grad_func: GradientRule | None = None
    out_names: Sequence[str] | None = None
    capture_by_value: bool = False
    attrs: Mapping[str, Any] = field(default_factory=dict)


def defined(func: Callable[..., Any], input_types: Sequence[DType]) -> DefinedFunction:
    """Create a graph function without a decorator."""
    return DefinedFunction(func, [], input_types, _Options())


def _arguments(func: Callable[..., Any]) -> tuple[list[str], int, int]:
    """Return the names of a function's arguments, and the minimum and maximum number it accepts."""
    parameters = list(inspect.signature(func).parameters.values())
    if any(
        each.kind in (each.VAR_KEYWORD, each.KEYWORD_ONLY) or each.default is not each.empty
        for each in parameters
    ):
        raise GraphValueError("Functions with argument defaults or keywords arguments are not supported")
    names = [each.name for each in parameters if each.kind is not each.VAR_POSITIONAL]
    return names, len(names), len(names) if len(names) == len(parameters) else _ANY_NUMBER


class DefinedFunction:
    """A graph function; calling it adds a node.

    The body is built once, at the first use, for the default graph at that time.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        argument_names: Sequence[str],
        input_types: Sequence[DType],
        options: _Options,
    ) -> None:
        self._func = func
        self._argument_names = argument_names
        self._options = options
        self.declared_input_types = list(input_types)
        self._function: Function | None = None

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def graph(self) -> FuncGraph:
        """The graph of the body."""
        return as_func_graph(self.function.graph)

    @property
    def captured_inputs(self) -> list[Tensor]:
        """Tensors of the enclosing graph that each call passes."""
        return list(self.graph.captures)

    @property
    def stateful_ops(self) -> list[tuple[str, str]]:
        """Name and type of the body's stateful operations."""
        inputs = {tensor.op for tensor in self.graph.inputs}
        nodes = (op for op in self.graph.get_operations() if op not in inputs)
        return [(op.name, op.type) for op in nodes if op.row.is_stateful]

    @property
    def python_grad_func(self) -> GradientRule | None:
        return self._options.python_grad_func

    @property
    def grad_func_name(self) -> str | None:
        return None if self._options.grad_func is None else self._options.grad_func.name

    def set_grad_func(self, grad_func: DefinedFunction) -> None:
        """Set the gradient function; must precede the addition of the function to a graph."""
        if self._options.grad_func not in (None, grad_func):
            raise GraphValueError(f"function {self._func.__name__!r} has a gradient function already")
        self._options.grad_func = grad_func

    @property
    def definition(self) -> Any:
        """The function as a FunctionDef proto."""
        from aioexec.graph.io.function_def_export import function_to_def

        return function_to_def(self.function)

    @property
    def function(self) -> Function:
        if self._function is None:
            self._function = self._made(get_default_graph())
        return self._function

    def add_to_graph(self, graph: Graph) -> None:
        """Add the function, its gradient function and the functions they call to a graph's library."""
        function = self._function or self._made(graph)
        self._function = function
        if function.name in graph.functions and graph.functions[function.name] is function:
            return
        graph.add_function(function)
        if self._options.grad_func is not None:
            self._options.grad_func.add_to_graph(graph)
            graph.functions.set_gradient(function.name, self._options.grad_func.name)

    def __call__(self, *args: Any, name: str | None = None) -> Any:
        """Add a call: return its output, a list of several, or the operation if there are none."""
        graph = get_default_graph()
        self.add_to_graph(graph)
        types = self.declared_input_types
        if len(args) != len(types):
            raise GraphValueError(f"Expected number of arguments: {len(types)}, received: {len(args)}")
        function, body = self.function, self.graph
        with graph.name_scope(name or function.name) as scope:
            tensors = [convert_to_tensor(arg, dtype) for arg, dtype in zip(args, types, strict=True)]
            with graph.control_dependencies(list(body.control_captures)):
                op = graph.create_op(function.name, [*tensors, *body.captures], name=scope)
        outputs = list(op.outputs)
        return op if not outputs else outputs[0] if len(outputs) == 1 else outputs

    def _made(self, outer: Graph) -> Function:
        names = [*self._argument_names]
        names += [f"arg{k}" for k in range(len(names), len(self.declared_input_types))]
        body = FuncGraph(self._options.name or self._func.__name__, outer)
        body.captures_by_value = self._options.capture_by_value
        with body.as_default(), variable_scope("", custom_getter=_getter(outer, body)):
            inputs = [
                body.add_input(dtype, name=name)
                for name, dtype in zip(names, self.declared_input_types, strict=True)
            ]
            body.outputs = [body.capture(tensor) for tensor in _tensors(self._func(*inputs))]
        if self._options.name is None:
            body.name = f"{self._func.__name__.strip('<>_')}_{_digest(body)}"
        return body.as_function(self._options.attrs, self._options.out_names, self._options.python_grad_func)


def _getter(outer: Graph, body: FuncGraph) -> Getter:
    """A variable getter that creates variables in the enclosing graph; the body takes them as inputs."""

    def getter(get: Getter, *args: Any, **kwargs: Any) -> Any:
        with outer.as_default():
            variable = get(*args, **kwargs)
        body.add_to_collection(_EXTRA_VARIABLES, variable)
        return variable

    return getter


class OverloadedFunction:
    """A graph function that is created for each combination of argument dtypes."""

    def __init__(self, func: Callable[..., Any], argument_names: Sequence[str], options: _Options) -> None:
        self._func = func
        self._argument_names = argument_names
        self._options = options
        self._overloads: dict[tuple[DType, ...], DefinedFunction] = {}

    def instantiate(self, input_types: Sequence[Any]) -> DefinedFunction:
        """Return the function for these dtypes."""
        types = tuple(as_dtype(dtype).base_dtype for dtype in input_types)
        if types not in self._overloads:
            self._overloads[types] = DefinedFunction(self._func, self._argument_names, types, self._options)
        return self._overloads[types]

    def __call__(self, *args: Any, name: str | None = None) -> Any:
        tensors = [convert_to_tensor(arg) for arg in args]
        return self.instantiate([tensor.dtype for tensor in tensors])(*tensors, name=name)


def _tensors(result: Any) -> list[Tensor]:
    if result is None:
        return []
    results = result if isinstance(result, list | tuple) else [result]
    if any(each is None for each in results):
        raise GraphValueError("Function can not return None")
    if any(isinstance(each, Operation) for each in results):
        raise GraphTypeError(f"a function returns tensors, got {result!r}")
    return [convert_to_tensor(each) for each in results]


def _digest(body: FuncGraph) -> str:
    """Return a hash of the body, of 11 hexadecimal digits."""
    parts = [
        (op.name, op.type, op.device, [tensor.name for tensor in op.inputs], content(op.attrs))
        for op in body.get_operations()
    ]
    captured = [tensor.name for tensor in body.captures]
    text = repr((parts, captured, [tensor.name for tensor in body.outputs]))
    return hashlib.sha256(text.encode()).hexdigest()[:11]


# Properties of the body under construction


def _current_body() -> FuncGraph | None:
    graph = get_default_graph()
    return graph if isinstance(graph, FuncGraph) else None


def get_extra_inputs() -> list[Tensor]:
    """Return the tensors that the body under construction has captured; [] outside of one."""
    body = _current_body()
    return [] if body is None else list(body.captures)


def get_extra_args() -> list[Tensor]:
    """Return the inputs of the body under construction for the tensors it has captured."""
    body = _current_body()
    return [] if body is None else list(body.captures.values())


def get_extra_vars() -> list[Any]:
    """Return the variables created for the body under construction."""
    body = _current_body()
    return [] if body is None else body.get_collection(_EXTRA_VARIABLES)
