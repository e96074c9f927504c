from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class HelloRequest(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, version: _Optional[_Iterable[int]] = ...) -> None: ...

class HelloResponse(_message.Message):
    __slots__ = ("version", "port", "listener")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    LISTENER_FIELD_NUMBER: _ClassVar[int]
    version: int
    port: int
    listener: int
    def __init__(self, version: _Optional[int] = ..., port: _Optional[int] = ..., listener: _Optional[int] = ...) -> None: ...
