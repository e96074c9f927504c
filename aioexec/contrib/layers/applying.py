"""Layers of `aioexec.layers` under the variables of `tf.contrib.layers`: `weights` and `biases`, in MODEL_VARIABLES.

A layer with variables is applied in three steps: a variable scope opens whose getter renames variables and creates them by
`model_variable`; the layer computes without activation; then follow the normalization in place of a bias, the activation and
the collections of outputs. The argument scopes of `model_variable` hold in the getter.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from aioexec.contrib.framework.variables import model_variable
from aioexec.contrib.layers.collecting import (
    add_to_variable_collections,
    collect_named_outputs,
    get_variable_collections,
)
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.layers.base import Layer
from aioexec.ops.nn.nn_ops import bias_add
from aioexec.ops.state.variable_scope import VariableScope, variable_scope

Arguments = dict[str, Any]
"""The arguments of a function of `tf.contrib.layers`, by name."""

_RENAMED: Final = {
    "bias": "biases",
    "kernel": "weights",
    "depthwise_kernel": "depthwise_weights",
    "pointwise_kernel": "pointwise_weights",
}
"""The names of variables of layers, and those they have here."""

_KERNELS: Final = ("kernel", "depthwise_kernel", "pointwise_kernel")


def model_variable_getter(getter: Callable[..., Any], name: str, **options: Any) -> Any:
    """A custom getter that creates a variable by `model_variable`, under the name it has here."""
    scope, slash, last = name.rpartition("/")
    for unknown in ("reuse", "validate_shape", "constraint"):
        options.pop(unknown, None)
    return model_variable(f"{scope}{slash}{_RENAMED.get(last, last)}", custom_getter=getter, **options)


@contextlib.contextmanager
def layer_scope(given: Arguments, default_name: str, *, renames: bool = True) -> Iterator[VariableScope]:
    """Open the variable scope of a layer: `scope` of its arguments or `default_name`, with `reuse`."""
    getter = model_variable_getter if renames else None
    scope, reuse = given["scope"], given.get("reuse")
    with variable_scope(scope, default_name, [given["inputs"]], reuse=reuse, custom_getter=getter) as opened:
        yield opened


def apply_layer(kind: Callable[..., Layer], default_name: str, given: Arguments, **options: Any) -> Tensor:
    """Apply a layer with a kernel, and the normalization and activation that belong to it.

    Args:
        given: the arguments of the function.
        options: those of the layer, beside the ones of biases.

    Raises:
        GraphValueError: as the layer, or `reuse` is given without a scope.
    """
    with layer_scope(given, default_name) as scope:
        inputs = convert_to_tensor(given["inputs"])
        layer: Any = kind(
            activation=None,
            use_bias=not given["normalizer_fn"] and given["biases_initializer"] is not None,
            bias_initializer=given["biases_initializer"],
            bias_regularizer=given["biases_regularizer"],
            trainable=given["trainable"],
            name=scope.name,
            dtype=inputs.dtype.base_dtype,
            _scope=scope,
            _reuse=given["reuse"],
            **options,
        )
        outputs = layer(inputs)
        for name in _KERNELS:
            if hasattr(layer, name):
                add_to_variable_collections(getattr(layer, name), given["variables_collections"], "weights")
        if layer.bias is not None:
            add_to_variable_collections(layer.bias, given["variables_collections"], "biases")
        if given["normalizer_fn"] is not None:
            outputs = given["normalizer_fn"](outputs, **(given["normalizer_params"] or {}))
        return finished(outputs, given, scope.name)


def finished(outputs: Any, given: Arguments, alias: str) -> Tensor:
    """Return the outputs after the activation function, and add them to their collections."""
    if given.get("activation_fn") is not None:
        outputs = given["activation_fn"](outputs)
    collected: Tensor = collect_named_outputs(given["outputs_collections"], alias, outputs)
    return collected


def normalized_or_biased(
    outputs: Tensor, given: Arguments, channels: int, data_format: str = "NHWC"
) -> Tensor:
    """Apply the normalization function, or add new biases if there is none and they have an initializer."""
    if given["normalizer_fn"] is not None:
        normalized: Tensor = given["normalizer_fn"](outputs, **(given["normalizer_params"] or {}))
        return normalized
    if given["biases_initializer"] is None:
        return outputs
    biases = parameter(
        "biases",
        [channels],
        outputs.dtype.base_dtype,
        given,
        initializer=given["biases_initializer"],
        regularizer=given["biases_regularizer"],
    )
    return bias_add(outputs, biases, data_format=data_format)


def parameter(
    name: str, shape: Any, dtype: Any, given: Arguments, *, kind: str | None = None, **options: Any
) -> Any:
    """Create a variable of a model in the current scope, in the collections of `kind`, by default of its name."""
    return model_variable(
        name,
        shape=shape,
        dtype=dtype,
        collections=get_variable_collections(given.get("variables_collections"), kind or name),
        **{"trainable": given.get("trainable", True), **options},
    )


def initial(given: Mapping[str, Any] | None, name: str, default: Any) -> Any:
    """The entry of a dict of initializers or regularizers, or `default`."""
    return (given or {}).get(name, default)
