"""Signatures and served versions for tests."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from aioexec.graph.node import Tensor
from aioexec.serving.models.served_version import ServedVersion


class Fake:
    """A signature of given tensors; `compute` makes the outputs of the inputs."""

    def __init__(
        self,
        inputs: Mapping[str, Tensor],
        outputs: Mapping[str, Tensor],
        compute: Any = None,
        *,
        name: str = "serving_default",
        method: str = "predict",
    ) -> None:
        self.name = name
        self.method_name = f"tensorflow/serving/{method}"
        self.inputs = inputs
        self.outputs = outputs
        self._compute = compute

    async def run(self, inputs: Mapping[str, Any], outputs: Any = None) -> dict[str, Any]:
        """Return the outputs that are wanted."""
        computed = self._compute(**inputs)
        return {name: computed[name] for name in (computed if outputs is None else outputs)}


def served_version(signature: Any, name: str = "model") -> ServedVersion:
    """A version with one signature."""
    return ServedVersion(name, 1, SimpleNamespace(signatures={signature.name: signature}))
