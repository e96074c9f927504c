"""SavedModels that TensorFlow's builder wrote are loaded here, with equal outputs."""

import numpy as np
import pytest

import aioexec as ax

pytestmark = pytest.mark.interop

WORDS = ["b", "c", "unknown"]
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def written(tf, tmp_path_factory):
    """The path of a SavedModel with variables of both kinds, a table with an asset; and its outputs in TensorFlow."""
    folder = tmp_path_factory.mktemp("written")
    vocabulary = folder / "vocabulary.txt"
    vocabulary.write_text("a\nb\nc\n")
    path = str(folder / "1")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 3], "x")
        word = tf.placeholder(tf.string, [None], "word")
        w = tf.get_variable("w", [3, 2], use_resource=False)
        b = tf.get_variable("b", [2], use_resource=True)
        y = tf.matmul(x, w) + b
        asset = tf.constant(str(vocabulary))
        tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, asset)
        lines = tf.lookup.TextFileInitializer(
            asset,
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        number = tf.lookup.StaticHashTable(lines, -1).lookup(word)
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        builder = tf.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.SERVING],
            {
                "serving_default": tf.saved_model.predict_signature_def({"x": x}, {"y": y}),
                "lookup": tf.saved_model.predict_signature_def({"word": word}, {"number": number}),
            },
            assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            main_op=tf.tables_initializer(),
        )
        builder.save()
        outputs = session.run([y, number], {x: X, word: WORDS})
    vocabulary.unlink()  # the model has its own
    return path, *outputs


async def test_a_model_of_tensorflows_builder_has_equal_outputs(written):
    path, y, number = written

    async with await ax.load(path) as model:
        found = await model(x=X)
        numbers = await model.signatures["lookup"](word=WORDS)

    np.testing.assert_allclose(found["y"], y, rtol=1e-6)
    np.testing.assert_array_equal(numbers["number"], number)
