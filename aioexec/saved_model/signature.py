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
        session: runs the steps; the caller owns it.
        method_name: what it is for, such as "tensorflow/serving/predict".
        defaults: the values of inputs that a call may leave out.

    Constant: all attributes. `_converters` converts the value of each input.
    """

    __slots__ = ("_converters", "defaults", "inputs", "method_name", "name", "outputs", "session")

    def __init__(
        self,
        name: str,
        inputs: Mapping[str, Tensor],
        outputs: Mapping[str, Tensor],
        session: Runner,
        *,
        method_name: str = PREDICT_METHOD_NAME,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.inputs = dict(inputs)
        self.outputs = dict(outputs)
        self.session = session
        self.method_name = method_name
        self.defaults = dict(defaults or {})
        self._converters = {key: FeedConverter(tensor) for key, tensor in self.inputs.items()}

    def __repr__(self) -> str:
        return f"Signature({self.name!r}, {_described(self.inputs)} -> {_described(self.outputs)})"

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
        fetches = self.outputs if outputs is None else self._chosen(outputs)
        values = self._complete(inputs)
        if any(is_slow_to_convert(value, self._converters[key].numpy) for key, value in values.items()):
            feeds = await in_thread(self._feeds, values)
        else:
            feeds = self._feeds(values)
        results = await self.session.run(list(fetches.values()), feeds)
        return dict(zip(fetches, results, strict=True))

    def _complete(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all inputs, in the order of the signature."""
        if len(inputs) == len(self.inputs) and inputs.keys() == self.inputs.keys():
            return {key: inputs[key] for key in self.inputs}
        given = {**self.defaults, **inputs}
        missing = [key for key in self.inputs if key not in given]
        unknown = [key for key in given if key not in self.inputs]
        if missing or unknown:
            parts = [f"{what} {keys}" for what, keys in (("missing", missing), ("unknown", unknown)) if keys]
            raise InvalidArgumentError(
                f"signature {self.name!r}: expected inputs {sorted(self.inputs)}, got {sorted(inputs)}: {', '.join(parts)}"
            )
        return {key: given[key] for key in self.inputs}

    def _feeds(self, values: Mapping[str, Any]) -> dict[Tensor, Any]:
        """The feeds of a step: arrays of the inputs' dtypes, by tensor."""
        return {self.inputs[key]: self._array(key, value) for key, value in values.items()}

    def _array(self, key: str, value: Any) -> Any:
        converter = self._converters[key]
        try:
            return converter.convert(value)
        except InvalidArgumentError as error:
            expected = _described({key: converter.tensor})
            raise type(error)(
                f"signature {self.name!r}, input {key!r}: expected {expected}: {error.message}"
            ) from error

    def _chosen(self, names: Collection[str]) -> dict[str, Tensor]:
        unknown = [name for name in names if name not in self.outputs]
        if unknown:
            raise InvalidArgumentError(
                f"signature {self.name!r}: expected outputs among {sorted(self.outputs)}, got {unknown}"
            )
        return {name: self.outputs[name] for name in names}


def _described(tensors: Mapping[str, Tensor]) -> str:
    """Tensors as text: `x: float32 (?, 3)`."""
    return ", ".join(
        f"{key}: {tensor.dtype.name} {shapes.describe(tensor.dims)}" for key, tensor in tensors.items()
    )
