"""The tensors of a checkpoint: of TensorFlow's formats, of safetensors; read one at a time. Everything here blocks."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType, string
from aioexec.formats.safetensors import SafetensorsReader
from aioexec.train.checkpoints.checkpoint_reader import CheckpointReader, checkpoint_path

Array = np.ndarray[Any, Any]

_FILE_OF_CHECKPOINT = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
_SAFETENSORS = ".safetensors"


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a checkpoint, without its value."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Its bytes; 0 for strings, whose lengths are not in the index."""
        return 0 if self.dtype is string else self.count * self.dtype.size


@dataclass(frozen=True, slots=True)
class StoredTensors:
    """An open checkpoint: its path, its tensors by name, in the order of names, and a function that reads one."""

    path: str
    tensors: dict[str, StoredTensor]
    read: Callable[[str], Array]

    @property
    def size(self) -> int:
        """The bytes of all tensors but strings."""
        return sum(tensor.size for tensor in self.tensors.values())


def path_of(given: str) -> str:
    """The path of a checkpoint: of a folder's latest one, or of the one that a file belongs to.

    Raises:
        GraphValueError: the folder has none.
    """
    return checkpoint_path(given if os.path.isdir(given) else _FILE_OF_CHECKPOINT.sub("", given))


@contextmanager
def open_tensors(given: str) -> Iterator[StoredTensors]:
    """Open a checkpoint in the block.

    Args:
        given: its path, one of its files, a folder for its latest one, or a file that ends with .safetensors.

    Raises:
        NotFoundError, GraphValueError: there is none.
        DataLossError: it is damaged.
    """
    if given.endswith(_SAFETENSORS):
        with open_safetensors(given) as found:
            yield found
        return
    path = path_of(given)
    with CheckpointReader(path) as checkpoint:
        dtypes = checkpoint.get_variable_to_dtype_map()
        shapes = checkpoint.get_variable_to_shape_map()
        tensors = [StoredTensor(name, dtype, tuple(shapes[name])) for name, dtype in dtypes.items()]
        yield _opened(path, tensors, lambda name: np.asarray(checkpoint.get_tensor(name)))


@contextmanager
def open_safetensors(path: str) -> Iterator[StoredTensors]:
    """Open a file of safetensors in the block; raises as `SafetensorsReader` does."""
    with SafetensorsReader(path) as reader:
        yield _opened(path, [StoredTensor(*each) for each in reader.tensors()], reader.read)


def _opened(path: str, found: list[StoredTensor], read: Callable[[str], Array]) -> StoredTensors:
    return StoredTensors(
        path, {tensor.name: tensor for tensor in sorted(found, key=lambda each: each.name)}, read
    )
