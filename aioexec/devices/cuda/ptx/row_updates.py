"""Kernels for GPUs that update some rows of tables by an elementwise formula: the sparse updates of optimizers.

A row that is listed several times is updated in sequence, in the order of the list, as on the CPU. So one kernel, LINK, finds
for each place in the list whether its row is listed before, and where it is listed next: it compares each place with all. In
the other, UPDATE, the first place of a row does the work of all of them, for each column. An index outside the tables is
skipped.

The pointers of LINK: the indices, `first` (1 or 0) and `next` (the number of indices if there is none), both int32; its integer
parameter: the number of indices. Those of UPDATE: the inputs and outputs of the formula, and those of LINK; its integers: the
number of indices, the columns, and the rows of the tables. Everything is C-ordered.
"""

from __future__ import annotations

from aioexec.data_classes import dataclass
from aioexec.devices.cuda.ptx.far_arguments import define_c_functions
from aioexec.devices.cuda.ptx.threads import module_text, parameters
from aioexec.devices.cuda.ptx.writer import GLOBAL, Writer
from aioexec.devices.jit.llvm.expressions import Body, Module, translate
from aioexec.devices.jit.llvm.ir import ITEM_SIZES, LLVM_TYPES
from aioexec.graph.kernels.kernel import ElementwiseKernel

LINK, UPDATE = "aioexec_link_rows", "aioexec_update_rows"
TABLE, LISTED, SCALAR = "tls"


@dataclass(frozen=True, slots=True)
class RowUpdate:
    """An update.

    Attributes:
        inputs, outputs: names and dtypes in the body; the outputs are tables.
        kinds: for each input whether it is a TABLE, has a row for each index (LISTED), or is a SCALAR.
    """

    body: str
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    kinds: str
    index_dtype: str


def own_numbers(w: Writer) -> tuple[str, str]:
    """The number of this thread in the grid, and the number of all of them."""
    threads = w.register("ntid")
    first = w.set(f"mul i64 {w.register('ctaid')}, {threads}")
    return w.set(f"add i64 {first}, {w.register('tid')}"), w.set(f"mul i64 {w.register('nctaid')}, {threads}")


def item(w: Writer, pointer: str, kind: str, size: int, index: str) -> str:
    """An element of an array."""
    return w.set(f"load {kind}, {GLOBAL} {w.at(pointer, w.set(f'mul i64 {index}, {size}'))}")


def link(index_dtype: str) -> str:
    """Write the module that defines LINK."""
    w, kind, size = Writer(), LLVM_TYPES[index_dtype], ITEM_SIZES[index_dtype]
    first, step = own_numbers(w)
    with w.loop(first, "%i0", step) as (place, _, _):
        index = item(w, "%a0", kind, size, place)
        with w.loop("0", "%i0", "1", [("i64", "%i0"), ("i32", "1")]) as (other, values, becomes):
            following, is_first = values
            same = w.set(f"icmp eq {kind} {item(w, '%a0', kind, size, other)}, {index}")
            before = w.set(f"and i1 {same}, {w.set(f'icmp slt i64 {other}, {place}')}")
            after = w.set(f"and i1 {same}, {w.set(f'icmp sgt i64 {other}, {place}')}")
            nearer = w.set(f"and i1 {after}, {w.set(f'icmp slt i64 {other}, {following}')}")
            becomes.append(w.set(f"select i1 {nearer}, i64 {other}, i64 {following}"))
            becomes.append(w.set(f"select i1 {before}, i32 0, i32 {is_first}"))
        at = w.set(f"mul i64 {place}, 4")
        w.do(f"store i32 {is_first}, {GLOBAL} {w.at('%a1', at)}")
        w.do(f"store i32 {w.set(f'trunc i64 {following} to i32')}, {GLOBAL} {w.at('%a2', at)}")
    head = [f"define ptx_kernel void @{LINK}({parameters(3, 1)}) {{", "entry:"]
    return module_text([*head, *w.lines, "  ret void", "}"])


def emit(given: RowUpdate) -> str:
    """Write the module that defines UPDATE."""
    module = Module(1)
    body = translate(ElementwiseKernel(given.body, given.inputs, given.outputs, ""), module)
    texts = [
        body.text.replace(f"{body.symbol}(", "@update("),
        *module.functions.values(),
        *module.declarations.values(),
    ]
    w, operands = Writer(), len(given.inputs) + len(given.outputs)
    indices, firsts, nexts = (f"%a{operands + k}" for k in range(3))
    begin, step = own_numbers(w)
    with w.loop(begin, w.set("mul i64 %i0, %i1"), step) as (element, _, _):
        place, column = w.set(f"udiv i64 {element}, %i1"), w.set(f"urem i64 {element}, %i1")
        index = item(w, indices, LLVM_TYPES[given.index_dtype], ITEM_SIZES[given.index_dtype], place)
        if ITEM_SIZES[given.index_dtype] < 8:
            index = w.set(f"sext {LLVM_TYPES[given.index_dtype]} {index} to i64")
        is_first = w.set(f"icmp ne i32 {item(w, firsts, 'i32', 4, place)}, 0")
        inside = w.set(f"icmp ult i64 {index}, %i2")
        in_table = w.set(f"add i64 {w.set(f'mul i64 {index}, %i1')}, {column}")
        with w.when(w.set(f"and i1 {is_first}, {inside}")):
            _update_in_sequence(w, given, body, (place, column, in_table, nexts))
    signature = parameters(operands + 3, 3)
    head = [f"define ptx_kernel void @{UPDATE}({signature}) {{", "entry:"]
    return module_text([*head, *w.lines, "  ret void", "}", *define_c_functions(texts)])


def _update_in_sequence(w: Writer, given: RowUpdate, body: Body, where: tuple[str, str, str, str]) -> None:
    """Update an element of the tables by this place of the list, and those with the same row after it."""
    place, column, in_table, nexts = where
    before, head, done = w.block, w.label("listed"), w.label("updated")
    w.do(f"br label %{head}")
    w.begin(head)
    at = len(w.lines)
    current = w.set("phi")
    listed = w.set(f"add i64 {w.set(f'mul i64 {current}, %i1')}, {column}")
    offsets = {TABLE: in_table, LISTED: listed, SCALAR: "0"}
    arguments = []
    for k, ((_, dtype), kind) in enumerate(zip(given.inputs, given.kinds, strict=True)):
        place_ = w.at(f"%a{k}", w.set(f"mul i64 {offsets[kind]}, {ITEM_SIZES[dtype]}"))
        arguments.append(f"<1 x {LLVM_TYPES[dtype]}> {w.load(dtype, place_)}")
    result = w.set(f"call {body.result_type} @update({', '.join(arguments)})")
    for k, (_, dtype) in enumerate(given.outputs):
        target = w.at(f"%a{len(given.inputs) + k}", w.set(f"mul i64 {in_table}, {ITEM_SIZES[dtype]}"))
        w.store(dtype, w.set(f"extractvalue {body.result_type} {result}, {k}"), target)
    following = w.set(f"zext i32 {item(w, nexts, 'i32', 4, current)} to i64")
    w.do(f"br i1 {w.set(f'icmp ult i64 {following}, %i0')}, label %{head}, label %{done}")
    w.lines[at] = f"  {current} = phi i64 [ {place}, %{before} ], [ {following}, %{w.block} ]"
    w.begin(done)
