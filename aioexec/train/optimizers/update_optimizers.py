"""The optimizers whose step is one update op: Adagrad and its variants, RMSProp, FTRL and the proximal ones.

Each declares its op, its slots and its hyperparameters; the op's signature determines their order as inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aioexec import dtypes, shapes
from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError
from aioexec.graph import registry
from aioexec.graph.apply import apply_any_op, apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.node import Tensor
from aioexec.ops.array.filling import fill
from aioexec.ops.state.initializers import Constant
from aioexec.ops.state.variable import ResourceVariable, is_resource_variable
from aioexec.ops.training import optimizer_updates as optimizer_updates  # the rows
from aioexec.train.optimizers.optimizer import Optimizer, cast_to


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot initialized with this number; its variable is named after the optimizer, or `op_name`."""

    name: str
    start: float = 0.0
    op_name: str | None = None


class UpdateOptimizer(Optimizer):
    """Base of optimizers that apply one update op to each variable.

    Args:
        update: the op's name without "Apply".
        slots: by the op's name for each state besides `var`, in the order of creation.
        hyper: hyperparameters by the op's names for them, each with a name for its node.
    """

    def __init__(
        self,
        update: str,
        slots: Mapping[str, Slot],
        hyper: Mapping[str, tuple[str, Any]],
        use_locking: bool,
        name: str,
    ) -> None:
        super().__init__(use_locking, name)
        self._update = update
        self._states = slots
        self._hyper = hyper
        self._tensors: dict[str, Tensor] = {}

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            for slot in self._states.values():
                self._make_slot(var, slot)

    def _make_slot(self, var: Any, slot: Slot) -> None:
        op_name, dtype = slot.op_name or self._name, var.dtype.base_dtype
        if slot.start == 0:
            self._zeros_slot(var, slot.name, op_name)
        elif shapes.is_fully_defined(var.dims):
            start = Constant(slot.start, dtype=dtype)
            self._get_or_make_slot_with_initializer(var, start, var.dims, dtype, slot.name, op_name)
        else:
            content = fill(apply_op("Shape", var.initialized_value()), convert_to_tensor(slot.start, dtype))
            self._get_or_make_slot(var, content, slot.name, op_name)

    def _prepare(self) -> None:
        self._tensors = {
            key: convert_to_tensor(self._call_if_callable(value), name=node_name)
            for key, (node_name, value) in self._hyper.items()
        }

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        return self._apply(f"Apply{self._update}", var, {"grad": grad, "delta": grad})

    def _resource_apply_dense(self, grad: Tensor, handle: ResourceVariable) -> Any:
        return self._apply(f"ResourceApply{self._update}", handle, {"grad": grad, "delta": grad})

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        given = {"grad": grad.values, "indices": grad.indices}
        return self._apply(f"SparseApply{self._update}", var, given)

    def _resource_apply_sparse(self, grad: Tensor, handle: ResourceVariable, indices: Tensor) -> Any:
        return self._apply(f"ResourceSparseApply{self._update}", handle, {"grad": grad, "indices": indices})

    def _apply(self, op_type: str, var: Any, given: Mapping[str, Any]) -> Any:
        inputs = [self._input(arg.name, var, given) for arg in registry.lookup(op_type).definition.inputs]
        return apply_any_op(op_type, *inputs, use_locking=self._use_locking)

    def _input(self, name: str, var: Any, given: Mapping[str, Any]) -> Any:
        """The value for the input of this name."""
        if name in given:
            return given[name]
        if name == "var" or name in self._states:
            held = var if name == "var" else self.get_slot(var, self._states[name].name)
            return held.handle if is_resource_variable(held) else held
        return self._scalar(name, var)

    def _scalar(self, name: str, var: Any) -> Tensor:
        return cast_to(self._tensors[name], var)


def _check(name: str, value: Any, positive: bool = False) -> Any:
    """Check that a number is not negative, or is positive; tensors are not checked."""
    if isinstance(value, int | float) and (value < 0 or (positive and value == 0)):
        raise GraphValueError(f"{name} must be {'positive' if positive else 'non-negative'}: {value}")
    return value


class AdagradOptimizer(UpdateOptimizer):
    """Adagrad: steps divided by the root of the sum of all squared gradients so far."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        start = _check("initial_accumulator_value", initial_accumulator_value, positive=True)
        super().__init__(
            "Adagrad",
            {"accum": Slot("accumulator", start)},
            {"lr": ("learning_rate", learning_rate)},
            use_locking,
            name,
        )


class AdagradDAOptimizer(UpdateOptimizer):
    """Adagrad with dual averaging, which regularises towards few non-zero weights; for linear models."""

    def __init__(
        self,
        learning_rate: Any,
        global_step: Any,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: Any = 0.0,
        l2_regularization_strength: Any = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ) -> None:
        start = _check(
            "initial_gradient_squared_accumulator_value",
            initial_gradient_squared_accumulator_value,
            positive=True,
        )
        super().__init__(
            "AdagradDA",
            {
                "gradient_accumulator": Slot("gradient_accumulator"),
                "gradient_squared_accumulator": Slot("gradient_squared_accumulator", start),
            },
            {
                "lr": ("learning_rate", learning_rate),
                "l1": ("l1_regularization_strength", l1_regularization_strength),
                "l2": ("l2_regularization_strength", l2_regularization_strength),
            },
            use_locking,
            name,
        )
        self._global_step = global_step

    def _scalar(self, name: str, var: Any) -> Tensor:
        if name == "global_step":
            done = apply_op("Cast", convert_to_tensor(self._global_step), DstT=dtypes.int64)
            return done + 1
        return super()._scalar(name, var)


class AdadeltaOptimizer(UpdateOptimizer):
    """Adadelta: steps scaled by running means of squared steps and squared gradients."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(
            "Adadelta",
            {"accum": Slot("accum"), "accum_update": Slot("accum_update")},
            {"lr": ("lr", learning_rate), "rho": ("rho", rho), "epsilon": ("epsilon", epsilon)},
            use_locking,
            name,
        )


class RMSPropOptimizer(UpdateOptimizer):
    """RMSProp: steps divided by the root of a running mean of squared gradients; `centered`: of their variance."""

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        means = {"mg": Slot("mg")} if centered else {}
        super().__init__(
            "CenteredRMSProp" if centered else "RMSProp",
            {"ms": Slot("rms", 1.0), **means, "mom": Slot("momentum")},
            {
                "lr": ("learning_rate", learning_rate),
                "rho": ("decay", decay),
                "momentum": ("momentum", momentum),
                "epsilon": ("epsilon", epsilon),
            },
            use_locking,
            name,
        )


class FtrlOptimizer(UpdateOptimizer):
    """FTRL (follow the regularised leader), with a rate for each weight; for wide linear models."""

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: Any = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: Any = 0.0,
        l2_regularization_strength: Any = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: Any = 0.0,
        beta: Any = None,
    ) -> None:
        if isinstance(learning_rate_power, int | float) and learning_rate_power > 0:
            raise GraphValueError(
                f"learning_rate_power needs to be negative or zero, got {learning_rate_power}"
            )
        shrinkage = l2_shrinkage_regularization_strength
        shrinks = not isinstance(shrinkage, int | float) or bool(
            _check("l2_shrinkage_regularization_strength", shrinkage)
        )
        l1 = _check("l1_regularization_strength", l1_regularization_strength)
        l2 = _check("l2_regularization_strength", l2_regularization_strength)
        hyper = {
            "lr": ("learning_rate", learning_rate),
            "l1": ("l1_regularization_strength", l1),
            "l2": ("l2_regularization_strength", l2),
            "lr_power": ("learning_rate_power", learning_rate_power),
        }
        if shrinks:
            hyper["l2_shrinkage"] = ("l2_shrinkage_regularization_strength", shrinkage)
        start = _check("initial_accumulator_value", initial_accumulator_value)
        slots = {"accum": Slot("accum", start, accum_name), "linear": Slot("linear", op_name=linear_name)}
        super().__init__("FtrlV2" if shrinks else "Ftrl", slots, hyper, use_locking, name)
        self._beta = beta or 0.0

    def _scalar(self, name: str, var: Any) -> Tensor:
        value = super()._scalar(name, var)
        if name != "l2" or (isinstance(self._beta, int | float) and self._beta == 0):
            return value
        rate = super()._scalar("lr", var)
        return value + convert_to_tensor(self._beta, rate.dtype.base_dtype) / (2 * rate)


class ProximalGradientDescentOptimizer(UpdateOptimizer):
    """Gradient descent, followed by the proximal operator of l1 and l2 regularization."""

    def __init__(
        self,
        learning_rate: Any,
        l1_regularization_strength: Any = 0.0,
        l2_regularization_strength: Any = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        hyper = {
            "alpha": ("learning_rate", learning_rate),
            "l1": ("l1_regularization_strength", l1_regularization_strength),
            "l2": ("l2_regularization_strength", l2_regularization_strength),
        }
        super().__init__("ProximalGradientDescent", {}, hyper, use_locking, name)


class ProximalAdagradOptimizer(UpdateOptimizer):
    """Adagrad, followed by the proximal operator of l1 and l2 regularization."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: Any = 0.0,
        l2_regularization_strength: Any = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        start = _check("initial_accumulator_value", initial_accumulator_value, positive=True)
        hyper = {
            "lr": ("learning_rate", learning_rate),
            "l1": ("l1_regularization_strength", l1_regularization_strength),
            "l2": ("l2_regularization_strength", l2_regularization_strength),
        }
        super().__init__("ProximalAdagrad", {"accum": Slot("accumulator", start)}, hyper, use_locking, name)
