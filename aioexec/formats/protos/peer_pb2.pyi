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

class PushRequest(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: str
    def __init__(self, task: _Optional[str] = ...) -> None: ...

class PushResponse(_message.Message):
    __slots__ = ("step_id", "rendezvous_key", "is_dead", "is_kept")
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    RENDEZVOUS_KEY_FIELD_NUMBER: _ClassVar[int]
    IS_DEAD_FIELD_NUMBER: _ClassVar[int]
    IS_KEPT_FIELD_NUMBER: _ClassVar[int]
    step_id: int
    rendezvous_key: str
    is_dead: bool
    is_kept: bool
    def __init__(self, step_id: _Optional[int] = ..., rendezvous_key: _Optional[str] = ..., is_dead: bool = ..., is_kept: bool = ...) -> None: ...
