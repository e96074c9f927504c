"""Data formats and sizes in the form of `tf.contrib.layers`: NHWC and its kin, one integer or one for each axis."""

from __future__ import annotations

from typing import Any

from aioexec.errors import GraphValueError
from aioexec.shapes import TensorShape

IMAGES = ("NHWC", "NCHW")
VOLUMES = ("NDHWC", "NCDHW")
ALL = (None, "NWC", "NCW", *IMAGES, *VOLUMES)


def check_format(data_format: Any, allowed: tuple[str, str]) -> str:
    """Return the name of the format in `aioexec.layers`: channels_last or channels_first.

    Raises:
        GraphValueError: it is neither of the two allowed ones.
    """
    if data_format not in allowed:
        last, first = allowed
        raise GraphValueError(f"data_format has to be either {first} or {last}.")
    return layer_format(data_format)


def layer_format(data_format: Any) -> str:
    """Return the name of the format in `aioexec.layers`; None is channels_last."""
    return "channels_first" if data_format and data_format.startswith("NC") else "channels_last"


def two_element_tuple(int_or_tuple: Any) -> tuple[int, int]:
    """Return two sizes: those of a sequence or shape, or one twice.

    Raises:
        GraphValueError: a sequence has not two sizes, or the argument is neither a sequence nor an integer.
    """
    if isinstance(int_or_tuple, TensorShape):
        int_or_tuple = int_or_tuple.as_list()
    if isinstance(int_or_tuple, list | tuple):
        if len(int_or_tuple) != 2:
            raise GraphValueError(f"Must be a list with 2 elements: {int_or_tuple!r}")
        return int(int_or_tuple[0]), int(int_or_tuple[1])
    if isinstance(int_or_tuple, int):
        return int_or_tuple, int_or_tuple
    raise GraphValueError("Must be an int, a list with 2 elements or a TensorShape of length 2")


def n_positive_integers(n: int, value: Any) -> tuple[int, ...]:
    """Return `n` positive sizes: those of a sequence, or one for all.

    Raises:
        GraphValueError: the number of sizes is wrong, or one is not positive.
    """
    sizes = (value,) * n if isinstance(value, int) else tuple(int(size) for size in value)
    if len(sizes) != n or any(size < 1 for size in sizes):
        raise GraphValueError(f"Expected {n} positive integers, got {value!r}")
    return sizes


def channel_dimension(shape: Any, data_format: str, min_rank: int = 1) -> int:
    """Return the number of channels of a shape, for channels_last or channels_first.

    Raises:
        GraphValueError: the rank is too small, or the number unknown.
    """
    dims = TensorShape(shape).with_rank_at_least(min_rank).as_list()
    channels = dims[1 if data_format == "channels_first" else -1]
    if channels is None:
        raise GraphValueError("dims of shape must be known but is None")
    return int(channels)


def last_dimension(shape: Any, min_rank: int = 1) -> int:
    """Return the last dimension of a shape; see `channel_dimension`."""
    return channel_dimension(shape, "channels_last", min_rank)
