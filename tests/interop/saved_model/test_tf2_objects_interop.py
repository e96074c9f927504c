"""Functions, variables and assets of a module that TensorFlow 2 saved without signatures, by their names in the module."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError, UnimplementedError
from tests.interop.building import values
from tests.interop.comparing import difference
from tests.interop.saved_model.tf2_objects import functions_of_a_module

pytestmark = pytest.mark.interop

X = values(9, 3, 2)
ONE = np.ones(2, np.float32)


@pytest.fixture(scope="module")
def folder(tf, tmp_path_factory) -> Any:
    import tensorflow

    files, model = tmp_path_factory.mktemp("files"), tmp_path_factory.mktemp("objects") / "model"
    tensorflow.saved_model.save(functions_of_a_module(tensorflow, files), str(model))
    shutil.rmtree(files)
    return model


@pytest.fixture(scope="module")
def theirs(folder) -> Any:
    """The module as TensorFlow loads it."""
    import tensorflow

    return tensorflow.saved_model.load(str(folder))


@pytest.fixture
async def ours(folder) -> Any:
    """The module as it is loaded here."""
    async with await ax.load(folder) as model:
        assert model.signatures == {}
        yield model


CALLS = {
    "left out": lambda model, x: model.layers[0](x),
    "by position": lambda model, x: model.layers[0](x, True),
    "by name": lambda model, x: model.layers[0](x=x, training=True),
    "by keyword only": lambda model, x: model.layers[0](x, scale=2.0),
    "in a dict": lambda model, x: model.named["first"](x),
    "through itself": lambda model, x: model.itself.itself.layers[1](x),
    "nested": lambda model, x: model.both(x),
    "a concrete function": lambda model, x: model.traced(x),
    "a concrete function by name": lambda model, x: model.traced(x=x),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_has_the_result_of_tensorflow(name, ours, theirs, tf):
    expected = CALLS[name](theirs, tf.constant(X)).numpy()

    assert difference(await CALLS[name](ours, X), expected, 1.0) == ""


async def test_structures_of_arguments_and_results_are_kept(ours):
    answers = await ours.apply({"x": ONE, "rest": (2 * ONE, 3 * ONE)})

    assert [*answers] == ["pair", "sum"]
    np.testing.assert_array_equal(answers["sum"], 3 * ONE)
    np.testing.assert_array_equal(answers["pair"].low, -2 * ONE)
    assert type(answers["pair"].high) is list
    assert answers["pair"].high[1] is None


async def test_variables_are_changed_by_functions_and_read(ours):
    assert [await ours.step(), await ours.step(), await ours.count.value()] == [1, 2, 2]

    assert await ours.reset() is None
    assert await ours.step() == 1


async def test_variables_that_no_function_uses_have_the_values_saved(ours):
    np.testing.assert_array_equal(await ours.untouched.value(), [7.0])
    np.testing.assert_array_equal(await ours.again.value(), [8.0])
    assert (ours.untouched.name, ours.untouched.trainable, ours.count.trainable) == ("untouched", True, False)
    assert ours.untouched.dtype == ax.float32


async def test_tables_and_asset_files_are_those_of_the_saved_model(ours, folder):
    found, content = await ours.look(["a", "z"])

    np.testing.assert_array_equal(found, [1, -1])
    assert content == b"content"
    assert ours.file == str(folder / "assets" / "words.txt")


BAD = {
    "a shape": (
        lambda model: model.both(X[:, :1]),
        r"'both': argument 'x': expected float32 \(\?, 2\), got shape",
    ),
    "left out": (lambda model: model.both(), "'both': expected argument 'x', got none"),
    "too many": (lambda model: model.both(X, X), "'both': expected 1 positional arguments, got 2"),
    "unknown": (lambda model: model.both(X, y=1), r"'both': expected arguments by keyword \[\], got \['y'\]"),
    "of no trace": (lambda model: model.layers[0](X, scale=3.0), "one of 3 kinds.*expected 2.0, got 3.0"),
    "a structure": (lambda model: model.apply({"x": ONE}), "argument 'inputs': expected {'rest': "),
    "twice": (lambda model: model.traced(X, x=X), r"'traced': expected arguments \['x'\], got 1 by position"),
}


@pytest.mark.parametrize("name", BAD)
async def test_arguments_that_fit_no_trace_are_named(name, ours):
    call, message = BAD[name]

    with pytest.raises(InvalidArgumentError, match=message):
        await call(ours)


async def test_what_the_module_does_not_have_is_an_error(ours):
    with pytest.raises(AttributeError, match="has no 'missing', only"):
        ours.missing
    with pytest.raises(KeyError, match="'named' has no item 'third'"):
        ours.named["third"]
    with pytest.raises(IndexError, match="'layers' has no item 2"):
        ours.layers[2]
    with pytest.raises(UnimplementedError, match="'table' was not saved with a function to call it"):
        await ours.table()
    assert {"both", "layers"} <= set(dir(ours))
    assert len([*ours.layers]) == 2
