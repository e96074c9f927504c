"""The op registry: one row per op, with everything that graph construction and the engine use of it.

A program uses few ops, so the module that registers an op is imported at its first lookup; the wiring of the package supplies
the table from ops to modules.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from importlib import import_module
from typing import Any, Final, NamedTuple, NoReturn, ParamSpec

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError, NotFoundError, OpError, UnimplementedError
from aioexec.graph.kernels.kernel import Attrs, ListUse, Native, Reference, Role
from aioexec.graph.kernels.random import Random
from aioexec.graph.kernels.work import Work
from aioexec.graph.name_attr_list import NameAttrList
from aioexec.graph.opdef import OpDef, parse_signature
from aioexec.shapes import Dims


class NotDifferentiable:
    """Marks an op whose gradient is not defined or is zero everywhere: `gradients` stops there."""

    def __repr__(self) -> str:
        return "NOT_DIFFERENTIABLE"


NOT_DIFFERENTIABLE: Final = NotDifferentiable()


def undefined_gradient(op: Any, *gradients: Any) -> NoReturn:
    """The gradient rule of an op for which TensorFlow defines none: differentiation through it raises LookupError."""
    raise LookupError(f"No gradient defined for operation {op.name!r} (op type: {op.type})")


class Maker(NamedTuple):
    """The op type, attributes and input shapes of a node that makes a resource."""

    type: str
    attrs: Attrs
    inputs: Sequence[Dims]


@dataclass(frozen=True, slots=True)
class ShapeContext:
    """The input of a shape rule: attributes, input shapes, and input values where they are known.

    Attributes:
        attrs: attributes of the node.
        inputs: shape of each input.
        value: `value(i)` is the constant content of input i, or None if it is not known.
        partial: `partial(i)` reads input i as a shape: dims with None for unknown elements; None if nothing is known.
        variable: `variable(i)` is the shape of the variable behind input i, a resource handle; None if it is not known.
        elements: `elements(i)` is the shape of each element of the list or array behind input i; None if it is not known.
        call: `call(f)` are the output shapes of function `f` when it is called with all the inputs.
        maker: `maker(i)` describes the node that makes the resource behind input i; None if it is not known.
    """

    attrs: Attrs
    inputs: Sequence[Dims]
    value: Callable[[int], np.ndarray[Any, Any] | None]
    partial: Callable[[int], Dims]
    variable: Callable[[int], Dims] = lambda i: None
    elements: Callable[[int], Dims] = lambda i: None
    call: Callable[[NameAttrList], Sequence[Dims]] = lambda function: ()
    maker: Callable[[int], Maker | None] = lambda i: None


ShapeRule = Callable[[ShapeContext], Sequence[Dims]]
"""Input shapes to output shapes, one for each output; raises GraphValueError if the inputs do not fit."""

GradientRule = Callable[..., Sequence[Any]]
"""(operation, *output gradients) to one gradient (Tensor, IndexedSlices or None) for each input."""

Bodies = Callable[[Any], Sequence[Any]]
"""Operation to its bodies, FuncGraphs; raises InvalidArgumentError if they do not fit it."""


@dataclass(frozen=True)
class Row:
    """The definition of an op.

    Attributes:
        signature: inputs, outputs and attributes; given as text it is parsed at the first access, since most ops are never
            used.
        shape: shape rule.
        kernel: reference kernel; None only if the engine runs the op by its role.
        native: compiled form, if there is one.
        gradient: gradient rule, or NOT_DIFFERENTIABLE.
        role: the kind of node for planning and execution.
        shape_operands: inputs whose *content* determines the output shape or the layout of the native form (negative: from the
            end); it must be known when a program is laid out.
        shape_only: the outputs depend on the shapes of the inputs alone (Shape, Size, Rank, …).
        dynamic_shape: the output shape depends on data even if the shape operands are known (Where, Unique).
        writes: inputs (variables) that the op writes.
        reads: inputs (variables) whose present content the op uses.
        asynchronous: the kernel may wait; its first argument is the step (see `StepContext`).
        bodies: for an op with bodies (see its role), returns them, checked against the operation.
        gives_away: the arrays that the kernel returns have no other reference.
        lists: the operation on a list of tensors, for programs that keep lists in memory.
        random: what a random op draws, for devices that draw it themselves.
        work: a bound on the kernel's time, if that can exceed about a nanosecond per byte of inputs and outputs.
    """

    signature: OpDef | str
    shape: ShapeRule
    kernel: Reference | None
    gradient: GradientRule | NotDifferentiable
    native: Native | None = None
    role: Role = Role.COMPUTE
    shape_operands: tuple[int, ...] = ()
    shape_only: bool = False
    dynamic_shape: bool = False
    writes: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()
    asynchronous: bool = False
    bodies: Bodies | None = None
    gives_away: bool = False
    lists: ListUse | None = None
    work: Work | None = None
    random: Random | None = None

    @functools.cached_property
    def definition(self) -> OpDef:
        return self.signature if isinstance(self.signature, OpDef) else parse_signature(self.signature)

    @functools.cached_property
    def name(self) -> str:
        text = self.signature
        return text.name if isinstance(text, OpDef) else text.partition("(")[0].strip()

    @functools.cached_property
    def is_stateful(self) -> bool:
        return self.definition.is_stateful

    @functools.cached_property
    def is_pure(self) -> bool:
        """Same inputs, same outputs, no side effects: may be folded, merged and dropped.

        Ops on lists are not pure: each list has memory of its own, which the next change of the list reuses.
        """
        return (
            not self.definition.is_stateful
            and (self.lists is None or self.lists.also_tensors)
            and not self.writes
            and not self.asynchronous
            and self.role in (Role.COMPUTE, Role.IDENTITY, Role.CONSTANT)
        )


@dataclass(slots=True)
class _Registry:
    """Registered rows, the module of each row that is not imported yet, and fields to add to rows when they are registered."""

    rows: dict[str, Row] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    completions: dict[str, dict[str, Any]] = field(default_factory=dict)
    retired: dict[str, tuple[int, str]] = field(default_factory=dict)


_registry = _Registry()
_Fields = ParamSpec("_Fields")


def import_on_lookup(modules: Mapping[str, str]) -> None:
    """Set the table from ops to the modules that register them."""
    _registry.modules = modules


def _registering(make: Callable[_Fields, Row]) -> Callable[_Fields, Row]:
    """The function `register`, whose parameters are those of `make`."""

    def register(*args: _Fields.args, **fields: _Fields.kwargs) -> Row:
        """Make a row of these fields and add it to the registry; see `opdef` for the notation of the signature.

        Raises:
            ValueError: the op is registered already.
        """
        row = make(*args, **fields)
        if row.name in _registry.rows or _is_not_imported(row.name):
            raise ValueError(f"op {row.name!r} is registered already")
        added = _registry.completions.get(row.name)
        _registry.rows[row.name] = row if added is None else replace(row, **added)
        return row

    return register


register = _registering(Row)


def complete(op_type: str, **fields: Any) -> None:
    """Set fields that the registering module cannot import; called by the wiring, before any graph is built."""
    if op_type in _registry.rows:
        _registry.rows[op_type] = replace(_registry.rows[op_type], **fields)
    else:
        _registry.completions.setdefault(op_type, {}).update(fields)


def retire(op_type: str, version: int, instead: str) -> None:
    """Declare that an op is removed from a GraphDef version on, and its replacement; older GraphDefs may contain it."""
    _registry.retired[op_type] = version, instead


def check_in_use(op_type: str, version: int) -> None:
    """Check that a GraphDef of this version may contain an op.

    Raises:
        UnimplementedError: the op was removed.
    """
    removed, instead = _registry.retired.get(op_type, (version + 1, ""))
    if version >= removed:
        raise UnimplementedError(
            f"Op {op_type} is not available in GraphDef version {version}. It has been removed in version {removed}. {instead}."
        )


def output_dims(row: Row, context: ShapeContext) -> Sequence[Dims]:
    """The output shapes by the row's shape rule.

    Raises:
        GraphValueError: inputs or attributes do not fit the op.
    """
    try:
        return row.shape(context)
    except OpError:
        raise
    except Exception as error:  # the rule does not expect such inputs or attributes
        raise GraphValueError(f"inputs or attributes do not fit ({type(error).__name__}: {error})") from error


def lookup(op_type: str) -> Row:
    """The row of an op.

    Raises:
        NotFoundError: there is none.
    """
    row = _registry.rows.get(op_type)
    if row is None and op_type in _registry.modules:
        import_module(_registry.modules[op_type])
        row = _registry.rows.get(op_type)
    if row is None:
        count = len({*_registry.rows, *_registry.modules})
        raise NotFoundError(f"Op type not registered {op_type!r}; {count} ops are registered")
    return row


def is_registered(op_type: str) -> bool:
    return op_type in _registry.rows or op_type in _registry.modules


def registered() -> Iterator[Row]:
    """All rows; imports every module that registers some."""
    for module in dict.fromkeys(_registry.modules.values()):
        import_module(module)
    yield from list(_registry.rows.values())


def _is_not_imported(op_type: str) -> bool:
    """Whether the module that registers an op has not been imported yet."""
    module = _registry.modules.get(op_type)
    return module is not None and module not in sys.modules
