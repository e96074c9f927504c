"""Checkpoints as nodes: tensors saved to files and restored from them, in TensorFlow's two formats.

Files are written and read on a worker. A step that is given up leaves the files that were there as they were.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from aioexec import shapes
from aioexec.dtypes import DType
from aioexec.errors import CancelledError, GraphValueError, InvalidArgumentError
from aioexec.formats.tensor_slice import ShapeAndSlice, parse_shape_and_slice
from aioexec.graph.kernels.kernel import Compute, KernelContext, Reference, StepContext
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, shown
from aioexec.resources.memory import aligned_empty
from aioexec.shapes import Dims

_BYTES_FOR_A_WORKER: Final = 16 << 20
"""Of a checkpoint that is read: for less, one more is not worth while."""
_MOST_WORKERS: Final = min(4, os.cpu_count() or 1)

Proceed = Callable[[], None]
Work = Callable[..., Any]
"""Called on a worker with a function to call at intervals, which raises if the step was cancelled."""


async def on_worker(step: StepContext, work: Work, *arguments: Any) -> Any:
    """Do work on a worker of the device, and leave when it has ended."""
    with _watched(step) as proceed:
        return await step.run_in_worker(partial(work, proceed, *arguments))


@contextlib.contextmanager
def _watched(step: StepContext) -> Iterator[Proceed]:
    """The function that work calls at intervals until it has ended."""
    given_up = threading.Event()

    def proceed() -> None:
        if given_up.is_set():
            raise CancelledError("the step was given up")

    manager = step.cancellation_manager
    token = manager.get_cancellation_token()
    if not manager.register_callback(token, given_up.set):
        raise CancelledError("the step was given up")
    try:
        yield proceed
    finally:
        manager.try_deregister_callback(token)


def as_path(value: Array, what: str) -> str:
    """The one string an input has, as a path."""
    if value.size != 1:
        raise InvalidArgumentError(f"Input {what} should have a single element, got {value.size} instead.")
    return os.fsdecode(value.reshape(-1)[0])


def _names(values: Array) -> list[str]:
    return [os.fsdecode(value) for value in values.reshape(-1)]


def _place(text: str) -> ShapeAndSlice | None:
    return parse_shape_and_slice(text) if text else None


def _checked(
    names: Array, places: Array, tensors: int, things: str
) -> list[tuple[str, ShapeAndSlice | None]]:
    """The name of each tensor, and the part of it that is meant."""
    if names.ndim != 1 or places.ndim != 1:
        raise InvalidArgumentError(
            f"Input tensor_names and shape_and_slices should be an 1-D tensors, got {shown(names.shape)} and "
            f"{shown(places.shape)} instead."
        )
    if names.size != places.size:
        raise InvalidArgumentError(
            f"tensor_names and shape_and_slices have different number of elements: {names.size} vs. {places.size}"
        )
    if names.size != tensors:
        raise InvalidArgumentError(f"Got {names.size} tensor names but {tensors} {things}.")
    return [(name, _place(place)) for name, place in zip(_names(names), _names(places), strict=True)]


def _check_saved(place: ShapeAndSlice | None, text: bytes, value: Array) -> None:
    if place is not None and place.sizes != value.shape:
        raise InvalidArgumentError(
            "Slice in shape_and_slice specification does not match the shape of the tensor to  save: "
            f"{os.fsdecode(text)}, tensor: {shown(value.shape)}"
        )


# Saving

Named = Sequence[tuple[str, ShapeAndSlice | None]]
Save = Callable[[Proceed, str, Named, Sequence[Array], Sequence[DType]], None]


def _save_bundle(
    proceed: Proceed, prefix: str, named: Named, values: Sequence[Array], types: Sequence[DType]
) -> None:
    from aioexec.formats.bundle_writer import BundleWriter

    with BundleWriter(prefix, proceed) as writer:
        for (name, place), value, dtype in zip(named, values, types, strict=True):
            if place is None:
                writer.add(name, value, dtype)
            else:
                writer.add_slice(name, place, value, dtype)
        writer.finish()


def _save_table(
    proceed: Proceed, path: str, named: Named, values: Sequence[Array], types: Sequence[DType]
) -> None:
    from aioexec.formats.slice_table import SliceTableWriter

    writer = SliceTableWriter(path)
    for (name, place), value, dtype in zip(named, values, types, strict=True):
        proceed()
        writer.add(name, value, dtype, place)
    writer.finish(proceed)


def _saving(save: Save, places_at: int | None) -> Reference:
    """The kernel of an op that saves: where to, names, in input `places_at` which parts, tensors."""
    first = 2 if places_at is None else 3

    def kernel(context: KernelContext) -> Compute:
        types = [
            dtype.base_dtype for dtype in context.input_dtypes[first:]
        ]  # a variable comes as a reference

        def compute(step: StepContext, path: Array, names: Array, *rest: Array) -> Awaitable[None]:
            places = np.full(names.shape, b"", object) if places_at is None else rest[0]
            values = rest[first - 2 :]
            named = _checked(names, places, len(values), "tensors")
            for (_, place), text, value in zip(named, places, values, strict=True):
                _check_saved(place, text, value)
            return on_worker(step, save, as_path(path, "prefix"), named, values, types)

        return compute

    return kernel


# Restoring


class _Restoring:
    """A bundle some tensors of which are read, by one worker or, if it is large, by several at once.

    `workers`: how many. `_left`: the tensors that none has begun to read, as the disk has them: the number of each, and what
    reads it. `_is_over`: one could not be read.
    """

    def __init__(self, proceed: Proceed, prefix: str, named: Named, types: Sequence[DType]) -> None:
        from aioexec.formats.bundle_reader import BundleReader

        self._values: list[Any] = [None] * len(named)
        self._is_over = False
        with contextlib.ExitStack() as opened:
            reader = opened.enter_context(BundleReader(prefix, proceed, aligned_empty))
            places = [reader.place(name) for name, _ in named]
            in_order = sorted(range(len(named)), key=places.__getitem__)
            self._left = deque((k, reader.reading(named[k][0], types[k], named[k][1])) for k in in_order)
            shares = sum(size for *_, size in places) // _BYTES_FOR_A_WORKER + 1
            self.workers = min(shares, _MOST_WORKERS, len(named))
            self._opened = opened.pop_all()

    def read(self) -> None:
        """Read tensors until none is left, as others do."""
        while not self._is_over:
            try:
                k, reading = self._left.popleft()
            except IndexError:
                return
            try:
                self._values[k] = reading()
            except BaseException:
                self._is_over = True
                raise

    def close(self) -> list[Array]:
        """What was read."""
        self._opened.close()
        return self._values


async def _restored(step: StepContext, prefix: str, named: Named, types: Sequence[DType]) -> list[Array]:
    with _watched(step) as proceed:
        restoring = await step.run_in_worker(partial(_open, proceed, prefix, named, types))
        if restoring is None:
            tables = partial(_restore_from_tables, proceed, prefix, named, types)
            return await step.run_in_worker(tables)
        try:
            reads = (step.run_in_worker(restoring.read) for _ in range(restoring.workers))
            ended = await asyncio.gather(*reads, return_exceptions=True)
        finally:
            values = restoring.close()
    for error in ended:
        if error is not None:
            raise error
    return values


def _open(proceed: Proceed, prefix: str, named: Named, types: Sequence[DType]) -> _Restoring | None:
    """A bundle; None if there is none of that name: it may be a file of the first format."""
    from aioexec.formats.bundle_entries import index_name

    return _Restoring(proceed, prefix, named, types) if os.path.exists(index_name(prefix)) else None


def _restore_from_tables(proceed: Proceed, pattern: str, named: Named, types: Sequence[DType]) -> list[Array]:
    from aioexec.formats.slice_table import SliceTableReader

    with SliceTableReader(pattern, proceed) as reader:
        return [reader.read(name, dtype, place) for (name, place), dtype in zip(named, types, strict=True)]


def _restore_from_table(
    proceed: Proceed, pattern: str, name: Array, place: Array | None, dtype: DType
) -> list[Array]:
    """One tensor. Its name and slice are looked at when the file has been found."""
    from aioexec.formats.slice_table import SliceTableReader

    with SliceTableReader(pattern, proceed) as reader:
        chosen = as_path(name, "tensor_name")
        part = None if place is None else _place(as_path(place, "shape_and_slice"))
        return [reader.read(chosen, dtype, part)]


async def _outputs(values: Awaitable[list[Array]]) -> Any:
    made = await values
    return made[0] if len(made) == 1 else tuple(made)


def _restore_kernel(context: KernelContext) -> Compute:
    types = context.output_dtypes

    def compute(step: StepContext, prefix: Array, names: Array, places: Array) -> Awaitable[Any]:
        named = _checked(names, places, len(types), "expected dtypes")
        return _outputs(_restored(step, as_path(prefix, "prefix"), named, types))

    return compute


def _restore_table_kernel(context: KernelContext) -> Compute:
    (dtype,) = context.output_dtypes

    def compute(step: StepContext, pattern: Array, name: Array, place: Array | None = None) -> Awaitable[Any]:
        path = as_path(pattern, "file_pattern")
        if not name.size:
            raise InvalidArgumentError("Input tensor_name must have at least 1 element")
        return _outputs(on_worker(step, _restore_from_table, path, name, place, dtype))

    return compute


# Names and merging


def _merge(proceed: Proceed, prefixes: Sequence[str], destination: str, delete: bool, lenient: bool) -> None:
    from aioexec.formats.bundle_writer import merge

    proceed()
    merge(prefixes, destination, lenient)
    kept = os.path.dirname(destination)
    for folder in {os.path.dirname(prefix) for prefix in prefixes} - {kept} if delete else ():
        with contextlib.suppress(OSError):  # others may have put something there
            os.rmdir(folder)


def _merge_kernel(context: KernelContext) -> Compute:
    delete, lenient = context.attrs["delete_old_dirs"], context.attrs["allow_missing_files"]

    def compute(step: StepContext, prefixes: Array, destination: Array) -> Awaitable[None]:
        if prefixes.ndim != 1 or destination.ndim:
            raise InvalidArgumentError(
                "Input checkpoint_prefixes should be an 1-D tensor and destination_prefix a scalar, got "
                f"{shown(prefixes.shape)} and {shown(destination.shape)} instead."
            )
        path = as_path(destination, "destination_prefix")
        return on_worker(step, _merge, _names(prefixes), path, delete, lenient)

    return compute


def _sharded(form: str, *whats: str) -> Reference:
    def compute(*inputs: Array) -> Array:
        for what, value in zip(whats, inputs, strict=True):
            if value.ndim:
                raise InvalidArgumentError(f"{what} must be a scalar, got shape {shown(value.shape)}")
        basename, *numbers = (value[()] for value in inputs)
        result = np.empty((), object)
        result[()] = basename + (form % tuple(map(int, numbers))).encode()
        return result

    return lambda context: compute


# Shape rules


def _ranks(*ranks: int, outputs: int = 0) -> Callable[[ShapeContext], Sequence[Dims]]:
    """Inputs of these ranks, scalars as outputs."""

    def rule(context: ShapeContext) -> Sequence[Dims]:
        for dims, rank in zip(context.inputs, ranks, strict=False):
            shapes.with_rank(dims, rank)
        return [()] * outputs

    return rule


def _saved_shape(attr: str, vectors: tuple[int, ...]) -> Callable[[ShapeContext], Sequence[Dims]]:
    def rule(context: ShapeContext) -> Sequence[Dims]:
        shapes.with_rank(context.inputs[0], 0)
        for k in vectors:
            (count,) = shapes.with_rank(context.inputs[k], 1) or (None,)
            wanted = len(context.attrs[attr])
            if count not in (None, wanted):
                raise GraphValueError(f"Dimension must be {wanted} but is {count}")
        return []

    return rule


def _restored_shape(context: ShapeContext) -> Sequence[Dims]:
    types = context.attrs["dtypes"]
    _saved_shape("dtypes", (1, 2))(context)
    texts = context.value(2)
    return [None] * len(types) if texts is None else [_part_shape(text) for text in texts]


def _part_shape(text: Any) -> Dims:
    try:
        place = _place(os.fsdecode(text))
    except InvalidArgumentError as error:
        raise GraphValueError(error.message) from error
    return None if place is None else place.sizes


def _restored_slice_shape(context: ShapeContext) -> Sequence[Dims]:
    _ranks(0, 0, 0)(context)
    text = context.value(2)
    return [None if text is None else _part_shape(text[()])]


# Rows

_ROWS: tuple[tuple[str, Callable[[ShapeContext], Sequence[Dims]], Reference], ...] = (
    (
        "SaveV2(prefix:string, tensor_names:string, shape_and_slices:string, tensors:dtypes) -> () "
        "[dtypes:list(type)>=1] {stateful}",
        _saved_shape("dtypes", (1, 2)),
        _saving(_save_bundle, 2),
    ),
    (
        "RestoreV2(prefix:string, tensor_names:string, shape_and_slices:string) -> (tensors:dtypes) "
        "[dtypes:list(type)>=1] {stateful}",
        _restored_shape,
        _restore_kernel,
    ),
    (
        "MergeV2Checkpoints(checkpoint_prefixes:string, destination_prefix:string) -> () "
        "[delete_old_dirs:bool=true; allow_missing_files:bool=false] {stateful}",
        _ranks(1, 0),
        _merge_kernel,
    ),
    (
        "Save(filename:string, tensor_names:string, data:T) -> () [T:list(type)>=1] {stateful}",
        _saved_shape("T", (1,)),
        _saving(_save_table, None),
    ),
    (
        "SaveSlices(filename:string, tensor_names:string, shapes_and_slices:string, data:T) -> () "
        "[T:list(type)>=1] {stateful}",
        _saved_shape("T", (1, 2)),
        _saving(_save_table, 2),
    ),
    (
        "Restore(file_pattern:string, tensor_name:string) -> (tensor:dt) [dt:type; preferred_shard:int=-1] {stateful}",
        lambda context: [*_ranks(0, 0)(context), None],
        _restore_table_kernel,
    ),
    (
        "RestoreSlice(file_pattern:string, tensor_name:string, shape_and_slice:string) -> (tensor:dt) "
        "[dt:type; preferred_shard:int=-1] {stateful}",
        _restored_slice_shape,
        _restore_table_kernel,
    ),
)
for _signature, _shape, _kernel in _ROWS:
    register(
        _signature,
        shape=_shape,
        kernel=_kernel,
        gradient=undefined_gradient,
        asynchronous=True,
        gives_away=True,  # what was restored, each tensor an array of its own
    )

register(
    "ShardedFilename(basename:string, shard:int32, num_shards:int32) -> (filename:string)",
    shape=_ranks(0, 0, 0, outputs=1),
    kernel=_sharded("-%05d-of-%05d", "basename", "shard", "num_shards"),
    gradient=undefined_gradient,
)
register(
    "ShardedFilespec(basename:string, num_shards:int32) -> (filename:string)",
    shape=_ranks(0, 0, outputs=1),
    kernel=_sharded("-?????-of-%05d", "basename", "num_shards"),
    gradient=undefined_gradient,
)
