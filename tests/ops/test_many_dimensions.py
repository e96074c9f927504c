"""Arrays of up to 64 dimensions are values like others, also of strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax

DIMS = (1,) * 40 + (2,)

STRINGS = np.array([b"1", b"22"], object).reshape(DIMS)

OPS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "identity": (ax.identity, [b"1", b"22"]),
    "string_join": (lambda text: ax.string_join([text, text]), [b"11", b"2222"]),
    "string_to_number": (ax.string_to_number, [1, 22]),
    "string_length": (ax.strings.length, [1, 2]),
    "regex_replace": (lambda text: ax.strings.regex_replace(text, "2", "3"), [b"1", b"33"]),
}


@pytest.mark.parametrize("name", OPS)
async def test_strings_may_have_more_than_32_dimensions(name):
    build, expected = OPS[name]
    with ax.Graph().as_default() as graph:
        text = ax.placeholder(ax.string)
        made = build(text)

    async with ax.Session(graph=graph) as session:
        value = await session.run(made, {text: STRINGS})

    assert value.reshape(-1, *value.shape[len(DIMS) :]).tolist() == expected
