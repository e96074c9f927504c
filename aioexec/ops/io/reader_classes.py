"""The reader classes that users create: `key, value = TextLineReader().read(queue)`."""

from __future__ import annotations

from typing import Any

from aioexec.errors import GraphTypeError
from aioexec.files.record_files import TFRecordOptions
from aioexec.graph.apply import apply_no_output_op, apply_op, apply_tuple_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.io import readers  # noqa: F401  (registers ops)


class ReaderBase:
    """Dequeues file names from a queue and reads their records one by one.

    Args:
        reader_ref: the handle of the reader.
        supports_serialize: whether the state can be serialised.
    """

    def __init__(self, reader_ref: Tensor, supports_serialize: bool = False) -> None:
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    @property
    def reader_ref(self) -> Tensor:
        """The handle of the reader."""
        return self._reader_ref

    @property
    def supports_serialize(self) -> bool:
        """Whether the state can be serialised."""
        return self._supports_serialize

    def read(self, queue: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return key and value of the next record; at the end of a file, from the next file in the queue."""
        key, value = apply_tuple_op(self._op_type("Read"), self._reader_ref, _handle(queue), name=name)
        return key, value

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return keys and values of up to `num_records` records; fewer at the end of a file."""
        key, value = apply_tuple_op(
            self._op_type("ReadUpTo"), self._reader_ref, _handle(queue), num_records, name=name
        )
        return key, value

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """Return the number of records produced."""
        return apply_op(self._op_type("NumRecordsProduced"), self._reader_ref, name=name)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """Return the number of files finished."""
        return apply_op(self._op_type("NumWorkUnitsCompleted"), self._reader_ref, name=name)

    def serialize_state(self, name: str | None = None) -> Tensor:
        """Return the state as a string for `restore_state`, if supported."""
        return apply_op(self._op_type("SerializeState"), self._reader_ref, name=name)

    def restore_state(self, state: Any, name: str | None = None) -> Operation:
        """Return an operation that restores the state of another reader."""
        return apply_no_output_op(self._op_type("RestoreState"), self._reader_ref, state, name=name)

    def reset(self, name: str | None = None) -> Operation:
        """Return an operation that resets the reader to its initial state."""
        return apply_no_output_op(self._op_type("Reset"), self._reader_ref, name=name)

    def _op_type(self, verb: str) -> str:
        return f"Reader{verb}{'' if self._reader_ref.dtype.is_ref else 'V2'}"


def _handle(queue: Any) -> Tensor:
    handle = getattr(queue, "queue_ref", queue)
    if not isinstance(handle, Tensor):
        raise GraphTypeError(f"Expected a queue or the handle of one, got {queue!r}")
    return handle


def _made(op_type: str, name: str | None, **attrs: Any) -> Tensor:
    attrs["container"] = get_default_graph().default_container
    return apply_op(op_type, name=name, **attrs)


class WholeFileReader(ReaderBase):
    """Each file is one record; the key is its name."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(_made("WholeFileReaderV2", name), supports_serialize=True)


class TextLineReader(ReaderBase):
    """Each line is a record, without its line end; the key is "file:line".

    Args:
        skip_header_lines: number of lines to skip at the beginning of each file.
    """

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        super().__init__(_made("TextLineReaderV2", name, skip_header_lines=skip_header_lines))


class FixedLengthRecordReader(ReaderBase):
    """Records of fixed length between a header and a footer.

    Args:
        hop_bytes: bytes from one record to the next; 0 means `record_bytes`.
        encoding: "ZLIB" if the files are compressed.
    """

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        name: str | None = None,
        encoding: str | None = None,
    ) -> None:
        super().__init__(
            _made(
                "FixedLengthRecordReaderV2",
                name,
                record_bytes=record_bytes,
                header_bytes=header_bytes,
                footer_bytes=footer_bytes,
                hop_bytes=hop_bytes,
                encoding=encoding,
            )
        )


class TFRecordReader(ReaderBase):
    """Records of TFRecord files.

    Args:
        options: a `TFRecordOptions`, or what its `compression_type` takes.
    """

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        compression = TFRecordOptions.get_compression_type_string(options)
        super().__init__(_made("TFRecordReaderV2", name, compression_type=compression))


class IdentityReader(ReaderBase):
    """Each name in the queue is both key and value of a record; no file is opened."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(_made("IdentityReaderV2", name), supports_serialize=True)
