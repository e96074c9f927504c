"""`ConditionalAccumulator` and `SparseConditionalAccumulator`: the classes that users create."""

from __future__ import annotations

from typing import Any, NamedTuple

from aioexec import dtypes as dt
from aioexec.dtypes import DType
from aioexec.graph.apply import apply_no_output_op, apply_op, apply_tuple_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.containers import accumulators  # noqa: F401  (registers ops)
from aioexec.ops.math.cast import cast
from aioexec.shapes import TensorShape


class ConditionalAccumulatorBase:
    """The base of both accumulators: gradients of one dtype and shape are summed; those of earlier steps are dropped."""

    def __init__(self, dtype: Any, shape: Any, accumulator_ref: Tensor) -> None:
        self._dtype = dt.as_dtype(dtype)
        self._shape = TensorShape(None) if shape is None else TensorShape(shape)
        self._accumulator_ref = accumulator_ref
        self._name = accumulator_ref.op.name.split("/")[-1]

    @property
    def accumulator_ref(self) -> Tensor:
        """The handle of the accumulator."""
        return self._accumulator_ref

    @property
    def name(self) -> str:
        return self._accumulator_ref.op.name

    @property
    def dtype(self) -> DType:
        return self._dtype

    def num_accumulated(self, name: str | None = None) -> Tensor:
        """Return the number of gradients accumulated since the last `take_grad`."""
        return apply_op(
            f"{self._family}AccumulatorNumAccumulated",
            self._accumulator_ref,
            name=name or f"{self._name}_NumAccumulated",
        )

    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Operation:
        """Return an operation that sets the current global step: older gradients are dropped."""
        return apply_no_output_op(
            f"{self._family}AccumulatorSetGlobalStep",
            self._accumulator_ref,
            cast(convert_to_tensor(new_global_step), dt.int64),
            name=name,
        )

    @property
    def _family(self) -> str:
        return "Resource" if self._accumulator_ref.dtype == dt.resource else ""


def _node(
    op_type: str, dtype: Any, shape: Any, shared_name: str | None, name: str, reduction_type: str
) -> Tensor:
    return apply_op(
        op_type,
        name=name,
        dtype=dt.as_dtype(dtype),
        shape=TensorShape(None) if shape is None else TensorShape(shape),
        container=get_default_graph().default_container,
        shared_name=shared_name or "",
        reduction_type=reduction_type,
    )


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Sums gradients until enough of them have arrived.

    Args:
        dtype, shape: dtype and shape of the gradients; without a shape any is allowed.
        shared_name: accumulators of one name are shared by the sessions of a container.
        reduction_type: "MEAN" or "SUM" of the gradients.
    """

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        handle = _node("ResourceConditionalAccumulator", dtype, shape, shared_name, name, reduction_type)
        super().__init__(dtype, shape, handle)

    def apply_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> Operation:
        """Return an operation that adds a gradient, or drops it if its step is before the accumulator's.

        Args:
            local_step: the global step at which the gradient was computed.
        """
        gradient = convert_to_tensor(grad, self._dtype)
        gradient.shape.assert_is_compatible_with(self._shape)
        step = cast(convert_to_tensor(local_step), dt.int64)
        return apply_no_output_op(
            f"{self._family}AccumulatorApplyGradient", self._accumulator_ref, step, gradient, name=name
        )

    def take_grad(self, num_required: Any, name: str | None = None) -> Tensor:
        """Return the mean (or sum) once `num_required` gradients have arrived; resets the sum and increments the step."""
        tensor = apply_op(
            f"{self._family}AccumulatorTakeGradient",
            self._accumulator_ref,
            num_required,
            name=name,
            dtype=self._dtype,
        )
        tensor.set_shape(self._shape)
        return tensor


class TakenSlices(NamedTuple):
    """Sparse gradients taken from an accumulator: slices along the first dimension."""

    indices: Tensor
    values: Tensor
    shape: Tensor


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """Sums gradients of slices along the first dimension; the mean of each slice is over the gradients that contain it.

    Args: see `ConditionalAccumulator`.
    """

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        handle = _node("SparseConditionalAccumulator", dtype, shape, shared_name, name, reduction_type)
        super().__init__(dtype, shape, handle)

    def apply_indexed_slices_grad(
        self, grad: IndexedSlices, local_step: Any = 0, name: str | None = None
    ) -> Operation:
        """Return an operation that adds IndexedSlices, or drops them if their step is before the accumulator's."""
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def apply_grad(
        self,
        grad_indices: Any,
        grad_values: Any,
        grad_shape: Any = None,
        local_step: Any = 0,
        name: str | None = None,
    ) -> Operation:
        """Return an operation that adds a gradient, or drops it if its step is before the accumulator's.

        Args:
            grad_indices: indices of the slices `grad_values`.
            grad_shape: shape of the dense gradient, if known.
        """
        return apply_no_output_op(
            "SparseAccumulatorApplyGradient",
            self._accumulator_ref,
            cast(convert_to_tensor(local_step), dt.int64),
            cast(convert_to_tensor(grad_indices), dt.int64),
            convert_to_tensor(grad_values, self._dtype),
            cast(constant([], dt.int64) if grad_shape is None else grad_shape, dt.int64),
            name=name,
            has_known_shape=grad_shape is not None,
        )

    def take_grad(self, num_required: Any, name: str | None = None) -> TakenSlices:
        """Return the mean (or sum) per slice once `num_required` gradients have arrived; resets it and increments the step."""
        return TakenSlices(
            *apply_tuple_op(
                "SparseAccumulatorTakeGradient",
                self._accumulator_ref,
                num_required,
                name=name,
                dtype=self._dtype,
            )
        )

    def take_indexed_slices_grad(self, num_required: Any, name: str | None = None) -> IndexedSlices:
        """Return the result of `take_grad` as IndexedSlices."""
        taken = self.take_grad(num_required, name)
        return IndexedSlices(taken.values, taken.indices, taken.shape)
