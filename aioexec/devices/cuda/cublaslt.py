"""The library cuBLASLt, typed, over `nvmath.bindings.cublasLt` (extra `gpu`): products of matrices.

`open_library` imports it, when the first session with GPUs plans. Where it is missing, our own kernels compute products.
Each GPU has a handle of the library, and a plan for each product: descriptors, and the algorithm that the library's heuristics
name first. Plans are made by workers, and kept until the GPU is closed.

float32 is multiplied as it is, and not as TF32, unless TF_ENABLE_CUBLAS_TENSOR_OP_MATH_FP32=1, TensorFlow's variable, asks for
that; NVIDIA_TF32_OVERRIDE=0, which NVIDIA's libraries read, forbids it all the same. Short floats are summed up in float32.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
from typing import Any, Final

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.devices.cuda.matrix_product import Matrix, MatrixProduct
from aioexec.errors import InternalError

logger = logging.getLogger(__name__)

WORKSPACE: Final = 32 << 20
"""Bytes of memory that an algorithm may use; what NVIDIA recommends for the GPUs that need most."""

# Values of the library's C interface

_DATA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
_IN_32, _IN_64, _IN_TF32 = 68, 70, 77
_FLIPS = {"N": 0, "T": 1}
_HEURISTIC_RESULT = np.dtype(
    [("algorithm", "u8", 8), ("workspace", "u8"), ("state", "i4"), ("waves", "f4"), ("reserved", "i4", 4)]
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How the library computes a product.

    Attributes:
        operation, layouts: its descriptors; the layouts are those of a, b and the result.
        algorithm: what its heuristics chose; the address of the array is passed.
        factors: 1 and 0, by which the product and the result before it are multiplied.
        workspace: bytes of memory that it needs.
    """

    operation: int
    layouts: tuple[int, int, int]
    algorithm: np.ndarray[Any, Any]
    factors: np.ndarray[Any, Any]
    workspace: int


class CublasLt:
    """See the module. `_api` is the module of the bindings. Calls may be made by any thread with a current context."""

    def __init__(self, api: Any) -> None:
        self._api = api

    def create(self) -> int:
        """A handle for the current context.

        Raises:
            InternalError: the library cannot use the GPU.
        """
        try:
            return int(self._api.create())
        except self._api.cuBLASLtError as error:
            raise InternalError(f"cublasLtCreate: {error}") from error

    def destroy(self, handle: int) -> None:
        self._api.destroy(handle)

    def plan(self, handle: int, product: MatrixProduct) -> Plan | None:
        """Choose an algorithm; None if there is none."""
        api = self._api
        operation = self._operation(product)
        layouts = [self._layout(each, product.batches) for each in (product.a, product.b, product.result)]
        preference = self._preference(product)
        found = np.zeros(1, _HEURISTIC_RESULT)
        count = np.zeros(1, np.int32)
        a, b, result = layouts
        try:
            arguments = (operation, a, b, result, result, preference, 1)
            api.matmul_algo_get_heuristic(handle, *arguments, found.ctypes.data, count.ctypes.data)
            is_found = bool(count[0] and found["state"][0] == 0)
        except api.cuBLASLtError:
            is_found = False
        finally:
            api.matmul_preference_destroy(preference)
        factors = np.array([1, 0], _scale_of(product))
        plan = Plan(operation, (a, b, result), found, factors, int(found["workspace"][0]))
        if is_found:
            return plan
        self.drop(plan)
        return None

    def drop(self, plan: Plan) -> None:
        """Destroy the descriptors of a plan."""
        self._api.matmul_desc_destroy(plan.operation)
        for layout in plan.layouts:
            self._api.matrix_layout_destroy(layout)

    def multiply(
        self, handle: int, plan: Plan, operands: tuple[int, int, int], workspace: int, stream: int
    ) -> None:
        """Give a stream a product; operands and workspace are pointers.

        Raises:
            InternalError: the library refuses it.
        """
        a, b, result = operands
        layout_a, layout_b, layout_result = plan.layouts
        one = plan.factors.ctypes.data
        try:
            self._api.matmul(
                handle,
                plan.operation,
                one,
                a,
                layout_a,
                b,
                layout_b,
                one + plan.factors.itemsize,
                result,
                layout_result,
                result,
                layout_result,
                plan.algorithm.ctypes.data,
                workspace,
                plan.workspace,
                stream,
            )
        except self._api.cuBLASLtError as error:
            raise InternalError(f"cublasLtMatmul: {error}") from error

    # Descriptors

    def _operation(self, product: MatrixProduct) -> int:
        api, dtype = self._api, product.a.dtype
        is_fast = dtype == "float32" and _wants_tf32()
        compute = _IN_64 if dtype == "float64" else _IN_TF32 if is_fast else _IN_32
        operation = int(api.matmul_desc_create(compute, _DATA_TYPES[_scale_of(product)]))
        for name, flip in (("TRANSA", product.flip_a), ("TRANSB", product.flip_b)):
            value = np.array(_FLIPS[flip], np.int32)
            attribute = api.MatmulDescAttribute[name]
            api.matmul_desc_set_attribute(operation, attribute, value.ctypes.data, value.nbytes)
        return operation

    def _layout(self, matrix: Matrix, batches: int) -> int:
        api = self._api
        layout = int(
            api.matrix_layout_create(_DATA_TYPES[matrix.dtype], matrix.rows, matrix.columns, matrix.step)
        )
        values: tuple[tuple[str, np.ndarray[Any, Any]], ...] = (
            ("BATCH_COUNT", np.array(batches, np.int32)),
            ("STRIDED_BATCH_OFFSET", np.array(matrix.batch_step, np.int64)),
        )
        for name, value in values:
            attribute = api.MatrixLayoutAttribute[name]
            api.matrix_layout_set_attribute(layout, attribute, value.ctypes.data, value.nbytes)
        return layout

    def _preference(self, product: MatrixProduct) -> int:
        api = self._api
        preference = int(api.matmul_preference_create())
        aligned = (product.a, product.b, product.result, product.result)
        values: list[tuple[str, np.ndarray[Any, Any]]] = [
            ("MAX_WORKSPACE_BYTES", np.array(WORKSPACE, np.uint64)),
            *(
                (f"MIN_ALIGNMENT_{letter}_BYTES", np.array(matrix.alignment, np.uint32))
                for letter, matrix in zip("ABCD", aligned, strict=True)
            ),
        ]
        for name, value in values:
            attribute = api.MatmulPreferenceAttribute[name]
            api.matmul_preference_set_attribute(preference, attribute, value.ctypes.data, value.nbytes)
        return preference


def _scale_of(product: MatrixProduct) -> str:
    """The dtype of the factors."""
    return "float64" if product.result.dtype == "float64" else "float32"


def _wants_tf32() -> bool:
    return os.environ.get("TF_ENABLE_CUBLAS_TENSOR_OP_MATH_FP32") == "1"


class ProductPlans:
    """The plans of one GPU. `_lock` guards the making of `_handle` and of `_plans`, in which None stands for our own kernel.

    Args:
        library: None if it is missing.
    """

    def __init__(self, library: CublasLt | None) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._handle: int | None = None
        self._plans: dict[MatrixProduct, Plan | None] = {}

    def __contains__(self, product: object) -> bool:
        return product in self._plans

    def make(self, product: MatrixProduct) -> bool:
        """Make a plan, unless there is one; whether the library computes this product. The GPU's context is current."""
        with self._lock:
            if product not in self._plans:
                self._plans[product] = self._plan(product)
        return self._plans[product] is not None

    def _plan(self, product: MatrixProduct) -> Plan | None:
        if self._library is not None and self._handle is None:
            try:
                self._handle = self._library.create()
            except InternalError as error:
                logger.warning("Products of matrices on GPUs are computed without cuBLASLt: %s", error)
                self._library = None
        if self._library is None or self._handle is None:
            return None
        return self._library.plan(self._handle, product)

    def plan(self, product: MatrixProduct) -> Plan | None:
        """The plan that was made; None if the library has no algorithm."""
        return self._plans[product]

    def multiply(self, plan: Plan, operands: tuple[int, int, int], workspace: int, stream: int) -> None:
        """See `CublasLt.multiply`."""
        assert self._library is not None
        assert self._handle is not None
        self._library.multiply(self._handle, plan, operands, workspace, stream)

    def close(self) -> None:
        """Give everything back; the GPU's context is current."""
        if self._library is not None and self._handle is not None:
            for plan in self._plans.values():
                if plan is not None:
                    self._library.drop(plan)
            self._library.destroy(self._handle)
            self._handle = None
        self._plans.clear()


# The library of this process

_opening = threading.Lock()
_opened: list[CublasLt | None] = []


def open_library() -> None:
    """Import the bindings and load the library, unless that was tried before.

    Takes up to seconds, so it is not for the event loop.
    """
    with _opening:
        if not _opened:
            _opened.append(_load())


def library() -> CublasLt | None:
    """The library, if it is open."""
    return _opened[0] if _opened else None


def _load() -> CublasLt | None:
    try:
        api = importlib.import_module("nvmath.bindings.cublasLt")
        api.get_version()
    except Exception as error:  # each version of the bindings has errors of its own for a missing library
        logger.info(
            "Products of matrices on GPUs are computed without cuBLASLt, which cannot be loaded (%s): pip install "
            "nvidia-cublas, or nvidia-cublas-cu12 with a driver for CUDA 12, and 'aioexec[gpu]'",
            error,
        )
        return None
    return CublasLt(api)
