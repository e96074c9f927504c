from aioexec.formats.protos import graph_pb2 as _graph_pb2
from aioexec.formats.protos import tensor_pb2 as _tensor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BundleHeaderProto(_message.Message):
    __slots__ = ("num_shards", "endianness", "version")
    class Endianness(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        LITTLE: _ClassVar[BundleHeaderProto.Endianness]
        BIG: _ClassVar[BundleHeaderProto.Endianness]
    LITTLE: BundleHeaderProto.Endianness
    BIG: BundleHeaderProto.Endianness
    NUM_SHARDS_FIELD_NUMBER: _ClassVar[int]
    ENDIANNESS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    num_shards: int
    endianness: BundleHeaderProto.Endianness
    version: _graph_pb2.VersionDef
    def __init__(self, num_shards: _Optional[int] = ..., endianness: _Optional[_Union[BundleHeaderProto.Endianness, str]] = ..., version: _Optional[_Union[_graph_pb2.VersionDef, _Mapping]] = ...) -> None: ...

class BundleEntryProto(_message.Message):
    __slots__ = ("dtype", "shape", "shard_id", "offset", "size", "crc32c", "slices")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    dtype: _tensor_pb2.DataType
    shape: _tensor_pb2.TensorShapeProto
    shard_id: int
    offset: int
    size: int
    crc32c: int
    slices: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.TensorSliceProto]
    def __init__(self, dtype: _Optional[_Union[_tensor_pb2.DataType, str]] = ..., shape: _Optional[_Union[_tensor_pb2.TensorShapeProto, _Mapping]] = ..., shard_id: _Optional[int] = ..., offset: _Optional[int] = ..., size: _Optional[int] = ..., crc32c: _Optional[int] = ..., slices: _Optional[_Iterable[_Union[_tensor_pb2.TensorSliceProto, _Mapping]]] = ...) -> None: ...

class CheckpointState(_message.Message):
    __slots__ = ("model_checkpoint_path", "all_model_checkpoint_paths", "all_model_checkpoint_timestamps", "last_preserved_timestamp")
    MODEL_CHECKPOINT_PATH_FIELD_NUMBER: _ClassVar[int]
    ALL_MODEL_CHECKPOINT_PATHS_FIELD_NUMBER: _ClassVar[int]
    ALL_MODEL_CHECKPOINT_TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    LAST_PRESERVED_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    model_checkpoint_path: str
    all_model_checkpoint_paths: _containers.RepeatedScalarFieldContainer[str]
    all_model_checkpoint_timestamps: _containers.RepeatedScalarFieldContainer[float]
    last_preserved_timestamp: float
    def __init__(self, model_checkpoint_path: _Optional[str] = ..., all_model_checkpoint_paths: _Optional[_Iterable[str]] = ..., all_model_checkpoint_timestamps: _Optional[_Iterable[float]] = ..., last_preserved_timestamp: _Optional[float] = ...) -> None: ...

class SavedSliceMeta(_message.Message):
    __slots__ = ("name", "shape", "type", "slice")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    name: str
    shape: _tensor_pb2.TensorShapeProto
    type: _tensor_pb2.DataType
    slice: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.TensorSliceProto]
    def __init__(self, name: _Optional[str] = ..., shape: _Optional[_Union[_tensor_pb2.TensorShapeProto, _Mapping]] = ..., type: _Optional[_Union[_tensor_pb2.DataType, str]] = ..., slice: _Optional[_Iterable[_Union[_tensor_pb2.TensorSliceProto, _Mapping]]] = ...) -> None: ...

class SavedTensorSliceMeta(_message.Message):
    __slots__ = ("tensor", "versions")
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    tensor: _containers.RepeatedCompositeFieldContainer[SavedSliceMeta]
    versions: _graph_pb2.VersionDef
    def __init__(self, tensor: _Optional[_Iterable[_Union[SavedSliceMeta, _Mapping]]] = ..., versions: _Optional[_Union[_graph_pb2.VersionDef, _Mapping]] = ...) -> None: ...

class SavedSlice(_message.Message):
    __slots__ = ("name", "slice", "data")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    slice: _tensor_pb2.TensorSliceProto
    data: _tensor_pb2.TensorProto
    def __init__(self, name: _Optional[str] = ..., slice: _Optional[_Union[_tensor_pb2.TensorSliceProto, _Mapping]] = ..., data: _Optional[_Union[_tensor_pb2.TensorProto, _Mapping]] = ...) -> None: ...

class SavedTensorSlices(_message.Message):
    __slots__ = ("meta", "data")
    META_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    meta: SavedTensorSliceMeta
    data: SavedSlice
    def __init__(self, meta: _Optional[_Union[SavedTensorSliceMeta, _Mapping]] = ..., data: _Optional[_Union[SavedSlice, _Mapping]] = ...) -> None: ...
