"""TFRecord files as `tf.python_io` writes and reads them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from aioexec.errors import FailedPreconditionError, GraphValueError
from aioexec.files.operations import canonical_errors
from aioexec.formats.paths import Path, local_path
from aioexec.formats.records import encode_record, read_records
from aioexec.formats.sequential_files import open_input, open_output

_WINDOWS: Final = {"ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS + 16}
_MEMORY: Final = 9


class TFRecordCompressionType:
    """Numbers of the compressions of record files."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


class TFRecordOptions:
    """How a record file is compressed. None stands for zlib's default; buffer sizes are accepted and have no effect.

    Args:
        compression_type: "", "ZLIB" or "GZIP", a `TFRecordCompressionType`, or None for no compression.
        flush_mode: the flush mode of zlib that `TFRecordWriter.flush` uses.
        window_bits, compression_level, compression_method, mem_level, compression_strategy: those of zlib.

    Raises:
        GraphValueError: the compression is unknown.
    """

    compression_type_map: ClassVar[dict[int, str]] = {
        TFRecordCompressionType.ZLIB: "ZLIB",
        TFRecordCompressionType.GZIP: "GZIP",
        TFRecordCompressionType.NONE: "",
    }

    def __init__(
        self,
        compression_type: Any = None,
        flush_mode: int | None = None,
        input_buffer_size: int | None = None,
        output_buffer_size: int | None = None,
        window_bits: int | None = None,
        compression_level: int | None = None,
        compression_method: int | None = None,
        mem_level: int | None = None,
        compression_strategy: int | None = None,
    ) -> None:
        self.get_compression_type_string(compression_type)
        self.compression_type = compression_type
        self.flush_mode = flush_mode
        self.input_buffer_size = input_buffer_size
        self.output_buffer_size = output_buffer_size
        self.window_bits = window_bits
        self.compression_level = compression_level
        self.compression_method = compression_method
        self.mem_level = mem_level
        self.compression_strategy = compression_strategy

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """Return "", "ZLIB" or "GZIP" for options, a number of `TFRecordCompressionType`, a string or None.

        Raises:
            GraphValueError: anything else.
        """
        if not options:
            return ""
        if isinstance(options, TFRecordOptions):
            return cls.get_compression_type_string(options.compression_type)
        if options in cls.compression_type_map:
            return cls.compression_type_map[options]
        if options in cls.compression_type_map.values():
            return str(options)
        raise GraphValueError(f'Not a valid compression_type: "{options}"')


class TFRecordWriter:
    """Writes records to a file, which is made or emptied when the writer is made. Its methods block.

    Args:
        path: the path of the file.
        options: a `TFRecordOptions`, or what its `compression_type` takes.

    Raises:
        NotFoundError: the folder does not exist.
        GraphValueError: the compression is unknown.
    """

    def __init__(self, path: Path, options: Any = None) -> None:
        chosen = options if isinstance(options, TFRecordOptions) else TFRecordOptions(options)
        self._path = path
        self._compressor = _compressor(chosen)
        self._flush_mode = zlib.Z_NO_FLUSH if chosen.flush_mode is None else chosen.flush_mode
        self._file = open_output(local_path(path))

    def write(self, record: bytes | str) -> None:
        """Append a record.

        Raises:
            FailedPreconditionError: the writer is closed.
        """
        self._check_open()
        data = encode_record(record.encode() if isinstance(record, str) else record)
        with canonical_errors(self._path):
            self._file.write(data if self._compressor is None else self._compressor.compress(data))

    def flush(self) -> None:
        """Hand what was written to the operating system; of compressed data what zlib gives with its flush mode.

        Raises:
            FailedPreconditionError: the writer is closed.
        """
        self._check_open()
        with canonical_errors(self._path):
            if self._compressor is not None:
                self._file.write(self._compressor.flush(self._flush_mode))
            self._file.flush()

    def close(self) -> None:
        """Write what is left and close the file; nothing happens if it is closed."""
        if self._file.closed:
            return
        with canonical_errors(self._path), self._file:
            if self._compressor is not None:
                self._file.write(self._compressor.flush())

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()

    def _check_open(self) -> None:
        if self._file.closed:
            raise FailedPreconditionError("Writer is closed.")


def _compressor(options: TFRecordOptions) -> Any:
    """Return a compressor of zlib, or None. GZIP and ZLIB differ in the header that the window bits choose."""
    kind = TFRecordOptions.get_compression_type_string(options)
    if not kind:
        return None
    given: dict[str, Any] = {
        "level": options.compression_level,
        "method": options.compression_method,
        "wbits": _WINDOWS[kind] if options.window_bits is None else options.window_bits,
        "memLevel": _MEMORY if options.mem_level is None else options.mem_level,
        "strategy": options.compression_strategy,
    }
    return zlib.compressobj(**{name: value for name, value in given.items() if value is not None})


def tf_record_iterator(path: Path, options: Any = None) -> Iterator[bytes]:
    """Iterate over the records of a file. Blocks while reading.

    Args:
        options: a `TFRecordOptions`, or what its `compression_type` takes.

    Raises:
        NotFoundError: there is no such file.
        DataLossError: a record is damaged.
        GraphValueError: the compression is unknown.
    """
    compression = TFRecordOptions.get_compression_type_string(options)
    file = open_input(local_path(path))
    return _records(file, path, compression)


def _records(file: Any, path: Path, compression: str) -> Iterator[bytes]:
    with file, canonical_errors(path):
        for _, data in read_records(file, compression):
            yield data
