"""Hostile values: arrays and attributes made from valid ones, by a seeded generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from aioexec import dtypes as dt
from aioexec.dtypes import DType
from aioexec.graph.opdef import AttrDef

Array = np.ndarray[Any, Any]

INTEGERS = (
    -1,
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    64,
    100,
    -2,
    -3,
    -100,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**32 + 1,
    -(2**31),
    -(2**31) - 1,
    2**62,
    2**63 - 1,
    2**63,
    -(2**63),
    2**61,
    2**64 - 1,
    46341,
    2**16,
    2**21 + 1,
    3037000500,
    -(2**32),
    2**40,
    2**33,
)
"""Of which products overflow 32 or 64 bits, and which are sizes of more memory than there is, or of none."""
FLOATS = (
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e30,
    -1e30,
    1e-30,
    1e-45,
    3.4e38,
    1e308,
    -1e308,
    2.0**31,
    2.0**63,
    -(2.0**63),
    2.0**64,
    127.5,
    255.0,
    256.0,
    65504.0,
    1e10,
    -0.5,
)
STRINGS = (
    b"",
    b"a",
    b"\x00",
    b"\xff\xfe",
    b"%",
    b"{}",
    b"%s",
    b"a" * 300,
    b"-1",
    b"nan",
    b"1e999",
    b"99999999999999999999",
    b"(",
    b"[a-",
    b"\\",
    b"NHWC",
    b"NCHW",
    b"\xc3",
    b"0 1",
    b"x y -1",
)
SHAPES = (
    (),
    (0,),
    (1,),
    (2,),
    (3,),
    (5,),
    (0, 0),
    (1, 1),
    (2, 3),
    (3, 2),
    (0, 3),
    (3, 0),
    (2, 0, 3),
    (1, 2, 3),
    (2, 2, 2),
    (1, 4, 4, 1),
    (2, 3, 3, 2),
    (0, 4, 4, 1),
    (1, 4, 4, 0),
    (1, 1, 1, 1, 1),
    (2, 3, 3, 3, 1),
    (1,) * 9,
)


def random_array(random: Random, dtype: DType, shape: Sequence[int] | None = None) -> Array:
    """An array of ordinary values."""
    shape = tuple(random.choice(SHAPES) if shape is None else shape)
    draw = np.random.default_rng(random.getrandbits(32))
    if dtype is dt.string:
        return np.array([random.choice(STRINGS) for _ in range(int(np.prod(shape)))], object).reshape(shape)
    if dtype is dt.bool:
        return np.asarray(draw.integers(0, 2, shape), bool)
    if dtype.is_quantized:
        return np.asarray(draw.integers(0, 9, shape), dtype.numpy[0]).view(dtype.numpy).reshape(shape)
    if dtype.is_integer:
        return np.asarray(draw.integers(0, 4, shape)).astype(dtype.numpy)
    drawn = draw.uniform(-3, 3, shape)
    if dtype.is_complex:
        drawn = drawn + 1j * draw.uniform(-3, 3, shape)
    return np.asarray(drawn).astype(dtype.numpy)


def mutated(random: Random, array: Array) -> Array:
    """The same array with hostile elements, or of another shape."""
    if random.random() < 0.65 and array.size:
        return with_hostile_elements(random, array)
    change = random.choice(
        (emptied, deepened, flattened, longer, shorter, first_only, reshaped, transposed, tiled_once)
    )
    return change(random, array)


def with_hostile_elements(random: Random, array: Array) -> Array:
    changed = np.array(array)
    flat = changed.reshape(-1)
    count = flat.size if random.random() < 0.2 else min(flat.size, random.choice((1, 1, 1, 2, 3)))
    for k in random.sample(range(flat.size), min(count, 64)):
        flat[k] = hostile_element(random, array)
    return changed


def hostile_element(random: Random, array: Array) -> Any:
    kind = array.dtype.kind
    if kind == "O":
        return random.choice(STRINGS)
    if kind == "b":
        return random.random() < 0.5
    if kind in "iu":
        value = random.choice(INTEGERS) if random.random() < 0.7 else random.randrange(-8, 9)
        limits = np.iinfo(array.dtype)
        return min(max(value, int(limits.min)), int(limits.max))
    if array.dtype.fields:  # quantized
        return (random.randrange(0, 100),)
    with np.errstate(all="ignore"):
        number = np.float64(random.choice(FLOATS))
        if kind == "c":
            return array.dtype.type(complex(number, random.choice(FLOATS)))
        return number.astype(array.dtype)


def emptied(random: Random, array: Array) -> Array:
    if array.ndim == 0:
        return np.zeros((0,), array.dtype)
    return np.take(array, [], axis=random.randrange(array.ndim))


def deepened(random: Random, array: Array) -> Array:
    return np.expand_dims(array, random.randrange(array.ndim + 1))


def flattened(random: Random, array: Array) -> Array:
    return np.array(array.reshape(-1))


def longer(random: Random, array: Array) -> Array:
    if array.ndim == 0:
        return np.array([array[()]] * 2, array.dtype)
    axis = random.randrange(array.ndim)
    return np.concatenate([array, np.take(array, range(min(1, array.shape[axis])), axis)], axis)


def shorter(random: Random, array: Array) -> Array:
    if array.ndim == 0:
        return np.zeros((0,), array.dtype)
    axis = random.randrange(array.ndim)
    return np.take(array, range(max(array.shape[axis] - 1, 0)), axis)


def first_only(random: Random, array: Array) -> Array:
    return np.array(array[0]) if array.ndim and array.shape[0] else np.zeros((), array.dtype)


def reshaped(random: Random, array: Array) -> Array:
    return (
        np.resize(array, random.choice(SHAPES))
        if array.size
        else np.zeros(random.choice(SHAPES), array.dtype)
    )


def transposed(random: Random, array: Array) -> Array:
    return np.array(array.T)


def tiled_once(random: Random, array: Array) -> Array:
    """More elements than one vector of a processor has, and not a multiple of that."""
    return (
        np.array(np.resize(array, (*array.shape[:-1], random.choice((9, 17, 33, 67)))))
        if array.size
        else array
    )


def mutated_attr(random: Random, attr: AttrDef, value: Any) -> Any:
    """Another value for an attribute; the same where nothing else can be given."""
    kind = attr.kind
    if attr.allowed and random.random() < 0.9:
        if kind.startswith("list("):
            return tuple(random.choice(attr.allowed) for _ in range(random.randrange(4)))
        return random.choice(attr.allowed)
    if kind.startswith("list("):
        items = tuple(value or ()) if isinstance(value, list | tuple | None) else (value,)
        return _mutated_list(random, attr, items, _ELEMENTS.get(kind[5:-1]))
    if kind == "tensor":
        return mutated(random, value) if isinstance(value, np.ndarray) else value
    make = _ELEMENTS.get(kind)
    return value if make is None else make(random)


def _mutated_list(
    random: Random, attr: AttrDef, items: tuple[Any, ...], make: Callable[[Random], Any] | None
) -> tuple[Any, ...]:
    if make is None:
        return items
    changed = list(items)
    action = random.randrange(5)
    if action == 0 or not changed:
        changed.append(make(random))
    elif action == 1:
        changed.pop(random.randrange(len(changed)))
    elif action == 2:
        changed = []
    else:
        changed[random.randrange(len(changed))] = make(random)
    return tuple(changed)


def _integer(random: Random) -> int:
    value = random.choice(INTEGERS) if random.random() < 0.7 else random.randrange(-4, 9)
    return min(max(value, -(2**63)), 2**63 - 1)


def _float(random: Random) -> float:
    return float(random.choice(FLOATS))


def _shape(random: Random) -> Any:
    drawn = random.random()
    if drawn < 0.15:
        return None
    if drawn < 0.4:
        return tuple(
            random.choice((None, *(n for n in INTEGERS if 0 <= n < 2**63)))
            for _ in range(random.randrange(4))
        )
    return random.choice(SHAPES)


def _type(random: Random) -> DType:
    return random.choice(
        (dt.float32, dt.float64, dt.int32, dt.int64, dt.string, dt.bool, dt.uint8, dt.complex64)
    )


_ELEMENTS: dict[str, Callable[[Random], Any]] = {
    "int": _integer,
    "float": _float,
    "bool": lambda random: random.random() < 0.5,
    "string": lambda random: random.choice(STRINGS).decode("latin1"),
    "shape": _shape,
    "type": _type,
}


def random_attr(random: Random, attr: AttrDef) -> Any:
    """A value for an attribute that has no default; None if there is none for its kind."""
    if attr.allowed:
        return random.choice(attr.allowed)
    if attr.kind.startswith("list("):
        make = _ELEMENTS.get(attr.kind[5:-1])
        return () if make is None else tuple(make(random) for _ in range(random.randrange(1, 4)))
    if attr.kind == "tensor":
        return random_array(random, random.choice((dt.float32, dt.int32)))
    if attr.kind == "int" and random.random() < 0.7:
        return random.randrange(4)
    if attr.kind == "shape" and random.random() < 0.7:
        return random.choice(SHAPES)
    make = _ELEMENTS.get(attr.kind)
    return None if make is None else make(random)
