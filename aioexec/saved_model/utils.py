"""TensorInfos: the name, dtype and shape of a tensor, as a SignatureDef has them; under the names of `tf.saved_model.utils`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aioexec.errors import GraphValueError
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.scope_names import prepend_name_scope
from aioexec.graph.sparse_tensor import SparseTensor

if TYPE_CHECKING:
    from aioexec.formats.protos import TensorInfo


def build_tensor_info(tensor: Any) -> TensorInfo:
    """The TensorInfo of a Tensor or SparseTensor."""
    from aioexec.formats.protos import TensorInfo
    from aioexec.formats.tensor_codec import shape_to_proto

    shape = shape_to_proto(tensor.get_shape().plain)
    info = TensorInfo(dtype=tensor.dtype.as_datatype_enum, tensor_shape=shape)
    if isinstance(tensor, SparseTensor):
        info.coo_sparse.values_tensor_name = tensor.values.name
        info.coo_sparse.indices_tensor_name = tensor.indices.name
        info.coo_sparse.dense_shape_tensor_name = tensor.dense_shape.name
    else:
        info.name = tensor.name
    return info


def build_tensor_info_from_op(op: Operation) -> TensorInfo:
    """A TensorInfo with the name of an operation, for SignatureDefs of operations."""
    from aioexec.formats.protos import TensorInfo
    from aioexec.formats.tensor_codec import shape_to_proto

    return TensorInfo(name=op.name, tensor_shape=shape_to_proto(None))


def get_tensor_from_tensor_info(
    tensor_info: TensorInfo, graph: Graph | None = None, import_scope: str | None = None
) -> Tensor | SparseTensor:
    """The tensor of a graph that a TensorInfo describes.

    Args:
        graph: the default graph by default.
        import_scope: the scope under which the graph was imported.

    Raises:
        UnknownNameError: the graph has no such tensor.
        GraphValueError: the TensorInfo names none, or an operation.
    """
    graph = get_default_graph() if graph is None else graph

    def tensor(name: str) -> Tensor:
        found: Tensor = graph.get_tensor_by_name(prepend_name_scope(name, import_scope))
        return found

    encoding = tensor_info.WhichOneof("encoding")
    if encoding == "name":
        return tensor(tensor_info.name)
    if encoding == "coo_sparse":
        names = tensor_info.coo_sparse
        return SparseTensor(
            tensor(names.indices_tensor_name),
            tensor(names.values_tensor_name),
            tensor(names.dense_shape_tensor_name),
        )
    raise GraphValueError(f"Invalid TensorInfo.encoding: {encoding}")
