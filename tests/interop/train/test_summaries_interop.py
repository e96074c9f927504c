"""Event files both ways with the real TensorFlow: the same records for the same inputs, the same nodes for the same program."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import DataLossError
from aioexec.formats.event_files import summary_iterator
from aioexec.formats.records import read_records
from aioexec.observability.summary_writer import FileWriter

pytestmark = pytest.mark.interop

NOW = 1_800_000_000.25


def only_file(directory: Path) -> Path:
    (path,) = (path for path in directory.iterdir() if "tfevents" in path.name)
    return path


def records(path: Path) -> list[bytes]:
    with open(path, "rb") as file:
        return [data for _, data in read_records(file)]


# Records


def add_scalars(lib: Any, writer: Any) -> None:
    for step in (None, 0, 1, 127, 128, 1 << 40, -1, np.int64(7)):
        summary = lib.Summary(value=[lib.Summary.Value(tag="loss/ü", simple_value=0.1)])
        writer.add_summary(summary, step)
        writer.add_summary(summary.SerializeToString(), step)


def add_nothing_much(lib: Any, writer: Any) -> None:
    writer.add_summary(b"", 3)
    writer.add_summary(lib.Summary())
    writer.add_event(lib.Event())


def add_described(lib: Any, writer: Any) -> None:
    metadata = lib.SummaryMetadata(display_name="J")
    metadata.plugin_data.plugin_name = "scalars"
    for step in range(3):
        for tag in ("a", "b"):
            value = lib.Summary.Value(tag=tag, simple_value=step, metadata=metadata)
            writer.add_summary(lib.Summary(value=[value]).SerializeToString(), step)


def add_large(lib: Any, writer: Any) -> None:
    for size in (100, 128, 16384, 1 << 20):
        image = lib.Summary.Image(height=1, width=1, encoded_image_string=b"\x4a" * size)
        writer.add_summary(lib.Summary(value=[lib.Summary.Value(tag="im", image=image)]), size)


def add_logs(lib: Any, writer: Any) -> None:
    writer.add_session_log(lib.SessionLog(status=lib.SessionLog.START), 1)
    writer.add_session_log(lib.SessionLog(status=lib.SessionLog.CHECKPOINT, checkpoint_path="x-1"), 1)
    writer.add_event(lib.Event(wall_time=5.0, step=2, log_message=lib.LogMessage(message="m")))


def add_run(lib: Any, writer: Any) -> None:
    metadata = lib.RunMetadata()
    node = metadata.step_stats.dev_stats.add(device="/cpu:0").node_stats.add(node_name="n")
    node.all_start_micros = 7
    writer.add_run_metadata(metadata, "first", 1)
    writer.add_run_metadata(metadata, "second", 1)


def add_graph_def(lib: Any, writer: Any) -> None:
    graph_def = lib.GraphDef()
    graph_def.node.add(name="n", op="NoOp")
    writer.add_graph(graph_def, 5)
    meta_graph_def = lib.MetaGraphDef(graph_def=graph_def)
    meta_graph_def.meta_info_def.tags.append("serve")
    writer.add_meta_graph(meta_graph_def, 6)


PROGRAMS = [add_scalars, add_nothing_much, add_described, add_large, add_logs, add_run, add_graph_def]


@pytest.mark.may_block
@pytest.mark.parametrize("program", PROGRAMS)
async def test_the_same_events_have_the_same_bytes(tf, tmp_path, monkeypatch, program):
    monkeypatch.setattr(time, "time", lambda: NOW)
    with tf.Graph().as_default():
        theirs = tf.summary.FileWriter(str(tmp_path / "theirs"))
        program(tf, theirs)
        theirs.close()

    async with FileWriter(tmp_path / "ours") as ours:
        program(ax, ours)

    expected = records(only_file(tmp_path / "theirs"))
    assert len(expected) > 1
    assert records(only_file(tmp_path / "ours"))[1:] == expected[1:]


@pytest.mark.may_block
@pytest.mark.parametrize("program", PROGRAMS)
async def test_each_reads_the_others_files(tf, tmp_path, program):
    with tf.Graph().as_default():
        theirs = tf.summary.FileWriter(str(tmp_path / "theirs"))
        program(tf, theirs)
        theirs.close()
    async with FileWriter(tmp_path / "ours") as ours:
        program(ax, ours)

    for directory in (tmp_path / "theirs", tmp_path / "ours"):
        path = only_file(directory)
        as_they_read = [event.SerializeToString() for event in tf.train.summary_iterator(str(path))]
        as_we_read = [event.SerializeToString() for event in summary_iterator(path)]
        assert len(as_we_read) > 1
        assert as_we_read == as_they_read


@pytest.mark.may_block
async def test_their_writer_takes_our_protos_and_ours_takes_theirs(tf, tmp_path):
    summary = tf.Summary(value=[tf.Summary.Value(tag="a", simple_value=1.0)])
    graph_def = tf.GraphDef()
    graph_def.node.add(name="n", op="NoOp")
    async with FileWriter(tmp_path) as ours:
        ours.add_summary(summary, 1)
        ours.add_graph(graph_def)
        ours.add_run_metadata(tf.RunMetadata(), "t", 1)
        ours.add_event(tf.Event(step=9))

    assert [event.WhichOneof("what") for event in summary_iterator(only_file(tmp_path))] == [
        "file_version",
        "summary",
        "graph_def",
        "tagged_run_metadata",
        None,
    ]


def test_damage_is_reported_as_tensorflow_reports_it(tf, tmp_path):
    with tf.Graph().as_default():
        writer = tf.summary.FileWriter(str(tmp_path))
        add_logs(tf, writer)
        writer.close()
    whole = only_file(tmp_path).read_bytes()
    path = tmp_path / "damaged"
    damaged = [whole[:length] for length in range(len(whole))]
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        damaged.append(bytes(changed))

    for content in damaged:
        path.write_bytes(content)
        assert outcome(lambda: summary_iterator(path), DataLossError) == outcome(
            lambda: tf.train.summary_iterator(str(path)), tf.errors.DataLossError
        )


def outcome(read: Callable[[], Any], failure: type[Exception]) -> Any:
    """How many events there are before the end, and the error at the end."""
    count = 0
    try:
        for _ in read():
            count += 1
    except failure as error:
        return count, str(error)
    return count


# Graphs


def scalars(lib: Any) -> list[Any]:
    summaries = [lib.summary.scalar(name, 1.5) for name in ("a", "a", "a b:c", "/lead", "x/y")]
    with lib.name_scope("outer"):
        summaries += [lib.summary.scalar("a", 2), lib.summary.scalar("a", 2.5, family="my family")]
        summaries.append(lib.summary.scalar("", lib.constant(3, lib.int64)))
    return summaries


def histograms(lib: Any) -> list[Any]:
    values = lib.constant(np.linspace(-3, 5, 60, dtype=np.float32))
    with lib.name_scope("outer"):
        return [
            lib.summary.histogram("h", values),
            lib.summary.histogram("h", lib.constant([1, 2, 3]), family="f"),
            lib.summary.histogram("", values),
            lib.summary.histogram("numbers", [1, 2, 3]),
            lib.summary.histogram("array", np.arange(3)),
        ]


def images(lib: Any) -> list[Any]:
    grey = np.linspace(-1, 1, 4 * 5 * 6, dtype=np.float32).reshape(4, 5, 6, 1)
    coloured = np.arange(2 * 5 * 6 * 3).reshape(2, 5, 6, 3).astype(np.uint8)
    return [
        lib.summary.image("grey", lib.constant(grey)),
        lib.summary.image("one", lib.constant(grey), max_outputs=1, family="f"),
        lib.summary.image("coloured", lib.constant(coloured), 5),
        lib.summary.image("array", coloured),
    ]


def sounds(lib: Any) -> list[Any]:
    waves = np.sin(np.arange(2 * 400, dtype=np.float32)).reshape(2, 400) / 2
    return [
        lib.summary.audio("mono", lib.constant(waves), 8000),
        lib.summary.audio(
            "stereo", lib.constant(waves.reshape(2, 200, 2)), lib.constant(4000.0), max_outputs=1
        ),
    ]


def tensors(lib: Any) -> list[Any]:
    metadata = lib.SummaryMetadata(summary_description="given")
    return [
        lib.summary.text("note", lib.constant([["a", "**b**"], ["c", "d"]])),
        lib.summary.text("note", lib.constant("plain"), collections=["texts"]),
        lib.summary.tensor_summary("t", lib.constant([1.0, 2.0]), "described", display_name="T", family="f"),
        lib.summary.tensor_summary("t", lib.constant([1, 2]), summary_metadata=metadata, collections=[]),
    ]


def merged(lib: Any) -> list[Any]:
    with lib.name_scope("train"):
        first, second = lib.summary.scalar("a", 1.0), lib.summary.scalar("b", 2.0)
    lib.summary.scalar("c", 3.0)
    return [
        lib.summary.merge([first, second]),
        lib.summary.merge([first], ["mine"], "named one"),
        lib.summary.merge_all(),
        lib.summary.merge_all(scope="train"),
        lib.summary.merge_all("mine", name="again"),
    ]


BUILDERS = [scalars, histograms, images, sounds, tensors, merged]


@pytest.mark.may_block
@pytest.mark.parametrize("build", BUILDERS)
async def test_the_same_program_makes_the_same_nodes_collections_and_summaries(tf, build):
    with tf.Graph().as_default() as their_graph:
        their_summaries = build(tf)
        expected = with_values(their_graph, their_summaries)
        with tf.Session() as session:
            their_values = session.run(their_summaries)

    with ax.Graph().as_default() as our_graph:
        our_summaries = build(ax)
        async with ax.Session() as session:
            our_values = await session.run(our_summaries)

    assert with_values(our_graph, our_summaries) == expected
    for ours, theirs in zip(our_values, their_values, strict=True):
        assert comparable(ours) == comparable(theirs)


NAMES = ["a", "b", "loss", "x y", "a:0", "/a", "a/b", "-a", "_a", "ä", "a.b-c", "%", "A", "0", "a//b"]
"""None ends in "/": a node named so does not take the name in TensorFlow, and the next of that name is a duplicate."""

FAMILIES = [None, None, *NAMES, "", "a/", "//"]
SCOPES = ["s", "s/t", "s/", "", "a", None]


@pytest.mark.parametrize("seed", range(20))
def test_any_names_in_any_scopes_give_the_same_nodes_and_tags_or_are_refused_alike(tf, seed):
    draw = random.Random(seed)
    plan = [
        (draw.choice(SCOPES), draw.choice(NAMES), draw.choice(FAMILIES), draw.choice("sht"))
        for _ in range(60)
    ]

    with ax.Graph().as_default():
        ours = [named(ax, *each) for each in plan]
    with tf.Graph().as_default():
        theirs = [named(tf, *each) for each in plan]

    assert ours == theirs


def named(lib: Any, scope: str | None, name: str, family: str | None, kind: str) -> Any:
    """The name and the tag of a summary; "refused" if there is none."""
    try:
        with lib.name_scope(scope) if scope is not None else contextlib.nullcontext():
            if kind == "s":
                made = lib.summary.scalar(name, 1.0, family=family)
            elif kind == "h":
                made = lib.summary.histogram(name, [1.0], family=family)
            else:
                made = lib.summary.text(name, lib.constant("x"))
    except ValueError:
        return "refused"
    return made.name, made.op.inputs[0].op.node_def.attr["value"].tensor.string_val[:]


def with_values(graph: Any, summaries: list[Any]) -> Any:
    """The nodes of summaries with what they take, and the collections; tags by their content.

    Without `bad_color`: the elements of the same tensor are written in another of its forms.
    """
    nodes = {node.name: node for node in graph.as_graph_def().node}
    shown = []
    for node in nodes.values():
        if "Summary" not in node.op:
            continue
        texts = [nodes[each].attr["value"].tensor.string_val[:] for each in node.input if each in nodes]
        attrs = {key: value.SerializeToString() for key, value in node.attr.items() if key != "bad_color"}
        shown.append((node.name, node.op, list(node.input), texts, attrs))
    collections = {
        key: [each.name for each in graph.get_collection(key)] for key in ("summaries", "mine", "texts")
    }
    return sorted(shown, key=str), collections, [each.name for each in summaries]


def comparable(serialized: bytes) -> list[Any]:
    return list(ax.Summary.FromString(serialized).value)


@pytest.mark.may_block
async def test_a_writer_of_a_graph_begins_as_theirs_does(tf, tmp_path):
    def build(lib: Any) -> None:
        lib.add(
            lib.constant([1.0, 2.0], name="c"), lib.placeholder(lib.float32, [None], name="p"), name="sum"
        )

    with tf.Graph().as_default() as graph:
        build(tf)
        theirs = tf.summary.FileWriter(str(tmp_path / "theirs"), graph)
        theirs.close()
    with ax.Graph().as_default() as our_graph:
        build(ax)
    async with FileWriter(tmp_path / "ours", our_graph):
        pass

    ours, expected = (list(summary_iterator(only_file(tmp_path / name))) for name in ("ours", "theirs"))
    assert [event.WhichOneof("what") for event in ours] == [event.WhichOneof("what") for event in expected]
    assert shapes(ours[1].graph_def) == shapes(expected[1].graph_def)
    meta_graph_def = ax.MetaGraphDef.FromString(ours[2].meta_graph_def)
    assert shapes(meta_graph_def.graph_def.SerializeToString()) == shapes(ours[1].graph_def)


def shapes(graph_def: bytes) -> Any:
    return [
        (node.name, node.op, [str(each) for each in node.attr["_output_shapes"].list.shape])
        for node in ax.GraphDef.FromString(graph_def).node
    ]


@pytest.mark.may_block
async def test_they_read_a_file_of_ours_while_it_grows(tf, tmp_path):
    counts = []
    async with FileWriter(tmp_path) as writer:
        for _ in range(2):
            add_scalars(ax, writer)
            await writer.flush()
            counts.append(len(list(tf.train.summary_iterator(str(only_file(tmp_path))))))

    assert counts == [17, 33]
