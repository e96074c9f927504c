"""Functions that make summaries: names of nodes, tags, collections, and results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import summary
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.formats.protos import NodeDef, Summary, SummaryMetadata
from aioexec.graph.static_values import constant_value


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


async def values_of(tensor: Any) -> list[Summary.Value]:
    async with ax.Session() as session:
        return list(Summary.FromString(await session.run(tensor)).value)


def tag_of(tensor: Any) -> str:
    (tag,) = (each for each in tensor.op.inputs if each.op.name.rsplit("/", 1)[-1] in ("tag", "tags"))
    value = constant_value(tag)
    assert value is not None
    return str(value.item().decode())


MAKERS = {
    "ScalarSummary": lambda name, **more: summary.scalar(name, 1.0, **more),
    "HistogramSummary": lambda name, **more: summary.histogram(name, [1.0], **more),
    "ImageSummary": lambda name, **more: summary.image(name, np.zeros((1, 2, 2, 1), np.float32), **more),
    "AudioSummaryV2": lambda name, **more: summary.audio(name, np.zeros((1, 4), np.float32), 8000.0, **more),
    "TensorSummaryV2": lambda name, **more: summary.tensor_summary(name, [1.0], **more),
}
"""By the op of the node they make."""


# Names


@pytest.mark.parametrize("op", MAKERS)
def test_a_summary_is_named_as_it_is_told_and_tagged_with_its_scope(op):
    with ax.name_scope("outer"):
        first, second = MAKERS[op]("loss"), MAKERS[op]("loss")

    assert [first.op.name, second.op.name] == ["outer/loss", "outer/loss_1"]
    assert [tag_of(first), tag_of(second)] == ["outer/loss", "outer/loss_1"]
    assert (first.op.type, first.dtype, first.dims) == (op, ax.string, ())


@pytest.mark.parametrize("op", MAKERS)
def test_a_family_begins_the_tag_and_lies_within_the_scope(op):
    with ax.name_scope("outer"):
        made = MAKERS[op]("loss", family="train")

    assert made.op.name == "outer/train/loss"
    assert tag_of(made) == "train/outer/train/loss"


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("a b", "a_b"),
        ("a:0", "a_0"),
        ("/lead", "lead"),
        ("//a", "a"),
        ("a/b-c.d_e", "a/b-c.d_e"),
        ("10%", "10_"),
    ],
)
def test_what_no_node_may_be_named_is_replaced(name, cleaned):
    assert summary.scalar(name, 1.0).op.name == cleaned


def test_a_family_is_cleaned_as_well():
    assert tag_of(summary.scalar("a", 1.0, family="my family")) == "my_family/my_family/a"


def test_a_name_must_be_text():
    with pytest.raises(GraphTypeError, match="the name of a summary must be a str, got 3"):
        summary.scalar(3, 1.0)
    with pytest.raises(GraphTypeError, match="must be a str"):
        summary.scalar(b"bytes", 1.0)


@pytest.mark.parametrize("name", ["_x", "-x", "ünï"])
def test_a_name_no_node_can_have_is_refused(name):
    with pytest.raises(ValueError, match="name"):
        summary.scalar(name, 1.0)


# Collections


@pytest.mark.parametrize("op", MAKERS)
def test_a_summary_is_collected_with_the_others_unless_told_otherwise(op):
    made, elsewhere, nowhere = (
        MAKERS[op]("a"),
        MAKERS[op]("b", collections=["mine"]),
        MAKERS[op]("c", collections=[]),
    )

    assert ax.get_collection(ax.GraphKeys.SUMMARIES) == [made]
    assert ax.get_collection("mine") == [elsewhere]
    assert nowhere.op.name == "c"


async def test_all_summaries_are_merged_in_the_order_they_were_made():
    summary.scalar("b", 2.0)
    summary.scalar("a", 1.0)

    merged = summary.merge_all()

    assert merged is not None
    assert merged.op.name == "Merge/MergeSummary"
    assert [(each.tag, each.simple_value) for each in await values_of(merged)] == [("b", 2.0), ("a", 1.0)]


def test_there_is_nothing_to_merge_in_a_graph_without_summaries():
    assert summary.merge_all() is None
    assert summary.merge_all("other") is None


def test_summaries_are_merged_by_the_scope_they_are_in():
    kept = summary.scalar("train/a", 1.0)
    summary.scalar("eval/a", 1.0)

    merged = summary.merge_all(scope="train")

    assert merged is not None
    assert list(merged.op.inputs) == [kept]
    assert summary.merge_all(scope="neither") is None


def test_a_merged_summary_is_collected_where_told_and_its_name_is_cleaned():
    merged = summary.merge([summary.scalar("a", 1.0)], collections=["mine"], name="all of it")

    assert merged.op.name == "all_of_it/all_of_it"
    assert ax.get_collection("mine") == [merged]
    assert merged not in ax.get_collection(ax.GraphKeys.SUMMARIES)


def test_merging_nothing_is_refused():
    with pytest.raises(GraphValueError, match="MergeSummary"):
        summary.merge([])


async def test_two_values_of_one_tag_cannot_be_merged():
    tensor = summary.scalar("a", 1.0)

    with pytest.raises(InvalidArgumentError, match="Duplicate tag a found in summary inputs"):
        await values_of(summary.merge([tensor, tensor]))


# Contents


async def test_images_and_sounds_of_a_batch_are_numbered():
    image = summary.image("pictures", np.zeros((5, 2, 2, 3), np.float32))
    single = summary.image("picture", np.zeros((5, 2, 2, 3), np.float32), max_outputs=1)
    audio = summary.audio("sounds", np.zeros((2, 8, 1), np.float32), 8000)

    assert [each.tag for each in await values_of(image)] == [f"pictures/image/{k}" for k in range(3)]
    assert [each.tag for each in await values_of(single)] == ["picture/image"]
    sounds = await values_of(audio)
    assert [each.tag for each in sounds] == ["sounds/audio/0", "sounds/audio/1"]
    assert sounds[0].audio.sample_rate == 8000


async def test_a_text_is_a_tensor_for_the_plugin_of_texts():
    (value,) = await values_of(summary.text("note", ax.constant([b"a", b"b"])))

    assert value.metadata.plugin_data.plugin_name == "text"
    assert list(value.tensor.string_val) == [b"a", b"b"]


def test_a_text_must_hold_strings():
    with pytest.raises(GraphValueError, match="to have dtype string, got float32"):
        summary.text("note", ax.constant(1.0))


async def test_the_metadata_of_a_tensor_is_told_in_whole_or_in_parts():
    given = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="mine"))

    tensor = summary.tensor_summary(
        "t", [1.0], summary_description="what", summary_metadata=given, display_name="T"
    )

    (value,) = await values_of(tensor)
    assert value.metadata.plugin_data.plugin_name == "mine"
    assert (value.metadata.summary_description, value.metadata.display_name) == ("what", "T")
    assert given.display_name == ""


def test_a_description_is_read_from_the_node():
    node = NodeDef(op="TensorSummary")
    node.attr["description"].s = b'{"typeHint": "bar"}'

    assert summary.get_summary_description(node).type_hint == "bar"
    with pytest.raises(GraphValueError, match="Can't get_summary_description on NoOp"):
        summary.get_summary_description(NodeDef(op="NoOp"))


# Plugins


class Palette(summary.PluginAsset):
    plugin_name = "palette"

    def assets(self) -> dict[str, str]:
        return {}


class Impostor(Palette):
    pass


class Nameless(Palette):
    plugin_name = None


def test_a_graph_has_one_asset_of_a_plugin(graph):
    asset = summary.get_plugin_asset(Palette)

    assert summary.get_plugin_asset(Palette, graph) is asset
    assert summary.get_plugin_asset(Palette, ax.Graph()) is not asset
    assert summary.get_all_plugin_assets() == [asset]


def test_assets_that_cannot_be_told_apart_are_refused():
    summary.get_plugin_asset(Palette)

    with pytest.raises(GraphValueError, match="Plugin name collision between classes Impostor and Palette"):
        summary.get_plugin_asset(Impostor)
    with pytest.raises(GraphValueError, match="Class Nameless has no plugin_name"):
        summary.get_plugin_asset(Nameless)


# The namespace


def test_protos_are_found_by_their_names():
    assert summary.Summary is Summary
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        summary.Nothing
