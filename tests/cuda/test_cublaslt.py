"""Products by cuBLASLt, which is stood in for: which products it is given, and what comes out."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import dtypes
from aioexec.devices.cuda import cublaslt
from aioexec.devices.cuda.cublaslt import CublasLt
from aioexec.devices.cuda.ptx import contractions
from aioexec.devices.cuda.registration import maker
from aioexec.graph import registry
from aioexec.graph.kernels.kernel_registry import register_kernel
from aioexec.testing.cublaslt import StubCublasLt, StubError
from aioexec.testing.cuda_driver import POINTER, StubDriver
from tests.cuda.conftest import Gpus
from tests.cuda.gpu import run_on_gpu
from tests.ops.harness import case, setting

Array = np.ndarray[Any, Any]
SINGLE, DOUBLE, TF32 = 68, 70, 77


def use(made: StubCublasLt, monkeypatch: pytest.MonkeyPatch) -> StubCublasLt:
    monkeypatch.setattr(cublaslt, "_opened", [CublasLt(made)])
    return made


@pytest.fixture
def stub_library(monkeypatch: pytest.MonkeyPatch) -> StubCublasLt:
    """A library that computes in main memory."""

    def reach(pointer: int) -> Array:
        return np.ctypeslib.as_array((ctypes.c_uint8 * (1 << 20)).from_address(pointer))

    return use(StubCublasLt(reach, lambda stream, run: run(), alignment=64), monkeypatch)


def integers(*shape: int) -> Array:
    return np.random.default_rng(4).integers(-4, 5, shape)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("flip_x", [False, True])
@pytest.mark.parametrize("flip_y", [False, True])
def test_matmul(stub_library: StubCublasLt, dtype: str, flip_x: bool, flip_y: bool):
    x, y = integers(7, 3), integers(3, 6)
    found = case(
        "MatMul",
        x.T.copy() if flip_x else x,
        y.T.copy() if flip_y else y,
        attrs={"transpose_a": flip_x, "transpose_b": flip_y},
    )

    (product,), _, launcher = run_on_gpu(setting(found, dtype))

    np.testing.assert_array_equal(product.astype(np.float64), x @ y)
    assert not launcher.modules
    assert [compute for compute, _ in stub_library.made] == [DOUBLE if dtype == "float64" else SINGLE]


@pytest.mark.parametrize(
    ("x", "y", "calls"),
    [
        ((5, 2, 3), (5, 3, 4), 1),
        ((5, 2, 3), (1, 3, 4), 1),
        ((2, 5, 2, 3), (3, 4), 1),
        ((3, 1, 2, 3), (4, 3, 4), 3),
        ((3, 1, 2, 3), (1, 4, 3, 4), 3),
        ((2, 3), (6, 3, 4), 1),
        ((4, 1, 3), (4, 3, 1), 1),
        ((1, 1, 1), (1, 1, 1), 1),
    ],
)
@pytest.mark.parametrize("adj_x", [False, True])
@pytest.mark.parametrize("adj_y", [False, True])
def test_batches(
    stub_library: StubCublasLt,
    x: tuple[int, ...],
    y: tuple[int, ...],
    calls: int,
    adj_x: bool,
    adj_y: bool,
):
    left, right = integers(*x), integers(*y)
    found = case(
        "BatchMatMulV2",
        left.swapaxes(-1, -2).copy() if adj_x else left,
        right.swapaxes(-1, -2).copy() if adj_y else right,
        attrs={"adj_x": adj_x, "adj_y": adj_y},
    )

    (product,), _, _ = run_on_gpu(setting(found, "float32"))

    np.testing.assert_array_equal(product, left @ right)
    assert stub_library.multiplied == calls


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("adj_x", [False, True])
@pytest.mark.parametrize("adj_y", [False, True])
def test_complex_products_are_real_ones(stub_library: StubCublasLt, dtype: str, adj_x: bool, adj_y: bool):
    left, right = integers(3, 2, 5) + 1j * integers(3, 2, 5), integers(1, 5, 4) - 2j * integers(1, 5, 4)
    found = case(
        "BatchMatMulV2",
        left.swapaxes(-1, -2).conj() if adj_x else left,
        right.swapaxes(-1, -2).conj() if adj_y else right,
        attrs={"adj_x": adj_x, "adj_y": adj_y},
    )

    (product,), _, _ = run_on_gpu(setting(found, dtype))

    np.testing.assert_array_equal(product, left @ right)
    assert stub_library.multiplied == 1


def test_transposed_complex_matrices_are_not_conjugated(stub_library: StubCublasLt):
    left, right = integers(5, 2) + 1j * integers(5, 2), integers(4, 5) - 2j * integers(4, 5)
    found = case("MatMul", left, right, attrs={"transpose_a": True, "transpose_b": True})

    (product,), _, _ = run_on_gpu(setting(found, "complex64"))

    np.testing.assert_array_equal(product, left.T @ right.T)


def test_many_batches_that_are_no_one_dimension_use_the_kernel(stub_library: StubCublasLt):
    left, right = integers(17, 1, 2, 3), integers(18, 3, 2)

    (product,), _, launcher = run_on_gpu(setting(case("BatchMatMulV2", left, right), "float32"))

    np.testing.assert_array_equal(product, left @ right)
    assert stub_library.multiplied == 0
    assert len(launcher.modules) == 1


def test_integers_use_the_kernel(stub_library: StubCublasLt):
    run_on_gpu(setting(case("MatMul", integers(2, 3), integers(3, 2)), "int32"))

    assert stub_library.multiplied == 0


def test_no_terms_are_zeros(stub_library: StubCublasLt):
    (product,), _, _ = run_on_gpu(setting(case("MatMul", np.zeros((2, 0)), np.zeros((0, 3))), "float32"))

    np.testing.assert_array_equal(product, np.zeros((2, 3)))
    assert stub_library.multiplied == 0


@pytest.mark.parametrize("size", [1, 3])
def test_convolutions_by_one_element_are_products(stub_library: StubCublasLt, size: int):
    image, filter_ = integers(2, 5, 4, 3), integers(size, size, 3, 6)
    attrs = {"strides": (1, 1, 1, 1), "padding": "VALID"}

    (out,), _, _ = run_on_gpu(setting(case("Conv2D", image, filter_, attrs=attrs), "float32"))

    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), axis=(1, 2))
    np.testing.assert_array_equal(out, np.einsum("bijcpq,pqcf->bijf", windows, filter_))
    assert stub_library.multiplied == (1 if size == 1 else 0)


def test_gradients_of_convolutions_by_one_element_are_products(stub_library: StubCublasLt):
    image, filter_, gradient = integers(2, 5, 4, 3), integers(1, 1, 3, 6), integers(2, 5, 4, 6)
    attrs = {"strides": (1, 1, 1, 1), "padding": "SAME"}
    of_filter = case("Conv2DBackpropFilter", image, np.array([1, 1, 3, 6], np.int32), gradient, attrs=attrs)
    of_image = case("Conv2DBackpropInput", np.array(image.shape, np.int32), filter_, gradient, attrs=attrs)

    (filters,), _, _ = run_on_gpu(setting(of_filter, "float32"))
    (images,), _, _ = run_on_gpu(setting(of_image, "float32"))

    np.testing.assert_array_equal(filters[0, 0], np.einsum("bijc,bijf->cf", image, gradient))
    np.testing.assert_array_equal(images, np.einsum("bijf,cf->bijc", gradient, filter_[0, 0]))
    assert stub_library.multiplied == 2


@pytest.mark.parametrize(
    ("equation", "x", "y", "products"),
    [
        ("ij,jk->ik", (5, 3), (3, 4), 1),
        ("bhqd,bhkd->bhqk", (2, 3, 5, 4), (2, 3, 6, 4), 1),
        ("bqhd,bkhd->bhqk", (2, 5, 3, 4), (2, 6, 3, 4), 2),
        ("...ij,jk->...ik", (2, 3, 5, 4), (4, 6), 1),
        ("i,j->ij", (5,), (4,), 1),
        ("ij,kj->", (5, 3), (4, 3), 1),
    ],
)
def test_einsum_is_products(
    stub_library: StubCublasLt, equation: str, x: tuple[int, ...], y: tuple[int, ...], products: int
):
    left, right = integers(*x), integers(*y)

    (actual,), _, _ = run_on_gpu(
        setting(case("Einsum", [left, right], attrs={"equation": equation}), "float32")
    )

    np.testing.assert_array_equal(actual, np.einsum(equation, left, right))
    assert stub_library.multiplied == products


def test_tf32_is_used_only_if_it_is_asked_for(stub_library: StubCublasLt, monkeypatch: pytest.MonkeyPatch):
    x, y = integers(2, 3), integers(3, 2)
    run_on_gpu(setting(case("MatMul", x, y), "float32"))
    monkeypatch.setenv("TF_ENABLE_CUBLAS_TENSOR_OP_MATH_FP32", "1")
    run_on_gpu(setting(case("MatMul", x, y), "float32"))
    run_on_gpu(setting(case("MatMul", x, y), "float64"))

    assert [compute for compute, _ in stub_library.made] == [SINGLE, TF32, DOUBLE]


# Sessions on GPUs of the stub of the driver


@pytest.fixture
def blas(stub: StubDriver, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubCublasLt]:
    """A library whose products are work of the stub's streams; at the end nothing of it may be left."""
    made = use(StubCublasLt(stub._reached, stub._submit), monkeypatch)
    yield made
    assert +made.counts == {}


@pytest.fixture
def products(blas: StubCublasLt, gpus: Gpus) -> StubCublasLt:
    """Sessions with MatMul on GPUs."""
    row = registry.lookup("MatMul")
    register_kernel("MatMul", "GPU", maker(row), constraints={"T": [dtypes.float32]})
    return blas


X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.arange(12, dtype=np.float32).reshape(3, 4)


def graph_of_two_products() -> tuple[ax.Graph, Any, Any]:
    with ax.Graph().as_default() as graph:
        x, y = ax.placeholder(ax.float32, [None, 3]), ax.placeholder(ax.float32, [3, 4])
        with ax.device("/gpu:0"):
            product = ax.matmul(x, y)
            z = ax.matmul(product, product, transpose_b=True)
    return graph, z, {x: X, y: Y}


EXPECTED = (X @ Y) @ (X @ Y).T


async def test_each_product_is_planned_once(products: StubCublasLt, stub: StubDriver):
    products.workspace = 1000
    graph, z, feeds = graph_of_two_products()

    async with ax.Session(graph=graph) as sess:
        for _ in range(3):
            np.testing.assert_array_equal(await sess.run(z, feeds), EXPECTED)
        assert products.counts["handle"] == 1

    assert len(products.made) == 2
    assert products.multiplied == 6
    assert stub.calls.count("cuLaunchKernel") == 0


async def test_the_workspace_counts_as_memory_of_the_device(products: StubCublasLt):
    products.workspace = 1000
    graph, z, feeds = graph_of_two_products()
    config = ax.ConfigProto()
    config.gpu_options.experimental.virtual_devices.add().memory_limit_mb[:] = [1]

    async with ax.Session(graph=graph, config=config) as sess:
        with pytest.raises(ax.errors.ResourceExhaustedError, match="MatMul"):
            await sess.run(z, feeds)


def add_contraction(stub: StubDriver) -> None:
    """Give the stub our kernel for a product of two matrices."""

    @stub.kernel(contractions.ENTRY, POINTER, POINTER, POINTER, *[np.int64] * 17)
    def contract(shape: Any, a: Any, b: Any, c: Any, *words: Any) -> None:
        _, m, n, k = words[:4]
        strides = [(words[9], words[10]), (words[12], words[13]), (words[15], words[16])]
        left, right, out = (
            np.lib.stride_tricks.as_strided(each.view(np.float32), sizes, steps)
            for each, sizes, steps in zip((a, b, c), ((m, k), (k, n), (m, n)), strides, strict=True)
        )
        out[...] = left @ right


@pytest.mark.parametrize("has_handle", [False, True])
async def test_our_kernel_computes_what_the_library_cannot(
    products: StubCublasLt, stub: StubDriver, has_handle: bool
):
    add_contraction(stub)
    products.algorithms = False
    products.failure = None if has_handle else StubError("CUBLAS_STATUS_NOT_INITIALIZED")
    graph, z, feeds = graph_of_two_products()

    async with ax.Session(graph=graph) as sess:
        np.testing.assert_array_equal(await sess.run(z, feeds), EXPECTED)

    assert products.multiplied == 0
    assert stub.calls.count("cuLaunchKernel") == 2


async def test_a_refused_product_fails_its_step(products: StubCublasLt, monkeypatch: pytest.MonkeyPatch):
    def refuse(*arguments: Any) -> None:
        raise StubError("CUBLAS_STATUS_EXECUTION_FAILED")

    monkeypatch.setattr(products, "matmul", refuse)
    graph, z, feeds = graph_of_two_products()

    async with ax.Session(graph=graph) as sess:
        with pytest.raises(ax.errors.InternalError, match="cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"):
            await sess.run(z, feeds)


def test_without_the_bindings_there_is_no_library(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cublaslt, "_opened", [])
    monkeypatch.setitem(sys.modules, "nvmath.bindings.cublasLt", None)

    cublaslt.open_library()

    assert cublaslt.library() is None


def test_the_bindings_have_what_is_used():
    api = pytest.importorskip("nvmath.bindings.cublasLt")
    cublas = pytest.importorskip("nvmath.bindings.cublas")
    stub = StubCublasLt(lambda pointer: np.zeros(0, np.uint8), lambda stream, run: None)

    for name in dir(StubCublasLt):
        assert name.startswith("_") or hasattr(api, name), name
    for kind in (stub.MatmulDescAttribute, stub.MatrixLayoutAttribute, stub.MatmulPreferenceAttribute):
        for attribute in kind:
            assert getattr(api, kind.__name__)[attribute.name] == attribute
    compute, flips = cublas.ComputeType, cublas.Operation
    assert [compute.COMPUTE_32F, compute.COMPUTE_64F, compute.COMPUTE_32F_FAST_TF32] == [SINGLE, DOUBLE, TF32]
    assert [flips.N, flips.T] == [0, 1]
    assert api.matmul_heuristic_result_dtype.itemsize == 96
