"""Save and restore ops, in TensorFlow's two checkpoint formats.

Files are written and read on a worker. If a save is cancelled, existing files remain unchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from aioexec.formats.slice_table import SliceTableReader

_BYTES_FOR_A_WORKER: Final = 16 << 20
"""Bytes to read per worker; below that, another worker does not pay off."""
_MOST_WORKERS: Final = min(4, os.cpu_count() or 1)

Proceed = Callable[[], None]
Work = Callable[..., Any]
"""Called on a worker with a `Proceed` function, which it calls at intervals and which raises if the step was cancelled."""


async def on_worker(step: StepContext, work: Work, *arguments: Any) -> Any:
    """Run `work` on a worker of the device until it has ended."""
    with _cancellation(step) as proceed:
        return await step.run_in_worker(partial(work, proceed, *arguments))


@contextlib.contextmanager
def _cancellation(step: StepContext) -> Iterator[Proceed]:
    """Return the `Proceed` function of a step; it raises CancelledError once the step is cancelled."""
    cancelled = threading.Event()

    def proceed() -> None:
        if cancelled.is_set():
            raise CancelledError("the step was cancelled")

    manager = step.cancellation_manager
    token = manager.get_cancellation_token()
    if not manager.register_callback(token, cancelled.set):
        raise CancelledError("the step was cancelled")
    try:
        yield proceed
    finally:
        manager.try_deregister_callback(token)


def as_path(value: Array, what: str) -> str:
    """Return the single string of an input as a path."""
    if value.size != 1:
        raise InvalidArgumentError(f"Input {what} should have a single element, got {value.size} instead.")
    return os.fsdecode(value.reshape(-1)[0])


def _names(values: Array) -> list[str]:
    return [os.fsdecode(value) for value in values.reshape(-1)]


def _place(text: str) -> ShapeAndSlice | None:
    return parse_shape_and_slice(text) if text else None


def _checked(names: Array, places: Array, tensors: int, things: str) -> list[tuple[str, str]]:
    """Return the name of each tensor, and the text of its slice."""
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
    return list(zip(_names(names), _names(places), strict=True))


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


def _save_kernel(save: Save, places_at: int | None) -> Reference:
    """Return the kernel of a save op; its inputs are the path, names, slices (if `places_at` is not None), and tensors."""
    first = 2 if places_at is None else 3

    def kernel(context: KernelContext) -> Compute:
        types = [
            dtype.base_dtype for dtype in context.input_dtypes[first:]
        ]  # variables are passed by reference

        def compute(step: StepContext, path: Array, names: Array, *rest: Array) -> Awaitable[None]:
            places = np.full(names.shape, b"", object) if places_at is None else rest[0]
            values = rest[first - 2 :]
            texts = _checked(names, places, len(values), "tensors")
            named = [(name, _place(text)) for name, text in texts]
            for (_, place), text, value in zip(named, places, values, strict=True):
                _check_saved(place, text, value)
            return on_worker(step, save, as_path(path, "prefix"), named, values, types)

        return compute

    return kernel


# Restoring: as in TensorFlow, errors of the file and of names precede those of slices.

Wanted = Sequence[tuple[str, str]]
"""The name of each tensor, and the text of its slice."""


class _Restoring:
    """Restores tensors from a bundle with one or, if they are large, several workers.

    `workers`: the number of workers. `_left`: tensors not yet read, in the order of their file offsets, as (position, function
    that reads). `_is_over`: a read has failed.
    """

    def __init__(self, proceed: Proceed, prefix: str, wanted: Wanted, types: Sequence[DType]) -> None:
        from aioexec.formats.bundle_reader import BundleReader

        self._values: list[Any] = [None] * len(wanted)
        self._is_over = False
        with contextlib.ExitStack() as opened:
            reader = opened.enter_context(BundleReader(prefix, proceed, aligned_empty))
            places = [reader.place(name) for name, _ in wanted]
            parts = [_place(text) for _, text in wanted]
            in_order = sorted(range(len(wanted)), key=places.__getitem__)
            self._left = deque((k, reader.reading(wanted[k][0], types[k], parts[k])) for k in in_order)
            shares = sum(size for *_, size in places) // _BYTES_FOR_A_WORKER + 1
            self.workers = min(shares, _MOST_WORKERS, len(wanted))
            self._opened = opened.pop_all()

    def read(self) -> None:
        """Read tensors until none is left; called by each worker."""
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
        """Close the files; return the tensors."""
        self._opened.close()
        return self._values


async def _restore(step: StepContext, prefix: str, wanted: Wanted, types: Sequence[DType]) -> list[Array]:
    with _cancellation(step) as proceed:
        restoring = await step.run_in_worker(partial(_open, proceed, prefix, wanted, types))
        if restoring is None:
            tables = partial(_restore_from_tables, proceed, prefix, wanted, types)
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


def _open(proceed: Proceed, prefix: str, wanted: Wanted, types: Sequence[DType]) -> _Restoring | None:
    """Open a bundle; return None if there is none with that prefix, since it may be a file of format V1."""
    from aioexec.formats.bundle_entries import index_name

    return _Restoring(proceed, prefix, wanted, types) if os.path.exists(index_name(prefix)) else None


def _restore_from_tables(
    proceed: Proceed, pattern: str, wanted: Wanted, types: Sequence[DType]
) -> list[Array]:
    from aioexec.formats.slice_table import SliceTableReader

    with SliceTableReader(pattern, proceed) as reader:
        return [
            _restore_part(reader, name, text, dtype)
            for (name, text), dtype in zip(wanted, types, strict=True)
        ]


def _restore_from_table(
    proceed: Proceed, pattern: str, name: Array, place: Array | None, dtype: DType
) -> list[Array]:
    """Restore one tensor; errors of the file precede those of its name and slice."""
    from aioexec.formats.slice_table import SliceTableReader

    with SliceTableReader(pattern, proceed) as reader:
        chosen = as_path(name, "tensor_name")
        text = "" if place is None else as_path(place, "shape_and_slice")
        return [_restore_part(reader, chosen, text, dtype)]


def _restore_part(reader: SliceTableReader, name: str, text: str, dtype: DType) -> Array:
    reader.check_name(name)
    return reader.read(name, dtype, _place(text))


async def _outputs(values: Awaitable[list[Array]]) -> Any:
    made = await values
    return made[0] if len(made) == 1 else tuple(made)


def _restore_kernel(context: KernelContext) -> Compute:
    types = context.output_dtypes

    def compute(step: StepContext, prefix: Array, names: Array, places: Array) -> Awaitable[Any]:
        wanted = _checked(names, places, len(types), "expected dtypes")
        return _outputs(_restore(step, as_path(prefix, "prefix"), wanted, types))

    return compute


def _restore_table_kernel(context: KernelContext) -> Compute:
    (dtype,) = context.output_dtypes
    if context.attrs["preferred_shard"] < -1:
        raise InvalidArgumentError("Attribute 'preferred_shard' must be greater or equal to -1")

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
        with contextlib.suppress(OSError):  # the folder may contain other files
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
    """Shape rule: inputs of these ranks, scalar outputs."""

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
        _save_kernel(_save_bundle, 2),
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
        _save_kernel(_save_table, None),
    ),
    (
        "SaveSlices(filename:string, tensor_names:string, shapes_and_slices:string, data:T) -> () "
        "[T:list(type)>=1] {stateful}",
        _saved_shape("T", (1, 2)),
        _save_kernel(_save_table, 2),
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
        gives_away=True,  # the restored tensors have no other reference
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
