"""The signatures of an imported graph, from its SignatureDefs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from aioexec.errors import InvalidArgumentError, OpError
from aioexec.graph.graph import Graph
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.saved_model.constants import INIT_OP_SIGNATURE_KEY, TRAIN_OP_SIGNATURE_KEY
from aioexec.saved_model.signature import Signature
from aioexec.saved_model.utils import get_tensor_from_tensor_info
from aioexec.sessions.session import Session

if TYPE_CHECKING:
    from aioexec.formats.protos import MetaGraphDef, SignatureDef, TensorInfo

Chosen = Mapping[str, str] | Collection[str] | None
"""Names of tensors by the names that callers use, or names alone; None for those that fit by their position in the graph."""

_NO_RESULTS: Final = frozenset({"Const", "Placeholder", "NoOp"})
"""Ops that are no results of a graph, even if nothing takes their outputs."""


def signatures_of(meta_graph: MetaGraphDef, session: Session, path: str) -> dict[str, Signature]:
    """The signatures of a graph by name, without those that name operations.

    Raises:
        InvalidArgumentError: a tensor of a signature is not in the graph, or has another dtype.
    """
    return {
        name: _signature(name, signature, session, path)
        for name, signature in sorted(meta_graph.signature_def.items())
        if name not in (INIT_OP_SIGNATURE_KEY, TRAIN_OP_SIGNATURE_KEY)
    }


def _signature(name: str, signature: SignatureDef, session: Session, path: str) -> Signature:
    where = f"{path}: signature {name!r}"
    inputs = _tensors(signature.inputs, session.graph, f"{where}, input")
    outputs = _tensors(signature.outputs, session.graph, f"{where}, output")
    return Signature(
        name,
        _of_class(inputs, Tensor),
        _of_class(outputs, Tensor),
        session,
        method_name=signature.method_name,
        defaults=_defaults(signature),
        sparse_inputs=_of_class(inputs, SparseTensor),
        sparse_outputs=_of_class(outputs, SparseTensor),
    )


def _of_class(tensors: dict[str, Any], kind: type) -> dict[str, Any]:
    return {key: tensor for key, tensor in tensors.items() if isinstance(tensor, kind)}


def _tensors(infos: Mapping[str, TensorInfo], graph: Graph, where: str) -> dict[str, Any]:
    return {key: _tensor(info, graph, f"{where} {key!r}") for key, info in sorted(infos.items())}


def _tensor(info: TensorInfo, graph: Graph, where: str) -> Tensor | SparseTensor:
    from aioexec.dtypes import as_dtype

    try:
        tensor = get_tensor_from_tensor_info(info, graph)
        expected = as_dtype(info.dtype).base_dtype if info.dtype else tensor.dtype.base_dtype
    except OpError as error:
        raise InvalidArgumentError(
            f"{where}: expected a tensor of the graph, got {str(info.name or info)!r}: {error.message}"
        ) from error
    if tensor.dtype.base_dtype != expected:
        raise InvalidArgumentError(
            f"{where}: expected {info.name!r} to be {expected.name}, got {tensor.dtype.name}"
        )
    return tensor


def _defaults(signature: SignatureDef) -> dict[str, Any]:
    from aioexec.formats.tensor_codec import MakeNdarray

    return {key: MakeNdarray(value) for key, value in signature.defaults.items()}


# Signatures that the caller chooses


def chosen_signature(name: str, session: Session, inputs: Chosen, outputs: Chosen, path: str) -> Signature:
    """A signature of tensors that are named; by default of the placeholders, and of the tensors that nothing takes.

    Raises:
        InvalidArgumentError: a tensor is not in the graph, or nothing can be fetched.
    """
    graph = session.graph
    fed = _placeholders(graph) if inputs is None else _named(inputs, graph, f"{path}: input")
    fetched = _untaken(graph) if outputs is None else _named(outputs, graph, f"{path}: output")
    if not fetched:
        raise InvalidArgumentError(f"{path}: expected outputs that can be fetched, got none")
    return Signature(name, fed, fetched, session)


def _named(names: Mapping[str, str] | Collection[str], graph: Graph, where: str) -> dict[str, Tensor]:
    given = names if isinstance(names, Mapping) else {name.removesuffix(":0"): name for name in names}
    return {
        key: _tensor_named(name if ":" in name else f"{name}:0", graph, f"{where} {key!r}")
        for key, name in given.items()
    }


def _tensor_named(name: str, graph: Graph, where: str) -> Tensor:
    try:
        found: Tensor = graph.get_tensor_by_name(name)
    except OpError as error:
        raise InvalidArgumentError(f"{where}: expected a tensor of the graph, got {name!r}") from error
    return found


def _placeholders(graph: Graph) -> dict[str, Tensor]:
    return {op.name: op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"}


def _untaken(graph: Graph) -> dict[str, Tensor]:
    """The outputs of nodes none of whose outputs is taken by another node."""
    last = [op for op in graph.get_operations() if not any(tensor.consumers() for tensor in op.outputs)]
    return {
        op.name if len(op.outputs) == 1 else tensor.name: tensor
        for op in last
        for tensor in op.outputs
        if op.type not in _NO_RESULTS
    }
