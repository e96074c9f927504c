"""`Signature`: tensors to feed and to fetch, by the names that callers use; `await signature(x=…)` runs a step.

Used by loaded models, and by what serves them. A signature belongs to the event loop of its session.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.in_thread import in_thread
from aioexec.saved_model.signature_constants import PREDICT_METHOD_NAME
from aioexec.sessions.feeds import FeedConverter, is_slow_to_convert

Array = np.ndarray[Any, Any]


class Runner(Protocol):
    """The interface of a session that signatures use."""

    async def run(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> Any:
        """Run a step and return the values of the fetches."""


class Signature:
    """A step of a graph as a function from named inputs to named outputs.

    Args:
        name: its key in the model, such as "serving_default".
        inputs: the tensors to feed.
        outputs: the tensors to fetch.
        sparse_inputs, sparse_outputs: the same for sparse tensors, whose values are SparseTensorValues.
        session: runs the steps; the caller owns it.
        method_name: what it is for, such as "tensorflow/serving/predict".
        defaults: the values of inputs that a call may leave out.

    Constant: all attributes. `_keys` and `_fetches`: what is fed and fetched, dense and sparse; `_converters` converts the
    values of dense inputs.
    """

    __slots__ = (
        "_converters",
        "_fetches",
        "_keys",
        "defaults",
        "inputs",
        "method_name",
        "name",
        "outputs",
        "session",
        "sparse_inputs",
        "sparse_outputs",
    )

    def __init__(
        self,
        name: str,
        inputs: Mapping[str, Tensor],
        outputs: Mapping[str, Tensor],
        session: Runner,
        *,
        method_name: str = PREDICT_METHOD_NAME,
        defaults: Mapping[str, Any] | None = None,
        sparse_inputs: Mapping[str, SparseTensor] | None = None,
        sparse_outputs: Mapping[str, SparseTensor] | None = None,
    ) -> None:
        self.name = name
        self.inputs = dict(inputs)
        self.outputs = dict(outputs)
        self.sparse_inputs = dict(sparse_inputs or {})
        self.sparse_outputs = dict(sparse_outputs or {})
        self.session = session
        self.method_name = method_name
        self.defaults = dict(defaults or {})
        self._converters = {key: FeedConverter(tensor) for key, tensor in self.inputs.items()}
        self._keys: dict[str, Any] = {**self.inputs, **self.sparse_inputs}
        self._fetches: dict[str, Any] = {**self.outputs, **self.sparse_outputs}

    def __repr__(self) -> str:
        return f"Signature({self.name!r}, {_described(self._keys)} -> {_described(self._fetches)})"

    async def __call__(self, **inputs: Any) -> dict[str, Array]:
        """Run a step and return all outputs; raises as `run` does."""
        return await self.run(inputs)

    async def run(
        self, inputs: Mapping[str, Any], outputs: Collection[str] | None = None
    ) -> dict[str, Array]:
        """Run a step with values for the inputs; return the outputs of these names, all by default.

        Raises:
            InvalidArgumentError: names, dtypes or shapes differ from the signature's.
            OpError: the step failed.
        """
        fetches = self._fetches if outputs is None else self._chosen(outputs)
        values = self._complete(inputs)
        if any(is_slow_to_convert(values[key], each.numpy) for key, each in self._converters.items()):
            feeds = await in_thread(self._feeds, values)
        else:
            feeds = self._feeds(values)
        results = await self.session.run(list(fetches.values()), feeds)
        return dict(zip(fetches, results, strict=True))

    def _complete(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values of all inputs."""
        keys = self._keys
        if inputs.keys() == keys.keys():
            return inputs
        given = {**self.defaults, **inputs}
        missing = [key for key in keys if key not in given]
        unknown = [key for key in given if key not in keys]
        if missing or unknown:
            parts = [
                f"{what} {names}" for what, names in (("missing", missing), ("unknown", unknown)) if names
            ]
            raise InvalidArgumentError(
                f"signature {self.name!r}: expected inputs {sorted(keys)}, got {sorted(inputs)}: {', '.join(parts)}"
            )
        return given

    def _feeds(self, values: Mapping[str, Any]) -> dict[Any, Any]:
        """The feeds of a step: arrays of the inputs' dtypes, by tensor."""
        return {tensor: self._array(key, values[key]) for key, tensor in self._keys.items()}

    def _array(self, key: str, value: Any) -> Any:
        converter = self._converters.get(key)
        if converter is None:
            return value  # of a sparse tensor, which the session converts
        try:
            return converter.convert(value)
        except InvalidArgumentError as error:
            expected = _described({key: converter.tensor})
            raise type(error)(
                f"signature {self.name!r}, input {key!r}: expected {expected}: {error.message}"
            ) from error

    def _chosen(self, names: Collection[str]) -> dict[str, Any]:
        unknown = [name for name in names if name not in self._fetches]
        if unknown:
            raise InvalidArgumentError(
                f"signature {self.name!r}: expected outputs among {sorted(self._fetches)}, got {unknown}"
            )
        return {name: self._fetches[name] for name in names}


def _described(tensors: Mapping[str, Any]) -> str:
    """Tensors as text: `x: float32 (?, 3)`."""
    return ", ".join(f"{key}: {tensor.dtype.name} {_shape(tensor)}" for key, tensor in tensors.items())


def _shape(tensor: Tensor | SparseTensor) -> str:
    return shapes.describe(tensor.dims) if isinstance(tensor, Tensor) else f"sparse {tensor.get_shape()}"
