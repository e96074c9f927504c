"""Bounds on the memory and work that a GraphDef may expand to.

A few bytes can expand to very much: the last listed element of a tensor is repeated to fill its shape; an attribute gives the
number of a node's outputs; a function has a body for each set of attributes and input shapes of its calls, whose number may
double from function to function. Each import therefore has an allowance, kept by the function library; an import that exceeds
it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from aioexec.errors import GraphValueError
from aioexec.formats.protos import AttrValue, FunctionDef, GraphDef
from aioexec.formats.tensor_codec import expanded_bytes

MOST_BYTES: Final = 24 << 20
_FEW_OUTPUTS: Final = 8  # per node; the allowance counts outputs beyond these


class Allowance:
    """The allowance that is left of one import.

    Attributes:
        tensors: bytes of tensor elements that are not listed.
        outputs: outputs of nodes with more than a few.
        bodies: nodes of function bodies, counted each time a body is built.
        shapes: nodes of function bodies, counted each time shapes are inferred for other shapes of the inputs.
        attributes: bytes of function attributes substituted for placeholders.
    """

    def __init__(self, graph_def: GraphDef) -> None:
        functions = graph_def.library.function
        own = len(graph_def.node) + sum(len(function.node_def) for function in functions)
        self.tensors = MOST_BYTES
        self.outputs = (1 << 16) + 8 * own
        self.bodies = 1000 + 8 * own
        self.shapes = 500 + 4 * own
        self.attributes = (1 << 16) + graph_def.library.ByteSize()
        for function in functions:
            defaults = [attr.default_value for attr in function.signature.attr]
            self.take_tensors([*function.attr.values(), *defaults])

    def take_outputs(self, count: int) -> None:
        """Account for a node with `count` outputs.

        Raises:
            GraphValueError: the allowance is used up.
        """
        if count > _FEW_OUTPUTS:
            self.outputs -= count
            if self.outputs < 0:
                raise GraphValueError("the nodes of a GraphDef have too many outputs")

    def take_body(self, proto: FunctionDef) -> None:
        """Account for building the body of a function.

        Raises:
            GraphValueError: the allowance is used up.
        """
        self.bodies -= 1 + len(proto.node_def)
        if self.bodies < 0:
            raise GraphValueError(
                "the bodies of functions come to too many nodes, one body for each set of attributes they are called with"
            )

    def take_shapes(self, body: Any) -> bool:
        """Account for another shape inference of a body (FuncGraph); False if the allowance is used up."""
        self.shapes -= sum(1 + len(op.outputs) // _FEW_OUTPUTS for op in body.get_operations())
        return self.shapes >= 0

    def take_attribute(self, held: AttrValue) -> None:
        """Account for the substitution of a function attribute for a placeholder.

        Raises:
            GraphValueError: the allowance is used up.
        """
        self.attributes -= held.ByteSize()
        if self.attributes < 0:
            raise GraphValueError("the attributes that functions are called with come to too many bytes")

    def take_tensors(self, attrs: Iterable[AttrValue]) -> None:
        """Account for the tensors in attributes, before they are expanded, and in the attributes of the functions they name.

        Raises:
            GraphValueError: the allowance is used up.
        """
        waiting = list(attrs)
        while waiting:
            held = waiting.pop()
            kind = held.WhichOneof("value")
            if kind == "tensor":
                self.tensors -= expanded_bytes(held.tensor)
            elif kind == "list":
                self.tensors -= sum(map(expanded_bytes, held.list.tensor))
                for called in held.list.func:
                    waiting.extend(called.attr.values())
            elif kind == "func":
                waiting.extend(held.func.attr.values())
        if self.tensors < 0:
            raise GraphValueError(
                f"the tensors of a GraphDef that list fewer elements than they have come to more than {MOST_BYTES} bytes"
            )
