"""Arguments that several layers take: sizes for each axis, padding, layouts, activations and initializers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.node import Tensor
from aioexec.ops.math.math_functions import exp, sigmoid, tanh
from aioexec.ops.nn.activations import elu, relu, relu6, selu, softplus, softsign
from aioexec.ops.nn.softmax import softmax
from aioexec.ops.state import initializers

ZEROS: Final = initializers.Zeros()
ONES: Final = initializers.Ones()

_ACTIVATIONS: Final[Mapping[str, Callable[..., Any] | None]] = {
    "linear": None,
    "elu": elu,
    "exponential": exp,
    "relu": relu,
    "relu6": relu6,
    "selu": selu,
    "sigmoid": sigmoid,
    "softmax": softmax,
    "softplus": softplus,
    "softsign": softsign,
    "tanh": tanh,
}

_INITIALIZERS: Final[Mapping[str, Callable[[], Any]]] = {
    "glorot_normal": initializers.GlorotNormal,
    "glorot_uniform": initializers.GlorotUniform,
    "he_normal": initializers.he_normal,
    "he_uniform": initializers.he_uniform,
    "identity": initializers.Identity,
    "lecun_normal": initializers.lecun_normal,
    "lecun_uniform": initializers.lecun_uniform,
    "ones": initializers.Ones,
    "orthogonal": initializers.Orthogonal,
    "random_normal": lambda: initializers.RandomNormal(stddev=0.05),
    "random_uniform": lambda: initializers.RandomUniform(-0.05, 0.05),
    "truncated_normal": lambda: initializers.TruncatedNormal(stddev=0.05),
    "zeros": initializers.Zeros,
}


def activation_of(given: Any) -> Callable[..., Any] | None:
    """The function of an activation: a function, None, or the name of one.

    Raises:
        GraphValueError: the name is unknown, or the value cannot be called.
    """
    if isinstance(given, str):
        if given not in _ACTIVATIONS:
            raise GraphValueError(
                f"Unknown activation function: {given!r}; expected one of {', '.join(_ACTIVATIONS)}"
            )
        return _ACTIVATIONS[given]
    if given is not None and not callable(given):
        raise GraphValueError(f"Could not interpret activation function identifier: {given!r}")
    function: Callable[..., Any] | None = given
    return function


def initializer_of(given: Any) -> Any:
    """An initializer: an object, a class, a function or None as it is, or the one of that name.

    Raises:
        GraphValueError: the name is unknown.
    """
    if not isinstance(given, str):
        return given
    if given not in _INITIALIZERS:
        raise GraphValueError(f"Unknown initializer: {given!r}; expected one of {', '.join(_INITIALIZERS)}")
    return _INITIALIZERS[given]()


def sizes(value: Any, count: int, name: str) -> tuple[int, ...]:
    """The size for each of `count` axes: one integer for all, or a sequence of them.

    Raises:
        GraphValueError: the number of sizes is wrong, or one is no integer.
    """
    refused = GraphValueError(
        f"The `{name}` argument must be a tuple of {count} integers. Received: {value!r}"
    )
    if isinstance(value, int):
        return (value,) * count
    try:
        found = tuple(int(size) for size in value)
    except (TypeError, ValueError) as error:
        raise refused from error
    if len(found) != count:
        raise refused
    return found


def padding_of(value: Any, allowed: tuple[str, ...] = ("valid", "same")) -> str:
    """The name of a padding in lower case; GraphValueError if it is not allowed."""
    padding = value.lower() if isinstance(value, str) else value
    if padding not in allowed:
        raise GraphValueError(
            f"The `padding` argument must be one of {', '.join(allowed)}. Received: {value!r}"
        )
    return str(padding)


def data_format_of(value: Any) -> str:
    """The name of a data format in lower case, by default channels_last; GraphValueError if it is unknown."""
    data_format = "channels_last" if value is None else value
    data_format = data_format.lower() if isinstance(data_format, str) else data_format
    if data_format not in ("channels_first", "channels_last"):
        raise GraphValueError(
            f'The `data_format` argument must be one of "channels_first", "channels_last". Received: {value!r}'
        )
    return str(data_format)


def layout(data_format: str, rank: int) -> str:
    """The layout of an op on `rank` spatial axes: NWC, NHWC or NDHWC, or with the channels first."""
    axes = "DHW"[3 - rank :]
    return f"N{axes}C" if data_format == "channels_last" else f"NC{axes}"


def to_channels_last(value: Tensor) -> Tensor:
    """A tensor [batch, channels, ...] as [batch, ..., channels]."""
    rank = len(value.dims or ())
    return apply_op("Transpose", value, [0, *range(2, rank), 1], name="transpose")


def to_channels_first(value: Tensor) -> Tensor:
    """A tensor [batch, ..., channels] as [batch, channels, ...]."""
    rank = len(value.dims or ())
    return apply_op("Transpose", value, [0, rank - 1, *range(1, rank - 1)], name="transpose")


def by_axis(spatial: tuple[int, ...], data_format: str) -> list[int]:
    """The sizes for all axes of a layout: 1 for batch and channels."""
    return [1, *spatial, 1] if data_format == "channels_last" else [1, 1, *spatial]
