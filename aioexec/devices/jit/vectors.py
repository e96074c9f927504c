"""Vectors of the loop language: values that loop kernels keep in vector registers.

A vector has as many elements as a register of the processor holds. Arithmetic on vectors is one instruction each, in the order
in which the kernel states it: unlike sums of scalars, which LLVM may reorder.

Like `loops.py`, which loads it, this file is for the compiler child and imports nothing of aioexec.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import intrinsic, overload, register_model


class Vector(types.Type):
    """The numba type of a vector of float32 or float64."""

    def __init__(self, element: Any, lanes: int) -> None:
        self.element = element
        self.lanes = lanes
        super().__init__(name=f"vector({element}, {lanes})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Vector) -> None:
        element = manager.lookup(kind.element).get_value_type()
        super().__init__(manager, kind, ir.VectorType(element, kind.lanes))


def widened_int8(builder: Any, loaded: Any, kind: Any) -> Any:
    return builder.sitofp(builder.sext(loaded, ir.VectorType(ir.IntType(32), kind.count)), kind)


def widened_bfloat16(builder: Any, loaded: Any, kind: Any) -> Any:
    """The upper half of a float32 each."""
    words = ir.VectorType(ir.IntType(32), kind.count)
    upper = builder.shl(builder.zext(loaded, words), ir.Constant(words, [16] * kind.count))
    return builder.bitcast(upper, kind)


def widened_float16(builder: Any, loaded: Any, kind: Any) -> Any:
    return builder.fpext(builder.bitcast(loaded, ir.VectorType(ir.HalfType(), kind.count)), kind)


WIDENED = {types.int8: widened_int8, types.uint16: widened_bfloat16, types.int16: widened_float16}


def make_load_widened(vector_of: Callable[[Any], Vector]) -> Any:
    @intrinsic
    def load_widened(typing_context: Any, narrow: Any, like: Any) -> Any:
        kind = vector_of(like)
        if kind.element != types.float32 or getattr(narrow, "dtype", None) not in WIDENED:
            raise numba.errors.TypingError(
                f"load_widened: expected a pointer to a narrow dtype, got {narrow}"
            )

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            element = ir.IntType(narrow.dtype.bitwidth)
            place = builder.bitcast(args[0], ir.VectorType(element, kind.lanes).as_pointer())
            loaded = builder.load(place, align=narrow.dtype.bitwidth // 8)
            return WIDENED[narrow.dtype](builder, loaded, context.get_value_type(kind))

        return kind(narrow, like), generate

    return load_widened


def make_vectors(vector_bytes: int) -> dict[str, Any]:
    """Return the functions of the loop language on vectors of so many bytes."""

    def vector_of(pointer: Any) -> Vector:
        if not (isinstance(pointer, types.CPointer) and pointer.dtype in (types.float32, types.float64)):
            raise numba.errors.TypingError(f"vectors: expected a pointer to a float dtype, got {pointer}")
        return Vector(pointer.dtype, vector_bytes * 8 // pointer.dtype.bitwidth)

    @intrinsic
    def load_vector(typing_context: Any, pointer: Any) -> Any:
        kind = vector_of(pointer)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            place = builder.bitcast(args[0], context.get_value_type(kind).as_pointer())
            return builder.load(place, align=kind.element.bitwidth // 8)

        return kind(pointer), generate

    @intrinsic
    def store_vector(typing_context: Any, pointer: Any, vector: Any) -> Any:
        if vector != vector_of(pointer):
            raise numba.errors.TypingError(f"store_vector: {vector} does not fit {pointer}")

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            place = builder.bitcast(args[0], args[1].type.as_pointer())
            builder.store(args[1], place, align=vector.element.bitwidth // 8)
            return context.get_dummy_value()

        return types.none(pointer, vector), generate

    @intrinsic
    def splat(typing_context: Any, pointer: Any, number: Any) -> Any:
        kind = vector_of(pointer)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = context.get_value_type(kind)
            scalar = context.cast(builder, args[1], number, kind.element)
            index = ir.IntType(32)
            single = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, index(0))
            order = ir.Constant(ir.VectorType(index, kind.lanes), [0] * kind.lanes)
            return builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), order)

        return kind(pointer, number), generate

    @intrinsic
    def lanes(typing_context: Any, pointer: Any) -> Any:
        count = vector_of(pointer).lanes
        return types.int64(pointer), lambda context, builder, signature, args: ir.IntType(64)(count)

    return {
        "load_vector": load_vector,
        "load_widened": make_load_widened(vector_of),
        "store_vector": store_vector,
        "splat": splat,
        "lanes": lanes,
        "prefetch": prefetch,
        "vector_maximum": selection("<"),
        "vector_minimum": selection(">"),
    }


@intrinsic
def prefetch(typing_context: Any, pointer: Any) -> Any:
    """Have the cache line of a pointer brought to the second-level cache, to be read."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.bitcast(args[0], ir.IntType(8).as_pointer())
        index = ir.IntType(32)
        reads, second_level, data = index(0), index(2), index(1)
        kind = ir.FunctionType(ir.VoidType(), [place.type, index, index, index])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [place, reads, second_level, data])
        return context.get_dummy_value()

    return types.none(pointer), generate


def selection(relation: str) -> Any:
    """Return a function of the language: y where x has this relation to y, else x, which may be NaN."""

    @intrinsic
    def select(typing_context: Any, x: Any, y: Any) -> Any:
        if not (isinstance(x, Vector) and x == y):
            raise numba.errors.TypingError(f"expected two vectors of one kind, got {x}, {y}")

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.select(builder.fcmp_ordered(relation, *args), args[1], args[0])

        return x(x, y), generate

    return select


def multiply_add(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Generate x * y + z of vectors, in one instruction where there is one."""
    kind: Vector = signature.return_type
    name = f"llvm.fmuladd.v{kind.lanes}f{kind.element.bitwidth}"
    function = ir.FunctionType(args[0].type, [args[0].type] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), args)


def define_operator(function: Callable[..., Any], instruction: str) -> None:
    """Define an operator of Python on two vectors as an LLVM instruction."""

    @intrinsic
    def combine(typing_context: Any, x: Any, y: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, instruction)(*args)

        return x(x, y), generate

    @overload(function, strict=False)  # else names and annotations of the parameters are compared
    def combined(x: Any, y: Any) -> Any:
        def implementation(x: Any, y: Any) -> Any:
            return combine(x, y)

        return implementation if isinstance(x, Vector) and x == y else None


for function, instruction in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
    define_operator(function, instruction)
