"""Compiles one elementwise kernel and runs it on arrays, without the library around it."""

import ctypes
import functools
from dataclasses import replace

import numpy as np

from aioexec.devices.jit.linker import Linker
from aioexec.devices.jit.llvm import templates
from aioexec.devices.jit.target import IrCompiler, host
from aioexec.graph.kernels.kernel import ElementwiseKernel

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
REALS = ("float32", "float64")
ALL = (*INTEGERS, *REALS, "float16", "bool")

Signature = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


@functools.cache
def toolchain(processor: str) -> tuple[IrCompiler, Linker]:
    """For this machine, or for a processor by LLVM's name of it."""
    target = replace(host(), cpu=processor, features="") if processor else host()
    return IrCompiler(target), Linker(templates.EXTERNAL_SYMBOLS)


def operands(text: str) -> tuple[tuple[str, str], ...]:
    """ "x:float32 y:bool" as (name, dtype) pairs."""
    return tuple((name, dtype) for name, _, dtype in (item.partition(":") for item in text.split()))


class Compiled:
    """A compiled kernel; a call with an array for each operand returns its status."""

    def __init__(self, kernel: ElementwiseKernel, processor: str = "", features: str | None = None) -> None:
        """`features`: see `templates.emit`; code for another processor suits all."""
        compiler, linker = toolchain(processor)
        features = "" if processor else features
        self.code = compiler.compile_ir("kernel", templates.emit(kernel, "kernel", features))
        self.address = linker.link(self.code)

    def __call__(self, *arrays: np.ndarray) -> int:
        block, frame = pack(*arrays)
        return Signature(self.address)(block.ctypes.data, frame.ctypes.data)


@functools.cache
def compiled(body: str, inputs: str, outputs: str, pattern: str = "", target: str = "") -> Compiled:
    """The kernel of a body; operands as in "x:float32 y:bool", all contiguous unless a pattern is given."""
    ins, outs = operands(inputs), operands(outputs)
    return Compiled(ElementwiseKernel(body, ins, outs, pattern or "v" * (len(ins) + len(outs))), target)


def pack(*arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The block and the frame of a call: arrays are broadcast to one shape, dimensions are kept as they are."""
    shape = np.broadcast_shapes(*(array.shape for array in arrays)) or (1,)
    views = [array if array.shape == shape else np.broadcast_to(array, shape) for array in arrays]
    places = [word for k in range(len(views)) for word in (k, 0)]
    strides = [stride for view in views for stride in view.strides]
    frame = np.array([view.ctypes.data for view in views], np.int64)
    return np.array([*places, len(shape), *shape, *strides], np.int64), frame


def guarded(count: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """An array of some elements, and the same memory with more after them, all bytes 0xA5."""
    room = np.full((count + 80) * np.dtype(dtype).itemsize, 0xA5, np.uint8)
    return room.view(dtype)[:count], room[count * np.dtype(dtype).itemsize :]


def numbers(rng, count, dtype):
    """Random numbers of a dtype: all bit patterns of an integer, moderate reals."""
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
    return (rng.normal(size=count) * 100).astype(dtype)


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """How far results are from exact values (of a wider type), in units of the last place of the results' dtype.

    NaN for NaN and the right infinity count as exact, an infinity that should be finite, or the other way round, as infinitely
    far. Denormals are spaced like the smallest normal numbers.
    """
    limits = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        exponent = np.clip(np.frexp(want)[1] - 1, limits.minexp, limits.maxexp - 1)
        distance = np.ldexp(np.abs(got.astype(want.dtype) - want), limits.nmant - exponent)
    exact = (got == rounded) & np.isinf(got) | np.isnan(got) & np.isnan(want)
    return np.where(exact, 0, np.where(np.isnan(distance), np.inf, distance)).astype(np.float64)
