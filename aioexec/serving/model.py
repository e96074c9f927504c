"""A model: the tensors that requests feed and fetch, by the names in requests."""

from collections.abc import Mapping
from typing import Any, Protocol

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType, bool_, string
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.node import Tensor


class Runner(Protocol):
    """The interface of a session that serving uses."""

    async def run(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> Any:
        """Run a step and return the values of the fetches."""


@dataclass(frozen=True, slots=True)
class Model:
    """A session with a signature; the first dimension of every input and output is the batch.

    `inputs` and `outputs` are the tensors of the signature, by the names that clients use.

    The caller owns the session, closes it, and may train the same graph meanwhile.
    """

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
                if tensor.dims == ():
                    raise GraphValueError(
                        f"Model: {kind}[{name!r}] must have a batch dimension, {tensor.name!r} is a scalar"
                    )
        for name, tensor in self.outputs.items():
            if not _has_json(tensor.dtype.base_dtype):
                raise GraphTypeError(
                    f"Model: outputs[{name!r}] must have a dtype whose values JSON has, got {tensor.dtype.name}"
                )


def _has_json(dtype: DType) -> bool:
    is_number = dtype.is_integer or dtype.is_floating
    return (is_number and not dtype.is_quantized) or dtype in (bool_, string)
