"""Values on the command line: feeds from text and from NumPy's files, results as text and into such files."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aioexec.dtypes import DType, string
from aioexec.errors import DataLossError, InvalidArgumentError, NotFoundError
from aioexec.formats.checkpoint_files import OutputFile
from aioexec.graph.node import Tensor
from aioexec.inspection.models import OpenModel

Array = np.ndarray[Any, Any]

_NPY, _NPZ = ".npy", ".npz"


def read_feeds(model: OpenModel, texts: Iterable[str]) -> dict[Tensor, Array]:
    """Feeds from arguments of these forms; blocks, as it reads files.

    - `NAME=JSON`, such as `x=[[1, 2]]` and `training=false`; for a tensor of strings `NAME=text` too;
    - `NAME=FILE.npy`; `NAME=FILE.npz:KEY`;
    - `FILE.npz`: all of its arrays, by their names.

    Raises:
        InvalidArgumentError: a value is none of these, or its dtype is not the tensor's.
        NotFoundError, DataLossError: a file is missing, or damaged.
    """
    feeds: dict[Tensor, Array] = {}
    for text in texts:
        for name, value in _named_values(text):
            tensor = model.feed(name)
            feeds[tensor] = _converted(name, value, tensor.dtype.base_dtype)
    return feeds


def _named_values(text: str) -> list[tuple[str, Any]]:
    name, equals, value = text.partition("=")
    if not equals:
        if not text.endswith(_NPZ):
            raise InvalidArgumentError(
                f"expected NAME=VALUE, NAME=FILE.npy, NAME=FILE.npz:KEY or FILE.npz, got {text!r}"
            )
        return list(_arrays(text).items())
    path, colon, key = value.rpartition(":")
    if colon and path.endswith(_NPZ):
        arrays = _arrays(path)
        if key not in arrays:
            raise NotFoundError(f"{path} has no array {key!r}, only {sorted(arrays)}")
        return [(name, arrays[key])]
    if value.endswith(_NPY):
        return [(name, _load(value))]
    return [(name, value)]


def _arrays(path: str) -> dict[str, Array]:
    with _load(path) as file:
        return {name: file[name] for name in file.files}


def _load(path: str) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        raise DataLossError(f"{path}: no array in NumPy's format: {error}") from error


def _converted(name: str, value: Any, dtype: DType) -> Array:
    """A value as an array of the tensor's dtype; text is JSON, or itself for a tensor of strings."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            if dtype is not string:
                raise InvalidArgumentError(
                    f"{name}: expected JSON, such as [[1, 2]], or a .npy file, got {value!r}"
                ) from None
    try:
        if dtype is string:
            return _strings(value)
        array = np.asarray(value)
        if array.dtype.kind == "f" and not (dtype.is_floating or dtype.is_complex):
            raise ValueError(f"{array.dtype} does not fit")
        return array.astype(dtype.as_numpy_dtype)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{name}: expected values of {dtype.name}: {error}") from error


def _strings(value: Any) -> Array:
    array = np.array(value, object)
    flat = [each.encode() if isinstance(each, str) else each for each in array.reshape(-1).tolist()]
    if not all(isinstance(each, bytes) for each in flat):
        raise ValueError(f"got {value!r}")
    strings = np.empty(len(flat), object)
    strings[:] = flat
    return strings.reshape(array.shape)


def write_values(path: Path, values: Mapping[str, Array]) -> None:
    """Write arrays to a file in one step: `.npz` by name, `.npy` for a single one. Blocks.

    Dtypes that NumPy's format lacks are converted: strings to those of fixed length, bfloat16 and 8-bit floats to float32.

    Raises:
        InvalidArgumentError: another suffix, or several arrays for `.npy`.
        OpError: a file operation failed.
    """
    stored = {name: _storable(value) for name, value in values.items()}
    data = io.BytesIO()
    if path.suffix == _NPZ:
        np.savez(
            data, allow_pickle=False, **{name.replace("/", "_"): value for name, value in stored.items()}
        )
    elif path.suffix == _NPY and len(stored) == 1:
        (value,) = stored.values()
        np.save(data, value, allow_pickle=False)
    else:
        expected = ".npz" if len(stored) > 1 else ".npz or .npy"
        raise InvalidArgumentError(f"{path}: expected a file {expected} for {len(stored)} results")
    with OutputFile(os.fspath(path)) as file:
        file.write(data.getbuffer())
        file.commit()


def _storable(value: Any) -> Array:
    array = np.asarray(value)
    if array.dtype.kind == "O":
        return array.astype(np.bytes_)
    return array.astype(np.float32) if array.dtype.kind == "V" else array
