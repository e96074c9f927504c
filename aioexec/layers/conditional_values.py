"""Losses and updates of a layer, each with whether it depends on the layer's inputs."""

from __future__ import annotations

from typing import Any

from aioexec.graph.node import Operation, Tensor


class ConditionalValues:
    """Tensors or nodes in the order of their addition; conditional ones depend on the inputs of a call."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._conditional: set[int] = set()

    def add(self, values: list[Any], *, is_conditional: bool) -> None:
        self.values += values
        if is_conditional:
            self._conditional.update(map(id, values))

    def add_by_inputs(self, values: list[Any], inputs: list[Any]) -> None:
        """Add values; conditional are those that a path of data edges connects with one of `inputs`."""
        for value in values:
            self.add([value], is_conditional=depends(value, inputs))

    def depending_on(self, inputs: list[Any] | None) -> list[Any]:
        """The conditional values that depend on one of `inputs`; with None, the others."""
        if inputs is None:
            return [value for value in self.values if id(value) not in self._conditional]
        return [value for value in self.values if id(value) in self._conditional and depends(value, inputs)]


def depends(value: Tensor | Operation, inputs: list[Any]) -> bool:
    """Whether a path of data edges leads from one of `inputs` to `value`."""
    wanted = {id(each) for each in inputs}
    if id(value) in wanted:
        return True
    waiting, seen = [value if isinstance(value, Operation) else value.op], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for tensor in node.inputs:
            if id(tensor) in wanted:
                return True
            waiting.append(tensor.op)
    return False
