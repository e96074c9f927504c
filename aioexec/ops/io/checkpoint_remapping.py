"""GenerateVocabRemapping and LoadAndRemapMatrix: restore matrices with a row or column per word in the order of a new
vocabulary.

Files are read on a worker. Rows and columns of new words are filled with values that the program supplies.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError
from aioexec.formats.tensor_slice import ShapeAndSlice, TensorSlice
from aioexec.formats.vocabulary_file import LINE_NUMBER, WHOLE_LINE, Layout, read
from aioexec.graph.kernels.kernel import Compute, KernelContext, StepContext
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.io.checkpoints import Proceed, as_path, on_worker
from aioexec.shapes import Dims

# Vocabularies


def _words(path: str, count: int) -> list[bytes]:
    """Return the first `count` lines of a file; all if -1."""
    layout = Layout(LINE_NUMBER, WHOLE_LINE, count)
    return read(path, layout, dtypes.int64, dtypes.string)[1]


def _remapping(proceed: Proceed, new: str, old: str, offset: int, count: int, old_size: int) -> Any:
    """Return for each new word its number in the old vocabulary, or -1; and the count of those found."""
    words = _words(new, -1)  # as in TensorFlow, words outside of the range are validated, too
    if len(words) < offset + count:
        raise InvalidArgumentError(
            f"{new}: {offset + count} words are needed for the new vocabulary, there are {len(words)}"
        )
    proceed()
    numbers: dict[bytes, int] = {}
    for number, word in enumerate(_words(old, old_size)):
        if numbers.setdefault(word, number) != number:
            raise FailedPreconditionError(
                f"{old}: HashTable has different value for same key. Key {word!r} has {numbers[word]} and trying to add "
                f"value {number}"
            )
    found = np.array([numbers.get(word, -1) for word in words[offset : offset + count]], np.int64)
    return found, np.int32(np.count_nonzero(found >= 0))


def _remapping_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    sizes = attrs["new_vocab_offset"], attrs["num_new_vocab"], attrs["old_vocab_size"]

    def compute(step: StepContext, new: Array, old: Array) -> Awaitable[Any]:
        for what, file in (("new_vocab_file", new), ("old_vocab_file", old)):
            if file.ndim:
                raise InvalidArgumentError(f"{what} should be a single string, but got {shown(file.shape)}")
        paths = as_path(new, "new_vocab_file"), as_path(old, "old_vocab_file")
        if not paths[0]:
            raise InvalidArgumentError("new vocab filename cannot be empty.")
        return on_worker(step, _remapping, *paths, *sizes)

    return compute


def _remapping_shape(context: ShapeContext) -> Sequence[Dims]:
    for dims in context.inputs:
        shapes.with_rank(dims, 0)
    return [(context.attrs["num_new_vocab"],), ()]


# Matrices


def _places(what: str, remapping: Array, count: int, old_count: int) -> tuple[Array, Array]:
    """Return the new rows (or columns) that exist in the checkpoint, and their old numbers.

    Raises:
        InvalidArgumentError: the size is not `count`, or an old number is out of range.
        UnimplementedError: an old number occurs twice.
    """
    if remapping.shape != (count,):
        raise InvalidArgumentError(
            f"Size of {what}_remapping is {shown(remapping.shape)}, but expected {count} of them"
        )
    there = np.flatnonzero(remapping >= 0)
    old = remapping[there]
    if old.size and old.max() >= old_count:
        raise InvalidArgumentError(
            f"{what}_remapping wants {what} {old.max()} of {old_count} in the checkpoint"
        )
    values, repeats = np.unique(old, return_counts=True)
    if (repeats > 1).any():
        raise UnimplementedError(
            f"Old ID {values[repeats > 1][0]} is mapped to several new IDs by {what}_remapping, which is not supported"
        )
    return there, old


def _load(
    proceed: Proceed, path: str, name: str, rows: Array, columns: Array, fill: Array, shape: Any, block: int
) -> Array:
    from aioexec.formats.bundle_reader import BundleReader

    with BundleReader(path, proceed) as reader:
        height, width = _matrix_shape(reader, name)
        if not columns.size and width != shape[1]:
            raise InvalidArgumentError(
                f"Tensor {name} has shape [{height},{width}], where the size of its 2nd dimension is {width} instead of "
                f"being equal to num_cols={shape[1]}"
            )
        columns = columns if columns.size else np.arange(width)
        new_rows, old_rows = _places("row", rows, shape[0], height)
        new_columns, old_columns = _places("col", columns, shape[1], width)
        missing = shape[0] * shape[1] - new_rows.size * new_columns.size
        if fill.size != missing:
            raise InvalidArgumentError(
                f"initializing_values contained {fill.size} elements, but {missing} are missing"
            )
        result = np.empty(shape, np.float32)
        is_missing = np.ones(shape, bool)
        is_missing[np.ix_(new_rows, new_columns)] = False
        result[is_missing] = fill.reshape(-1)
        for begin, piece in _pieces(reader, name, (height, width), old_rows, block):
            inside = (old_rows >= begin) & (old_rows < begin + len(piece))
            picked = piece[np.ix_(old_rows[inside] - begin, old_columns)]
            result[np.ix_(new_rows[inside], new_columns)] = picked
    return result


def _matrix_shape(reader: Any, name: str) -> tuple[int, int]:
    reader.place(name)  # raises if the tensor is missing
    _, dtype, shape = next(each for each in reader.tensors() if each[0] == name)
    if dtype != dtypes.float32 or len(shape) != 2:
        raise InvalidArgumentError(
            f"Tensor {name} must be a matrix of float, it is {dtype.name} of shape {shown(shape)}"
        )
    height, width = shape
    return height, width


def _pieces(
    reader: Any, name: str, shape: tuple[int, int], rows: Array, block: int
) -> Iterator[tuple[int, Array]]:
    """Yield the first row and the content of each block that contains requested rows."""
    height = shape[0] if block <= 0 else block
    for number in np.unique(rows // max(height, 1)):
        begin = int(number) * height
        part = TensorSlice(((begin, min(height, shape[0] - begin)), (0, -1)))
        yield begin, reader.read(name, dtypes.float32, ShapeAndSlice(shape, part, part.box(shape)))


def _load_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    shape = attrs["num_rows"], attrs["num_cols"]
    block = attrs["max_rows_in_memory"]

    def compute(step: StepContext, path: Array, name: Array, rows: Array, columns: Array, fill: Array) -> Any:
        where, which = as_path(path, "ckpt_path"), as_path(name, "old_tensor_name")
        return on_worker(step, _load, where, which, rows, columns, fill, shape, block)

    return compute


def _loaded_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank_at_most(context.inputs[0], 1)
    for dims, rank in zip(context.inputs[1:], (0, 1, 1), strict=False):
        shapes.with_rank(dims, rank)
    return [(context.attrs["num_rows"], context.attrs["num_cols"])]


register(
    "GenerateVocabRemapping(new_vocab_file:string, old_vocab_file:string) -> (remapping:int64, num_present:int32) "
    "[new_vocab_offset:int>=0; num_new_vocab:int>=0; old_vocab_size:int>=-1=-1]",
    shape=_remapping_shape,
    kernel=_remapping_kernel,
    gradient=NOT_DIFFERENTIABLE,
    asynchronous=True,
)
register(
    "LoadAndRemapMatrix(ckpt_path:string, old_tensor_name:string, row_remapping:int64, col_remapping:int64, "
    "initializing_values:float) -> (output_matrix:float) "
    "[num_rows:int>=0; num_cols:int>=1; max_rows_in_memory:int=-1] {stateful}",
    shape=_loaded_shape,
    kernel=_load_kernel,
    gradient=NOT_DIFFERENTIABLE,
    asynchronous=True,
)
