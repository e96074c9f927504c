"""Kernels for GPUs that read or write where indices say: gather and scatter.

Each element of `values` belongs to an element of `table`, which some indices select: the components of one row of `indices`,
each with a stride in the table. To gather is to copy the table's element to `values`; to scatter is to put the value in the
table, or to combine it with the element that is there, in an atomic exchange that is repeated until no other thread interfered.
So the order of sums is open, as it is in TensorFlow.

An index outside the table gathers 0 and scatters nothing, and is no error, as on TensorFlow's GPUs.

The pointers are the values, the indices, and the table. The integer parameters: the number of elements; the dimensions of
`values`; the strides in bytes of the values, of the indices and of the table in these dimensions; for each component the size
of the table's dimension, and its stride. The elements are fewer than 2^31.
"""

from __future__ import annotations

from aioexec.data_classes import dataclass
from aioexec.devices.cuda.ptx.threads import module_text, parameters
from aioexec.devices.cuda.ptx.writer import GLOBAL, Writer
from aioexec.devices.jit.llvm.expressions import Body, Module, translate
from aioexec.devices.jit.llvm.ir import ITEM_SIZES, LLVM_TYPES, stored_type
from aioexec.graph.kernels.kernel import ElementwiseKernel

ENTRY = "aioexec_indexed"
GATHER, STORE = "", "c = b"


@dataclass(frozen=True, slots=True)
class Indexed:
    """What is done.

    Attributes:
        verb: GATHER, STORE, or a body that assigns `c` from the table's element `a` and the value `b`.
        rank: the number of dimensions of the values.
        components: of an index.
    """

    verb: str
    dtype: str
    index_dtype: str
    rank: int
    components: int


def emit(given: Indexed) -> str:
    """Write the module that defines ENTRY."""
    module, body = Module(1), None
    texts: list[str] = []
    if given.verb not in (GATHER, STORE):
        kind = given.dtype
        body = translate(
            ElementwiseKernel(given.verb, (("a", kind), ("b", kind)), (("c", kind),), ""), module
        )
        texts = [body.text.replace(f"{body.symbol}(", "@combine("), *module.functions.values()]
    w, rank = Writer(), given.rank
    dims = [f"%i{1 + d}" for d in range(rank)]
    values, indices, table = ([f"%i{1 + rank * (1 + k) + d}" for d in range(rank)] for k in range(3))
    first_component = 1 + 4 * rank
    tid, threads = w.register("tid"), w.register("ntid")
    block, blocks = w.register("ctaid"), w.register("nctaid")
    first = w.set(f"add i64 {w.set(f'mul i64 {block}, {threads}')}, {tid}")
    with w.loop(first, "%i0", w.set(f"mul i64 {blocks}, {threads}")) as (element, _, _):
        at = w.indices(element, dims)
        value = w.at("%a0", w.offset(at, values))
        place = w.at("%a1", w.offset(at, indices))
        target, inside = w.at("%a2", w.offset(at, table)), "true"
        for c in range(given.components):
            size, stride = f"%i{first_component + 2 * c}", f"%i{first_component + 2 * c + 1}"
            index = _index(w, given.index_dtype, w.at(place, str(c * ITEM_SIZES[given.index_dtype])))
            inside = w.set(f"and i1 {inside}, {w.set(f'icmp ult i64 {index}, {size}')}")
            target = w.at(target, w.set(f"mul i64 {index}, {stride}"))
        if given.verb == GATHER:
            w.do(f"store {stored_type(given.dtype)} zeroinitializer, {GLOBAL} {value}")
            _move(w, given.dtype, inside, target, value)
        elif body is None:
            _move(w, given.dtype, inside, value, target)
        else:
            with w.when(inside):
                _combine(w, given.dtype, body, value, target)
    signature = parameters(3, 1 + 4 * rank + 2 * given.components)
    head = [f"define ptx_kernel void @{ENTRY}({signature}) {{", "entry:"]
    return module_text([*head, *w.lines, "  ret void", "}", *texts, *module.declarations.values()])


def _index(w: Writer, dtype: str, place: str) -> str:
    """A component of an index as 64 bits; a negative one becomes larger than any size."""
    value = w.set(f"load {LLVM_TYPES[dtype]}, {GLOBAL} {place}")
    return value if ITEM_SIZES[dtype] == 8 else w.set(f"sext {LLVM_TYPES[dtype]} {value} to i64")


def _move(w: Writer, dtype: str, inside: str, source: str, target: str) -> None:
    """Copy an element if its index is inside the table."""
    kind = stored_type(dtype)
    with w.when(inside):
        w.do(f"store {kind} {w.set(f'load {kind}, {GLOBAL} {source}')}, {GLOBAL} {target}")


def _combine(w: Writer, dtype: str, body: Body, source: str, target: str) -> None:
    """Replace an element of 4 or 8 bytes by what the body makes of it."""
    word = f"i{8 * ITEM_SIZES[dtype]}"
    kind = LLVM_TYPES[dtype]
    value = w.load(dtype, source)
    before, attempt, done = w.block, w.label("attempt"), w.label("exchanged")
    present = w.set(f"load {word}, {GLOBAL} {target}")
    w.do(f"br label %{attempt}")
    w.begin(attempt)
    place = len(w.lines)
    old = w.set("phi")
    scalar = w.set(f"bitcast {word} {old} to {kind}")
    result = w.apply("combine", body, (dtype, w.lane(dtype, scalar)), (dtype, value))
    new = w.set(f"extractelement <1 x {kind}> {result}, i32 0")
    bits = w.set(f"bitcast {kind} {new} to {word}")
    pair = w.set(f"cmpxchg {GLOBAL} {target}, {word} {old}, {word} {bits} monotonic monotonic")
    found, is_done = (w.set(f"extractvalue {{ {word}, i1 }} {pair}, {k}") for k in range(2))
    w.do(f"br i1 {is_done}, label %{done}, label %{attempt}")
    w.lines[place] = f"  {old} = phi {word} [ {present}, %{before} ], [ {found}, %{attempt} ]"
    w.begin(done)
