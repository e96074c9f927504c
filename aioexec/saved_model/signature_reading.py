"""The signatures of an imported graph, from its SignatureDefs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
