"""Savers of both engines: the same nodes and `checkpoint` files, files that each restores from the other, the same errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.train.off_loop import off_loop

pytestmark = pytest.mark.interop

DTYPES = (
    *("float16", "float32", "float64", "bfloat16", "complex64", "complex128"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "string"),
)
SEVERAL: dict[str, Any] = {"device_count": {"CPU": 2}}

Build = Callable[[Any], Any]
"""Makes variables and their saver, with TensorFlow or with aioexec."""


# The same nodes


def two(lib: Any, use_resource: bool = False, **options: Any) -> Any:
    for name, shape in (("v", [2, 3]), ("w", [4])):
        lib.get_variable(name, shape, use_resource=use_resource)
    return lib.train.Saver(**options)


def placed(lib: Any, **options: Any) -> Any:
    for device, name, is_resource in (
        ("/job:ps/task:0", "v", False),
        ("/job:ps/task:1", "w", True),
        ("/gpu:0", "x", False),
    ):
        with lib.device(device):
            lib.get_variable(name, [4], use_resource=is_resource)
    return lib.train.Saver(sharded=True, **options)


def parts_and_tables(lib: Any) -> Any:
    lib.get_variable("p", [5, 4], use_resource=False, partitioner=lib.fixed_size_partitioner(2))
    lib.lookup.experimental.MutableHashTable(lib.string, lib.int64, -1, name="table")
    lib.lookup.experimental.DenseHashTable(
        lib.int64, lib.int64, -1, empty_key=-1, deleted_key=-2, name="dense"
    )
    return lib.train.Saver(name="keeper", filename="somewhere")


def of_unknown_shape(lib: Any) -> Any:
    lib.Variable([1.0, 2.0], validate_shape=False, name="u", use_resource=False)
    return lib.train.Saver(reshape=True)


def by_other_names(lib: Any) -> Any:
    a = lib.get_variable("a", [3], use_resource=False)
    b = lib.get_variable("b", [3], use_resource=True)
    return lib.train.Saver({"x": a, "y/z": b})


STRUCTURES: dict[str, Build] = {
    "references": two,
    "resources": lambda lib: two(lib, use_resource=True),
    "references, reshaped": lambda lib: two(lib, reshape=True),
    "resources, reshaped": lambda lib: two(lib, use_resource=True, reshape=True),
    "first format": lambda lib: two(lib, write_version=1),
    "one shard": lambda lib: two(lib, sharded=True),
    "shards": placed,
    "shards of the first format": lambda lib: placed(lib, write_version=1),
    "parts and tables": parts_and_tables,
    "unknown shape": of_unknown_shape,
    "other names": by_other_names,
    "numbers": lambda lib: two(lib, max_to_keep=0, keep_checkpoint_every_n_hours=0.5, name="other"),
}


def nodes(lib: Any, build: Build) -> tuple[dict[str, Any], str]:
    """The nodes of a saver, by name; the SaverDef as text."""
    with lib.Graph().as_default() as graph:
        saver = build(lib)
        found = {}
        for node in graph.as_graph_def().node:
            if node.name.startswith(("save", "keeper", "other")) or "Lookup" in node.op:
                groups = sorted(node.attr["_class"].list.s)
                names = bytes(node.attr["value"].tensor.SerializeToString()) if "names" in node.name else b""
                found[node.name] = (node.op, list(node.input), node.device, groups, names)
        return found, str(saver.as_saver_def())


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_nodes_of_a_saver_are_tensorflows(tf: Any, structure: str) -> None:
    ours, our_def = nodes(ax, STRUCTURES[structure])
    theirs, their_def = nodes(tf, STRUCTURES[structure])

    assert ours == theirs
    assert our_def == their_def


# Files of each restored by the other


def values_of(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    values: dict[str, Any] = {}
    for name in DTYPES:
        if name == "string":
            values[name] = np.array([b"a" * int(n) for n in rng.integers(0, 300, 5)], object)
        elif name == "bool":
            values[name] = rng.integers(0, 2, 7).astype(bool)
        else:
            numbers = rng.integers(0, 100, (2, 3))
            values[name] = numbers.astype(ax.as_dtype(name).as_numpy_dtype)
    return values


def variables(lib: Any, values: dict[str, Any]) -> list[Any]:
    found = []
    for k, (name, value) in enumerate(values.items()):
        initial = value.astype(np.float32) if name == "bfloat16" else value
        with lib.device(f"/cpu:{k % 2}"):
            tensor = lib.cast(initial, lib.bfloat16) if name == "bfloat16" else initial
            found.append(lib.Variable(tensor, name=f"of_{name}", use_resource=k % 3 == 0))

    def counting(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        begin = partition_info.var_offset[0] * 3 + int(values["int32"][0, 0])
        return lib.cast(lib.reshape(lib.range(shape[0] * shape[1]) + begin, shape), dtype)

    found.append(
        lib.get_variable(
            "parts",
            [7, 3],
            initializer=counting,
            partitioner=lib.fixed_size_partitioner(3),
            use_resource=False,
        )
    )
    return found


class Theirs:
    """A session of TensorFlow with variables and their saver."""

    def __init__(self, tf: Any, seed: int, **options: Any) -> None:
        with tf.Graph().as_default() as graph:
            self._variables = variables(tf, values_of(seed))
            self._values = [tf.convert_to_tensor(each) for each in self._variables]
            self.saver = tf.train.Saver(**options)
            self.session = tf.Session(graph=graph, config=tf.ConfigProto(**SEVERAL))
            self.session.run(tf.global_variables_initializer())

    def values(self) -> list[Any]:
        return list(self.session.run(self._values))

    def restore(self, path: str) -> None:
        with self.session.graph.as_default():
            self.saver.restore(self.session, path)

    def save(self, path: str) -> str:
        with self.session.graph.as_default():
            return str(self.saver.save(self.session, path, global_step=12))


class Ours:
    def __init__(self, seed: int, **options: Any) -> None:
        with ax.Graph().as_default() as graph:
            self._values = [ax.convert_to_tensor(each) for each in variables(ax, values_of(seed))]
            self.saver = ax.train.Saver(**options)
            self._initializer = ax.global_variables_initializer()
            self.session = ax.Session(graph=graph, config=ax.ConfigProto(**SEVERAL))

    async def __aenter__(self) -> Ours:
        await self.session.__aenter__()
        await self.session.run(self._initializer)
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self.session.__aexit__(*exception)

    async def values(self) -> list[Any]:
        return list(await self.session.run(self._values))


def assert_same(ours: list[Any], theirs: list[Any]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(one, other)


MANNERS: tuple[dict[str, Any], ...] = ({}, {"sharded": True}, {"write_version": 1}, {"reshape": True})


def storable(manner: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    if manner.get("write_version") == 1:  # which has no such types
        kept = tuple(name for name in DTYPES if name not in ("bfloat16", "uint16", "uint32", "uint64"))
        monkeypatch.setitem(globals(), "DTYPES", kept)


@pytest.mark.parametrize("manner", MANNERS, ids=str)
async def test_tensorflow_restores_what_we_save(
    tf: Any, tmp_path: Path, manner: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    storable(manner, monkeypatch)
    theirs = Theirs(tf, seed=2, **manner)
    async with Ours(seed=1, **manner) as ours:
        path = await ours.saver.save(ours.session, tmp_path / "model", global_step=12)
        assert path is not None

        theirs.restore(path)

        assert_same(await ours.values(), theirs.values())
        assert tf.train.latest_checkpoint(os.fspath(tmp_path)) == path


@pytest.mark.parametrize("manner", MANNERS, ids=str)
async def test_we_restore_what_tensorflow_saves(
    tf: Any, tmp_path: Path, manner: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    storable(manner, monkeypatch)
    theirs = Theirs(tf, seed=2, **manner)
    path = theirs.save(os.fspath(tmp_path / "model"))
    async with Ours(seed=1, **manner) as ours:
        await ours.saver.restore(ours.session, path)

        assert_same(await ours.values(), theirs.values())
        assert await off_loop(ax.train.latest_checkpoint, tmp_path) == path


async def test_tensorflow_restores_a_checkpoint_that_replaced_another_of_its_name(
    tf: Any, tmp_path: Path
) -> None:
    theirs = Theirs(tf, seed=3)
    for manner in ({}, {"sharded": True}):
        for seed in (1, 2, 3, 4):
            async with Ours(seed=seed, **manner) as ours:
                path = await ours.saver.save(ours.session, tmp_path / "model")
                assert path is not None
                theirs.restore(path)
                assert_same(await ours.values(), theirs.values())


async def test_tensorflow_goes_on_with_our_graph_and_checkpoint(tf: Any, tmp_path: Path) -> None:
    async with Ours(seed=5, sharded=True) as ours:
        path = await ours.saver.save(ours.session, tmp_path / "model")
        expected = await ours.values()
        names = [tensor.name for tensor in ours._values]
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(**SEVERAL)) as session:
        saver = tf.train.import_meta_graph(f"{path}.meta")
        saver.restore(session, path)

        assert_same(expected, session.run(names))
        again = saver.save(session, os.fspath(tmp_path / "again"))
    async with Ours(seed=6, sharded=True) as ours:
        await ours.saver.restore(ours.session, again)

        assert_same(await ours.values(), expected)


def tables(lib: Any) -> tuple[Any, Any, Any]:
    table = lib.lookup.experimental.MutableHashTable(lib.string, lib.int64, -1, name="words")
    dense = lib.lookup.experimental.DenseHashTable(
        lib.int64, lib.float32, -1.0, empty_key=-1, deleted_key=-2, name="dense"
    )
    fill = lib.group(table.insert(["a", "b"], [1, 2]), dense.insert([5, 6], [0.5, 0.25]))
    find = [table.lookup(lib.constant(["a", "b", "c"])), dense.lookup(lib.constant([5, 6, 7], lib.int64))]
    return fill, find, lib.train.Saver({"words": table, "sub/dense": dense})


async def test_tables_are_restored_by_the_other(tf: Any, tmp_path: Path) -> None:
    expected = [np.array([1, 2, -1]), np.array([0.5, 0.25, -1.0], np.float32)]
    with ax.Graph().as_default() as graph:
        fill, find, saver = tables(ax)
    async with ax.Session(graph=graph) as session:
        await session.run(fill)
        ours = await saver.save(session, tmp_path / "ours")
    with tf.Graph().as_default():
        _, their_find, their_saver = tables(tf)
        with tf.Session() as their_session:
            their_saver.restore(their_session, ours)
            assert_same(their_session.run(their_find), expected)
            theirs = their_saver.save(their_session, os.fspath(tmp_path / "theirs"))
    async with ax.Session(graph=graph) as session:
        await saver.restore(session, theirs)
        assert_same(await session.run(find), expected)


# The `checkpoint` file


@pytest.fixture(params=("absolute", "relative", "here"))
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder, in a form that programs use."""
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    where = {"absolute": os.fspath(tmp_path / "runs"), "relative": "runs", "here": "./runs"}
    return where[request.param]


@pytest.mark.parametrize("save_relative_paths", [False, True])
async def test_the_state_file_is_tensorflows(tf: Any, folder: str, save_relative_paths: bool) -> None:
    options: dict[str, Any] = {"max_to_keep": 2, "save_relative_paths": save_relative_paths}
    texts = []
    with tf.Graph().as_default():
        saver = two(tf, **options)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for step in range(4):
                saver.save(session, f"{folder}/model", global_step=step)
        texts.append(await off_loop(Path(folder, "checkpoint").read_bytes))
        kept = sorted(os.listdir(folder))
    for name in kept:
        os.unlink(os.path.join(folder, name))
    with ax.Graph().as_default() as graph:
        ours, initializer = two(ax, **options), ax.global_variables_initializer()
    async with ax.Session(graph=graph) as our_session:
        await our_session.run(initializer)
        for step in range(4):
            await ours.save(our_session, f"{folder}/model", global_step=step)
    texts.append(await off_loop(Path(folder, "checkpoint").read_bytes))

    assert texts[0] == texts[1]
    assert sorted(os.listdir(folder)) == kept
    assert ours.last_checkpoints == saver.last_checkpoints
    theirs = tf.train.get_checkpoint_state(folder)
    found = await off_loop(ax.train.get_checkpoint_state, folder)
    assert str(found) == str(theirs)


# Refusals


def missing(lib: Any) -> Any:
    lib.get_variable("other", [3], use_resource=False)
    return lib.train.Saver()


def of_another_shape(lib: Any) -> Any:
    lib.get_variable("v", [9], use_resource=False)
    return lib.train.Saver()


def of_another_dtype(lib: Any) -> Any:
    lib.get_variable("v", [2, 3], dtype=lib.float64, use_resource=False)
    return lib.train.Saver()


@pytest.mark.parametrize("wanted", [missing, of_another_shape, of_another_dtype])
async def test_what_cannot_be_restored_is_refused_alike(tf: Any, tmp_path: Path, wanted: Build) -> None:
    path = os.fspath(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        saver = two(tf)
        session.run(tf.global_variables_initializer())
        saver.save(session, path)
    with (
        tf.Graph().as_default(),
        tf.Session() as session,
        pytest.raises(tf.errors.OpError) as theirs,
    ):
        wanted(tf).restore(session, path)
    with ax.Graph().as_default() as graph:
        ours = wanted(ax)
    async with ax.Session(graph=graph) as our_session:
        with pytest.raises(ax.errors.OpError) as raised:
            await ours.restore(our_session, path)

    assert type(raised.value).__name__ == type(theirs.value).__name__
    assert raised.value.message.split("Original error")[0] == theirs.value.message.split("Original error")[0]
