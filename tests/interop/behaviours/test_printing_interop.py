"""What `tf.print` prints of dictionaries, lists, sparse tensors and variables, in both engines."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.interop

Pair = collections.namedtuple("Pair", ["left", "right"])

VALUES: dict[str, Callable[[Any], list[Any]]] = {
    "a scalar string": lambda tf: [tf.constant("text")],
    "strings": lambda tf: [tf.constant(["a", "b"]), "plain", tf.constant("c")],
    "numbers": lambda tf: [1, 2.5, None, True, [1, 2], (3,)],
    "an array": lambda tf: [np.arange(3)],
    "a dictionary": lambda tf: ["it:", {"b": tf.constant([1, 2]), "a": {"c": tf.constant(3.5)}, "d": "text"}],
    "a list": lambda tf: [[tf.constant(1), "x", [tf.constant([[1.5], [2.0]])]]],
    "a pair": lambda tf: [Pair(tf.constant(1), (tf.constant(2), 3))],
    "a sparse tensor": lambda tf: [tf.SparseTensor([[0, 1], [2, 0]], [1.5, 2.0], [3, 3])],
    "sparse tensors in a list": lambda tf: [[tf.SparseTensor([[0]], [1], [2]), 5]],
    "a variable": lambda tf: [tf.get_variable("v", initializer=tf.constant([1.0, 2.0]))],
    "a long dictionary": lambda tf: [{f"key {n}": tf.constant([n] * 8) for n in range(12)}],
    "a percent sign": lambda tf: ["100 %s {}", tf.constant(1)],
}


@pytest.mark.parametrize("case", VALUES)
async def test_values_are_printed_alike(case, agree, tmp_path):
    async def program(engine):
        path = tmp_path / f"{engine.is_ours}.txt"
        shown = engine.tf.print(*VALUES[case](engine.tf), output_stream=f"file://{path}", summarize=2)
        async with engine.session() as session:
            await session.run(engine.tf.global_variables_initializer())
            await session.run(shown)
        text = path.read_text()
        path.unlink()
        return text

    assert (await agree(program)).endswith("\n")
