"""Checkpoint readers and warm starts: the same contents and initial values as in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import dtypes
from aioexec.train.off_loop import off_loop
from tests.interop.train.handed_over import as_in_first_versions

pytestmark = pytest.mark.interop

VALUES: dict[str, Any] = {
    "scalar": np.float32(1.5),
    "text": b"abc",
    "texts": np.array([[b"", b"a"], [b"\x00\xff", b"bc" * 200]], object),
    "truths": np.array([True, False]),
    "none": np.zeros((0, 3), np.int64),
    "in/complex": np.array([1 + 2j], np.complex128),
    "in/small": np.arange(6, dtype=np.int8).reshape(1, 6, 1),
}
MATRIX = np.arange(12, dtype=np.float32).reshape(4, 3)
FORMATS = (1, 2)


def define(m: Any, first_format: bool) -> Any:
    """Variables of many kinds, and a saver for them."""
    for name, value in VALUES.items():
        if not (first_format and name == "in/complex"):
            m.get_variable(name, initializer=m.constant(value), use_resource=name == "scalar")
    m.get_variable("matrix", initializer=m.constant(MATRIX), partitioner=m.fixed_size_partitioner(3))
    return m.train.Saver(write_version=1 if first_format else 2)


def saved_by_tensorflow(tf: Any, path: str, first_format: bool) -> str:
    with tf.Graph().as_default(), as_in_first_versions(tf):
        saver = define(tf, first_format)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            return str(saver.save(session, path))


async def saved_here(path: str, first_format: bool) -> str:
    with ax.Graph().as_default() as graph:
        saver = define(ax, first_format)
        async with ax.Session(graph=graph) as session:
            await session.run(ax.global_variables_initializer())
            return str(await saver.save(session, path))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("engine", ["tensorflow", "here"])
async def test_both_readers_find_the_same(tf: Any, engine: str, form: int, tmp_path: Path) -> None:
    path = f"{tmp_path}/model"
    if engine == "here":
        path = await saved_here(path, form == 1)
    else:
        path = await off_loop(saved_by_tensorflow, tf, path, form == 1)

    theirs = await off_loop(tf.train.NewCheckpointReader, path)
    ours = await off_loop(ax.train.NewCheckpointReader, path)

    assert ours.get_variable_to_shape_map() == theirs.get_variable_to_shape_map()
    assert {name: each.name for name, each in ours.get_variable_to_dtype_map().items()} == {
        name: dtypes.as_dtype(each.as_datatype_enum).name
        for name, each in theirs.get_variable_to_dtype_map().items()
    }
    assert await off_loop(ax.train.list_variables, path) == await off_loop(tf.train.list_variables, path)
    for name in ours.get_variable_to_shape_map():
        found = await off_loop(ours.get_tensor, name)
        if (name, form) == ("matrix", 1):  # which TensorFlow does not put together
            np.testing.assert_array_equal(found, MATRIX)
            continue
        expected = await off_loop(theirs.get_tensor, name)
        assert (type(found), getattr(found, "dtype", None)) == (
            type(expected),
            getattr(expected, "dtype", None),
        )
        np.testing.assert_array_equal(found, expected)
    ours.close()


# Initial values

Start = Callable[[Any, str, dict[str, str]], None]


def from_scopes(m: Any, path: str, words: dict[str, str]) -> None:
    with m.variable_scope("new"):
        m.get_variable("complex", shape=[1], dtype=m.complex128, initializer=m.zeros_initializer())
        m.get_variable("small", shape=[1, 6, 1], dtype=m.int8, initializer=m.zeros_initializer())
    m.train.init_from_checkpoint(path, {"in/": "new/"})


def from_names(m: Any, path: str, words: dict[str, str]) -> None:
    whole = m.get_variable("whole", shape=[4, 3], use_resource=True)
    parts = m.get_variable("parts", shape=[4, 3], partitioner=m.fixed_size_partitioner(2))
    m.get_variable("named", shape=[])
    m.train.init_from_checkpoint(path, {"matrix": whole, "scalar": "named"})
    m.train.init_from_checkpoint(path, {"matrix": list(parts)})


def from_vocabularies(m: Any, path: str, words: dict[str, str]) -> None:
    m.get_variable("rows", shape=[5, 3], partitioner=m.fixed_size_partitioner(2))
    m.get_variable("columns", shape=[4, 4])
    ones = m.ones_initializer()
    by_rows = m.train.VocabInfo(words["new rows"], 4, 1, words["rows"], 3, backup_initializer=ones)
    by_columns = m.train.VocabInfo(words["new columns"], 2, 2, words["columns"], axis=1)
    m.train.warm_start(
        path,
        var_name_to_vocab_info={"rows": by_rows, "columns": by_columns},
        var_name_to_prev_var_name={"rows": "matrix", "columns": "matrix"},
    )


def from_one_for_two(m: Any, path: str, words: dict[str, str]) -> None:
    m.get_variable("one", shape=[4, 3])
    m.get_variable("other", shape=[4, 3], trainable=False)
    m.get_variable("untouched", initializer=2.0)
    m.train.warm_start(path, ["o.*"], var_name_to_prev_var_name={"one": "matrix", "other": "matrix"})


CASES: list[tuple[Start, int]] = [
    *((start, 2) for start in (from_scopes, from_names, from_vocabularies, from_one_for_two)),
    *(
        (start, 1) for start in (from_names, from_one_for_two)
    ),  # it has no complex numbers, and is not remapped
]
WORDS = {"rows": "a b c d", "new rows": "c x a d", "columns": "p q r", "new columns": "r p"}


@pytest.fixture
def words(tmp_path: Path) -> dict[str, str]:
    for name, listed in WORDS.items():
        (tmp_path / name).write_text(listed.replace(" ", "\n") + "\n")
    return {name: str(tmp_path / name) for name in WORDS}


@pytest.mark.parametrize(("start", "form"), CASES)
async def test_variables_begin_as_in_tensorflow(
    tf: Any, start: Start, form: int, words: dict[str, str], tmp_path: Path
) -> None:
    path = await off_loop(saved_by_tensorflow, tf, f"{tmp_path}/model", form == 1)

    theirs = await off_loop(begun_in_tensorflow, tf, start, path, words)
    with ax.Graph().as_default() as graph:
        await off_loop(start, ax, path, words)
        async with ax.Session(graph=graph) as session:
            await session.run(ax.global_variables_initializer())
            ours = await session.run({each.op.name: each for each in ax.global_variables()})

    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected)


def begun_in_tensorflow(tf: Any, start: Start, path: str, words: dict[str, str]) -> dict[str, Any]:
    with tf.Graph().as_default(), as_in_first_versions(tf):
        start(tf, path, words)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            return dict(session.run({each.op.name: each for each in tf.global_variables()}))
