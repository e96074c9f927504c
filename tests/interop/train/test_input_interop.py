"""Input pipelines of both engines: the same graphs node by node, the same examples, and each runs the other's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.formats import protos
from tests.interop.test_graphs_interop import plain_nodes
from tests.interop.train.engines import first_control_flow, kind_of_variables

pytestmark = pytest.mark.interop

Pipeline = Callable[[Any], Any]


def example(m: Any) -> list[Any]:
    return [m.constant([1.0, 2.0]), m.constant(3)]


def vector(m: Any) -> Any:
    return m.SparseTensor([[0], [2]], [1.0, 2.0], [4])


def matrix(m: Any) -> Any:
    return m.SparseTensor([[0, 0], [2, 1]], [1.0, 2.0], [3, 4])


def switch(m: Any) -> Any:
    return m.placeholder_with_default(True, [])


def switches(m: Any) -> Any:
    return m.placeholder_with_default([True, False, True], [3])


GRAPHS: dict[str, Pipeline] = {
    "strings": lambda m: m.train.string_input_producer(["a", "b"], num_epochs=2),
    "strings in order": lambda m: m.train.string_input_producer(["a"], shuffle=False, name="q", shared_name="s"),
    "integers": lambda m: m.train.range_input_producer(5, num_epochs=2, seed=3, capacity=7),
    "slices": lambda m: m.train.slice_input_producer([m.constant([[1, 2], [3, 4]]), [5.0, 6.0]], num_epochs=1),
    "rows": lambda m: m.train.input_producer([[1.0, 2.0]], shuffle=False, name="rows"),
    "rows of known shape": lambda m: m.train.input_producer(m.placeholder(m.float32), [3]),
    "files": lambda m: m.train.string_input_producer(m.train.match_filenames_once("/nowhere/*")),
    "limit": lambda m: m.train.limit_epochs(m.constant([1]), 3),
    "batch": lambda m: m.train.batch(example(m), 4),
    "batch of one": lambda m: m.train.batch([m.constant(3)], 4, num_threads=3, name="b", shared_name="s"),
    "batch of a dict": lambda m: m.train.batch({"b": m.constant(3), "a": m.constant("x")}, 4),
    "smaller last batch": lambda m: m.train.batch(example(m), 4, allow_smaller_final_batch=True),
    "many": lambda m: m.train.batch([m.constant([[1, 2], [3, 4]])], 4, enqueue_many=True),
    "padded": lambda m: m.train.batch([m.placeholder(m.float32, [None, 3])], 4, dynamic_pad=True),
    "shapes": lambda m: m.train.batch([m.placeholder(m.float32)], 4, shapes=[[2]]),
    "sparse": lambda m: m.train.batch([vector(m), m.constant(1)], 4),
    "only sparse": lambda m: m.train.batch({"s": vector(m)}, 4),
    "many sparse": lambda m: m.train.batch([matrix(m), m.constant([1, 2, 3])], 4, enqueue_many=True),
    "never": lambda m: m.train.maybe_batch(example(m), False, 4),
    "maybe": lambda m: m.train.maybe_batch(example(m), switch(m), 4),
    "maybe each": lambda m: m.train.maybe_batch([m.constant([1, 2, 3])], switches(m), 4, enqueue_many=True),
    "maybe sparse": lambda m: m.train.maybe_batch([vector(m)], switch(m), 4),
    "maybe many sparse": lambda m: m.train.maybe_batch([matrix(m)], switch(m), 4, enqueue_many=True),
    "maybe each sparse": lambda m: m.train.maybe_batch([matrix(m)], switches(m), 4, enqueue_many=True),
    "joined": lambda m: m.train.batch_join([example(m), example(m)], 4),
    "joined dicts": lambda m: m.train.batch_join([{"a": m.constant(1)}, {"a": m.constant(2)}], 4, dynamic_pad=True),
    "joined sparse": lambda m: m.train.batch_join([[vector(m), 1], [vector(m), 2]], 4),
    "maybe joined": lambda m: m.train.maybe_batch_join([example(m), example(m)], switch(m), 4),
    "mixed": lambda m: m.train.shuffle_batch(example(m), 4, 100, 20, seed=3),
    "maybe mixed": lambda m: m.train.maybe_shuffle_batch(example(m), 4, 100, 20, switch(m), num_threads=2),
    "joined mixed": lambda m: m.train.shuffle_batch_join([example(m), example(m)], 4, 100, 20, name="j"),
    "joined mixed sparse": lambda m: m.train.shuffle_batch_join([[vector(m)], [vector(m)]], 4, 100, 20),
    "maybe joined mixed": lambda m: m.train.maybe_shuffle_batch_join([example(m)], 4, 100, 20, switch(m)),
}  # fmt: skip

REFUSED: dict[str, Pipeline] = {
    "no strings": lambda m: m.train.string_input_producer([]),
    "no slices": lambda m: m.train.slice_input_producer([]),
    "no epochs": lambda m: m.train.limit_epochs(m.constant(1), 0),
    "unknown rows": lambda m: m.train.input_producer(m.placeholder(m.float32, [None, None])),
    "nothing": lambda m: m.train.batch([], 4),
    "no lists": lambda m: m.train.batch_join([], 4),
    "unknown shape": lambda m: m.train.batch([m.placeholder(m.float32, [None])], 4),
    "unknown rank": lambda m: m.train.batch([m.placeholder(m.float32)], 4),
    "one switch for each": lambda m: m.train.maybe_batch(example(m), [True, False], 4),
    "unknown switch": lambda m: m.train.maybe_batch(example(m), m.placeholder(m.bool), 4),
    "matrix of switches": lambda m: m.train.maybe_batch([[1]], [[True]], 4, enqueue_many=True),
    "other keys": lambda m: m.train.batch_join([{"a": m.constant(1)}, {"b": m.constant(2)}], 4),
    "other types": lambda m: m.train.batch_join([[m.constant(1)], [m.constant(2.0)]], 4),
    "other shapes": lambda m: m.train.batch_join([[m.constant(1)], [m.constant([2])]], 4),
    "sparse and not": lambda m: m.train.batch_join([[vector(m)], [m.constant(1)]], 4),
    "other ranks": lambda m: m.train.batch_join([[vector(m)], [matrix(m)]], 4),
    "too small": lambda m: m.train.shuffle_batch(example(m), 4, 20, 20),
}


def built(m: Any, build: Pipeline) -> tuple[Any, Any]:
    """The graph, and what was built in it."""
    with m.Graph().as_default() as graph, kind_of_variables(m, resource=False):
        m.set_random_seed(1)
        return graph, build(m)


def is_spare(name: str) -> bool:
    """TensorFlow converts the words of an assertion twice, and uses one of the results."""
    return name.endswith("Assert/Const")


@pytest.mark.parametrize("name", GRAPHS)
def test_the_nodes_are_those_of_tensorflow(tf: Any, name: str):
    with first_control_flow(tf):
        theirs, _ = built(tf, GRAPHS[name])
    ours, _ = built(ax, GRAPHS[name])

    expected = plain_nodes(protos.GraphDef.FromString(theirs.as_graph_def().SerializeToString()))
    expected = {each: without_notes(node) for each, node in expected.items() if not is_spare(each)}
    assert plain_nodes(ours.as_graph_def()) == expected
    assert collected(ours) == collected(theirs)


def without_notes(node: Any) -> Any:
    """Take off what TensorFlow notes for itself, and that it has queues on a CPU: here only queues are on a CPU."""
    node.device = ""
    for key in [key for key in node.attr if key.startswith("_") and key != "_class"]:
        del node.attr[key]
    return node


def collected(graph: Any) -> list[Any]:
    with graph.as_default():
        names = [
            each.name
            for key in ("queue_runners", "summaries", "local_variables")
            for each in graph.get_collection(key)
        ]
        return [
            *names,
            *(each.to_proto().SerializeToString() for each in graph.get_collection("queue_runners")),
        ]


@pytest.mark.parametrize("name", REFUSED)
def test_what_tensorflow_refuses_is_refused(tf: Any, name: str):
    with pytest.raises((ValueError, TypeError)) as theirs, first_control_flow(tf):
        built(tf, REFUSED[name])
    with pytest.raises((ValueError, TypeError)) as ours:
        built(ax, REFUSED[name])

    assert isinstance(ours.value, type(theirs.value))
    assert str(ours.value)[:20] == str(theirs.value)[:20]


# Examples


def counted(m: Any, count: int, **options: Any) -> Any:
    return m.train.range_input_producer(count, num_epochs=1, shuffle=False, **options).dequeue()


def slices(m: Any) -> Any:
    tensors = [m.constant([[k, k * k] for k in range(9)]), [str(k) for k in range(9)]]
    return m.train.slice_input_producer(tensors, num_epochs=2, seed=5)


def padded(m: Any) -> Any:
    number = counted(m, 6)
    return m.train.batch([m.range(number), m.fill([number], "x")], 3, dynamic_pad=True)


def sparse(m: Any) -> Any:
    number = counted(m, 6)
    place = m.reshape(m.cast(number, m.int64), [1, 1])
    row = m.SparseTensor(place, m.reshape(number * 2, [1]), [10])
    return m.train.batch([row, number], 2)


def maybe(m: Any) -> Any:
    number = counted(m, 12)
    return m.train.maybe_batch([number], m.equal(number % 3, 0), 2)


def each_maybe(m: Any) -> Any:
    rows = m.stack([counted(m, 4)] * 3) + [0, 10, 20]
    return m.train.maybe_batch([rows], [True, False, True], 3, enqueue_many=True)


def mixed(m: Any) -> Any:
    return m.train.shuffle_batch([counted(m, 50)], 7, 60, 10, seed=4, allow_smaller_final_batch=True)


EXAMPLES: dict[str, Pipeline] = {
    "strings": lambda m: m.train.string_input_producer(list("abcdef"), num_epochs=3, seed=7).dequeue(),
    "integers": lambda m: m.train.range_input_producer(10, num_epochs=3, seed=2).dequeue_many(3),
    "slices": slices,
    "batch": lambda m: m.train.batch([counted(m, 7)], 3),
    "smaller last batch": lambda m: m.train.batch({"n": counted(m, 7)}, 3, allow_smaller_final_batch=True),
    "padded": padded,
    "sparse": sparse,
    "maybe": maybe,
    "maybe each": each_maybe,
    "mixed": mixed,
}


def plain(value: Any) -> Any:
    """A comparable form: arrays as lists, sparse values and batches as their contents."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def examples_of_tensorflow(tf: Any, graph: Any, fetches: Any) -> list[Any]:
    """All there is, taken when the producers have ended, so that what is mixed is mixed from all."""
    values = []
    with graph.as_default(), tf.Session() as session:
        session.run(tf.local_variables_initializer())
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coord)
        for thread in threads:
            if not thread.name.endswith("close_on_stop"):
                thread.join(timeout=5)
        while True:
            try:
                values.append(plain(session.run(fetches)))
            except tf.errors.OutOfRangeError:
                break
        coord.request_stop()
        coord.join(threads)
    return values


async def examples_of_ours(graph: Any, fetches: Any) -> list[Any]:
    values = []
    with graph.as_default():
        initialise = ax.local_variables_initializer()
    async with ax.Session(graph=graph) as session:
        await session.run(initialise)
        coord = ax.train.Coordinator()
        threads = ax.train.start_queue_runners(session, coord)
        for thread in threads:
            if not thread.name.endswith("close_on_stop"):
                await thread.join(timeout=5)
        while True:
            try:
                values.append(plain(await session.run(fetches)))
            except ax.errors.OutOfRangeError:
                break
        coord.request_stop()
        await coord.join(threads)
    return values


@pytest.mark.parametrize("name", EXAMPLES)
async def test_the_examples_are_those_of_tensorflow(tf: Any, name: str):
    with first_control_flow(tf):
        graph, fetches = built(tf, EXAMPLES[name])
        expected = examples_of_tensorflow(tf, graph, fetches)

    assert await examples_of_ours(*built(ax, EXAMPLES[name])) == expected
    assert len(expected) > 1


# Handed over


@pytest.mark.parametrize("name", ["strings", "slices", "batch", "maybe", "mixed"])
async def test_a_pipeline_of_tensorflow_runs_here(tf: Any, name: str):
    with first_control_flow(tf):
        graph, fetches = built(tf, EXAMPLES[name])
        expected = examples_of_tensorflow(tf, graph, fetches)
        with graph.as_default():
            meta_graph = tf.train.export_meta_graph()

    ours = ax.Graph()
    with ours.as_default():
        ax.train.import_meta_graph(protos.MetaGraphDef.FromString(meta_graph.SerializeToString()))
    assert await examples_of_ours(ours, renamed(ours, fetches)) == expected


@pytest.mark.parametrize("name", ["strings", "slices", "batch", "maybe", "mixed"])
async def test_a_pipeline_made_here_runs_in_tensorflow(tf: Any, name: str):
    graph, fetches = built(ax, EXAMPLES[name])
    expected = await examples_of_ours(graph, fetches)
    with graph.as_default():
        meta_graph = ax.train.export_meta_graph()

    theirs = tf.Graph()
    with theirs.as_default(), kind_of_variables(tf, resource=False):
        kind = type(tf.train.export_meta_graph(graph=tf.Graph()))
        tf.train.import_meta_graph(kind.FromString(meta_graph.SerializeToString()))
    assert examples_of_tensorflow(tf, theirs, renamed(theirs, fetches)) == expected


def renamed(graph: Any, fetches: Any) -> Any:
    """The tensors of those names in another graph."""
    if isinstance(fetches, list):
        return [renamed(graph, each) for each in fetches]
    return graph.get_tensor_by_name(fetches.name)


# Programs of the time


def lines(m: Any, folder: str) -> Any:
    """Numbers and words of comma-separated files, in mixed batches."""
    names = m.train.string_input_producer([f"{folder}/a.csv", f"{folder}/b.csv"], num_epochs=2, shuffle=False)
    _, line = m.TextLineReader(skip_header_lines=1).read(names)
    number, word = m.decode_csv(line, record_defaults=[[0.0], [""]])
    return m.train.shuffle_batch([number, word], 4, 50, 10, seed=9, allow_smaller_final_batch=True)


def records(m: Any, folder: str) -> Any:
    """Examples out of record files, their features dense and sparse."""
    names = m.train.string_input_producer(
        m.train.match_filenames_once(f"{folder}/*.tfrecords"), num_epochs=1, shuffle=False
    )
    _, serialized = m.TFRecordReader().read(names)
    features = m.parse_single_example(
        serialized, {"label": m.FixedLenFeature([], m.int64), "words": m.VarLenFeature(m.string)}
    )
    return m.train.batch([features["label"], features["words"]], 3, allow_smaller_final_batch=True)


def whole_files(m: Any, folder: str) -> Any:
    names = m.train.string_input_producer(m.train.match_filenames_once(f"{folder}/*.csv"), 1, shuffle=False)
    key, value = m.WholeFileReader().read(names)
    return m.train.batch_join([[key, value]], 2)


def write_files(tf: Any, folder: str) -> None:
    for name in "ab":
        rows = "".join(f"{k}.5,{name}{k}\n" for k in range(6))
        with open(f"{folder}/{name}.csv", "w", encoding="utf-8") as file:
            file.write(f"number,word\n{rows}")
    with tf.python_io.TFRecordWriter(f"{folder}/c.tfrecords") as writer:
        for label in range(7):
            words = tf.train.BytesList(value=[f"w{k}".encode() for k in range(label % 3)])
            feature = {
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                "words": tf.train.Feature(bytes_list=words),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


@pytest.mark.parametrize("program", [lines, records, whole_files])
async def test_a_program_that_reads_files_reads_the_same(tf: Any, tmp_path: Any, program: Any):
    write_files(tf, str(tmp_path))
    with first_control_flow(tf):
        graph, fetches = built(tf, lambda m: program(m, str(tmp_path)))
        expected = examples_of_tensorflow(tf, graph, fetches)

    assert await examples_of_ours(*built(ax, lambda m: program(m, str(tmp_path)))) == expected
    assert expected
