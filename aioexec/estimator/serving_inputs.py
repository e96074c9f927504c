"""The inputs of an exported model: what a serving function returns, and functions that make such functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Self

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.array.identity import placeholder
from aioexec.ops.io.example_functions import parse_example
from aioexec.shapes import TensorShape

_FEATURE: Final = "feature"
_RECEIVER: Final = "input"


class _InputReceiver(NamedTuple):
    features: Any
    receiver_tensors: Any
    receiver_tensors_alternatives: Any


class ServingInputReceiver(_InputReceiver):
    """The features of a model that is served, and the tensors to feed for them.

    Args:
        features: a dict from names, or integers, to tensors; a single tensor has the name "feature".
        receiver_tensors: a dict from names to the placeholders; a single one has the name "input".
        receiver_tensors_alternatives: from names of further signatures to other tensors to feed.

    Raises:
        GraphValueError: an argument is missing, a key is no string, or a value is no tensor.
    """

    __slots__ = ()

    def __new__(
        cls,
        features: Any,
        receiver_tensors: Any,
        receiver_tensors_alternatives: Mapping[str, Any] | None = None,
    ) -> Self:
        alternatives = receiver_tensors_alternatives
        if alternatives is not None:
            if not isinstance(alternatives, Mapping):
                raise GraphValueError(f"receiver_tensors_alternatives must be a dict: {alternatives!r}.")
            alternatives = {
                name: _by_name(value, "receiver_tensors_alternative", _RECEIVER)
                for name, value in alternatives.items()
            }
        return super().__new__(
            cls,
            _by_name(features, "feature", _FEATURE, allow_integers=True),
            _by_name(receiver_tensors, "receiver_tensor", _RECEIVER),
            alternatives,
        )


class TensorServingInputReceiver(_InputReceiver):
    """A ServingInputReceiver whose features are one tensor, which the model function receives as it is.

    Raises:
        GraphValueError: see `ServingInputReceiver`.
    """

    __slots__ = ()

    def __new__(
        cls,
        features: Any,
        receiver_tensors: Any,
        receiver_tensors_alternatives: Mapping[str, Any] | None = None,
    ) -> Self:
        if features is None:
            raise GraphValueError("features must be defined.")
        _check_tensor(features, "feature")
        others = ServingInputReceiver(features, receiver_tensors, receiver_tensors_alternatives)
        return super().__new__(cls, features, others.receiver_tensors, others.receiver_tensors_alternatives)


def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Return a function that parses serialized Examples [batch], which are fed as "examples".

    Args:
        feature_spec: see `parse_example`.
        default_batch_size: the number of examples; None if it varies.
    """

    def serving_input_receiver_fn() -> ServingInputReceiver:
        serialized = placeholder(dtypes.string, [default_batch_size], name="input_example_tensor")
        return ServingInputReceiver(parse_example(serialized, feature_spec), {"examples": serialized})

    return serving_input_receiver_fn


def build_raw_serving_input_receiver_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Return a function whose features are placeholders like the given tensors.

    Args:
        default_batch_size: the size of the first dimension; None if it varies.
    """

    def serving_input_receiver_fn() -> ServingInputReceiver:
        receivers = {name: _placeholder_like(each, default_batch_size) for name, each in features.items()}
        return ServingInputReceiver(receivers, receivers)

    return serving_input_receiver_fn


def _placeholder_like(tensor: Any, batch_size: int | None) -> Tensor:
    shape = TensorShape([batch_size]).concatenate(tensor.shape[1:])
    return placeholder(tensor.dtype.base_dtype, shape, name=tensor.op.name)


def _by_name(value: Any, what: str, single: str, allow_integers: bool = False) -> Mapping[Any, Any]:
    """A dict of tensors; a tensor itself has the name `single`."""
    if value is None:
        raise GraphValueError(f"{what}s must be defined.")
    tensors = value if isinstance(value, Mapping) else {single: value}
    for key, tensor in tensors.items():
        if not isinstance(key, str) and not (allow_integers and isinstance(key, int)):
            kinds = "strings or ints" if allow_integers else "strings"
            raise GraphValueError(f"{what} keys must be {kinds}: {key!r}.")
        _check_tensor(tensor, f"{what} {key}")
    return tensors


def _check_tensor(value: Any, what: str) -> None:
    if not isinstance(value, Tensor | SparseTensor):
        raise GraphValueError(f"{what} must be a Tensor or SparseTensor, got {value!r}.")
