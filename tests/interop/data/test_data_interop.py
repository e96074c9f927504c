"""The same programs give the same elements, in the same graphs, as with TensorFlow."""

from __future__ import annotations

import gzip
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import OpError
from aioexec.formats.records import encode_record
from tests.interop.comparing import difference, imported
from tests.interop.data.programs import FILES, PROGRAMS, Make

pytestmark = pytest.mark.interop

_MOST = 70
"""Steps of a pass at most."""


def flat(value: Any) -> list[Any]:
    """The leaves of an element, with its keys."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in (key, *flat(value[key]))]
    if type(value).__name__ in ("SparseTensor", "SparseTensorValue"):
        return [value.indices, value.values, value.dense_shape]
    if isinstance(value, tuple | list):
        return [leaf for each in value for leaf in flat(each)]
    return [value]


class Program:
    """A dataset with an iterator, in a graph of TensorFlow's or ours."""

    def __init__(self, tf: Any, make: Make) -> None:
        with tf.Graph().as_default() as self.graph:
            self.dataset = make(tf)
            self.iterator = tf.data.make_initializable_iterator(self.dataset)
            self.element = self.iterator.get_next()

    def structure(self, tf: Any) -> tuple[list[Any], list[Any]]:
        types, shapes = tf.data.get_output_types(self.dataset), tf.data.get_output_shapes(self.dataset)
        return (
            [each if isinstance(each, str) else each.name for each in flat(types)],
            [each if isinstance(each, str) else str(each).replace("?", "None") for each in flat(shapes)],
        )

    @property
    def nodes(self) -> list[tuple[str, str]]:
        """Name and type of each node, without what TensorFlow names otherwise now than in 1.15."""
        renamed = {"ParallelMapDatasetV2": "ParallelMapDataset", "SelectV2": "Select"}
        return [
            (op.name.replace("ParallelMapDatasetV2", "ParallelMapDataset"), renamed.get(op.type, op.type))
            for op in self.graph.get_operations()
        ]


def elements_there(tf: Any, graph: Any, initializer: Any, element: Any) -> list[list[Any]]:
    """The elements of two passes: values, or the names of the classes of errors."""
    found: list[list[Any]] = []
    with tf.Session(graph=graph) as session:
        for _ in range(2):
            session.run(initializer)
            found.append([])
            for _ in range(_MOST):
                try:
                    found[-1].append(session.run(element))
                except tf.errors.OutOfRangeError:
                    break
                except tf.errors.OpError as error:
                    found[-1].append(type(error).__name__)
    return found


async def elements_here(graph: ax.Graph, initializer: Any, element: Any) -> list[list[Any]]:
    """The same of ours."""
    found: list[list[Any]] = []
    async with ax.Session(graph=graph) as session:
        for _ in range(2):
            await session.run(initializer)
            found.append([])
            for _ in range(_MOST):
                try:
                    found[-1].append(await session.run(element))
                except ax.errors.OutOfRangeError:
                    break
                except OpError as error:
                    found[-1].append(type(error).__name__)
    return found


def assert_equal(here: list[list[Any]], there: list[list[Any]]) -> None:
    assert [len(each) for each in here] == [len(each) for each in there]
    for ours, theirs in zip(here, there, strict=True):
        for mine, yours in zip(ours, theirs, strict=True):
            pairs = list(zip(flat(mine), flat(yours), strict=True))
            assert [difference(*pair, 1) for pair in pairs if not isinstance(pair[1], str)] == [""] * sum(
                not isinstance(pair[1], str) for pair in pairs
            )
            assert [pair[0] for pair in pairs if isinstance(pair[1], str)] == [
                pair[1] for pair in pairs if isinstance(pair[1], str)
            ]


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
async def test_a_program_gives_the_same_elements(tf: Any, make: Make):
    ours, theirs = Program(ax, make), Program(tf, make)

    assert ours.structure(ax) == theirs.structure(tf)
    assert_equal(
        await elements_here(ours.graph, ours.iterator.initializer, ours.element),
        elements_there(tf, theirs.graph, theirs.iterator.initializer, theirs.element),
    )


OTHER_NODES = {
    "selected": "`enumerate` is an option for the optimizer there",
    "unbatched": "dense components are encoded anew there",
    "counted": "`scan` has another form since 2.x",
    "chosen": "another dataset between came with 2.x",
    "sampled": "as above",
    "parallel_interleave": "another op with the same inputs came with 2.x",
    "dense_to_sparse": "the shape of rows is computed there",
    "sparse_elements": "the shape of a sparse tensor is a node there",
    "sparse_unbatched": "as above",
    "listed": "`reduce_join` has a scope of its own since 2.x",
    "listed_in_random_order": "as above",
    "interleaved_in_parallel": "another op with the same inputs and more came with 2.x",
}


@pytest.mark.parametrize(
    "make", [make for make in PROGRAMS if make.__name__ not in OTHER_NODES], ids=lambda make: make.__name__
)
def test_a_program_builds_the_same_nodes(tf: Any, make: Make):
    assert Program(ax, make).nodes == Program(tf, make).nodes


EXCHANGED = [make for make in PROGRAMS if not make.__name__.startswith("generated")]
"""Programs whose graphs have no Python functions."""


@pytest.mark.parametrize("make", EXCHANGED, ids=lambda make: make.__name__)
def test_tensorflow_runs_our_graphs(tf: Any, make: Make):
    ours, theirs = Program(ax, make), Program(tf, make)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.GraphDef.FromString(ours.graph.as_graph_def().SerializeToString()), name="")
    element = [tensor.name for tensor in flat(ours.element) if not isinstance(tensor, str)]
    expected = [tensor for tensor in flat(theirs.element) if not isinstance(tensor, str)]

    assert_equal(
        elements_there(tf, graph, ours.iterator.initializer.name, element),
        elements_there(tf, theirs.graph, theirs.iterator.initializer, expected),
    )


@pytest.mark.parametrize("make", EXCHANGED, ids=lambda make: make.__name__)
async def test_we_run_tensorflows_graphs(tf: Any, make: Make):
    theirs = Program(tf, make)
    element = [tensor.name for tensor in flat(theirs.element) if not isinstance(tensor, str)]

    assert_equal(
        await elements_here(imported(theirs.graph.as_graph_def()), theirs.iterator.initializer.name, element),
        elements_there(tf, theirs.graph, theirs.iterator.initializer, element),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of lines, of TFRecords and of records of equal length, some compressed."""
    found = tmp_path_factory.mktemp("files")
    lines = [b"one\ntwo\r\n\nfour", b"", b"a" * 300_000 + b"\n" + b"b" * 300_000 + b"\nend\n"]
    for number, content in enumerate(lines):
        (found / f"{number}.txt").write_bytes(content)
        (found / f"{number}.txt.gz").write_bytes(gzip.compress(content))
    for number in range(3):
        records = b"".join(encode_record(bytes([k]) * (k * 3000)) for k in range(number, 60, 3))
        (found / f"{number}.tfrecord").write_bytes(records)
        (found / f"{number}.tfrecord.z").write_bytes(zlib.compress(records))
        (found / f"{number}.fixed").write_bytes(b"head" + bytes(range(10 * (number + 1))) + b"ft")
    whole = (found / "1.tfrecord").read_bytes()
    (found / "damaged.tfrecord").write_bytes(whole[:-900] + b"x" + whole[-899:])
    (found / "short.tfrecord").write_bytes(whole[:-900])
    return found


@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)
async def test_a_program_reads_the_same_records(tf: Any, folder: Path, make: Any):
    ours, theirs = (Program(module, partial(make, folder=folder)) for module in (ax, tf))

    assert ours.structure(ax) == theirs.structure(tf)
    assert_equal(
        await elements_here(ours.graph, ours.iterator.initializer, ours.element),
        elements_there(tf, theirs.graph, theirs.iterator.initializer, theirs.element),
    )


@pytest.mark.parametrize(
    "make", [make for make in FILES if make.__name__ not in OTHER_NODES], ids=lambda make: make.__name__
)
def test_a_program_that_reads_builds_the_same_nodes(tf: Any, folder: Path, make: Any):
    assert Program(ax, partial(make, folder=folder)).nodes == Program(tf, partial(make, folder=folder)).nodes
