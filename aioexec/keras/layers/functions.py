"""Layers that are functions of their inputs, and embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.node import Tensor
from aioexec.keras.layers.base import Layer
from aioexec.layers.arguments import activation_of, initializer_of
from aioexec.ops.array.arrays import reshape, transpose
from aioexec.ops.array.joining import concat
from aioexec.ops.array.padding import pad
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.math.arithmetic import add, multiply
from aioexec.ops.math.cast import cast
from aioexec.ops.nn.activations import leaky_relu, relu
from aioexec.ops.nn.embedding import embedding_lookup


class Activation(Layer):
    """A function of each element, given as a function or by name."""

    def __init__(self, activation: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activation = activation_of(activation)

    def call(self, inputs: Any) -> Any:
        return inputs if self.activation is None else self.activation(inputs)


class LeakyReLU(Layer):
    """Elements below 0 times `alpha`."""

    def __init__(self, alpha: float = 0.3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.alpha = alpha

    def call(self, inputs: Any) -> Tensor:
        return leaky_relu(inputs, self.alpha)


class ReLU(Layer):
    """Elements below 0 become 0."""

    def call(self, inputs: Any) -> Tensor:
        return relu(inputs)


class Lambda(Layer):
    """A function of the inputs, with further arguments by name."""

    def __init__(
        self, function: Callable[..., Any], arguments: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.function = function
        self.arguments = arguments or {}

    def call(self, inputs: Any) -> Any:
        return self.function(inputs, **self.arguments)


class Reshape(Layer):
    """Give each example another shape, in which one size may be -1."""

    def __init__(self, target_shape: Sequence[int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_shape = tuple(target_shape)

    def call(self, inputs: Any) -> Tensor:
        return reshape(inputs, [inputs.shape[0].value or shape(inputs)[0], *self.target_shape])


class Permute(Layer):
    """Reorder the axes of each example, which are counted from 1."""

    def __init__(self, dims: Sequence[int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dims = tuple(dims)

    def call(self, inputs: Any) -> Tensor:
        return transpose(inputs, [0, *self.dims])


class ZeroPadding2D(Layer):
    """Add zeros around images [batch, rows, columns, channels].

    Args:
        padding: a number, a number for rows and one for columns, or pairs of numbers for both.
    """

    def __init__(self, padding: Any = (1, 1), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        both = (padding, padding) if isinstance(padding, int) else tuple(padding)
        self.padding = tuple((each, each) if isinstance(each, int) else tuple(each) for each in both)

    def call(self, inputs: Any) -> Tensor:
        return pad(inputs, [(0, 0), *self.padding, (0, 0)])


class _Merge(Layer):
    """A function of a list of at least two tensors."""

    def build(self, input_shape: Any) -> None:
        """Check the number of inputs.

        Raises:
            GraphValueError: they are no list of two or more.
        """
        if not isinstance(input_shape, list | tuple) or len(input_shape) < 2:
            raise GraphValueError(
                f"A merge layer should be called on a list of at least 2 inputs. Got {input_shape}"
            )
        super().build(input_shape)


class Add(_Merge):
    """The sum of a list of tensors."""

    def call(self, inputs: Any) -> Tensor:
        total: Tensor = reduce(add, inputs)
        return total


class Multiply(_Merge):
    """The product of a list of tensors."""

    def call(self, inputs: Any) -> Tensor:
        product: Tensor = reduce(multiply, inputs)
        return product


class Concatenate(_Merge):
    """A list of tensors, joined along an axis."""

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs: Any) -> Tensor:
        return concat(list(inputs), self.axis)


class Embedding(Layer):
    """Rows of a table by ids [batch, ...] of an integer dtype: [batch, ..., output_dim].

    Variables: `embeddings` [input_dim, output_dim].

    Args:
        embeddings_initializer: an initializer or the name of one.
        embeddings_regularizer, embeddings_constraint, activity_regularizer: functions of the table, and of the output.
        mask_zero: has no effect: there are no masks.
        input_length: has no effect: it describes the inputs of models.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        activity_regularizer: Any = None,
        embeddings_constraint: Any = None,
        mask_zero: bool = False,
        input_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("dtype", dtypes.float32)
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.input_dim = input_dim
        self.output_dim = output_dim
        name = "random_uniform" if embeddings_initializer == "uniform" else embeddings_initializer
        self.embeddings_initializer = initializer_of(name)
        self.embeddings_regularizer = embeddings_regularizer
        self.embeddings_constraint = embeddings_constraint

    def build(self, input_shape: Any) -> None:
        self.embeddings = self.add_weight(
            "embeddings",
            [self.input_dim, self.output_dim],
            initializer=self.embeddings_initializer,
            regularizer=self.embeddings_regularizer,
            constraint=self.embeddings_constraint,
        )
        super().build(input_shape)

    def call(self, inputs: Any) -> Tensor:
        ids = inputs if inputs.dtype in (dtypes.int32, dtypes.int64) else cast(inputs, dtypes.int32)
        return embedding_lookup(self.embeddings, ids)
