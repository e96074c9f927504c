"""What a `Batcher` runs: a signature, or a coroutine function. Checks the values of a request, and runs those of a batch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.graph.node import Tensor
from aioexec.sessions.feeds import FeedConverter, is_slow_to_convert

Array: TypeAlias = np.ndarray[Any, Any]

Function: TypeAlias = Callable[..., Awaitable[Mapping[str, Any]]]
"""Takes arrays by name and returns arrays by name; the first dimension of each is the batch."""

Outputs: TypeAlias = tuple[str, ...] | None
"""The names of the outputs that are requested; None for all."""

Tails: TypeAlias = tuple[Any, ...]
"""For each value of a request its shape without the batch, and where they may differ the dtypes."""

GroupKey: TypeAlias = tuple[Outputs, tuple[str, ...], Tails]
"""What the requests of a batch have in common: outputs, the names of inputs, and what follows the batch in their shapes."""


@runtime_checkable
class Signature(Protocol):
    """What batching uses of a signature: its tensors by name, and a coroutine function that runs a step."""

    @property
    def name(self) -> str:
        """Its key in the model, such as "serving_default"."""

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The tensors to feed."""

    @property
    def outputs(self) -> Mapping[str, Tensor]:
        """The tensors that can be fetched."""

    async def run(
        self, inputs: Mapping[str, Any], outputs: Collection[str] | None = None
    ) -> dict[str, Array]:
        """Run a step with values for the inputs; return the named outputs, or all."""


@runtime_checkable
class Model(Protocol):
    """A loaded model: it has a signature that is run by default."""

    def signature(self) -> Signature:
        """The signature "serving_default", or the only one."""


class BatchedModel(Protocol):
    """A model as a `Batcher` uses it."""

    def is_slow(self, inputs: Mapping[str, Any]) -> bool:
        """Whether `values_of` takes so long that it would block the event loop."""

    def values_of(
        self, inputs: Mapping[str, Any], outputs: Collection[str] | None
    ) -> tuple[GroupKey, list[Array]]:
        """The group of a request, and its values in the order of the group's names.

        Raises:
            InvalidArgumentError: names, dtypes or shapes are wrong.
        """

    async def run(self, key: GroupKey, values: list[Array]) -> Mapping[str, Any]:
        """Run a step with the values of a batch."""


class Layout:
    """The names, dtypes and shapes of a request whose values were used as they were given.

    A further request like it needs no other checks: this takes a tenth of the time of `BatchedModel.values_of`.

    Constant: `key`, the group of such requests; `_arrays`, the name, dtype and further dimensions of each value.
    """

    __slots__ = ("_arrays", "key")

    def __init__(self, key: GroupKey, values: Sequence[Array]) -> None:
        self.key = key
        self._arrays = [
            (name, value.dtype, value.shape[1:]) for name, value in zip(key[1], values, strict=True)
        ]

    def values_of(self, inputs: Mapping[str, Any]) -> list[Array] | None:
        """The values of a request in the order of the group's names; None if it differs."""
        if len(inputs) != len(self._arrays):
            return None
        values: list[Array] = []
        rows = 0
        for name, dtype, tail in self._arrays:
            value = inputs.get(name)
            if type(value) is not np.ndarray or value.dtype is not dtype:
                return None
            shape = value.shape
            if not shape or not shape[0] or shape[1:] != tail or (rows and shape[0] != rows):
                return None
            rows = shape[0]
            values.append(value)
        return values


def layout_of(inputs: Mapping[str, Any], key: GroupKey, values: Sequence[Array]) -> Layout | None:
    """The layout of a request with these values; None if they were converted, or have elements that are to be checked."""
    for name, value in zip(key[1], values, strict=True):
        if value is not inputs[name] or value.dtype.hasobject:
            return None
    return Layout(key, values)


def batched_model(model: Signature | Model | Function) -> BatchedModel:
    """Wrap what a `Batcher` was given.

    Raises:
        GraphTypeError, GraphValueError: it cannot be run in batches.
    """
    if isinstance(model, Model):
        model = model.signature()
    if isinstance(model, Signature):
        return BatchedSignature(model)
    if callable(model):
        return BatchedFunction(model)
    raise GraphTypeError(f"Batcher: expected a model, a signature or a coroutine function, got {model!r}")


class BatchedSignature:
    """A signature: values are converted as its session converts feeds."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._converters: dict[str, FeedConverter] = {}
        optional: Mapping[str, Any] = getattr(signature, "defaults", {})
        for name, tensor in signature.inputs.items():
            if _has_batch(tensor):
                self._converters[name] = FeedConverter(tensor)
            elif name not in optional:
                raise self._error(GraphValueError, "input", name, tensor)
        self._required = self._converters.keys() - optional.keys()
        self._names = tuple(self._converters)
        self._unbatched = next((name for name, it in signature.outputs.items() if not _has_batch(it)), None)

    def _error(
        self, kind: type[InvalidArgumentError], what: str, name: str, tensor: Tensor
    ) -> InvalidArgumentError:
        return kind(
            f"Batcher: {what} {name!r} of signature {self._signature.name!r} must have a batch of any size as its first "
            f"dimension, Tensor {tensor.name!r} is {tensor.dtype.name} {tensor.shape}"
        )

    def is_slow(self, inputs: Mapping[str, Any]) -> bool:
        for name, value in inputs.items():
            converter = self._converters.get(name)
            if (
                converter is not None
                and (type(value) is not np.ndarray or value.dtype is not converter.numpy)
                and is_slow_to_convert(value, converter.numpy)
            ):
                return True
        return False

    def values_of(
        self, inputs: Mapping[str, Any], outputs: Collection[str] | None
    ) -> tuple[GroupKey, list[Array]]:
        names = self._names
        if len(inputs) != len(names) or inputs.keys() != self._converters.keys():
            names = self._given(inputs)
        values = [self._converted(name, inputs[name]) for name in names]
        _check_rows(names, values)
        chosen = self._chosen(outputs)
        return (chosen, names, tuple([value.shape[1:] for value in values])), values

    def _given(self, inputs: Mapping[str, Any]) -> tuple[str, ...]:
        missing = [name for name in self._required if name not in inputs]
        unknown = [name for name in inputs if name not in self._converters]
        if missing or unknown or not inputs:
            raise InvalidArgumentError(
                f"Batcher: expected inputs {sorted(self._converters)} of signature {self._signature.name!r}, "
                f"got {sorted(inputs)}"
            )
        return tuple(name for name in self._names if name in inputs)

    def _converted(self, name: str, value: Any) -> Array:
        try:
            converted: Array = self._converters[name].convert(value)
        except InvalidArgumentError as error:
            raise type(error)(
                f"Batcher: input {name!r} of signature {self._signature.name!r}: {error.message}"
            ) from error
        return converted

    def _chosen(self, outputs: Collection[str] | None) -> Outputs:
        if outputs is None:
            if self._unbatched is None:
                return None
            outputs = self._signature.outputs.keys()
        for name in outputs:
            tensor = self._signature.outputs.get(name)
            if tensor is None:
                raise InvalidArgumentError(
                    f"Batcher: expected outputs among {sorted(self._signature.outputs)} of signature "
                    f"{self._signature.name!r}, got {name!r}"
                )
            if not _has_batch(tensor):
                raise self._error(InvalidArgumentError, "output", name, tensor)
        return tuple(outputs)

    async def run(self, key: GroupKey, values: list[Array]) -> Mapping[str, Any]:
        outputs, names, _ = key
        return await self._signature.run(dict(zip(names, values, strict=True)), outputs)


class BatchedFunction:
    """A coroutine function: values of any dtypes and shapes, which batches have in common."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._name = getattr(function, "__qualname__", repr(function))

    def is_slow(self, inputs: Mapping[str, Any]) -> bool:
        return any(
            type(value) is not np.ndarray and is_slow_to_convert(value, np.dtype(object))
            for value in inputs.values()
        )

    def values_of(
        self, inputs: Mapping[str, Any], outputs: Collection[str] | None
    ) -> tuple[GroupKey, list[Array]]:
        if not inputs:
            raise InvalidArgumentError(f"Batcher: a call of {self._name} needs an input")
        names = tuple(inputs)
        values = [self._converted(name, value) for name, value in inputs.items()]
        _check_rows(names, values)
        tails = tuple([(value.shape[1:], value.dtype) for value in values])
        return (None if outputs is None else tuple(outputs), names, tails), values

    def _converted(self, name: str, value: Any) -> Array:
        if type(value) is np.ndarray:
            return value
        try:
            return dtypes.to_array(value)
        except InvalidArgumentError as error:
            raise type(error)(f"Batcher: input {name!r} of {self._name}: {error.message}") from error

    async def run(self, key: GroupKey, values: list[Array]) -> Mapping[str, Any]:
        outputs, names, _ = key
        results = await self._function(**dict(zip(names, values, strict=True)))
        if not isinstance(results, Mapping):
            raise GraphTypeError(
                f"Batcher: {self._name} must return a mapping of arrays by name, got {type(results).__name__}"
            )
        if outputs is None:
            return results
        missing = [name for name in outputs if name not in results]
        if missing:
            raise InvalidArgumentError(
                f"Batcher: {self._name} returned the outputs {sorted(results)}, not {missing}"
            )
        return {name: results[name] for name in outputs}


def _has_batch(tensor: Tensor) -> bool:
    """Whether the first dimension of a tensor can be a batch of any size."""
    is_array = tensor.dtype.base_dtype not in (dtypes.resource, dtypes.variant)
    return is_array and (tensor.dims is None or (len(tensor.dims) > 0 and tensor.dims[0] is None))


def _check_rows(names: tuple[str, ...], values: list[Array]) -> None:
    """Check that all values have the same number of rows, at least one."""
    first = values[0].shape
    if not first or not first[0]:
        raise InvalidArgumentError(
            f"Batcher: input {names[0]!r} must have a batch of at least one row as its first dimension, got the shape {first}"
        )
    for i in range(1, len(values)):
        if values[i].shape[:1] != first[:1]:
            raise InvalidArgumentError(
                f"Batcher: all inputs must have as many rows as {names[0]!r}, {first[0]}, got {names[i]!r} of shape "
                f"{values[i].shape}"
            )
