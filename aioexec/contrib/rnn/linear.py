"""The product of inputs and a weight matrix that the cells and decoders of `tf.contrib` share."""

from __future__ import annotations

from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.node import Tensor
from aioexec.ops.array.joining import concat
from aioexec.ops.linalg.products import matmul
from aioexec.ops.nn.nn_ops import bias_add
from aioexec.ops.state.initializers import constant_initializer
from aioexec.ops.state.variable_scope import get_variable, get_variable_scope, variable_scope


class Linear:
    """`concat(arguments, 1) @ kernel + bias`; its variables are created in the current scope, or reused from there.

    Variables: `kernel`, `[total depth, output_size]`; `bias`, `[output_size]`, zeros at first, if `build_bias`.

    Args:
        arguments: a matrix or a list of matrices, whose depths and dtype the kernel takes.
        output_size: number of columns of the result.
        build_bias: whether there is a bias.

    Raises:
        GraphValueError: there are no arguments, or one is no matrix of known depth.
    """

    def __init__(
        self,
        arguments: Any,
        output_size: int,
        build_bias: bool,
        bias_initializer: Any = None,
        kernel_initializer: Any = None,
    ) -> None:
        parts = _as_list(arguments)
        depth = sum(_depth_of(part) for part in parts)
        dtype = parts[0].dtype.base_dtype
        self._kernel = get_variable("kernel", [depth, output_size], dtype, kernel_initializer)
        self._bias = None
        if build_bias:
            with variable_scope(get_variable_scope()) as scope:
                scope.set_partitioner(None)
                initial = bias_initializer or constant_initializer(0.0, dtype=dtype)
                self._bias = get_variable("bias", [output_size], dtype, initial)

    def __call__(self, arguments: Any) -> Tensor:
        """Return the product, `[rows, output_size]`."""
        parts = _as_list(arguments)
        product: Tensor = matmul(parts[0] if len(parts) == 1 else concat(parts, 1), self._kernel)
        return product if self._bias is None else bias_add(product, self._bias)


def linear(arguments: Any, output_size: int, **options: Any) -> Tensor:
    """Create a `Linear` with a bias in the current scope, and apply it to its arguments."""
    return Linear(arguments, output_size, True, **options)(arguments)


def _as_list(arguments: Any) -> list[Any]:
    parts = list(arguments) if isinstance(arguments, list | tuple) else [arguments]
    if not parts or any(part is None for part in parts):
        raise GraphValueError("`args` must be specified")
    return parts


def _depth_of(part: Any) -> int:
    known = part.shape
    if known.ndims != 2:
        raise GraphValueError(f"linear is expecting 2D arguments: {known}")
    if known[1].value is None:
        raise GraphValueError(f"linear expects shape[1] to be provided for shape {known}, but saw {known[1]}")
    depth: int = known[1].value
    return depth
