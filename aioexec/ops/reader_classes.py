"""Readers as users make them: `key, value = TextLineReader().read(queue)`."""

from __future__ import annotations

from typing import Any

from aioexec.errors import GraphTypeError
from aioexec.graph.apply import apply_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.ops import readers  # noqa: F401  (its rows)


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
        return self._verb("Read", _handle(queue), name=name)  # type: ignore[no-any-return]

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Up to so many records and their keys: fewer where a file ends."""
        return self._verb("ReadUpTo", _handle(queue), num_records, name=name)  # type: ignore[no-any-return]

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """How many records were given."""
        return self._verb("NumRecordsProduced", name=name)  # type: ignore[no-any-return]

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """How many files are over."""
        return self._verb("NumWorkUnitsCompleted", name=name)  # type: ignore[no-any-return]

    def serialize_state(self, name: str | None = None) -> Tensor:
        """What `restore_state` takes, where the kind of reader has that."""
        return self._verb("SerializeState", name=name)  # type: ignore[no-any-return]

    def restore_state(self, state: Any, name: str | None = None) -> Operation:
        """An operation that makes it as another reader was."""
        return self._verb("RestoreState", state, name=name)  # type: ignore[no-any-return]

    def reset(self, name: str | None = None) -> Operation:
        """An operation that makes it as it was at first."""
        return self._verb("Reset", name=name)  # type: ignore[no-any-return]

    def _verb(self, verb: str, *inputs: Any, name: str | None) -> Any:
        version = "" if self._reader_ref.dtype.is_ref else "V2"
        op_type = f"Reader{verb}{version}"
        return apply_op(op_type, self._reader_ref, *inputs, name=name or op_type)


def _handle(queue: Any) -> Tensor:
    handle = getattr(queue, "queue_ref", queue)
    if not isinstance(handle, Tensor):
        raise GraphTypeError(f"Expected a queue or the handle of one, got {queue!r}")
    return handle


def _made(op_type: str, name: str | None, **attrs: Any) -> Tensor:
    attrs["container"] = get_default_graph().default_container
    return apply_op(op_type, name=name, **attrs)  # type: ignore[no-any-return]


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
