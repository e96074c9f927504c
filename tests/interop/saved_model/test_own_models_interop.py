"""SavedModels that were written here are loaded by TensorFlow's loaders, with equal outputs."""

import asyncio

import numpy as np
import pytest

from tests.saved_model.writing import NUMBERS, WORDS, X, Y, write_model

pytestmark = pytest.mark.interop


@pytest.fixture(params=["as it is", "stripped"])
def path(request, tmp_path):
    """The path of a SavedModel written here."""
    is_stripped = request.param == "stripped"
    options = {"strip_default_attrs": True, "clear_devices": True} if is_stripped else {}
    return asyncio.run(write_model(tmp_path / "1", **options))


def test_the_loader_of_tensorflow_1_loads_ours(tf, path):
    with tf.Graph().as_default(), tf.Session() as session:
        found = tf.saved_model.loader.load(session, [tf.saved_model.SERVING], path)
        signatures = found.signature_def

        def run(signature, name, value):
            infos = signatures[signature]
            outputs = {key: each.name for key, each in infos.outputs.items() if each.name}
            return session.run(outputs, {infos.inputs[name].name: value})

        y = run("serving_default", "x", X)["y"]
        number = run("lookup", "word", WORDS)["number"]
        cells = tf.saved_model.utils.get_tensor_from_tensor_info(signatures["sums"].inputs["cells"])
        sums = session.run(
            signatures["sums"].outputs["sums"].name,
            {cells: tf.SparseTensorValue([[0, 1], [1, 0]], [5.0, 7.0], [2, 4])},
        )

    np.testing.assert_array_equal(y, Y)
    assert number.tolist() == NUMBERS
    assert sums.tolist() == [5, 7]


def test_the_loader_of_tensorflow_2_loads_ours(tf, path):
    tensorflow = pytest.importorskip("tensorflow")

    model = tensorflow.saved_model.load(path)
    y = model.signatures["serving_default"](tensorflow.constant(X))["y"]
    number = model.signatures["lookup"](tensorflow.constant(WORDS))["number"]

    np.testing.assert_array_equal(y.numpy(), Y)
    assert number.numpy().tolist() == NUMBERS
