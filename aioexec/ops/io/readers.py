"""Ops of readers: creation and reading.

A read waits for a file name in a queue without occupying a thread; files are read on workers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from aioexec import dtypes as dt, shapes
from aioexec.errors import InvalidArgumentError
from aioexec.formats.file_errors import canonical
from aioexec.formats.reader_state import decode_reader_state, encode_reader_state
from aioexec.formats.records import inflated, read_records
from aioexec.formats.sequential_files import open_input, read_whole
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext, Reference, Role, StepContext
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, ShapeRule, register, undefined_gradient
from aioexec.ops.common.elementwise import Array
from aioexec.ops.common.handles import finder, maker
from aioexec.ops.strings.elements import array_of, scalar_bytes
from aioexec.resources.queues import Queue
from aioexec.resources.readers import OpenRecords, Reader, ReaderState, Record
from aioexec.resources.waiting import Attempt, waiting
from aioexec.shapes import Dims

_MOST_RECORDS = 1 << 24

# Records of a file


def _open_records(path: bytes, make: Callable[[BinaryIO], Iterator[Record]]) -> Iterator[Record]:
    """Return the records of a file, which is opened by this call and closed after the last record."""
    file = open_input(path)

    def records() -> Iterator[Record]:
        with file:
            try:
                yield from make(file)
            except OSError as error:
                raise canonical(path, error) from error

    return records()


def _lines(attrs: Attrs) -> OpenRecords:
    skipped: int = attrs["skip_header_lines"]
    if skipped < 0:
        raise InvalidArgumentError(f"skip_header_lines must be >= 0, got {skipped}")

    def records(path: bytes, file: BinaryIO) -> Iterator[Record]:
        for number, line in enumerate(file, 1):
            if number > skipped:
                yield Record(b"%s:%d" % (path, number), line.removesuffix(b"\n").removesuffix(b"\r"))

    return lambda path: _open_records(path, partial(records, path))


def _tf_records(attrs: Attrs) -> OpenRecords:
    compression: str = attrs["compression_type"]

    def records(path: bytes, file: BinaryIO) -> Iterator[Record]:
        for place, data in read_records(file, compression):
            yield Record(b"%s:%d" % (path, place), data)

    return lambda path: _open_records(path, partial(records, path))


def _whole(attrs: Attrs) -> OpenRecords:
    def record(path: bytes) -> Iterator[Record]:
        yield Record(path, read_whole(path))

    return record


def _identity(attrs: Attrs) -> OpenRecords:
    return lambda path: iter([Record(path, path)])


def _fixed_length(attrs: Attrs) -> OpenRecords:
    """Return an opener of fixed-length records, which end before the last `footer_bytes` of the decompressed content."""
    header, length, footer, hop = (attrs[f"{name}_bytes"] for name in ("header", "record", "footer", "hop"))
    _check_lengths(header, length, footer, hop)
    compression: str = attrs.get("encoding", "")
    if compression not in ("", "ZLIB"):
        raise InvalidArgumentError(f"Unsupported encoding: {compression!r}, expected '' or 'ZLIB'")

    def records(path: bytes, file: BinaryIO) -> Iterator[Record]:
        content, number, step = inflated(file, compression), 0, hop or length
        content.read(header)
        data = content.read(length + footer)
        while len(data) == length + footer:
            yield Record(b"%s:%d" % (path, number), data[:length])
            number += 1
            content.read(max(step - len(data), 0))
            data = data[step:]
            data += content.read(length + footer - len(data))

    return lambda path: _open_records(path, partial(records, path))


def _check_lengths(header: int, length: int, footer: int, hop: int) -> None:
    for what, value, least in (
        ("header_bytes", header, 0),
        ("record_bytes", length, 1),
        ("footer_bytes", footer, 0),
        ("hop_bytes", hop, 0),
    ):
        if value < least:
            raise InvalidArgumentError(f"{what} must be {'>= 0' if least == 0 else 'positive'}: {value}")


# Verbs


def _next_work(step: StepContext, queue: Queue) -> Callable[[], Awaitable[bytes]]:
    async def next_work() -> bytes:
        if queue.dtypes != (dt.string,):
            raise InvalidArgumentError(
                "Work queue must have a single string component, "
                f"{queue.name!r} has {[dtype.name for dtype in queue.dtypes]}"
            )
        outcome = queue.dequeue()
        (name,) = await waiting(queue, outcome) if isinstance(outcome, Attempt) else outcome
        if name.size != 1:
            raise InvalidArgumentError(
                f"Expected to dequeue a one-element string tensor, got {name.size} elements"
            )
        return bytes(name.item())

    return next_work


def _read(context: KernelContext) -> Compute:
    reader_behind, queue_behind = finder(context, Reader), finder(context, Queue)

    def read(step: StepContext, reader: Any, queue: Any) -> Any:
        found = reader_behind(reader)
        record = found.read_now()
        return read_later(step, found, queue) if record is None else as_scalars(record)

    async def read_later(step: StepContext, found: Reader, queue: Any) -> Any:
        return as_scalars(await found.read(_next_work(step, queue_behind(queue)), step.run_in_worker))

    def as_scalars(record: Record) -> Any:
        return tuple(array_of([part], ()) for part in record)

    return read


def _read_up_to(context: KernelContext) -> Compute:
    reader_behind, queue_behind = finder(context, Reader), finder(context, Queue)

    async def read_up_to(step: StepContext, reader: Any, queue: Any, num_records: Array) -> Any:
        count = int(num_records)
        if not 0 <= count <= _MOST_RECORDS:
            raise InvalidArgumentError(f"num_records must be from 0 to {_MOST_RECORDS}, got {count}")
        found = reader_behind(reader)
        records = await found.read_up_to(count, _next_work(step, queue_behind(queue)), step.run_in_worker)
        return tuple(array_of([record[k] for record in records], (len(records),)) for k in (0, 1))

    return read_up_to


def _query_kernel(answer: Callable[[Reader], int]) -> Reference:
    def kernel(context: KernelContext) -> Compute:
        reader_behind = finder(context, Reader)
        return lambda step, reader: np.int64(answer(reader_behind(reader)))

    return kernel


def _reset(context: KernelContext) -> Compute:
    reader_behind = finder(context, Reader)
    return lambda step, reader: reader_behind(reader).reset()


def _serialize(context: KernelContext) -> Compute:
    reader_behind = finder(context, Reader)

    async def serialize(step: StepContext, reader: Any) -> Array:
        *counts, work = await reader_behind(reader).state()
        return array_of([encode_reader_state((counts[0], counts[1], counts[2]), work)], ())

    return serialize


def _restore(context: KernelContext) -> Compute:
    reader_behind = finder(context, Reader)

    async def restore(step: StepContext, reader: Any, state: Array) -> None:
        await reader_behind(reader).restore(
            ReaderState(*decode_reader_state(scalar_bytes(state, "Reader state")))
        )

    return restore


# Rows


def _kernel_of(opener: Callable[[Attrs], OpenRecords], *, is_whole: bool) -> Reference:
    def made(context: KernelContext, name: str) -> Reader:
        return Reader(name, context.device, opener(context.attrs), is_whole, keeps_state=is_whole)

    return maker(Reader, made)


def _handle_of_shape(dims: Dims) -> ShapeRule:
    return lambda context: [dims]


def _shapes_of(*outputs: Dims) -> ShapeRule:
    """Shape rule: these outputs; inputs other than handles must be scalars."""

    def rule(context: ShapeContext) -> Sequence[Dims]:
        for given in context.inputs:
            if given != (2,):  # a handle of version 1
                shapes.with_rank(given, 0)
        return outputs

    return rule


_NAMES = "container:string=''; shared_name:string=''"
_FIXED = "header_bytes:int=0; record_bytes:int; footer_bytes:int=0; hop_bytes:int=0; "
_KINDS: tuple[tuple[str, str, str, Callable[[Attrs], OpenRecords], bool], ...] = (
    ("TextLineReader", f"skip_header_lines:int=0; {_NAMES}", "", _lines, False),
    ("TFRecordReader", f"{_NAMES}; compression_type:string=''", "", _tf_records, False),
    ("WholeFileReader", _NAMES, "", _whole, True),
    ("IdentityReader", _NAMES, "", _identity, True),
    ("FixedLengthRecordReader", f"{_FIXED}{_NAMES}", "; encoding:string=''", _fixed_length, False),
)
"""(name, attributes, attributes of V2 only, opener, whether a file is one record)."""

for _name, _attrs, _more, _opener, _is_whole in _KINDS:
    for _suffix, _handle, _dims in (("", "Ref(string)", (2,)), ("V2", "resource", ())):
        register(
            f"{_name}{_suffix}() -> (reader_handle:{_handle}) [{_attrs}{_more if _suffix else ''}] {{stateful}}",
            shape=_handle_of_shape(_dims),
            kernel=_kernel_of(_opener, is_whole=_is_whole),
            gradient=undefined_gradient if _suffix else NOT_DIFFERENTIABLE,
            role=Role.VARIABLE,
        )

_VERBS: tuple[tuple[str, str, ShapeRule, Reference], ...] = (
    ("Read", ", queue_handle:{0}) -> (key:string, value:string)", _shapes_of((), ()), _read),
    (
        "ReadUpTo",
        ", queue_handle:{0}, num_records:int64) -> (keys:string, values:string)",
        _shapes_of((None,), (None,)),
        _read_up_to,
    ),
    (
        "NumRecordsProduced",
        ") -> (records_produced:int64)",
        _shapes_of(()),
        _query_kernel(lambda reader: reader.records_produced),
    ),
    (
        "NumWorkUnitsCompleted",
        ") -> (units_completed:int64)",
        _shapes_of(()),
        _query_kernel(lambda reader: reader.work_finished),
    ),
    ("SerializeState", ") -> (state:string)", _shapes_of(()), _serialize),
    ("RestoreState", ", state:string) -> ()", _shapes_of(), _restore),
    ("Reset", ") -> ()", _shapes_of(), _reset),
)
"""(name, signature after the reader handle, shape rule, kernel)."""

for _name, _signature, _rule, _kernel in _VERBS:
    for _suffix, _handle, _flags in (("", "Ref(string)", ""), ("V2", "resource", " {stateful}")):
        register(
            f"Reader{_name}{_suffix}(reader_handle:{_handle}{_signature.format(_handle)}{_flags}",
            shape=_rule,
            kernel=_kernel,
            gradient=undefined_gradient if _suffix else NOT_DIFFERENTIABLE,
            asynchronous=True,
        )
