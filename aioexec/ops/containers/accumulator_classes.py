"""Conditional accumulators as users make them: `ConditionalAccumulator` and `SparseConditionalAccumulator`."""

from __future__ import annotations

from typing import Any, NamedTuple

from aioexec import dtypes as dt
from aioexec.dtypes import DType
from aioexec.graph.apply import apply_no_output_op, apply_op, apply_tuple_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.containers import accumulators  # noqa: F401  (its rows)
from aioexec.ops.math.cast import cast
from aioexec.shapes import TensorShape


class ConditionalAccumulatorBase:
    """What both kinds share: gradients of one dtype and shape are added up, those of earlier steps are dropped."""

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
        """How many gradients have been accumulated since the last were taken."""
        return apply_op(
            f"{self._family}AccumulatorNumAccumulated",
            self._accumulator_ref,
            name=name or f"{self._name}_NumAccumulated",
        )

    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Operation:
        """An operation after which gradients of earlier steps are dropped."""
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
    """Gradients added up until there are enough of them.

    Args:
        dtype, shape: of a gradient; of any shape without.
        shared_name: nodes of this name share one accumulator, in all sessions of a container.
        reduction_type: what is taken: "MEAN" or "SUM".
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
        """An operation that adds a gradient, unless it is of a step before the accumulator's.

        Args:
            local_step: the global step it was computed at.
        """
        gradient = convert_to_tensor(grad, self._dtype)
        gradient.shape.assert_is_compatible_with(self._shape)
        step = cast(convert_to_tensor(local_step), dt.int64)
        return apply_no_output_op(
            f"{self._family}AccumulatorApplyGradient", self._accumulator_ref, step, gradient, name=name
        )

    def take_grad(self, num_required: Any, name: str | None = None) -> Tensor:
        """The mean (or sum) of what has been accumulated, once it is of that many gradients; the next step begins."""
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
    """What is taken of sparse gradients: slices along the first dimension."""

    indices: Tensor
    values: Tensor
    shape: Tensor


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """Gradients of slices along the first dimension, added up until there are enough of them; means are of each slice.

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
        """An operation that adds a gradient, unless it is of a step before the accumulator's."""
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def apply_grad(
        self,
        grad_indices: Any,
        grad_values: Any,
        grad_shape: Any = None,
        local_step: Any = 0,
        name: str | None = None,
    ) -> Operation:
        """An operation that adds a gradient, unless it is of a step before the accumulator's.

        Args:
            grad_indices: of the slices in `grad_values`.
            grad_shape: of the whole gradient, if it is known.
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
        """The mean (or sum) of each slice that was given, once there have been that many gradients; the next step begins."""
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
        """The same as IndexedSlices."""
        taken = self.take_grad(num_required, name)
        return IndexedSlices(taken.values, taken.indices, taken.shape)
