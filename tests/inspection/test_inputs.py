"""Feeds given by shape, and feeds generated for placeholders."""

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError
from aioexec.inspection.inputs import Feed, made_feeds, parse_feed
from aioexec.inspection.models import OpenModel, named


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x=32,784:float32", Feed("x", (32, 784), ax.float32)),
        ("x=32x784", Feed("x", (32, 784), None)),
        ("scope/x:1=:int64", Feed("scope/x:1", (), ax.int64)),
        ("x=", Feed("x", (), None)),
    ],
)
def test_a_feed_is_a_name_a_shape_and_a_type(text, expected):
    assert parse_feed(text) == expected


@pytest.mark.parametrize("text", ["x", "x=a", "x=1:nothing", "=1", "x=-1"])
def test_what_is_no_feed_is_refused(text):
    with pytest.raises(ValueError, match=r"expected|Cannot|nothing"):
        parse_feed(text)


def model_of(graph):
    """The graph as a model; no session is needed to make feeds."""
    session: Any = None
    return OpenModel(graph, session, {}, {})


@pytest.fixture
def example():
    with ax.Graph().as_default() as g:
        x = ax.placeholder(ax.float32, [None, 3], name="x")
        k = ax.placeholder(ax.int32, [2], name="k")
        s = ax.placeholder(ax.string, [], name="s")
        ax.add(ax.reduce_sum(x), ax.cast(ax.reduce_sum(k), ax.float32), name="y")
        ax.identity(s, name="t")
        ax.no_op(name="nothing")
    return g


def test_placeholders_of_known_shape_are_fed_if_the_step_needs_them(example):
    feeds = made_feeds(model_of(example), [named(example, "y")], [parse_feed("x=5,3")])

    values = {tensor.name: value for tensor, value in feeds.items()}
    assert sorted(values) == ["k:0", "x:0"]
    assert (values["x:0"].shape, values["x:0"].dtype) == ((5, 3), np.float32)
    assert 0 <= values["x:0"].min() < values["x:0"].max() < 1
    assert values["k:0"].tolist() == [0, 0]
    assert (
        made_feeds(model_of(example), [named(example, "t")], [])[example.get_tensor_by_name("s:0")].item()
        == b""
    )


def test_the_same_values_every_time(example):
    one, other = (
        made_feeds(model_of(example), [], [parse_feed("x=5,3")])[example.get_tensor_by_name("x:0")]
        for _ in range(2)
    )

    assert one.tolist() == other.tolist()


def test_a_shape_that_is_not_known_has_to_be_given(example):
    with pytest.raises(InvalidArgumentError, match=r"needs x:0, of shape \(\?, 3\).*--feed x=SHAPE:float32"):
        made_feeds(model_of(example), [named(example, "y")], [])


def test_what_stands_above_a_feed_is_not_needed(example):
    fetch = named(example, "y")

    assert list(made_feeds(model_of(example), [fetch], [parse_feed("y=")])) == [fetch]


def test_names_that_are_not_there(example):
    with pytest.raises(InvalidArgumentError, match="the graph has no 'z'"):
        named(example, "z")
    with pytest.raises(InvalidArgumentError, match="the graph has no 'y:7'"):
        named(example, "y:7")
    with pytest.raises(InvalidArgumentError, match="'nothing' has no output"):
        made_feeds(model_of(example), [], [parse_feed("nothing=1")])
