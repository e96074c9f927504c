"""Compiles the text of a loop kernel with numba. Only the compiler child loads this file, by its path.

What comes out is one function `int64 kernel(int64 *block, int64 *frame)` (layout: `aioexec.graph.kernels.kernel`). It
must need neither interpreter nor runtime: pointers instead of arrays (no reference counts), NumPy's error
model (no exceptions), all calls inlined. Floating-point flags allow sums to be reordered, so that they become
vector code, but keep NaN and infinity.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import linecache
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    "fastmath": {"reassoc", "nsz", "contract"},
    "boundscheck": False,
    "_nrt": False,  # nothing is allocated
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,  # a kernel gets one all the same
}

WORD = ir.IntType(64)
GEMM = {types.float32: "aioexec_sgemm", types.float64: "aioexec_dgemm"}
WIDE_VECTOR = 32  # bytes
WIDEST_VECTOR = 64
ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE = 101, 111, 112  # CBLAS enumerations

MATH = (
    "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh erf erfc exp expm1 fabs floor fmod hypot "
    "isfinite isinf isnan log log10 log1p log2 sin sinh sqrt tan tanh trunc"
)
CASTS = "float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64"


def element_type(dtype: str) -> Any:
    """The numba type of what a pointer points to; a bool is a byte holding 0 or 1."""
    return types.uint8 if dtype == "bool" else numba.from_dtype(np.dtype(dtype))


@functools.cache
def pointer_loader(dtype: str) -> Any:
    """An intrinsic `load(block, frame, k)`: operand k of the block as a pointer to this dtype."""
    pointer = types.CPointer(element_type(dtype))

    @intrinsic
    def load(typing_context: Any, block: Any, frame: Any, operand: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            block, frame, operand = args
            place = builder.shl(operand, WORD(1))
            slot = builder.load(builder.gep(block, [place]))
            offset = builder.load(builder.gep(block, [builder.or_(place, WORD(1))]))
            base = builder.load(builder.gep(frame, [slot]))
            return builder.inttoptr(builder.add(base, offset), context.get_value_type(pointer))

        return pointer(block, frame, types.int64), generate

    return load


@intrinsic
def real_at(typing_context: Any, block: Any, index: Any) -> Any:
    """A word of the block that holds the bits of a float64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.load(builder.gep(args[0], [args[1]])), ir.DoubleType())

    return types.float64(block, types.int64), generate


@intrinsic
def offset(typing_context: Any, pointer: Any, count: Any) -> Any:
    """The pointer `count` elements further on."""
    if not isinstance(pointer, types.CPointer):
        raise numba.errors.TypingError(f"offset: expected a pointer, got {pointer}")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.gep(args[0], [args[1]])

    return pointer(pointer, types.int64), generate


@intrinsic
def fma(typing_context: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once."""
    vectors = load_beside("vectors")
    if isinstance(x, vectors.Vector):
        return x(x, x, x), vectors.multiply_add
    kind = types.float32 if all(each == types.float32 for each in (x, y, z)) else types.float64

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return kind(kind, kind, kind), generate


@intrinsic
def gemm(
    typing_context: Any,
    trans_a: Any,
    trans_b: Any,
    m: Any,
    n: Any,
    k: Any,
    alpha: Any,
    a: Any,
    lda: Any,
    b: Any,
    ldb: Any,
    beta: Any,
    c: Any,
    ldc: Any,
) -> Any:
    """c[m, n] = alpha * op(a)[m, k] @ op(b)[k, n] + beta * c, row-major."""
    if not (isinstance(c, types.CPointer) and a == b == c and c.dtype in GEMM):
        raise numba.errors.TypingError(f"gemm: expected three pointers to one float dtype, got {a}, {b}, {c}")
    real, flag, size = c.dtype, types.boolean, types.int64
    arguments = (flag, flag, size, size, size, real, a, size, b, size, real, c, size)
    return types.none(*arguments), generate_gemm


def generate_gemm(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Call CBLAS, which insists on leading dimensions >= 1 even where there is nothing to multiply."""
    trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = args
    enum = ir.IntType(32)
    kinds = [enum] * 3 + [each.type for each in args[2:]]
    name = GEMM[signature.args[11].dtype]
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), kinds), name)

    def transposed(flag: Any) -> Any:
        return builder.select(cgutils.is_true(builder, flag), enum(TRANSPOSE), enum(NO_TRANSPOSE))

    def leading(stride: Any) -> Any:
        return builder.select(builder.icmp_signed("<", stride, WORD(1)), WORD(1), stride)

    positive = [builder.icmp_signed(">", size, WORD(0)) for size in (m, n)]
    with builder.if_then(builder.and_(*positive)):
        trans = [transposed(trans_a), transposed(trans_b)]
        operands = [alpha, a, leading(lda), b, leading(ldb), beta, c, leading(ldc)]
        builder.call(function, [enum(ROW_MAJOR), *trans, m, n, k, *operands])
    return context.get_dummy_value()


@functools.cache
def load_beside(name: str) -> ModuleType:
    """A module from a file beside this one, which is no part of a package here either."""
    spec = importlib.util.spec_from_file_location(f"aioexec_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there for the meaning of annotations
    spec.loader.exec_module(module)
    return module


@functools.cache
def products() -> dict[str, Any]:
    """Matrix products: our own, and `gemm` and `large_gemm` made of it where that beats BLAS."""
    tiles = load_beside("tiles")
    vector_bytes = tiles.registers().vector_bytes
    in_tiles = load_beside("gemm")
    own = in_tiles.make_gemm(tiles, offset, OPTIONS) if vector_bytes >= WIDE_VECTOR else gemm
    large = own if vector_bytes >= WIDEST_VECTOR else gemm
    calls = load_beside("handover")
    return {
        "tiled_product": tiles.tiled_product,
        "far_product": tiles.far_product,
        "gemm": own,
        "large_gemm": large,
        "hand_over": calls.make_hand_over(tiles, in_tiles, offset, OPTIONS),
        "call_elementwise": calls.make_call_elementwise(tiles, in_tiles, OPTIONS),
        "panel_columns": in_tiles.make_panel_columns(tiles),
        "panel_terms": in_tiles.make_panel_terms(tiles),
    }


@functools.cache
def inlined_library(codegen: Any, symbol: str, text: str) -> Any:
    """A function given as LLVM IR, for linking into kernels before they are optimised."""
    library = codegen.create_library(symbol)
    library.add_llvm_module(llvm.parse_assembly(text))
    library.finalize()
    return library


def elementary(name: str, modules: dict[str, str]) -> Any:
    """A function of the language from its LLVM IR for each dtype, in place of the C library's."""

    @intrinsic
    def function(typing_context: Any, x: Any) -> Any:
        kind = types.float32 if x == types.float32 else types.float64
        symbol = f"aioexec.{name}.{kind.name}"

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            library = inlined_library(context.codegen(), symbol, modules[kind.name])
            context.active_code_library.add_linking_library(library)
            signature = ir.FunctionType(args[0].type, [args[0].type])
            return builder.call(cgutils.get_or_insert_function(builder.module, signature, symbol), args)

        return kind(kind), generate

    return function


def supplied_names(request: dict[str, Any]) -> dict[str, Any]:
    """What every body may use besides its own module's functions and constants."""
    names: dict[str, Any] = {"math": math, "np": np, "numpy": np, "nan": math.nan, "inf": math.inf}
    names.update({name: getattr(math, name) for name in MATH.split()})
    names.update({name: getattr(types, name) for name in CASTS.split()})
    names.update(offset=offset, fma=fma, **products())
    names.update(load_beside("vectors").make_vectors(load_beside("tiles").registers().vector_bytes))
    names.update({name: elementary(name, modules) for name, modules in request["elementary"].items()})
    return names


def decode_constant(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(decode_constant(item) for item in value)
    if isinstance(value, dict):
        return np.dtype(value["dtype"]).type(value["value"])
    return value


def define(supplied: dict[str, Any], name: str, text: str, constants: str) -> Any:
    """The Python function a text defines, without its decorators and annotations."""
    tree = ast.parse(text)
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef):
        raise TypeError(f"expected a function definition, got {text[:40]!r}")
    function.decorator_list.clear()
    function.returns = None
    for argument in function.args.args:
        argument.annotation = None
    file = f"<loop kernel {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = supplied | {key: decode_constant(value) for key, value in json.loads(constants).items()}
    exec(compile(tree, file, "exec"), namespace)
    return namespace[name]


def entry_text(pointers: int, ints: int, reals: int) -> str:
    """The function that unpacks a block and calls the body."""
    arguments = [f"pointer{k}(block, frame, {k})" for k in range(pointers)]
    arguments += [f"block[{2 * pointers + k}]" for k in range(ints)]
    arguments += [f"real_at(block, {2 * pointers + ints + k})" for k in range(reals)]
    return f"def entry(block, frame):\n    return body({', '.join(arguments)})\n"


def compile_loop(request: dict[str, Any]) -> tuple[str, bytes]:
    """Compile one request (see `source.request_for`) to the name of its function and an object file."""
    supplied = supplied_names(request)
    functions = [
        define(supplied, each["name"], each["text"], each["constants"]) for each in request["functions"]
    ]
    compiled = [numba.njit(forceinline=True, **OPTIONS)(each) for each in functions]
    for function, each in zip(functions, request["functions"], strict=True):
        function.__globals__.update({name: compiled[index] for name, index in each["calls"]})
    pointers = request["pointers"]
    namespace: dict[str, Any] = {f"pointer{k}": pointer_loader(dtype) for k, dtype in enumerate(pointers)}
    namespace.update(real_at=real_at, body=compiled[0])
    exec(entry_text(len(pointers), request["ints"], request["reals"]), namespace)
    words = types.CPointer(types.int64)
    callback = numba.cfunc(types.int64(words, words), **OPTIONS)(namespace["entry"])
    fragments = load_beside("fragments")
    return fragments.SYMBOL, fragments.object_of(callback._library, callback.native_name)


load_beside("fragments").install()
