"""The functions of a graph: by name, with a signature, and a body that is built at its first use.

A function made in this process has a body from the start. An imported one is a definition, perhaps with open attributes, and
has one body for each set of attributes it is called with. A body is built once and never changes. A recursive function, direct
or indirect, is refused when its body is built: bodies are inlined into their callers, which would not terminate.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from aioexec.errors import GraphValueError, InvalidArgumentError, NotFoundError
from aioexec.formats.repeated import is_one_repeated
from aioexec.graph import registry
from aioexec.graph.kernels.kernel import FunctionBody, Role
from aioexec.graph.name_attr_list import NameAttrList
from aioexec.graph.opdef import OpDef
from aioexec.graph.registry import GradientRule, Row, ShapeContext
from aioexec.graph.wiring import EVALUATORS
from aioexec.shapes import Dims

if TYPE_CHECKING:
    from aioexec.graph.io.allowance import Allowance

DEEPEST: Final = 48
"""The largest depth of nested calls of functions; far below what the interpreter's stack allows."""

_in_making: ContextVar[tuple[str, ...]] = ContextVar("aioexec_functions_in_making", default=())


class Function:
    """A function of a library.

    Constant: name; definition, its signature as an op; library, in which its callees are looked up; attrs, its own, none of
    them open; source, the FunctionDef it was imported from, or None; `gradient_rule`, the gradient of its calls, if Python
    computes it. Changing: `gradient`, the name of the function that computes its gradient, set once, by the library; the bodies
    built so far.
    """

    def __init__(
        self,
        definition: OpDef,
        library: FunctionLibrary,
        make: Callable[[Mapping[str, Any]], FunctionBody],
        names: Callable[[], Iterable[str]],
        attrs: Mapping[str, Any] | None = None,
        source: Any = None,
        gradient_rule: GradientRule | None = None,
    ) -> None:
        self.definition = definition
        self.library = library
        self.attrs = dict(attrs or {})
        self.source = source
        self.gradient_rule = gradient_rule
        self.gradient: str | None = None
        self._make = make
        self._names = names
        self._bodies: dict[Hashable, FunctionBody] = {}
        self._shapes: dict[Hashable, tuple[Dims, ...]] = {}
        self.row: Final = Row(
            definition,
            shape=self._output_shapes,
            kernel=None,
            gradient=gradient_rule or EVALUATORS["gradient_of_call"],
            role=Role.CALL,
            bodies=self._body_of_call,
        )

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def graph(self) -> FunctionBody:
        """The body of a function without open attributes."""
        return self.body({})

    def body(self, attrs: Mapping[str, Any]) -> FunctionBody:
        """The body for these attributes; those that are not in the signature are ignored.

        Raises:
            InvalidArgumentError: an attribute is missing, the body is malformed, or the function calls itself.
        """
        given = {attr.name: attrs.get(attr.name, attr.default) for attr in self.definition.attrs}
        key = content(given)
        body = self._bodies.get(key)
        if body is None:
            missing = [
                attr.name for attr in self.definition.attrs if attr.required and attr.name not in attrs
            ]
            if missing:
                raise GraphValueError(f"function {self.name!r} is called without its attr {missing[0]!r}")
            with self._making():
                body = self._bodies[key] = self._make(given)
        return body

    @contextlib.contextmanager
    def _making(self) -> Iterator[None]:
        names = _in_making.get()
        if self.name in names:
            cycle = " -> ".join((*names[names.index(self.name) :], self.name))
            raise InvalidArgumentError(
                f"function {self.name!r} calls itself: {cycle}; recursion is not supported"
            )
        if len(names) >= DEEPEST:
            raise InvalidArgumentError(
                f"functions are nested deeper than {DEEPEST}: {' -> '.join(names[:4])} -> … -> {self.name}"
            )
        token = _in_making.set((*names, self.name))
        try:
            yield
        finally:
            _in_making.reset(token)

    def called(self) -> Iterator[Function]:
        """The functions of the library that its body calls."""
        return (self.library[name] for name in self._names() if name in self.library)

    def output_dims(
        self, attrs: Mapping[str, Any], inputs: Sequence[Dims], variables: Sequence[Dims]
    ) -> tuple[Dims, ...]:
        """The output shapes for these shapes of inputs, and these shapes of the variables behind handles.

        Raises:
            InvalidArgumentError: the body does not accept such inputs.
        """
        body = self.body(attrs)
        if len(inputs) != len(body.inputs):
            raise GraphValueError(
                f"function {self.name!r} takes {len(body.inputs)} inputs, got {len(inputs)}"
            )
        key = (id(body), tuple(inputs), tuple(variables))
        shapes = self._shapes.get(key)
        if shapes is None:
            allowance = self.library.allowance
            if self.source is not None and allowance is not None and not allowance.take_shapes(body):
                return tuple(tensor.dims for tensor in body.outputs)
            with self._making():
                shapes = tuple(tensor.dims for tensor in body.specialize(inputs, variables).outputs)
            self._shapes[key] = shapes
        return shapes

    def _output_shapes(self, context: ShapeContext) -> Sequence[Dims]:
        return context.call(NameAttrList(self.name, context.attrs))

    def _body_of_call(self, op: Any) -> tuple[FunctionBody, ...]:
        return (self.body(op.attrs),)


class FunctionLibrary(Mapping[str, Function]):
    """Functions by name, in order of addition. A body looks its callees up in the library it was built for.

    Attributes:
        allowance: what is left of the expansion limits of the last imported GraphDef; None if there was none.
    """

    def __init__(self) -> None:
        self.allowance: Allowance | None = None
        self._functions: dict[str, Function] = {}

    def __getitem__(self, name: str) -> Function:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def copy(self) -> FunctionLibrary:
        """A new library of the same functions."""
        made = FunctionLibrary()
        made._functions.update(self._functions)
        return made

    def add(self, function: Function) -> None:
        """Add a function; adding it again, or an equal one, has no effect.

        Raises:
            InvalidArgumentError: the name is that of an op, or of a function with another body.
        """
        present = self._functions.get(function.name)
        if present is None:
            if registry.is_registered(function.name):
                raise GraphValueError(
                    f"Cannot add function {function.name!r} because an op with the same name already exists"
                )
            self._functions[function.name] = function
        elif present is not function and not EVALUATORS["equal_functions"](present, function):
            raise GraphValueError(
                f"Cannot add function {function.name!r} because a different function with the same name already exists"
            )

    def set_gradient(self, name: str, gradient: str) -> None:
        """Set the function that computes the gradient of another.

        Raises:
            InvalidArgumentError: one of them is not there, or the function has another gradient.
        """
        missing = [each for each in (name, gradient) if each not in self._functions]
        if missing:
            raise GraphValueError(
                f"the gradient of {name!r} is {gradient!r}: there is no function {missing[0]!r}"
            )
        function = self._functions[name]
        if function.gradient not in (None, gradient):
            raise GraphValueError(
                f"Cannot assign gradient function {gradient!r} to {name!r} because it already has gradient function "
                f"{function.gradient!r}"
            )
        function.gradient = gradient

    def forget(self, names: Sequence[str]) -> None:
        """Remove functions; for undoing an addition."""
        for name in names:
            del self._functions[name]

    def function(self, name: str) -> Function:
        """A function by its name.

        Raises:
            NotFoundError: there is none.
        """
        found = self._functions.get(name)
        if found is None:
            raise NotFoundError(f"Function {name!r} is not defined; the library has {len(self)} functions")
        return found

    def is_recursive(self, name: str) -> bool:
        """Whether a function calls itself, directly or through others.

        Raises:
            NotFoundError: there is no such function.
        """
        function = self.function(name)
        found: set[Function] = set()
        waiting = [function]
        while waiting:
            new = set(waiting.pop().called()) - found
            found |= new
            waiting.extend(new)
        return function in found

    def body(self, called: NameAttrList) -> FunctionBody:
        """The body of the function that an attribute names."""
        return self.function(called.name).body(called.attrs)

    def row(self, op_type: str) -> Row:
        """The row of an op, or of the call of a function by its name.

        Raises:
            NotFoundError: there is neither.
        """
        function = self._functions.get(op_type)
        return registry.lookup(op_type) if function is None else function.row


def content(value: Any) -> Hashable:
    """A hashable key; two attribute values have the same key only if they are equal."""
    if isinstance(value, np.ndarray):
        if is_one_repeated(value):
            return value.shape, content(value[(slice(1),) * value.ndim].copy())
        elements: Hashable = tuple(map(content, value.ravel())) if value.dtype.hasobject else value.tobytes()
        return value.dtype.str, value.shape, elements
    if isinstance(value, NameAttrList):
        return value.name, content(value.attrs)
    if isinstance(value, Mapping):
        return tuple((name, content(each)) for name, each in sorted(value.items()))
    if isinstance(value, tuple | list):
        return tuple(map(content, value))
    return type(value).__name__, repr(value)
