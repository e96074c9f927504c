"""Writes checkpoints from tensors that are read one at a time: averages, and conversions to and from safetensors.

The output appears when it is complete; a former one of that name is kept until then. Memory is bounded by the largest tensor,
or for averages three of its size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.checkpoint_tools.stored_tensors import StoredTensors
from aioexec.errors import InvalidArgumentError
from aioexec.formats.bundle_writer import BundleWriter
from aioexec.formats.safetensors import SafetensorsWriter, has_dtype

Array = np.ndarray[Any, Any]
Advance = Callable[[float], None]


def write_checkpoint(
    source: StoredTensors, prefix: str, advance: Advance, read: Callable[[str], Array] | None = None
) -> None:
    """Write a checkpoint in TensorFlow's format V2, with the tensors of `source`.

    Args:
        advance: is called with the bytes done.
        read: gives the values, by default those of `source`.

    Raises:
        OpError: a tensor is damaged, or a file operation failed.
    """
    done, value_of = 0, read or source.read
    with BundleWriter(prefix) as writer:
        for name, tensor in source.tensors.items():
            writer.add(name, value_of(name), tensor.dtype)
            done += tensor.size
            advance(done)
        writer.finish()


def write_safetensors(source: StoredTensors, path: str, advance: Advance) -> list[str]:
    """Write a file of safetensors; returns the names of the tensors that the format cannot hold, which are left out.

    Raises:
        OpError: a tensor is damaged, or a file operation failed.
    """
    kept = {name: tensor for name, tensor in source.tensors.items() if has_dtype(tensor.dtype)}
    done = 0
    described = [(name, tensor.dtype, tensor.shape) for name, tensor in kept.items()]
    with SafetensorsWriter(path, described) as writer:
        for name in writer.order:
            writer.add(name, source.read(name))
            done += kept[name].size
            advance(done)
        writer.finish()
    return [name for name in source.tensors if name not in kept]


def write_average(sources: Sequence[StoredTensors], prefix: str, advance: Advance) -> None:
    """Write the checkpoint of the means of floating-point and complex tensors; the others, such as steps, are the last one's.

    Raises:
        InvalidArgumentError: the checkpoints have other tensors, dtypes or shapes than the first one.
        OpError: a tensor is damaged, or a file operation failed.
    """
    first, last = sources[0], sources[-1]
    for other in sources[1:]:
        _check_alike(first, other)

    def mean(name: str) -> Array:
        dtype = first.tensors[name].dtype
        if not (dtype.is_floating or dtype.is_complex):
            return last.read(name)
        total = first.read(name).astype(np.complex128 if dtype.is_complex else np.float64)
        for other in sources[1:]:
            total += other.read(name)
        return np.asarray(total / len(sources)).astype(dtype.as_numpy_dtype)

    write_checkpoint(first, prefix, advance, mean)


def _check_alike(first: StoredTensors, other: StoredTensors) -> None:
    missing = sorted(first.tensors.keys() ^ other.tensors.keys())
    if missing:
        raise InvalidArgumentError(
            f"{first.path} and {other.path} must have the same tensors: {missing[0]!r} is in one of them only"
        )
    for name, one in first.tensors.items():
        if (one.dtype, one.shape) != (other.tensors[name].dtype, other.tensors[name].shape):
            raise InvalidArgumentError(f"{first.path} and {other.path} have {name!r} in two dtypes or shapes")
