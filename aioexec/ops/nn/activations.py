"""Activation functions and the ops of their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext, Reference
from aioexec.graph.kernels.launches import expression
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import register, undefined_gradient
from aioexec.ops.common.elementwise import FLOATS, in_float32, merged_shape, named, op_scope, same_shape

Array = np.ndarray[Any, Any]
Pair = tuple[Tensor, Tensor | None]

NUMBERS = frozenset({"float32", "float64", "int32", "int64"})
SELU_SCALE = 1.0507009873554804934193349852946
SELU_SCALE_ALPHA = 1.7580993408473768599402175208123
_FLOAT = "T:type{half|bfloat16|float|double}"


def with_attrs(compute: Callable[[Attrs], Compute]) -> Reference:
    """Return a reference kernel that computes 16-bit floats in float32."""

    def bind(context: KernelContext) -> Compute:
        return in_float32(compute(context.attrs))

    return bind


def of_one_shape(kernel: Reference) -> Reference:
    """Return a kernel that rejects different shapes of gradient and input, which NumPy would broadcast."""

    def bind(context: KernelContext) -> Compute:
        compute = kernel(context)

        def checked(g: Array, x: Array) -> Any:
            if g.shape != x.shape:
                raise InvalidArgumentError(
                    f"Inputs must have the same shape, got {list(g.shape)} and {list(x.shape)}"
                )
            return compute(g, x)

        return checked

    return bind


def activation(
    signature: str,
    *,
    numpy: Callable[..., Any] | None = None,
    kernel: Reference | None = None,
    native: str | Callable[[Attrs], str],
    gradient: Callable[..., Any],
    dtypes: frozenset[str] = FLOATS,
) -> None:
    """Register an activation (one input) or its gradient op (two inputs: gradient, and input or output of the activation)."""
    if kernel is None:
        assert numpy is not None
        compute = numpy
        kernel = with_attrs(lambda attrs: compute)
    takes_two = "gradients:T" in signature
    register(
        signature,
        shape=merged_shape if takes_two else same_shape,
        kernel=of_one_shape(kernel) if takes_two else kernel,
        native=expression(native, dtypes=dtypes),
        gradient=gradient,
    )


def through(op_type: str, uses_output: bool, **names: str) -> Callable[..., Any]:
    """Return the gradient function of an activation: `op_type` applied to dy and the activation's output or input."""

    def gradient(op: Operation, dy: Tensor) -> tuple[Tensor]:
        attrs = {key: op.attrs[name] for key, name in names.items()}
        return (apply_op(op_type, dy, op.outputs[0] if uses_output else op.inputs[0], **attrs),)

    return gradient


def piecewise_linear(op: Operation, dy: Tensor) -> Pair:
    """The gradient of a gradient op whose activation is piecewise linear: zero by the activation's input."""
    attrs = {"alpha": op.attrs["alpha"]} if "alpha" in op.attrs else {}
    return apply_op(op.type, dy, op.inputs[1], **attrs), apply_op("ZerosLike", op.inputs[1])


def exponential(op: Operation, dy: Tensor) -> Pair:
    """The gradient of EluGrad and SeluGrad, which are linear in the activation's output where that is negative."""
    g, y = op.inputs
    zeros = apply_op("ZerosLike", y)
    by_output = apply_op("Select", apply_op("Less", y, zeros), apply_op("Mul", dy, g), zeros)
    return apply_op(op.type, dy, y), by_output


# Rectifiers


def where_positive(g: Array, x: Array) -> Array:
    return np.where(x > 0, g, np.zeros((), g.dtype))


def alpha_of(attrs: Attrs) -> float:
    """Return the slope in single precision, as TensorFlow's attributes have it for all dtypes."""
    return float(np.float32(attrs["alpha"]))


def leaky(attrs: Attrs) -> Compute:
    return lambda x: np.where(x > 0, x, x * x.dtype.type(alpha_of(attrs)))


def leaky_gradient(attrs: Attrs) -> Compute:
    return lambda g, x: np.where(x > 0, g, g * g.dtype.type(alpha_of(attrs)))


activation(
    "Relu(features:T) -> (activations:T) [T:type@28]",
    numpy=lambda x: np.maximum(x, x.dtype.type(0)),
    native="x: maximum(x, 0)",
    gradient=through("ReluGrad", uses_output=True),
    dtypes=NUMBERS,
)
activation(
    "ReluGrad(gradients:T, features:T) -> (backprops:T) [T:type@12]",
    numpy=where_positive,
    native="g, x: where(x > 0, g, 0)",
    gradient=piecewise_linear,
    dtypes=NUMBERS,
)
activation(
    "Relu6(features:T) -> (activations:T) [T:type@12]",
    numpy=lambda x: np.minimum(np.maximum(x, x.dtype.type(0)), x.dtype.type(6)),
    native="x: minimum(maximum(x, 0), 6)",
    gradient=through("Relu6Grad", uses_output=True),
    dtypes=NUMBERS,
)
activation(
    "Relu6Grad(gradients:T, features:T) -> (backprops:T) [T:type@12]",
    numpy=lambda g, x: np.where((x > 0) & (x < 6), g, np.zeros((), g.dtype)),
    native="g, x: where((x > 0) & (x < 6), g, 0)",
    gradient=piecewise_linear,
    dtypes=NUMBERS,
)
activation(
    f"LeakyRelu(features:T) -> (activations:T) [alpha:float=0.2; {_FLOAT}=float]",
    kernel=with_attrs(leaky),
    native=lambda attrs: f"x: where(x > 0, x, x * {alpha_of(attrs)!r})",
    gradient=through("LeakyReluGrad", uses_output=False, alpha="alpha"),
)
activation(
    f"LeakyReluGrad(gradients:T, features:T) -> (backprops:T) [alpha:float=0.2; {_FLOAT}=float]",
    kernel=with_attrs(leaky_gradient),
    native=lambda attrs: f"g, x: where(x > 0, g, g * {alpha_of(attrs)!r})",
    gradient=piecewise_linear,
)

# Exponential units


def elu_values(x: Array) -> Array:
    return np.asarray(np.where(x < 0, np.expm1(np.minimum(x, x.dtype.type(0))), x))


def selu_values(x: Array) -> Array:
    scale, scale_alpha = x.dtype.type(SELU_SCALE), x.dtype.type(SELU_SCALE_ALPHA)
    return np.asarray(np.where(x < 0, scale_alpha * np.expm1(np.minimum(x, x.dtype.type(0))), scale * x))


def selu_slopes(g: Array, y: Array) -> Array:
    return np.asarray(np.where(y < 0, g * (y + y.dtype.type(SELU_SCALE_ALPHA)), g * y.dtype.type(SELU_SCALE)))


activation(
    f"Elu(features:T) -> (activations:T) [{_FLOAT}]",
    numpy=elu_values,
    native="x: where(x < 0, expm1(x), x)",
    gradient=through("EluGrad", uses_output=True),
)
activation(
    f"EluGrad(gradients:T, outputs:T) -> (backprops:T) [{_FLOAT}]",
    numpy=lambda g, y: np.where(y < 0, g * (y + y.dtype.type(1)), g),
    native="g, y: where(y < 0, g * (y + 1), g)",
    gradient=exponential,
)
activation(
    f"Selu(features:T) -> (activations:T) [{_FLOAT}]",
    numpy=selu_values,
    native=f"x: where(x < 0, expm1(x) * {SELU_SCALE_ALPHA!r}, x * {SELU_SCALE!r})",
    gradient=through("SeluGrad", uses_output=True),
)
activation(
    f"SeluGrad(gradients:T, outputs:T) -> (backprops:T) [{_FLOAT}]",
    numpy=selu_slopes,
    native=f"g, y: where(y < 0, g * (y + {SELU_SCALE_ALPHA!r}), g * {SELU_SCALE!r})",
    gradient=exponential,
)

# Smooth functions


def softplus_values(x: Array) -> Array:
    zero = x.dtype.type(0)
    return np.asarray(np.maximum(x, zero) + np.log1p(np.exp(-np.abs(x))))


def softplus_slopes(g: Array, x: Array) -> Array:
    return np.asarray(g / (np.exp(-x) + x.dtype.type(1)))


def softplus_curvature(op: Operation, dy: Tensor) -> Pair:
    g, x = op.inputs
    slope = apply_op("Sigmoid", x)
    curvature = apply_op("SigmoidGrad", slope, apply_op("Mul", dy, g))
    return apply_op("SoftplusGrad", dy, x), curvature


def softsign_slopes(g: Array, x: Array) -> Array:
    return np.asarray(g / np.square(np.abs(x) + x.dtype.type(1)))


activation(
    f"Softplus(features:T) -> (activations:T) [{_FLOAT}]",
    numpy=softplus_values,
    native="x: softplus(x)",
    gradient=through("SoftplusGrad", uses_output=False),
)
activation(
    f"SoftplusGrad(gradients:T, features:T) -> (backprops:T) [{_FLOAT}]",
    numpy=softplus_slopes,
    native="g, x: g * sigmoid(x)",
    gradient=softplus_curvature,
)
activation(
    f"Softsign(features:T) -> (activations:T) [{_FLOAT}]",
    numpy=lambda x: x / (np.abs(x) + x.dtype.type(1)),
    native="x: x / (abs(x) + 1)",
    gradient=through("SoftsignGrad", uses_output=False),
)
activation(
    f"SoftsignGrad(gradients:T, features:T) -> (backprops:T) [{_FLOAT}]",
    numpy=softsign_slopes,
    native="g, x: g / square(abs(x) + 1)",
    gradient=undefined_gradient,
)


# Wrappers


def _activation_function(op_type: str, summary: str) -> Callable[..., Tensor]:
    def function(features: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, features, name=name)

    return named(function, op_type.lower(), f"{summary}.")


relu = _activation_function("Relu", "Return max(features, 0)")
relu6 = _activation_function("Relu6", "Return min(max(features, 0), 6)")
elu = _activation_function("Elu", "Return features where positive, exp(features) - 1 elsewhere")
selu = _activation_function(
    "Selu",
    "Return the scaled exponential linear unit: `elu` with the two factors that preserve mean 0 and variance 1",
)
softplus = _activation_function("Softplus", "Return log(exp(features) + 1)")
softsign = _activation_function("Softsign", "Return features / (|features| + 1)")


def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """Return features where positive, alpha * features elsewhere."""
    return apply_op("LeakyRelu", features, name=name, alpha=alpha)


def crelu(features: Any, name: str | None = None, axis: int = -1) -> Tensor:
    """Return relu of the features and of their negatives, concatenated along `axis`: twice as many channels."""
    with op_scope(name, "CRelu", features) as scope:
        given = convert_to_tensor(features, name="features")
        both = apply_op("ConcatV2", [given, apply_op("Neg", given)], axis, name=scope)
        return apply_op("Relu", both)


def swish(features: Any, beta: Any = 1.0) -> Tensor:
    """Return features · sigmoid(beta · features) element-wise, the SiLU for beta = 1."""
    given = convert_to_tensor(features, name="features")
    factor = convert_to_tensor(beta, name="beta")
    if factor.dtype.base_dtype is not given.dtype.base_dtype:
        factor = apply_op("Cast", factor, DstT=given.dtype.base_dtype)
    return apply_op("Mul", given, apply_op("Sigmoid", apply_op("Mul", factor, given)))
