"""Attention mechanisms: how much of each step of a memory to read for a query."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import control_dependencies
from aioexec.layers.base import Layer
from aioexec.layers.core import Dense
from aioexec.ops.array.arrays import expand_dims, reshape, squeeze
from aioexec.ops.array.filling import ones_like, range_
from aioexec.ops.array.joining import concat
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.control_flow.checks import assert_equal, assert_positive
from aioexec.ops.control_flow.nesting import flatten, map_structure
from aioexec.ops.linalg.products import matmul
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import where
from aioexec.ops.math.math_functions import rsqrt, square, tanh
from aioexec.ops.nn.softmax import softmax
from aioexec.ops.reduction.reductions import reduce_sum
from aioexec.ops.state.initializers import constant_initializer, ones_initializer, zeros_initializer
from aioexec.ops.state.variable_scope import get_variable, variable_scope
from aioexec.recurrent.states import zeros_of

ProbabilityFunction = Callable[[Any], Any]


class AttentionMechanism:
    """The interface of attention mechanisms; `AttentionWrapper` accepts its subclasses.

    `mechanism(query, state)` returns the alignments, `[batch, memory steps]`, and the next state.
    """

    @property
    def alignments_size(self) -> Any:
        """The number of steps of the memory; abstract, as in TensorFlow."""
        raise NotImplementedError

    @property
    def state_size(self) -> Any:
        """The size of the state; abstract, as in TensorFlow."""
        raise NotImplementedError


class BaseAttentionMechanism(AttentionMechanism):
    """The base of mechanisms that compare a query with keys made of a memory.

    Args:
        query_layer, memory_layer: layers for the query and for the memory, or None.
        memory: `[batch, steps, ...]`; steps past the lengths are set to zero.
        probability_fn: function of scores and the last state that returns alignments.
        memory_sequence_length: integer vector of the batch.
        check_inner_dims_defined: check that the dimensions of the memory after the first two are static.
        score_mask_value: the score of steps past the lengths, by default -inf.
        custom_key_value_fn: function of keys and values that returns the ones to use.

    Raises:
        GraphTypeError: a layer is no layer, or a function is not callable.
        GraphValueError: a dimension of the memory is unknown.
    """

    def __init__(
        self,
        query_layer: Any,
        memory: Any,
        probability_fn: Callable[[Any, Any], Any],
        memory_sequence_length: Any = None,
        memory_layer: Any = None,
        check_inner_dims_defined: bool = True,
        score_mask_value: Any = None,
        custom_key_value_fn: Callable[[Any, Any], Any] | None = None,
        name: str | None = None,
    ) -> None:
        for what, layer in (("query_layer", query_layer), ("memory_layer", memory_layer)):
            if layer is not None and not isinstance(layer, Layer):
                raise GraphTypeError(f"{what} is not a Layer: {type(layer).__name__}")
        if not callable(probability_fn):
            raise GraphTypeError(
                f"probability_fn must be callable, saw type: {type(probability_fn).__name__}"
            )
        self._query_layer = query_layer
        self._memory_layer = memory_layer
        self._lengths = None if memory_sequence_length is None else convert_to_tensor(memory_sequence_length)
        self._score_mask_value = -math.inf if score_mask_value is None else score_mask_value
        self._probabilities = probability_fn
        with op_scope(name, "BaseAttentionMechanismInit", *flatten(memory)):
            self._values = _masked_memory(memory, self._lengths, check_inner_dims_defined)
            self._keys = self._values if memory_layer is None else memory_layer(self._values)
            if custom_key_value_fn is not None:
                self._keys, self._values = custom_key_value_fn(self._keys, self._values)
            batch, steps = self._keys.shape[0].value, self._keys.shape[1].value
            self._batch_size = shape(self._keys)[0] if batch is None else batch
            self._alignments_size = shape(self._keys)[1] if steps is None else steps

    def _alignments(self, scores: Tensor, state: Any) -> Any:
        """Return the alignments for the scores of all steps; those past the lengths have the mask value."""
        if self._lengths is not None:
            message = "All values in memory_sequence_length must greater than zero."
            with control_dependencies([assert_positive(self._lengths, message=message)]):
                masked = convert_to_tensor(self._score_mask_value, scores.dtype) * ones_like(scores)
                scores = where(steps_before(self._lengths, shape(scores)[1]), scores, masked)
        return self._probabilities(scores, state)

    @property
    def memory_layer(self) -> Any:
        return self._memory_layer

    @property
    def query_layer(self) -> Any:
        return self._query_layer

    @property
    def values(self) -> Any:
        """The memory, zero past the lengths."""
        return self._values

    @property
    def keys(self) -> Any:
        """What queries are compared with, `[batch, steps, depth]`."""
        return self._keys

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    @property
    def alignments_size(self) -> Any:
        return self._alignments_size

    @property
    def state_size(self) -> Any:
        return self._alignments_size

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Return the alignments before the first step, `[batch, steps]`; here zeros."""
        return zeros_of(batch_size, self._alignments_size, dtype)

    def initial_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return the state before the first step; here the initial alignments."""
        return self.initial_alignments(batch_size, dtype)


def steps_before(lengths: Tensor, steps: Any) -> Tensor:
    """Return which steps are before the end of each sequence, `[..., steps]`."""
    before: Tensor = cast(range_(steps), lengths.dtype) < expand_dims(lengths, -1)
    return before


def _masked_memory(memory: Any, lengths: Tensor | None, checks: bool) -> Any:
    def masked(each: Any) -> Tensor:
        tensor = convert_to_tensor(each, name="memory")
        if checks and not tensor.shape[2:].is_fully_defined():
            raise GraphValueError(
                f"Expected memory {tensor.name} to have fully defined inner dims, but saw shape: {tensor.shape}"
            )
        if lengths is None:
            return tensor
        message = "memory_sequence_length and memory tensor batch sizes do not match."
        with control_dependencies([assert_equal(shape(lengths)[0], shape(tensor)[0], message=message)]):
            mask = cast(steps_before(lengths, shape(tensor)[1]), tensor.dtype)
            ones = [1] * (len(tensor.dims or ()) - 2)
            product: Tensor = tensor * reshape(mask, concat([shape(mask), ones], 0) if ones else shape(mask))
            product.set_shape(tensor.shape)
            return product

    return map_structure(masked, memory)


def _bare(probability_fn: ProbabilityFunction | None) -> Callable[[Any, Any], Any]:
    """Return a function of scores, by default the softmax, as one that ignores the last state."""
    function = softmax if probability_fn is None else probability_fn
    return lambda scores, _: function(scores)


def without_bias(units: int, name: str, dtype: Any) -> Dense:
    return Dense(units, name=name, use_bias=False, dtype=dtype)


class LuongMechanism(BaseAttentionMechanism):
    """The base of mechanisms with multiplicative scores, which need queries of `num_units` columns."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        probabilities: Callable[[Any, Any], Any],
        lengths: Any,
        scale: bool,
        score_mask_value: Any,
        dtype: Any,
        custom_key_value_fn: Callable[[Any, Any], Any] | None,
        name: str,
    ) -> None:
        super().__init__(
            None,
            memory,
            probabilities,
            lengths,
            without_bias(num_units, "memory_layer", dtype),
            score_mask_value=score_mask_value,
            custom_key_value_fn=custom_key_value_fn,
            name=name,
        )
        self._scale = scale

    def _scores(self, query: Tensor) -> Tensor:
        """Return `query . key` for each step, times `attention_g` if scaled.

        Raises:
            GraphValueError: queries and keys have different depths.
        """
        depth, units = query.shape[-1].value, self._keys.shape[-1].value
        if depth is not None and units is not None and depth != units:
            raise GraphValueError(
                "Incompatible or unknown inner dimensions between query and keys.  "
                f"Query ({query}) has units: {depth}.  Keys ({self._keys}) have units: {units}.  "
                f"Perhaps you need to set num_units to the keys' dimension ({units})?"
            )
        scores: Tensor = squeeze(matmul(expand_dims(query, 1), self._keys, transpose_b=True), [1])
        if self._scale:
            scores = get_variable("attention_g", [], query.dtype, ones_initializer()) * scores
        return scores


class LuongAttention(LuongMechanism):
    """Multiplicative attention: the score of a step is the inner product of the query and its key.

    Variables: `memory_layer/kernel`, by which the memory is multiplied to keys; with `scale`, the scalar `attention_g`, one at
    first, in the scope `luong_attention`.

    Args:
        num_units: depth of keys and queries.
        memory: `[batch, steps, depth]`.
        memory_sequence_length: integer vector of the batch; what is past the lengths is not read.
        scale: multiply scores by a variable.
        probability_fn: function of scores that returns alignments, by default the softmax.
        score_mask_value: the score of steps past the lengths, by default -inf.
        dtype: dtype of the layer, by default that of the memory.
        custom_key_value_fn: function of keys and values that returns the ones to use.

    Raises:
        GraphValueError: a dimension of the memory is unknown, or (in a call) the query has another depth.
    """

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        probability_fn: ProbabilityFunction | None = None,
        score_mask_value: Any = None,
        dtype: Any = None,
        custom_key_value_fn: Callable[[Any, Any], Any] | None = None,
        name: str = "LuongAttention",
    ) -> None:
        super().__init__(
            num_units,
            memory,
            _bare(probability_fn),
            memory_sequence_length,
            scale,
            score_mask_value,
            dtype,
            custom_key_value_fn,
            name,
        )

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        with variable_scope(None, "luong_attention", [query]):
            scores = self._scores(query)
        alignments = self._alignments(scores, state)
        return alignments, alignments


class BahdanauMechanism(BaseAttentionMechanism):
    """The base of mechanisms with additive scores."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        probabilities: Callable[[Any, Any], Any],
        lengths: Any,
        normalize: bool,
        score_mask_value: Any,
        dtype: Any,
        custom_key_value_fn: Callable[[Any, Any], Any] | None,
        name: str,
    ) -> None:
        super().__init__(
            without_bias(num_units, "query_layer", dtype),
            memory,
            probabilities,
            lengths,
            without_bias(num_units, "memory_layer", dtype),
            score_mask_value=score_mask_value,
            custom_key_value_fn=custom_key_value_fn,
            name=name,
        )
        self._num_units = num_units
        self._normalize = normalize

    def _scores(self, query: Tensor) -> Tensor:
        """Return `v . tanh(key + query_layer(query))` for each step; with normalized v, and a bias in tanh, if normalized."""
        units, dtype = self._num_units, query.dtype
        hidden = self._keys + expand_dims(self._query_layer(query), 1)
        v = get_variable("attention_v", [units], dtype)
        if self._normalize:
            initial = constant_initializer(math.sqrt(1 / units))
            g = get_variable("attention_g", [], dtype, initial)
            hidden = hidden + get_variable("attention_b", [units], dtype, zeros_initializer())
            v = g * v * rsqrt(reduce_sum(square(v)))
        return reduce_sum(v * tanh(hidden), [2])


class BahdanauAttention(BahdanauMechanism):
    """Additive attention: the score of a step is `v . tanh(key + query_layer(query))`.

    Variables: `memory_layer/kernel`, by which the memory is multiplied to keys; in the scope `bahdanau_attention`
    `query_layer/kernel` and `attention_v`, `[num_units]`; with `normalize` also the scalar `attention_g`, at first the square
    root of 1 / num_units, and `attention_b`, `[num_units]`, zeros at first: then v has the norm g, and b is added in tanh.

    Args:
        num_units: depth of keys and processed queries.
        memory: `[batch, steps, depth]`.
        memory_sequence_length: integer vector of the batch; what is past the lengths is not read.
        normalize: normalize v.
        probability_fn: function of scores that returns alignments, by default the softmax.
        score_mask_value: the score of steps past the lengths, by default -inf.
        dtype: dtype of the layers, by default that of their inputs.
        custom_key_value_fn: function of keys and values that returns the ones to use.

    Raises:
        GraphValueError: a dimension of the memory is unknown.
    """

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        probability_fn: ProbabilityFunction | None = None,
        score_mask_value: Any = None,
        dtype: Any = None,
        custom_key_value_fn: Callable[[Any, Any], Any] | None = None,
        name: str = "BahdanauAttention",
    ) -> None:
        super().__init__(
            num_units,
            memory,
            _bare(probability_fn),
            memory_sequence_length,
            normalize,
            score_mask_value,
            dtype,
            custom_key_value_fn,
            name,
        )

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        with variable_scope(None, "bahdanau_attention", [query]):
            scores = self._scores(query)
        alignments = self._alignments(scores, state)
        return alignments, alignments
