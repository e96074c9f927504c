"""The protocols between a row of the op registry and the executors: how an operation is computed.

An op has up to two implementations with the same meaning. The *reference* kernel is a plain NumPy function and defines the op.
The *native* binding turns an operation with concrete shapes into launches of compiled kernels inside a program.

Memory seen by a native program. A frame is an array of 64-bit words: a header, then *slots* (addresses). An operand is a slot
and a byte offset, so one arena slot serves a thousand intermediates. Every launch has a *block* of 64-bit words:

    elementwise kernel   for each operand: frame word, byte offset
                         rank >= 1; dims[rank], outermost first; for each operand: strides[rank] in bytes
    loop kernel          for each operand: frame word, byte offset
                         the integer arguments; the real arguments as float64 bit patterns

Compiled kernels have the C signature `int64 kernel(int64 *block, int64 *frame)` and return a status: 0, or k for the k-th
entry of `Native.statuses`.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError, OpError

if TYPE_CHECKING:
    from aioexec.dtypes import DType
    from aioexec.graph.function_library import FunctionLibrary
    from aioexec.graph.functions import FuncGraph
    from aioexec.resources.manager import ResourceManager

Result = TypeVar("Result")

Attrs = Mapping[str, Any]
"""Attributes of an operation as Python values: int, float, bool, str, DType, Dims (shape), ndarray (tensor), tuples of them."""


class Role(enum.Enum):
    """The role of an op in planning and execution; all else is stated by the other fields of its row."""

    __hash__ = object.__hash__  # Enum's own is written in Python, and planning looks roles up for every node

    COMPUTE = "compute"
    CONSTANT = "constant"  # value in attr `value`
    PLACEHOLDER = "placeholder"  # must be fed; its kernel raises
    IDENTITY = "identity"  # output 0 is input 0
    NO_OP = "no_op"  # nothing but control edges
    CONTROL_TRIGGER = "control_trigger"  # the same, and it runs even if what it waits for is dead
    VARIABLE = "variable"  # makes a variable: a resource handle or a reference
    READ = "read"  # snapshot of the variable behind input 0
    UPDATE = "update"  # writes the variables behind the inputs `Native.writes` / `Row.writes`
    # What follows has no kernel: the executor runs it, since what it does is to decide which nodes run.
    SWITCH = "switch"  # input 0 goes to output `pred`; the other is dead
    MERGE = "merge"  # the first live input, and its index
    ENTER = "enter"  # into the child frame named by attr `frame_name`
    EXIT = "exit"  # out of a frame, once: the last iteration's value
    NEXT_ITERATION = "next_iteration"  # into the next iteration
    LOOP_COND = "loop_cond"  # the condition of a frame
    SEND = "send"  # hands a value, dead or alive, to another partition
    RECV = "recv"  # waits for it
    # What follows stands for bodies, `Row.bodies`, which planning puts in its place.
    CALL = "call"  # the inputs are those of its body, the outputs too
    SYMBOLIC = "symbolic"  # the same, of a body that is made when it is planned
    IF = "if"  # input 0 chooses: it holds, the first body; it does not, the second
    CASE = "case"  # input 0 is the index of the body that runs; the last, if there is none
    WHILE = "while"  # the second body is repeated while the first says so
    STRUCTURE = "structure"  # a loop or a conditional that planning has made one node of


class KernelContext(Protocol):
    """The properties of a node that a kernel gets when it is bound to it, once per session and node.

    `device` is the full name of the node's device, `resources` are that device's, `functions` those of the node's graph.
    """

    @property
    def node_name(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def attrs(self) -> Attrs: ...
    @property
    def input_dtypes(self) -> Sequence[DType]: ...
    @property
    def output_dtypes(self) -> Sequence[DType]: ...
    @property
    def resources(self) -> ResourceManager: ...
    @property
    def functions(self) -> FunctionLibrary: ...


Compute = Callable[..., Any]
"""Input values to output values: an ndarray for one output, a tuple for several, None for none."""

Reference = Callable[[KernelContext], Compute]


class StepContext(Protocol):
    """The properties of a step that an asynchronous kernel gets; it is called on the event loop, `compute(step, *inputs)`.

    It returns its values, or an awaitable of them, which is cancelled with the step: it must leave its resource as it was.
    """

    @property
    def step_id(self) -> int: ...
    @property
    def container(self) -> str:
        """The container of resources that vanish with the step."""
        ...

    @property
    def deadline(self) -> float | None:
        """When the step fails, on the event loop's clock."""
        ...

    @property
    def cancellation_manager(self) -> Any:
        """Registers callbacks that are called once if the step is cancelled (`execution.cancellation`)."""
        ...

    def run_in_worker(self, call: Callable[[], Result]) -> Awaitable[Result]:
        """Make a call on a worker, in a copy of the caller's context variables."""
        ...

    def call(self, body: FuncGraph, inputs: Sequence[Any]) -> Awaitable[Sequence[Any]]:
        """Run the body of a function with these inputs: its outputs, of which those that are inputs are the same arrays."""
        ...


class WouldBlock(enum.Enum):
    """The result of a kernel that would have to wait, and has changed nothing."""

    WOULD_BLOCK = "would block"


WOULD_BLOCK = WouldBlock.WOULD_BLOCK


@dataclass(frozen=True, slots=True)
class NonblockingKernel:
    """An asynchronous kernel that often need not wait, and then needs no step.

    Attributes:
        compute: the kernel.
        at_once: `at_once(*inputs)` returns new values, or WOULD_BLOCK.
    """

    compute: Compute
    at_once: Compute

    def __call__(self, *arguments: Any) -> Any:
        return self.compute(*arguments)


@dataclass(frozen=True, slots=True)
class KeepingKernel:
    """A kernel that keeps an input beyond its step: a copy, unless the kernel has the only reference.

    Attributes:
        compute: the kernel, which copies.
        keep: the same, where the input is its own.
        keeps: which input.
    """

    compute: Compute
    keep: Compute
    keeps: int

    def __call__(self, *arguments: Any) -> Any:
        return self.compute(*arguments)


def plain(compute: Compute) -> Reference:
    """Wrap a NumPy function that needs no attributes as a reference kernel."""
    return lambda context: compute


@dataclass(frozen=True, slots=True, eq=False)
class Spec:
    """A value at the time a program is laid out: its dtype and shape, and its content where that is known."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    value: np.ndarray[Any, Any] | None = None

    @property
    def size(self) -> int:
        count = 1
        for dim in self.shape:
            count *= dim
        return count

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def checked(self) -> Self:
        """The same, if there can be such an array: no dimension is negative, and its strides count bytes in 64 bits, also where
        a dimension is 0.

        Raises:
            GraphValueError: there cannot.
        """
        count = self.dtype.itemsize
        for dim in self.shape:
            count *= dim or 1
        if count >= 1 << 63 or any(dim < 0 for dim in self.shape):
            raise GraphValueError(f"no memory can hold a value of shape {self.shape}")
        return self


@dataclass(frozen=True, slots=True)
class ElementwiseKernel:
    """A compiled loop over broadcast operands.

    Attributes:
        body: statements of the expression language, "z = x + y" (several separated by ";").
        inputs, outputs: (name, NumPy dtype name) of each operand; an output may also be an input (updates).
        pattern: a letter for each operand, inputs then outputs, for its stride in the innermost dimension:
            "v" one element, "s" zero (a scalar), "x" any.
    """

    body: str
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    pattern: str


@dataclass(frozen=True, slots=True)
class LoopKernel:
    """A written-out loop: a plain Python function `body(*pointers, *ints, *reals) -> status`.

    Pointers are indexed flat, `x[i]`; in plain Python they may be one-dimensional arrays, so the body can be run as it is.
    Its only free names are those the compiler supplies (see devices/jit/loops).
    """

    body: Callable[..., int]
    pointers: tuple[str, ...]  # NumPy dtype name of each pointer
    ints: int
    reals: int


Kernel = ElementwiseKernel | LoopKernel


@dataclass(frozen=True, slots=True)
class Operand:
    """A place in memory a launch reads or writes: an input, an output, scratch, or the new content of a variable.

    `state` k is the new content of the variable behind input k; `input` k is its present one. Both may be the same memory.
    """

    kind: Literal["input", "output", "scratch", "state"]
    index: int
    offset: int = 0  # bytes


@dataclass(frozen=True, slots=True)
class Units:
    """How a launch may be divided among workers: it has `words[word]` independent units of work.

    Unit u of operand k begins u * strides[k] bytes behind unit 0. Shares are multiples of `grain` units.
    """

    word: int
    strides: tuple[int, ...]
    grain: int


ADDS_BIAS = 1
RECTIFIES = 2


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What a loop kernel can do to each part of its output as soon as it is written, without reading it again from memory.

    Attributes:
        word: the argument that says what, 0 for nothing: the sum of ADDS_BIAS, to add a vector to each row, and RECTIFIES, to
            replace what is negative by 0 afterwards; NaN stays.
        output: the operand it is done to; of all launches of an operation together every element.
        bias: the operand that is the vector; not read without ADDS_BIAS.
        width: elements of a row.
    """

    word: int
    output: int
    bias: int
    width: int


@dataclass(frozen=True, slots=True)
class Handover:
    """How what a launch writes could be handed over, part by part, to an elementwise kernel that works on it.

    Attributes:
        kernel: does what both do. Its operands are the factors, the first two of the launch; then all those of the elementwise
            kernel, of which it does not look at the one that is handed over. It calls that kernel (`Launch.calls`).
        words: its first arguments; behind them come how many operands the elementwise kernel has, the place of the one that is
            handed over, and for each operand a bit: it is as large as that, or a scalar.
        units: with strides for the factors, and for what is handed over.
        most: operands the elementwise kernel may have; there are always so many.
    """

    kernel: LoopKernel
    words: tuple[int, ...]
    units: Units
    most: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One row of a native program: a kernel, where its operands are, and the rest of its block.

    `calls` is a kernel that this one calls: its address is the last of the integer arguments.
    """

    kernel: Kernel
    operands: tuple[Operand, ...]
    words: tuple[int, ...]
    reals: tuple[float, ...] = ()
    cost: int = 10  # estimated nanoseconds
    units: Units | None = None
    epilogue: Epilogue | None = None
    handover: Handover | None = None
    calls: ElementwiseKernel | None = None


@dataclass(frozen=True, slots=True)
class Launches:
    """The launches by which a program computes a node.

    Attributes:
        rows: launches in order.
        scratch: bytes of each scratch buffer, alive during this node only.
        inplace: inputs whose memory output 0 may take over when nothing else needs them.
    """

    rows: tuple[Launch, ...]
    scratch: tuple[int, ...] = ()
    inplace: tuple[int, ...] = ()


class ListVerb(enum.Enum):
    """The operation of a node on a list of tensors, if a program can do it in memory."""

    EMPTY = "empty"  # makes a list that grows
    RESERVE = "reserve"  # makes one of as many elements as input `size` says, none of them set
    FROM_TENSOR = "from_tensor"  # makes one of the rows of input `value`
    PUSH = "push"  # appends input `value`
    POP = "pop"  # takes the last element
    READ = "read"  # gives the element at input `index`
    WRITE = "write"  # sets it to input `value`
    READ_ALL = "read_all"  # gives all elements as one tensor: those at input `index`, if there is one
    WRITE_ALL = "write_all"  # sets them to the rows of input `value`
    LENGTH = "length"
    ELEMENT_SHAPE = "element_shape"
    ZEROS_LIKE = "zeros_like"  # makes one as long, of zeros
    ADD = "add"  # adds the lists at all inputs, element by element
    GRADIENT = "gradient"  # gives the list of gradients by a list, for the attr `source`
    CLOSE = "close"


CHANGING = frozenset({ListVerb.PUSH, ListVerb.POP, ListVerb.WRITE, ListVerb.WRITE_ALL, ListVerb.ADD})


@dataclass(frozen=True, slots=True)
class ListUse:
    """How a node uses the list at its input 0, or makes one.

    Attributes:
        outputs: what each output is: "list", "value" (what is read or pushed, a length), or "flow" (input `flow`, or zero).
        size, index, value, flow, shape: inputs, where the verb has such; shape: what is said of that of each element.
        dtype: the attr with the dtype of the elements, of the verbs that make a list.
        is_value: a list never changes; a verb gives another. Otherwise there is one list, and verbs change it.
        writes_once: an element that is set may not be set again, but in a list of gradients, where it is added to.
        zeros: an element that is not set is read as zeros if its shape is known: it is that of the others.
        statuses: what goes wrong: an index outside (or nothing to pop), an element that is not as it must be.
        also_tensors: the op is for tensors, and lists are among them.
    """

    verb: ListVerb
    outputs: tuple[str, ...]
    size: int = -1
    index: int = -1
    value: int = -1
    flow: int = -1
    shape: int = -1
    dtype: str = ""
    is_value: bool = False
    writes_once: bool = False
    zeros: bool = False
    statuses: tuple[tuple[type[OpError], str], ...] = ()
    also_tensors: bool = False

    @property
    def takes_all(self) -> bool:
        return self.verb in (ListVerb.READ_ALL, ListVerb.WRITE_ALL)


@dataclass(frozen=True, slots=True)
class Alias:
    """Each output of the node is an input's memory, from a byte offset on: no row at all.

    `inputs[j]` and `offsets[j]` are for output j.
    """

    inputs: tuple[int, ...]
    offsets: tuple[int, ...]


Bind = Callable[[Attrs, Sequence[Spec], Sequence[Spec]], Launches | Alias | None]
"""Attributes, input specs, output specs to rows; None: no native form for these, the program breaks here.

An input that is a variable (role UPDATE or READ) is seen as the variable's value. Pure: same arguments, same result."""


@dataclass(frozen=True, slots=True)
class Native:
    """The compiled form of an op.

    Attributes:
        bind: see `Bind`.
        dtypes: the dtypes of the op's type attribute it promises to serve (names), checked by the registry test.
        statuses: what status k (from 1) means: the error class and its message, which may name attributes in braces.
    """

    bind: Bind
    dtypes: frozenset[str] = frozenset({"float32", "float64", "int32", "int64", "bool"})
    statuses: tuple[tuple[type[OpError], str], ...] = ()
