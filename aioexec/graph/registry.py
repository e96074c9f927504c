"""The op registry: one row an op, with everything that the authoring tower and the engine use of it.

Most ops are used by no program, so the modules that register them are imported at the first lookup: the wiring of the package
says which module has which op.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError, NotFoundError, OpError, UnimplementedError
from aioexec.graph.kernels.kernel import Attrs, ListUse, Native, Reference, Role
from aioexec.graph.kernels.work import Work
from aioexec.graph.name_attr_list import NameAttrList
from aioexec.graph.opdef import OpDef, parse_signature
from aioexec.shapes import Dims

if TYPE_CHECKING:
    from aioexec.graph.functions import FuncGraph
    from aioexec.graph.node import Operation


class NotDifferentiable:
    """Marks an op whose gradient is not defined or is zero everywhere: `gradients` stops there."""

    def __repr__(self) -> str:
        return "NOT_DIFFERENTIABLE"


NOT_DIFFERENTIABLE: Final = NotDifferentiable()


def undefined_gradient(op: Operation, *gradients: Any) -> NoReturn:
    """The gradient rule of an op for which TensorFlow has none: a gradient through it is refused, not zero."""
    raise LookupError(f"No gradient defined for operation {op.name!r} (op type: {op.type})")


@dataclass(frozen=True, slots=True)
class ShapeContext:
    """The input of a shape rule: attributes, input shapes, and input values where they are known.

    Attributes:
        attrs: attributes of the node.
        inputs: shape of each input.
        value: `value(i)` is the constant content of input i, or None when it is not known.
        partial: `partial(i)` reads input i as a shape: dims with None where an element is not known; None if nothing is.
        variable: `variable(i)` is the shape of the variable behind input i, a resource handle; None if it is not known.
        elements: `elements(i)` is the shape of each element of the list or array behind input i; None if it is not known.
        call: `call(f)` are the shapes of the outputs of a function that is given all the inputs.
        maker: `maker(i)` is the node that makes the resource behind input i; None if it is not known.
    """

    attrs: Attrs
    inputs: Sequence[Dims]
    value: Callable[[int], np.ndarray[Any, Any] | None]
    partial: Callable[[int], Dims]
    variable: Callable[[int], Dims] = lambda i: None
    elements: Callable[[int], Dims] = lambda i: None
    call: Callable[[NameAttrList], Sequence[Dims]] = lambda function: ()
    maker: Callable[[int], Operation | None] = lambda i: None


ShapeRule = Callable[[ShapeContext], Sequence[Dims]]
"""Input shapes to output shapes, one for each output; raises GraphValueError when the inputs do not fit."""

GradientRule = Callable[["Operation", Any], Sequence[Any]]
"""(operation, *output gradients) to one gradient (Tensor, IndexedSlices or None) for each input."""

Bodies = Callable[["Operation"], Sequence["FuncGraph"]]
"""The bodies that an operation stands for; raises InvalidArgumentError if they do not fit it."""


@dataclass(frozen=True)
class Row:
    """Everything known of an op.

    Attributes:
        signature: what it takes and gives; as text it is parsed when it is first read, most ops being used by no program.
        shape: shape rule.
        kernel: reference kernel; None only where the engine runs the op by its role.
        native: compiled form, if there is one.
        gradient: gradient rule, or NOT_DIFFERENTIABLE.
        role: what planning must know of it.
        shape_operands: inputs whose *content* decides the output shape or the layout of the native form (negative: from the
            end); they must be known when a program is laid out.
        shape_only: the outputs depend on the shapes of the inputs alone (Shape, Size, Rank, …).
        dynamic_shape: the output shape depends on data even when the shape operands are known (Where, Unique).
        writes: inputs (variables) the op writes.
        reads: inputs (variables) whose present content the op uses.
        asynchronous: the kernel may wait; it is called with the step (see `StepContext`) before its inputs.
        bodies: of an op that stands for bodies (see its role), what they are; it checks that they fit the operation.
        gives_away: the arrays the kernel puts out have no other reference.
        lists: what it does with a list of tensors, for programs that keep lists in memory.
        work: how long the kernel takes, if it may be longer than about a nanosecond for each byte of its inputs and outputs.
    """

    signature: OpDef | str
    shape: ShapeRule
    kernel: Reference | None
    gradient: Callable[..., Sequence[Any]] | NotDifferentiable
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

    @functools.cached_property
    def definition(self) -> OpDef:
        return self.signature if isinstance(self.signature, OpDef) else parse_signature(self.signature)

    @functools.cached_property
    def name(self) -> str:
        return self.definition.name

    @functools.cached_property
    def is_stateful(self) -> bool:
        return self.definition.is_stateful

    @functools.cached_property
    def is_pure(self) -> bool:
        """Same inputs, same outputs, nothing else: may be folded, merged and dropped.

        Not what uses lists: each has memory of its own, which the next change of the list takes over.
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
    """Rows there are, the module of each row there will be, and what the wiring has to add to rows that come."""

    rows: dict[str, Row] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    completions: dict[str, dict[str, Any]] = field(default_factory=dict)
    retired: dict[str, tuple[int, str]] = field(default_factory=dict)


_registry = _Registry()


def import_when_asked(modules: Mapping[str, str]) -> None:
    """Say which module registers which op."""
    _registry.modules = modules


def register(
    signature: str,
    *,
    shape: ShapeRule,
    kernel: Reference | None,
    gradient: Callable[..., Sequence[Any]] | NotDifferentiable,
    native: Native | None = None,
    role: Role = Role.COMPUTE,
    shape_operands: tuple[int, ...] = (),
    shape_only: bool = False,
    dynamic_shape: bool = False,
    writes: tuple[int, ...] = (),
    reads: tuple[int, ...] = (),
    asynchronous: bool = False,
    bodies: Bodies | None = None,
    gives_away: bool = False,
    work: Work | None = None,
) -> Row:
    """Add a row to the registry; see `Row` for the fields and `opdef` for the notation of the signature.

    Raises:
        ValueError: the op is registered already.
    """
    name = signature.partition("(")[0].strip()
    if name in _registry.rows or _is_to_come(name):
        raise ValueError(f"op {name!r} is registered already")
    row = Row(
        signature,
        shape,
        kernel,
        gradient,
        native,
        role,
        shape_operands,
        shape_only,
        dynamic_shape,
        writes,
        reads,
        asynchronous,
        bodies,
        gives_away,
        work=work,
    )
    added = _registry.completions.get(name)
    _registry.rows[name] = row if added is None else replace(row, **added)
    return row


def complete(op_type: str, **fields: Any) -> None:
    """Give a row what the module that registers it must not know: for the wiring, before any graph is built."""
    if op_type in _registry.rows:
        _registry.rows[op_type] = replace(_registry.rows[op_type], **fields)
    else:
        _registry.completions.setdefault(op_type, {}).update(fields)


def retire(op_type: str, version: int, instead: str) -> None:
    """Say from which version of GraphDefs on an op is gone, and what to do instead: older ones may still have it."""
    _registry.retired[op_type] = version, instead


def check_in_use(op_type: str, version: int) -> None:
    """Check that GraphDefs of this version may have an op.

    Raises:
        UnimplementedError: it is gone.
    """
    removed, instead = _registry.retired.get(op_type, (version + 1, ""))
    if version >= removed:
        raise UnimplementedError(
            f"Op {op_type} is not available in GraphDef version {version}. It has been removed in version {removed}. {instead}."
        )


def output_dims(row: Row, context: ShapeContext) -> Sequence[Dims]:
    """The shapes that the rule of a row infers from inputs and attributes.

    Raises:
        GraphValueError: they do not fit the op.
    """
    try:
        return row.shape(context)
    except OpError:
        raise
    except Exception as error:  # the rule took for granted what these inputs or attributes are not
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
    """All rows; imports every module that has some."""
    for module in dict.fromkeys(_registry.modules.values()):
        import_module(module)
    yield from list(_registry.rows.values())


def _is_to_come(op_type: str) -> bool:
    """Whether an op belongs to a module whose import has not begun."""
    module = _registry.modules.get(op_type)
    return module is not None and module not in sys.modules
