"""Cases of sparse tensors as strings."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError, ResourceExhaustedError
from tests.ops.harness import Case, case

PLACES = np.array([[0, 1], [2, 3]])
VALUES = np.array([1, 2], np.float32)
SHAPE = np.array([3, 4])


def proto(dtype: int, shape: tuple[int, ...], content: bytes) -> bytes:
    """A TensorProto; nothing in it has 128 bytes."""
    dims = b"".join(b"\x12\x02\x08" + bytes([size]) if size else b"\x12\x00" for size in shape)
    raw = b"\x22" + bytes([len(content)]) + content if content else b""
    return b"\x08" + bytes([dtype]) + b"\x12" + bytes([len(dims)]) + dims + raw


def rows(*protos: bytes) -> Any:
    return np.array(protos, object).reshape(-1, 3)


WHOLE = rows(
    proto(9, (2, 2), PLACES.tobytes()), proto(1, (2,), VALUES.tobytes()), proto(9, (2,), SHAPE.tobytes())
)
INNER = proto(9, (1,), SHAPE[1:].tobytes())
MANY = rows(
    proto(9, (1, 1), PLACES[:1, 1:].tobytes()), proto(1, (1,), VALUES[:1].tobytes()), INNER,
    proto(9, (0, 1), b""), proto(1, (0,), b""), INNER,
    proto(9, (1, 1), PLACES[1:, 1:].tobytes()), proto(1, (1,), VALUES[1:].tobytes()), INNER,
)  # fmt: skip
WORDS = proto(7, (2,), b"\x01\x02abb")
READ = {"attrs": {"dtype": "float32"}}
BAD: dict[str, Any] = {**READ, "raises": InvalidArgumentError}
SPLAT = b"\x08\x09\x12\x08\x12\x06\x08\x80\x80\x80\x80\x01\x50\x01"

CASES: list[Case] = [
    case("SerializeSparse", PLACES, VALUES, SHAPE, dtypes=("float32",), expected=WHOLE[0]),
    case(
        "SerializeSparse",
        PLACES,
        np.array([b"a", b"bb"], object),
        SHAPE,
        expected=np.array([WHOLE[0, 0], WORDS, WHOLE[0, 2]], object),
    ),
    case("SerializeManySparse", PLACES, VALUES, SHAPE, dtypes=("float32",), expected=MANY),
    case(
        "SerializeManySparse", PLACES[:0], VALUES[:0], np.array([1 << 60, 4]), raises=ResourceExhaustedError
    ),
    case("DeserializeSparse", WHOLE[0], **READ, expected=(PLACES, VALUES, SHAPE)),
    case("DeserializeManySparse", MANY, **READ, expected=(PLACES, VALUES, SHAPE)),
    case("DeserializeManySparse", WHOLE[:, ::-1], **BAD),
    case("DeserializeManySparse", rows(*WHOLE[0, :2], SPLAT), **BAD),
]
