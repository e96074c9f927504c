"""The protocols between a row of the op registry and the executors: how an operation is computed.

An op has up to two implementations with the same meaning. The *reference* kernel is a plain NumPy function and defines the op.
The *native* binding turns an operation with concrete shapes into launches of compiled kernels inside a program.

Memory of a native program. A frame is an array of 64-bit words: a header, then *slots* (addresses). An operand is a slot and a
byte offset, so the one slot of the arena serves all intermediate values. Every launch has a *block* of 64-bit words:

    elementwise kernel   for each operand: frame word, byte offset
                         rank >= 1; dims[rank], outermost first; for each operand: strides[rank] in bytes
    loop kernel          for each operand: frame word, byte offset
                         the integer arguments; the real arguments as float64 bit patterns

Compiled kernels have the C signature `int64 kernel(int64 *block, int64 *frame)` and return a status: 0, or k for the k-th entry
of `Native.statuses`.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError, OpError
from aioexec.graph.kernels.epilogue import Epilogue
from aioexec.graph.kernels.panels import Panels, Storage

if TYPE_CHECKING:
    from aioexec.dtypes import DType
    from aioexec.graph.name_attr_list import NameAttrList
    from aioexec.resources.datasets.work import Background
    from aioexec.resources.manager import ResourceManager
    from aioexec.shapes import Dims

Result = TypeVar("Result")

Attrs = Mapping[str, Any]
"""Attributes of an operation as Python values: int, float, bool, str, DType, Dims (shape), ndarray (tensor), tuples of them."""


class Role(enum.Enum):
    """The role of an op in planning and execution; the other fields of its row state everything else."""

    __hash__ = object.__hash__  # Enum's own is a Python function, and planning looks roles up for every node

    COMPUTE = "compute"
    CONSTANT = "constant"  # value in attr `value`
    PLACEHOLDER = "placeholder"  # must be fed; its kernel raises
    IDENTITY = "identity"  # output 0 is input 0
    NO_OP = "no_op"  # control edges only
    CONTROL_TRIGGER = "control_trigger"  # the same, and runs even if its inputs are dead
    VARIABLE = "variable"  # makes a variable: a resource handle or a reference
    READ = "read"  # snapshot of the variable behind input 0
    UPDATE = "update"  # writes the variables behind the inputs `Native.writes` / `Row.writes`
    # The executor runs the following ones without a kernel, since they decide which nodes run.
    SWITCH = "switch"  # input 0 goes to output `pred`; the other is dead
    MERGE = "merge"  # the first live input, and its index
    ENTER = "enter"  # to the child frame named by attr `frame_name`
    EXIT = "exit"  # out of a frame, once: the last iteration's value
    NEXT_ITERATION = "next_iteration"  # to the next iteration
    LOOP_COND = "loop_cond"  # the condition of a loop
    SEND = "send"  # sends a value, dead or alive, to another partition
    RECV = "recv"  # receives it
    COPY_TO_HOST = "copy_to_host"  # from the memory of the node's device to main memory
    COPY_TO_DEVICE = "copy_to_device"  # the other way
    # The following ones have bodies (`Row.bodies`), which planning substitutes for them.
    CALL = "call"  # inputs and outputs are those of the body
    SYMBOLIC = "symbolic"  # the same, for a body that is built during planning
    IF = "if"  # input 0 is the condition; bodies: then, else
    CASE = "case"  # input 0 is the index of the body; out of range, the last one
    WHILE = "while"  # bodies: condition, loop body
    STRUCTURE = "structure"  # a loop or conditional that planning has collapsed to one node


class BodyTensor(Protocol):
    """An input or output of the body of a function."""

    @property
    def dtype(self) -> DType: ...
    @property
    def dims(self) -> Dims: ...


class FunctionBody(Protocol):
    """The body of a function, as kernels and shape inference use it: a `func_graph.FuncGraph`."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> Sequence[BodyTensor]: ...
    @property
    def outputs(self) -> Sequence[BodyTensor]: ...
    def specialize(self, inputs: Sequence[Dims], variables: Sequence[Dims]) -> FunctionBody:
        """The body for inputs of these shapes, and for handles of variables of these shapes."""
        ...


class Functions(Protocol):
    """The functions of a graph, as kernels use them: a `function_library.FunctionLibrary`."""

    def body(self, called: NameAttrList) -> FunctionBody:
        """The body of the function that an attribute names."""
        ...

    def is_recursive(self, name: str) -> bool:
        """Whether a function calls itself, directly or through others."""
        ...


class KernelContext(Protocol):
    """The properties of a node that are passed when its kernel is bound, once per session and node.

    `device` is the full name of the node's device, `resources` are that device's, `functions` those of the node's graph;
    `background` has the calls and tasks of the session that outlive steps.
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
    def functions(self) -> Functions: ...
    @property
    def background(self) -> Background: ...


Compute = Callable[..., Any]
"""Input values to output values: an ndarray for one output, a tuple for several, None for none."""

Reference = Callable[[KernelContext], Compute]


class StepContext(Protocol):
    """The properties of a step that are passed to an asynchronous kernel, `compute(step, *inputs)`, on the event loop.

    The kernel returns its values, or an awaitable of them. The awaitable is cancelled with the step, and must then leave the
    kernel's resource unchanged.
    """

    @property
    def step_id(self) -> int: ...
    @property
    def container(self) -> str:
        """The container of resources that are deleted at the end of the step."""
        ...

    @property
    def deadline(self) -> float | None:
        """The deadline of the step, in the event loop's time."""
        ...

    @property
    def cancellation_manager(self) -> Any:
        """Registers callbacks for the cancellation of the step (`execution.cancellation`)."""
        ...

    def run_in_worker(self, call: Callable[[], Result]) -> Awaitable[Result]:
        """Make a call on a worker thread, in a copy of the caller's context variables."""
        ...

    def call(self, body: FunctionBody, inputs: Sequence[Any]) -> Awaitable[Sequence[Any]]:
        """Run the body of a function with these inputs; outputs that are inputs are the same arrays."""
        ...


class WouldBlock(enum.Enum):
    """The result of a nonblocking attempt that would have to wait and changed nothing."""

    WOULD_BLOCK = "would block"


WOULD_BLOCK = WouldBlock.WOULD_BLOCK


@dataclass(frozen=True, slots=True)
class NonblockingKernel:
    """An asynchronous kernel with a nonblocking form, which needs no step.

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
        compute: the kernel that copies.
        keep: the kernel for an input without other references.
        keeps: the index of the input.
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
    """A value when a program is laid out: its dtype and shape, and its content if that is known.

    `may_be_packed`: launches may take it in another layout (see `Launches.packed`), and then in this `storage`.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    value: np.ndarray[Any, Any] | None = None
    may_be_packed: bool = False
    storage: Storage = ""

    @property
    def size(self) -> int:
        count = 1
        for dim in self.shape:
            count *= dim
        return count

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def check(self) -> Self:
        """Check that such an array can exist, and return the spec.

        Dimensions must not be negative, and strides must fit 64 bits even if a dimension is 0.

        Raises:
            GraphValueError: it cannot.
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
    """A loop kernel: a plain Python function `body(*pointers, *ints, *reals) -> status`.

    Pointers have flat indices, `x[i]`; in plain Python they may be one-dimensional arrays, so the body runs without
    compilation. Its only free names are those of `loop_language`, which the compiler defines (see devices/jit/loops).
    """

    body: Callable[..., int]
    pointers: tuple[str, ...]  # NumPy dtype name of each pointer
    ints: int
    reals: int


Kernel = ElementwiseKernel | LoopKernel


@dataclass(frozen=True, slots=True)
class Operand:
    """Memory that a launch reads or writes: an input, an output, scratch, or the new content of a variable.

    `state` k is the new content of the variable behind input k; `input` k is its present one. Both may be the same memory.
    `packed` k is the k-th of `Launches.packed`.
    """

    kind: Literal["input", "output", "scratch", "state", "packed"]
    index: int
    offset: int = 0  # bytes


@dataclass(frozen=True, slots=True)
class Units:
    """The division of a launch among workers: it has `words[word]` independent units of work.

    Unit u of operand k begins u * strides[k] bytes after unit 0. Tasks are multiples of `grain` units. If there are enough
    units for all workers, each task has `share` of them or more, for what the kernel copies for each task. `words[first]`, if
    the kernel has such an argument, is the number of its first unit.
    """

    word: int
    strides: tuple[int, ...]
    grain: int
    first: int | None = None
    share: int = 1

    def words_of(self, words: tuple[int, ...], begin: int, count: int) -> tuple[int, ...]:
        """Return the arguments for `count` units of a launch with these arguments, from its unit `begin` on."""
        changed = list(words)
        changed[self.word] = count
        if self.first is not None:
            changed[self.first] += begin
        return tuple(changed)


@dataclass(frozen=True, slots=True)
class Handover:
    """The passing of the output of a product, block by block, to an elementwise kernel that consumes it.

    Attributes:
        kernel: the fused kernel. Its operands are the factors (the first two of the launch), then all operands of the
            elementwise kernel, of which the product itself is not accessed. It calls the elementwise kernel (`Launch.calls`).
        words: its first arguments; after them: the number of operands of the elementwise kernel, the index of the product among
            them, and a bit mask: set for operands as large as the product, clear for scalars.
        units: with strides for the factors, and for the product.
        most: the largest number of operands of the elementwise kernel; the fused kernel always has as many.
    """

    kernel: LoopKernel
    words: tuple[int, ...]
    units: Units
    most: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One row of a native program: a kernel, its operands, and the rest of its block.

    `calls` is a kernel that this one calls: its address is the last of the integer arguments, which `words` then lack.
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
        inplace: inputs whose memory output 0 may reuse if nothing else needs them.
        packed: inputs with `Spec.may_be_packed` that are packed once, before the first run, each with its layout.
    """

    rows: tuple[Launch, ...]
    scratch: tuple[int, ...] = ()
    inplace: tuple[int, ...] = ()
    packed: tuple[tuple[int, Panels], ...] = ()


class ListVerb(enum.Enum):
    """The operation of a node on a list of tensors, if a program can do it in memory."""

    EMPTY = "empty"  # makes a list that grows
    RESERVE = "reserve"  # makes one of `size` elements, all unset
    FROM_TENSOR = "from_tensor"  # makes one from the rows of input `value`
    PUSH = "push"  # appends input `value`
    POP = "pop"  # removes and yields the last element
    READ = "read"  # yields the element at input `index`
    WRITE = "write"  # sets it to input `value`
    READ_ALL = "read_all"  # stacks all elements, or those at input `index`, to one tensor
    WRITE_ALL = "write_all"  # sets them to the rows of input `value`
    LENGTH = "length"
    ELEMENT_SHAPE = "element_shape"
    ZEROS_LIKE = "zeros_like"  # makes one of the same length, of zeros
    ADD = "add"  # adds the lists at all inputs, elementwise
    GRADIENT = "gradient"  # yields the TensorArray of gradients for the attr `source`
    CLOSE = "close"


CHANGING = frozenset({ListVerb.PUSH, ListVerb.POP, ListVerb.WRITE, ListVerb.WRITE_ALL, ListVerb.ADD})


@dataclass(frozen=True, slots=True)
class ListUse:
    """The operation of a node on the list at its input 0, or that makes one.

    Attributes:
        outputs: the kind of each output: "list", "value" (an element, a stack of elements, a length), or "flow" (input `flow`,
            or zero).
        size, index, value, flow, shape: the indices of these inputs; `shape` is the element shape.
        dtype: the attr with the dtype of the elements, for verbs that make a list.
        is_value: lists are immutable, and verbs yield a new one. Otherwise lists are resources, and verbs change them.
        writes_once: an element may be set once only; in a list of gradients the second value is added.
        zeros: an unset element is read as zeros if its shape is known from the others.
        statuses: the errors: an index out of range (or an empty list), an element of a wrong dtype or shape.
        also_tensors: the op also takes plain tensors.
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
    """Each output of the node is a view of an input's memory from a byte offset on; no row is needed.

    `inputs[j]` and `offsets[j]` are for output j.
    """

    inputs: tuple[int, ...]
    offsets: tuple[int, ...]


Bind = Callable[[Attrs, Sequence[Spec], Sequence[Spec]], Launches | Alias | None]
"""(attributes, input specs, output specs) to rows; None if there is no native form for them, which makes it a break.

An input that is a variable (role UPDATE or READ) has the spec of the variable's value. Pure: same arguments, same result.
"""


@dataclass(frozen=True, slots=True)
class Native:
    """The compiled form of an op.

    Attributes:
        bind: see `Bind`.
        dtypes: the names of the dtypes of the op's type attribute that are supported, checked by the registry test.
        statuses: the meaning of status k (from 1): an error class and a message, with attribute names in braces.
    """

    bind: Bind
    dtypes: frozenset[str] = frozenset({"float32", "float64", "int32", "int64", "bool"})
    statuses: tuple[tuple[type[OpError], str], ...] = ()
