"""Reads checkpoints of both formats by the names of their tensors, without a graph.

Everything here blocks: coroutines call it off the loop.
"""

from __future__ import annotations

import os
import weakref
from types import TracebackType
from typing import Any, Self

from aioexec.dtypes import DType
from aioexec.errors import GraphValueError, NotFoundError
from aioexec.formats.bundle_entries import index_name
from aioexec.train.checkpoints.checkpoint_state import Path, latest_checkpoint

_SUFFIX_OF_OUTPUT = ":0"


class CheckpointReader:
    """An open checkpoint. Its files stay open until `close`, the end of a `with` block, or garbage collection.

    Raises:
        NotFoundError: there is no such checkpoint.
        DataLossError: it is damaged, or none.
    """

    def __init__(self, filename: Path) -> None:
        self._path = path = os.fsdecode(filename)
        self._reader = _open(path)
        self._close = weakref.finalize(self, self._reader.__exit__, None, None, None)
        described = list(self._reader.tensors())
        self._shapes = {name: shape for name, _, shape in described}
        self._dtypes = {name: dtype for name, dtype, _ in described}

    def close(self) -> None:
        """Close the files; names, shapes and dtypes remain available."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def has_tensor(self, tensor_str: str | bytes) -> bool:
        return os.fsdecode(tensor_str) in self._shapes

    def get_tensor(self, tensor_str: str | bytes) -> Any:
        """A tensor as an array, a scalar as a NumPy scalar; partitioned tensors are concatenated.

        Raises:
            NotFoundError: there is no tensor of this name.
            DataLossError: it is damaged.
        """
        name = os.fsdecode(tensor_str)
        if name not in self._dtypes:
            raise NotFoundError(f"Key {name} not found in checkpoint {self._path}")
        value = self._reader.read(name, self._dtypes[name])
        return value if value.ndim else value[()]

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """The shape of each tensor, by name."""
        return {name: list(shape) for name, shape in self._shapes.items()}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        """The dtype of each tensor, by name."""
        return dict(self._dtypes)

    def debug_string(self) -> bytes:
        """A line for each tensor: name, dtype, shape."""
        from aioexec.formats.protos import DataType

        lines = []
        for name, shape in self._shapes.items():
            dtype = DataType.Name(self._dtypes[name].as_datatype_enum)
            lines.append(f"{name} ({dtype}) [{','.join(map(str, shape))}]\n")
        return "".join(lines).encode(errors="surrogateescape")


def _open(path: str) -> Any:
    """A reader for the format of a checkpoint's files."""
    from aioexec.formats.bundle_reader import BundleReader
    from aioexec.formats.slice_table import SliceTableReader

    return (BundleReader if os.path.exists(index_name(path)) else SliceTableReader)(path)


def NewCheckpointReader(filepattern: Path) -> CheckpointReader:
    """A reader of the checkpoint with this path."""
    return CheckpointReader(filepattern)


def checkpoint_path(ckpt_dir_or_file: Path) -> str:
    """The path itself, or for a folder the path of its latest checkpoint.

    Raises:
        GraphValueError: the folder has none.
    """
    path = os.fsdecode(ckpt_dir_or_file)
    if not os.path.isdir(path):
        return path
    latest = latest_checkpoint(path)
    if latest is None:
        raise GraphValueError(f"Couldn't find 'checkpoint' file or checkpoints in given directory {path}")
    return latest


def load_checkpoint(ckpt_dir_or_file: Path) -> CheckpointReader:
    """A reader of a checkpoint, or of the latest one in a folder.

    Raises:
        GraphValueError: the folder has none.
    """
    return CheckpointReader(checkpoint_path(ckpt_dir_or_file))


def load_variable(ckpt_dir_or_file: Path, name: str) -> Any:
    """The value of a variable in a checkpoint."""
    with load_checkpoint(ckpt_dir_or_file) as reader:
        return reader.get_tensor(name.removesuffix(_SUFFIX_OF_OUTPUT))


def list_variables(ckpt_dir_or_file: Path) -> list[tuple[str, list[int]]]:
    """(name, shape) of each tensor in a checkpoint, sorted by name."""
    with load_checkpoint(ckpt_dir_or_file) as reader:
        return sorted(reader.get_variable_to_shape_map().items())
