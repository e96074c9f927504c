"""SignatureDefs of served models, for GetModelMetadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from google.protobuf.any_pb2 import Any as AnyMessage

from aioexec.formats.protos import SignatureDef, TensorInfo
from aioexec.formats.tensor_codec import shape_to_proto
from aioexec.graph.node import Tensor
from aioexec.serving.models.served_version import ServedVersion, Signature
from aioexec.serving.protos.prediction_pb2 import SignatureDefMap

_TYPE_URL: Final = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
"""TensorFlow Serving's name of the message, by which clients unpack it."""


def signature_def_map(served: ServedVersion) -> AnyMessage:
    """Return the signatures of a version, packed."""
    packed = SignatureDefMap()
    for name, signature in served.signatures.items():
        packed.signature_def[name].CopyFrom(_signature_def(signature))
    return AnyMessage(type_url=_TYPE_URL, value=packed.SerializeToString(deterministic=True))


def _signature_def(signature: Signature) -> SignatureDef:
    return SignatureDef(
        inputs=_tensor_infos(signature.inputs),
        outputs=_tensor_infos(signature.outputs),
        method_name=signature.method_name,
    )


def _tensor_infos(tensors: Mapping[str, Tensor]) -> dict[str, TensorInfo]:
    return {
        key: TensorInfo(
            name=tensor.name,
            dtype=tensor.dtype.base_dtype.as_datatype_enum,
            tensor_shape=shape_to_proto(tensor.dims),
        )
        for key, tensor in tensors.items()
    }
