"""Readers as users make them: `key, value = TextLineReader().read(queue)`."""

from __future__ import annotations

from typing import Any

from aioexec.errors import GraphTypeError
from aioexec.graph.apply import apply_no_output_op, apply_op, apply_tuple_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.io import readers  # noqa: F401  (its rows)


class ReaderBase:
    """Takes names of files from a queue, and gives their records one by one.

    Args:
        reader_ref: the handle of the reader.
        supports_serialize: whether its state can be asked for.
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
        """Whether its state can be asked for."""
        return self._supports_serialize

    def read(self, queue: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
        """The next record and its key, of the next file in the queue if the one being read is over."""
        key, value = apply_tuple_op(self._op_type("Read"), self._reader_ref, _handle(queue), name=name)
        return key, value

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Up to so many records and their keys: fewer where a file ends."""
        key, value = apply_tuple_op(
            self._op_type("ReadUpTo"), self._reader_ref, _handle(queue), num_records, name=name
        )
        return key, value

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """How many records were given."""
        return apply_op(self._op_type("NumRecordsProduced"), self._reader_ref, name=name)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """How many files are over."""
        return apply_op(self._op_type("NumWorkUnitsCompleted"), self._reader_ref, name=name)

    def serialize_state(self, name: str | None = None) -> Tensor:
        """What `restore_state` takes, where the kind of reader has that."""
        return apply_op(self._op_type("SerializeState"), self._reader_ref, name=name)

    def restore_state(self, state: Any, name: str | None = None) -> Operation:
        """An operation that makes it as another reader was."""
        return apply_no_output_op(self._op_type("RestoreState"), self._reader_ref, state, name=name)

    def reset(self, name: str | None = None) -> Operation:
        """An operation that makes it as it was at first."""
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
    """Each file is one record; its key is the name of the file."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(_made("WholeFileReaderV2", name), supports_serialize=True)


class TextLineReader(ReaderBase):
    """Each line is a record, without its end; its key is the name of the file and the number of the line.

    Args:
        skip_header_lines: lines at the beginning of each file that are none.
    """

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        super().__init__(_made("TextLineReaderV2", name, skip_header_lines=skip_header_lines))


class FixedLengthRecordReader(ReaderBase):
    """Records of one length, between a header and a footer.

    Args:
        hop_bytes: from the beginning of a record to that of the next; 0 for `record_bytes`.
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
    """The records of TFRecord files.

    Args:
        options: the compression: "", "ZLIB" or "GZIP", or what has it as `compression_type`.
    """

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        compression = getattr(options, "compression_type", options)
        super().__init__(_made("TFRecordReaderV2", name, compression_type=compression or None))


class IdentityReader(ReaderBase):
    """Each name in the queue is a record, its own key; nothing is opened."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(_made("IdentityReaderV2", name), supports_serialize=True)
