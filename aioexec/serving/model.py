"""A model: the tensors that requests feed and fetch, by the names in requests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Protocol

from aioexec.data_classes import dataclass
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.node import Tensor


class Runner(Protocol):
    """The interface of a session that serving uses."""

    async def run(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> Any:
        """Run a step and return the values of the fetches."""


@dataclass(frozen=True, slots=True)
class Model:
    """A session with a signature.

    `inputs` and `outputs` are the tensors of the signature, by the names that clients use.

    The caller owns the session, closes it, and may train the same graph meanwhile.
    """

    name: ClassVar[str] = "serving_default"
    method_name: ClassVar[str] = "tensorflow/serving/predict"

    session: Runner
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        for kind, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            if not tensors:
                raise GraphValueError(f"Model: {kind} must name at least one tensor")
            for name, tensor in tensors.items():
                if not isinstance(tensor, Tensor):
                    raise GraphTypeError(f"Model: {kind}[{name!r}] must be a Tensor, got {tensor!r}")

    async def run(self, inputs: Mapping[str, Any], outputs: Collection[str] | None = None) -> dict[str, Any]:
        """Run a step with values for the inputs; return the named outputs, or all."""
        fetches = {name: self.outputs[name] for name in (self.outputs if outputs is None else outputs)}
        values: dict[str, Any] = await self.session.run(
            fetches, {self.inputs[name]: value for name, value in inputs.items()}
        )
        return values
