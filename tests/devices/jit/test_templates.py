"""An elementwise kernel computes what NumPy computes, for all strides, ranks and alignments."""

import ctypes
import itertools
import mmap

import numpy as np
import pytest

from aioexec.devices.jit.llvm import templates
from aioexec.devices.jit.objects import read_symbols
from aioexec.devices.jit.target import host
from aioexec.graph.kernels.kernel import ElementwiseKernel
from tests.devices.jit.elementwise import ALL, Compiled, Signature, compiled, guarded, numbers


@pytest.fixture
def rng():
    return np.random.default_rng(7)


# Loops


@pytest.mark.parametrize("dtype", [dtype for dtype in ALL if dtype != "bool"])
def test_every_length_is_computed_and_nothing_behind_it_touched(rng, dtype):
    kernel = compiled("z = x + y", f"x:{dtype} y:{dtype}", f"z:{dtype}")

    for count in (0, 1, 2, 15, 16, 17, 63, 64, 65, 128, 300):
        x, y = numbers(rng, count, dtype), numbers(rng, count, dtype)
        z, behind = guarded(count, dtype)
        assert kernel(x, y, z) == 0
        np.testing.assert_array_equal(z, x + y)
        assert (behind == 0xA5).all()


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_nothing_is_read_or_written_beyond_the_end_of_memory(rng, dtype):
    """An operand may end where the process's memory ends: lanes that are off must not touch what follows."""
    kernel = compiled("z = x + y", f"x:{dtype} y:{dtype}", f"z:{dtype}")
    size, page = np.dtype(dtype).itemsize, mmap.PAGESIZE
    regions = [mmap.mmap(-1, 2 * page) for _ in range(3)]
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    bases = [ctypes.addressof(ctypes.c_char.from_buffer(region)) for region in regions]
    assert not any(protect(ctypes.c_void_p(base + page), ctypes.c_size_t(page), 0) for base in bases)

    for count in (1, 7, 16, 33, 64, 100):
        x, y, z = (np.frombuffer(region, dtype, count, page - count * size) for region in regions)
        x[:], y[:] = numbers(rng, count, dtype), numbers(rng, count, dtype)
        assert kernel(x, y, z) == 0
        np.testing.assert_array_equal(z, x + y)


@pytest.mark.parametrize("pattern", ["".join(p) for p in itertools.product("vsx", repeat=2)])
def test_vectors_scalars_and_strided_inputs_mix(rng, pattern):
    kernel = compiled("z = x - y", "x:float32 y:float32", "z:float32", pattern + "v")
    layouts = {
        "v": numbers(rng, 101, "float32"),
        "s": np.broadcast_to(numbers(rng, 1, "float32"), 101),
        "x": numbers(rng, 303, "float32")[::3],
    }
    x, y = layouts[pattern[0]], layouts[pattern[1]]
    z, behind = guarded(101, "float32")

    assert kernel(x, y, z) == 0

    np.testing.assert_array_equal(z, x - y)
    assert (behind == 0xA5).all()


def test_a_strided_output_leaves_what_lies_between_alone(rng):
    kernel = compiled("z = exp(x)", "x:float64", "z:float64", "vx")
    x = rng.normal(size=37)
    room = np.full(37 * 2, 5.0)

    assert kernel(x, room[::2]) == 0

    np.testing.assert_allclose(room[::2], np.exp(x), rtol=1e-15)
    assert (room[1::2] == 5.0).all()


def test_negative_strides_read_backwards(rng):
    kernel = compiled("z = x * 2", "x:int32", "z:int32", "xv")
    x, z = numbers(rng, 50, "int32"), np.zeros(50, np.int32)

    assert kernel(x[::-1], z) == 0

    np.testing.assert_array_equal(z, x[::-1] * 2)


@pytest.mark.parametrize("shape", [(3, 70), (4, 3, 5), (2, 3, 4, 33), (1, 1, 7), (5, 1), (2, 1, 2, 1, 3)])
def test_outer_dimensions_of_any_rank_are_walked(rng, shape):
    kernel = compiled("z = x * y + w", "x:float32 y:float32 w:float32", "z:float32", "vsvv")
    x, w = (numbers(rng, np.prod(shape), "float32").reshape(shape) for _ in range(2))
    y = numbers(rng, shape[0], "float32").reshape(shape[0], *[1] * (len(shape) - 1))
    z = np.zeros(shape, np.float32)

    assert kernel(x, np.broadcast_to(y, shape), w, z) == 0

    np.testing.assert_array_equal(z, x * y + w)


def test_transposed_operands_of_four_dimensions_are_read_in_place(rng):
    kernel = compiled("z = x - y", "x:float64 y:float64", "z:float64", "xvv")
    x, y = rng.normal(size=(5, 2, 4, 3)), rng.normal(size=(3, 4, 2, 5))
    z = np.zeros_like(y)

    assert kernel(x.transpose(), y, z) == 0

    np.testing.assert_array_equal(z, x.transpose() - y)


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (2, 0, 3), (2, 3, 0)])
def test_an_empty_dimension_anywhere_means_no_work(shape):
    kernel = compiled("z = x / y", "x:float32 y:float32", "z:float32", "vsv")
    block_and_frame = np.zeros(64, np.int64)
    block_and_frame[:8] = [0, 0, 0, 0, 0, 0, len(shape), shape[0]]
    block_and_frame[7 : 7 + len(shape)] = shape
    frame = np.zeros(1, np.int64)  # every operand at address 0: reading one would end the process

    assert Signature(kernel.address)(block_and_frame.ctypes.data, frame.ctypes.data) == 0


@pytest.mark.parametrize("dtype", ["float32", "int64", "int8"])
@pytest.mark.parametrize("count", [5, 64, 257])
def test_an_output_may_be_exactly_an_input(rng, dtype, count):
    kernel = compiled("z = x + x * y", f"x:{dtype} y:{dtype}", f"z:{dtype}")
    x, y = numbers(rng, count, dtype), numbers(rng, count, dtype)
    expected = x + x * y

    assert kernel(x, y, x) == 0

    np.testing.assert_array_equal(x, expected)


def test_an_output_may_be_exactly_a_strided_input(rng):
    kernel = compiled("z = x * x", "x:float32", "z:float32", "xx")
    x = numbers(rng, 90, "float32")
    expected = x.copy()
    expected[::3] **= 2

    assert kernel(x[::3], x[::3]) == 0

    np.testing.assert_array_equal(x, expected)


def test_an_update_names_one_operand_as_input_and_output(rng):
    kernel = compiled("v = v - r * g", "v:float32 r:float32 g:float32", "v:float32", "vsvv")
    v, g = numbers(rng, 77, "float32"), numbers(rng, 77, "float32")
    rate = np.float32(0.25)
    expected = v - rate * g

    assert kernel(v, np.broadcast_to(rate, 77), g, v) == 0

    np.testing.assert_array_equal(v, expected)


def test_an_output_that_does_not_move_keeps_the_last_element():
    kernel = compiled("z = x + 1", "x:int32", "z:int32", "vs")
    x, z = np.arange(20, dtype=np.int32), np.zeros(1, np.int32)

    assert kernel(x, np.lib.stride_tricks.as_strided(z, (20,), (0,))) == 0

    assert z[0] == 20


def test_offsets_and_frame_words_say_where_an_operand_is():
    kernel = compiled("z = x + 1", "x:float32", "z:float32")
    memory = np.arange(40, dtype=np.float32)
    frame = np.array([0, 0, 0, memory.ctypes.data], np.int64)
    block = np.array([3, 4, 3, 80, 1, 5, 4, 4], np.int64)

    assert Signature(kernel.address)(block.ctypes.data, frame.ctypes.data) == 0
    np.testing.assert_array_equal(memory[20:25], [2, 3, 4, 5, 6])


@pytest.mark.parametrize("body", ["exp(x)", "tanh(x) / (x + 3)", "sin(x) * x", "x * x + x"])
def test_a_result_does_not_depend_on_where_its_element_stands(rng, body):
    kernel = compiled(f"z = {body}", "x:float32", "z:float32")
    strided = compiled(f"z = {body}", "x:float32", "z:float32", "xx")
    x = numbers(rng, 150, "float32")
    whole, room = np.zeros_like(x), np.zeros(300, np.float32)

    kernel(x, whole)
    strided(x[::-1], room[::2])

    np.testing.assert_array_equal(room[::2][::-1], whole)
    for start in (1, 7, 100, 149):
        part = np.zeros(150 - start, np.float32)
        kernel(x[start:], part)
        np.testing.assert_array_equal(part, whole[start:])


# Text, symbols


def test_the_text_of_a_kernel_is_always_the_same():
    kernel = ElementwiseKernel("z = tanh(x) // 2", (("x", "float32"),), (("z", "float32"),), "vv")

    assert templates.emit(kernel, "kernel") == templates.emit(kernel, "kernel")


def test_only_listed_symbols_are_needed():
    kernel = Compiled(
        ElementwiseKernel(
            "z = sin(x) + cos(x) * tan(x) + x % 2", (("x", "float32"),), (("z", "float32"),), "vv"
        )
    )

    assert read_symbols(kernel.code.image).undefined <= set(templates.EXTERNAL_SYMBOLS)


SERIAL = "; ".join(["y0 = sin(x)", *[f"y{k} = sin(y{k - 1} + 1.0)" for k in range(1, 5)], "z = y4"])
PARALLEL = "; ".join([*[f"y{k} = sin(x + {k}.0)" for k in range(5)], "z = y0 + y1 + y2 + y3 + y4"])


@pytest.mark.parametrize(("body", "lanes"), [(SERIAL, 64), (PARALLEL, 32), ("z = x + x", 64)])
def test_where_registers_are_few_two_vectors_take_turns_in_what_is_one_long_chain(body, lanes):
    kernel = ElementwiseKernel(body, (("x", "float32"),), (("z", "float32"),), "vv")

    nest = templates.prepare(kernel, "+avx2")

    assert nest.main is not None
    assert nest.main.lanes == lanes


@pytest.mark.skipif(
    "+avx2" not in host().features.split(","), reason="the processor has no registers of 32 bytes"
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_registers_in_step_compute_the_same_bits(rng, dtype):
    kernel = ElementwiseKernel("z = exp(sin(x)) - log(abs(x))", (("x", dtype),), (("z", dtype),), "vv")
    x = numbers(rng, 333, dtype)
    found = []

    for features in ("", "+avx2"):
        found.append(np.zeros_like(x))
        Compiled(kernel, features=features)(x, found[-1])

    assert ' asm ""' in templates.emit(kernel, "kernel", "+avx2")
    assert ' asm ""' not in templates.emit(kernel, "kernel", "")
    np.testing.assert_array_equal(*found)
