"""The data types of the parity tables: a case is one node with its inputs, built and run in both engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aioexec import dtypes as dt
from aioexec.dtypes import DType

AS_VALUE: Any = "the shape of the value"


@dataclass(frozen=True, eq=False)
class Feed:
    """A placeholder fed with a value; `dtype` is settled when the node it goes to is known.

    Attributes:
        shape: the static shape; None if unknown, AS_VALUE for that of the value.
    """

    value: Any
    shape: Any = AS_VALUE

    def __repr__(self) -> str:
        static = "" if self.shape is AS_VALUE else f" known as {self.shape}"
        return f"{described(self.value)}{static}"


@dataclass(frozen=True, eq=False)
class Node:
    """A node to be written.

    Attributes:
        inputs: what the signature asks for, in order: values, feeds, outputs; a list of them where it takes a list.
        attrs: those that do not follow from the inputs.
        after: nodes it waits for.
        initial: what a variable holds before the first step.
    """

    op_type: str
    inputs: tuple[Any, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    after: tuple[Node, ...] = ()
    initial: Any = None

    def __getitem__(self, index: int) -> Output:
        return Output(self, index)

    def __repr__(self) -> str:
        if self.initial is not None:
            return f"{self.op_type}={described(self.initial)}"
        if self.op_type == "Const" and "value" in self.attrs:
            return f"const({described(self.attrs['value'])})"
        inputs = ", ".join(described(each) for each in self.inputs)
        attrs = "".join(f", {name}={described(value)}" for name, value in self.attrs.items())
        return f"{self.op_type}({inputs}{attrs})"


@dataclass(frozen=True, eq=False)
class Output:
    """One of the tensors of a node; a node itself represents its first."""

    node: Node
    index: int

    def __repr__(self) -> str:
        return f"{self.node!r}[{self.index}]"


@dataclass(eq=False)
class Back:
    """The back edge of a loop: represents the first output of `node`, which is made later."""

    node: Node | None = None

    def __repr__(self) -> str:
        return "…"


Steps = Callable[[Node], Sequence[Sequence[Node | Output]]]


def given(steps: Callable[..., Any], *values: Any) -> Steps:
    """Steps that depend on more than the node."""
    return lambda made: steps(made, *values)


@dataclass(frozen=True, eq=False)
class Case:
    """See `case`."""

    node: Node
    bad: bool
    grad: bool
    differentiated: tuple[int, ...] | None
    compared: tuple[int, ...] | None
    tolerance: float
    steps: Steps | None
    differs: str
    note: str

    def __repr__(self) -> str:
        return f"{self.node!r}{' (bad)' if self.bad else ''}{f' # {self.note}' if self.note else ''}"

    @property
    def op_type(self) -> str:
        return self.node.op_type


def case(
    op_type: str,
    *inputs: Any,
    attrs: dict[str, Any] | None = None,
    bad: bool = False,
    grad: bool = True,
    differentiated: Sequence[int] | None = None,
    compared: Sequence[int] | None = None,
    tolerance: float = 1.0,
    steps: Steps | None = None,
    after: Sequence[Node] = (),
    differs: str = "",
    note: str = "",
) -> Case:
    """One row of a table: a node of `op_type`, run by both engines on the same values.

    Args:
        inputs: a value for each argument of the signature: an array or Python value (a fed placeholder of its static
            shape), `const(x)`, `unknown(x)`, `partly(x, shape)`, `variable(x)`, `resource(x)`, or a `node(...)` or an output of
            one (`node(...)[1]`); a list of them where the op takes a list. Python values take the dtype the argument asks for.
        attrs: attributes that do not follow from the inputs, or override what follows: dtypes by name, shapes as tuples
            with None (or None), functions by `function(...)`.
        bad: both must fail, with errors of one class, while importing or while running.
        grad: whether gradients by each floating input are compared; everything is if TensorFlow has none here either.
        differentiated: outputs that get a gradient; left out: all of floating point.
        compared: outputs whose values are compared; left out: all. What is left out needs a `note`.
        tolerance: factor on what the dtype allows (see `runner`); above 1 needs a `note`.
        steps: what to run instead of the node's outputs: given the node, what to fetch in each step:
            `lambda queue: [[node("QueueEnqueueV2", queue, [1.0])], [node("QueueSizeV2", queue)]]`.
        after: nodes that this one waits for.
        differs: the reason why aioexec differs here on purpose; such a case does not count as agreeing.
        note: why the case is as it is; shown with it.
    """
    made = Node(op_type, inputs, dict(attrs or {}), tuple(after))
    return Case(
        made,
        bad,
        grad,
        None if differentiated is None else tuple(differentiated),
        None if compared is None else tuple(compared),
        tolerance,
        steps,
        differs,
        note,
    )


def node(op_type: str, *inputs: Any, attrs: dict[str, Any] | None = None, after: Sequence[Node] = ()) -> Node:
    """Another node of a case, as input of the one it is about, or to look at it from `steps`."""
    return Node(op_type, inputs, dict(attrs or {}), tuple(after))


def const(value: Any, dtype: Any = None) -> Node:
    """A constant: shape rules see its value."""
    array = dt.to_array(value, dtype)
    return Node("Const", (), {"value": array, "dtype": dtype_of(array)})


def unknown(value: Any) -> Feed:
    """A fed placeholder whose static shape is unknown."""
    return Feed(value, None)


def partly(value: Any, shape: Sequence[int | None]) -> Feed:
    """A fed placeholder whose static shape is `shape`."""
    return Feed(value, tuple(shape))


def variable(value: Any, dtype: Any = None) -> Node:
    """A reference variable, initialised before the first step; its content after the last is compared too."""
    array = dt.to_array(value, dtype)
    return Node("VariableV2", (), {"dtype": dtype_of(array), "shape": array.shape}, initial=array)


def resource(value: Any, dtype: Any = None) -> Node:
    """The handle of a resource variable, initialised before the first step; its content is compared too."""
    array = dt.to_array(value, dtype)
    return Node("VarHandleOp", (), {"dtype": dtype_of(array), "shape": array.shape}, initial=array)


@dataclass(frozen=True, eq=False)
class Function:
    """See `function`."""

    name: str
    dtypes: tuple[str, ...]
    body: Callable[..., Any]

    def __repr__(self) -> str:
        return self.name


def function(name: str, dtypes: Sequence[str], body: Callable[..., Any]) -> Function:
    """A function for the library of the graph: the value of an attribute of kind `func`.

    Args:
        dtypes: those of the arguments.
        body: builds with TensorFlow: gets `tensorflow.compat.v1` and a tensor for each argument, returns the results.
    """
    return Function(name, tuple(dtypes), body)


def dtype_of(array: Any) -> DType:
    return dt.string if array.dtype.kind in "OSU" else dt.as_dtype(array.dtype)


def described(value: Any) -> str:
    """A value of a table in a few words."""
    if isinstance(value, list | tuple) and any(
        isinstance(each, Feed | Node | Output | np.ndarray) for each in value
    ):
        return f"[{', '.join(described(each) for each in value)}]"
    if isinstance(value, np.ndarray) and value.size > 6:
        return f"{dtype_of(value).name}{list(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"{dtype_of(value).name}{list(value.shape)} {np.array2string(value, precision=4)}".replace(
            "\n", ""
        )
    return value.name if isinstance(value, DType) else repr(value)[:100]
