"""Reductions for GPUs: an expression of the operands, summed up (or multiplied, compared, ...) over some dimensions.

    output[kept] = finish(combine over reduced of map(operands[kept, reduced]))

The three bodies are in the expression language; an operand that does not depend on a dimension has the stride 0 there. So
sums, means and norms are one kernel each, and softmax, normalisations and their gradients a few of them with elementwise
kernels.

Two forms. By threads: a thread computes an output, element by element; neighbouring threads read neighbouring elements where
the innermost dimension is kept. By blocks: the threads of a block share the elements of an output and combine their results
in shared memory. In both the elements may be divided into slices, each with an output of its own (grid dimension y), which
another reduction combines.

The integer parameters: outputs, elements of each, elements of a slice, bytes between the outputs of slices, the `count` that
`finish` gets; the kept and the reduced dimensions, outermost first; for each input its strides, and for the output those of
the kept dimensions. Outputs and elements are fewer than 2^31.
"""

from __future__ import annotations

from aioexec.data_classes import dataclass
from aioexec.devices.cuda.ptx.far_arguments import define_c_functions
from aioexec.devices.cuda.ptx.threads import THREADS, module_text, parameters
from aioexec.devices.cuda.ptx.writer import BARRIER_DECLARATION, SHARED, Writer
from aioexec.devices.jit.llvm.expressions import Body, Module, translate
from aioexec.devices.jit.llvm.ir import ITEM_SIZES, LLVM_TYPES, scalar_constant, stored_type
from aioexec.graph.kernels.kernel import ElementwiseKernel

ENTRY = "aioexec_reduction"
HEAD = 5
"""The number of integer parameters before the dimensions."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """What is computed.

    Attributes:
        map: a body that assigns `z`; besides the inputs it may use `position`, the number of the element (int64).
        combine: a body that assigns `c` from `a` and `b`.
        finish: a body that assigns `y` from `c`; it may also use `count`, how many elements were combined (int64).
        inputs: name and dtype of each input of `map`.
        dtype: of what is combined.
        output: dtype of the output.
        identity: what changes nothing when it is combined.
    """

    map: str
    combine: str
    finish: str
    inputs: tuple[tuple[str, str], ...]
    dtype: str
    output: str
    identity: float | int


@dataclass(frozen=True, slots=True)
class Form:
    """How a reduction is computed: numbers of dimensions, and whether by blocks."""

    kept: int
    reduced: int
    by_blocks: bool


def count_of_ints(reduction: Reduction, form: Form) -> int:
    dims = form.kept + form.reduced
    return HEAD + dims + len(reduction.inputs) * dims + form.kept


def emit(reduction: Reduction, form: Form) -> str:
    """Write the module that defines ENTRY.

    Raises:
        BodyError: a body is not in the language.
    """
    module = Module(1)
    kind = reduction.dtype
    mapped = (*reduction.inputs, ("position", "int64"))
    bodies = {
        "map": translate(ElementwiseKernel(reduction.map, mapped, (("z", kind),), ""), module),
        "combine": translate(
            ElementwiseKernel(reduction.combine, (("a", kind), ("b", kind)), (("c", kind),), ""), module
        ),
        "finish": translate(
            ElementwiseKernel(
                reduction.finish, (("c", kind), ("count", "int64")), (("y", reduction.output),), ""
            ),
            module,
        ),
    }
    texts = [body.text.replace(f"{body.symbol}(", f"@{name}(") for name, body in bodies.items()]
    shared = f"@partial = internal addrspace(3) global [{THREADS} x {stored_type(kind)}] poison, align 16"
    return module_text(
        [
            *([shared, BARRIER_DECLARATION] if form.by_blocks else []),
            *_kernel(reduction, form, bodies),
            *define_c_functions([*texts, *module.functions.values(), *module.declarations.values()]),
        ]
    )


def _kernel(reduction: Reduction, form: Form, bodies: dict[str, Body]) -> list[str]:
    w, count = Writer(), len(reduction.inputs)
    signature = parameters(count + 1, count_of_ints(reduction, form))
    tid, threads = w.register("tid"), w.register("ntid")
    block, blocks = w.register("ctaid"), w.register("nctaid")
    slice_ = w.register("ctaid", "y")
    from_ = w.set(f"mul i64 {slice_}, %i2")
    to = w.set(f"call i64 @llvm.smin.i64(i64 {w.set(f'add i64 {from_}, %i2')}, i64 %i1)")
    shift = w.set(f"mul i64 {slice_}, %i3")
    if form.by_blocks:
        first, step = block, blocks
    else:
        first = w.set(f"add i64 {w.set(f'mul i64 {block}, {threads}')}, {tid}")
        step = w.set(f"mul i64 {blocks}, {threads}")
    with w.loop(first, "%i0", step) as (output, _, _):
        dims = [f"%i{HEAD + d}" for d in range(form.kept)]
        indices = w.indices(output, dims)
        begin, stride = (w.set(f"add i64 {from_}, {tid}"), threads) if form.by_blocks else (from_, "1")
        result = _accumulate(w, reduction, form, bodies, indices, begin, to, stride)
        if form.by_blocks:
            result = _combine_threads(w, reduction, bodies["combine"], result, tid, threads)
            with w.when(w.set(f"icmp eq i64 {tid}, 0")):
                _finish(w, reduction, form, bodies["finish"], result, indices, shift)
            w.barrier()
        else:
            _finish(w, reduction, form, bodies["finish"], result, indices, shift)
    return [
        f"define ptx_kernel void @{ENTRY}({signature}) {{",
        "entry:",
        *w.lines,
        "  ret void",
        "}",
        "declare i64 @llvm.smin.i64(i64, i64)",
    ]


def _strides(form: Form, operand: int) -> list[str]:
    """The parameters that are strides of an input; of the output after the last one, for the kept dimensions alone."""
    dims = form.kept + form.reduced
    return [f"%i{HEAD + dims + operand * dims + d}" for d in range(dims)]


def _accumulate(
    w: Writer,
    reduction: Reduction,
    form: Form,
    bodies: dict[str, Body],
    indices: list[str],
    begin: str,
    end: str,
    step: str,
) -> str:
    """The elements of an output from `begin` on, combined."""
    kind = reduction.dtype
    register = f"<1 x {LLVM_TYPES[kind]}>"
    identity = f"splat ({LLVM_TYPES[kind]} {scalar_constant(reduction.identity, kind)})"
    bases = [
        w.at(f"%a{k}", w.offset(indices, _strides(form, k)[: form.kept]))
        for k in range(len(reduction.inputs))
    ]
    reduced = [f"%i{HEAD + form.kept + d}" for d in range(form.reduced)]
    with w.loop(begin, end, step, [(register, identity)]) as (element, (total,), becomes):
        inner = w.indices(element, reduced)
        loaded = [
            (dtype, w.load(dtype, w.at(bases[k], w.offset(inner, _strides(form, k)[form.kept :]))))
            for k, (_, dtype) in enumerate(reduction.inputs)
        ]
        value = w.apply("map", bodies["map"], *loaded, ("int64", w.lane("int64", element)))
        becomes.append(w.apply("combine", bodies["combine"], (kind, total), (kind, value)))
    return total


def _combine_threads(
    w: Writer, reduction: Reduction, combine: Body, value: str, tid: str, threads: str
) -> str:
    """Combine the values of all threads of a block, a power of two; valid in the first thread."""
    kind = reduction.dtype
    size = ITEM_SIZES[kind]
    place = w.at("@partial", w.set(f"mul i64 {tid}, {size}"), SHARED)
    w.store(kind, value, place, SHARED)
    w.barrier()
    head, body, after, before = w.label("half"), w.label("halving"), w.label("combined"), w.block
    first = w.set(f"lshr i64 {threads}, 1")
    w.do(f"br label %{head}")
    w.begin(head)
    at = len(w.lines)
    half = w.set("phi")
    more = w.set(f"icmp ugt i64 {half}, 0")
    w.do(f"br i1 {more}, label %{body}, label %{after}")
    w.begin(body)
    with w.when(w.set(f"icmp ult i64 {tid}, {half}")):
        other = w.at(place, w.set(f"mul i64 {half}, {size}"), SHARED)
        mine, theirs = w.load(kind, place, SHARED), w.load(kind, other, SHARED)
        w.store(kind, w.apply("combine", combine, (kind, mine), (kind, theirs)), place, SHARED)
    w.barrier()
    following = w.set(f"lshr i64 {half}, 1")
    w.do(f"br label %{head}")
    w.lines[at] = f"  {half} = phi i64 [ {first}, %{before} ], [ {following}, %{w.block} ]"
    w.begin(after)
    return w.load(kind, "@partial", SHARED)


def _finish(
    w: Writer,
    reduction: Reduction,
    form: Form,
    finish: Body,
    value: str,
    indices: list[str],
    shift: str,
) -> None:
    """Store an output."""
    count = len(reduction.inputs)
    strides = _strides(form, count)[: form.kept]
    place = w.at(f"%a{count}", w.set(f"add i64 {w.offset(indices, strides)}, {shift}"))
    result = w.apply("finish", finish, (reduction.dtype, value), ("int64", w.lane("int64", "%i4")))
    w.store(reduction.output, result, place)
