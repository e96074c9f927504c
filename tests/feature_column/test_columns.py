"""Feature columns: what they make of features, with which variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.feature_column.columns import Features
from aioexec.train.off_loop import off_loop

fc = ax.feature_column


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


async def value(tensors: Any, feeds: Any = None) -> Any:
    """The values of tensors after initialisation."""
    async with ax.Session(graph=ax.get_default_graph()) as session:
        await session.run([ax.global_variables_initializer(), ax.tables_initializer()])
        return await session.run(tensors, feeds)


async def layer(column: Any, **features: Any) -> Any:
    return await value(fc.input_layer(features, [column]))


async def counts(column: Any, **features: Any) -> Any:
    """How often each category is in each example."""
    return await layer(fc.indicator_column(column), **features)


def sparse(values: Any, shape: Any = (2, 2)) -> ax.SparseTensor:
    """The values at [0, 0], [1, 0] and [1, 1]."""
    return ax.SparseTensor([[0, 0], [1, 0], [1, 1]], values, shape)


def table(rows: Any) -> Any:
    return ax.constant_initializer(np.array(rows, np.float32))


# Numbers


async def test_numbers_become_float32():
    column = fc.numeric_column("a", shape=2, dtype=ax.int32, normalizer_fn=lambda x: x * 2)

    found = await layer(column, a=ax.constant([[1, 2], [3, 4]]))

    assert found.dtype == np.float32
    assert found.tolist() == [[2, 4], [6, 8]]


async def test_vectors_have_one_number_for_each_example():
    assert (await layer(fc.numeric_column("a"), a=[1.0, 2.0])).tolist() == [[1], [2]]


async def test_columns_are_in_the_order_of_their_names():
    features = {"a": [[1.0]], "b": [[2.0, 3.0]]}
    outputs: dict[Any, Any] = {}
    columns = [fc.numeric_column("b", 2), fc.numeric_column("a")]

    found = fc.input_layer(features, columns, cols_to_output_tensors=outputs)

    assert found.shape.as_list() == [1, 3]
    assert (await value(found)).tolist() == [[1, 2, 3]]
    assert (await value(outputs[columns[0]])).tolist() == [[2, 3]]


async def test_intervals_include_their_lower_boundary():
    column = fc.bucketized_column(fc.numeric_column("a", shape=(2,)), [0.0, 1.0])
    features = {"a": ax.constant([[-1.0, 0.0], [0.5, 1.0]])}

    hot = fc.input_layer(features, column)
    weighted = fc.linear_model(features, column)

    assert (await value(hot)).tolist() == [[1, 0, 0, 0, 1, 0], [0, 1, 0, 0, 0, 1]]
    assert (await value(weighted)).tolist() == [[0], [0]]
    pair = column.get_sparse_tensors(Features(features))
    assert (await value(pair.id_tensor.values)).tolist() == [0, 4, 1, 5]
    assert column.num_buckets == 6


def test_numeric_columns_are_checked():
    assert fc.numeric_column("a", (2,), default_value=1).default_value == (1, 1)
    assert fc.numeric_column("a", (1, 2), np.array([[1.0, 2.0]])).default_value == ((1.0, 2.0),)
    with pytest.raises(GraphTypeError, match="must be integer"):
        fc.numeric_column("a", shape=(1.5,))
    with pytest.raises(GraphValueError, match="greater than 0"):
        fc.numeric_column("a", shape=0)
    with pytest.raises(GraphValueError, match="convertible to float"):
        fc.numeric_column("a", dtype=ax.string)
    with pytest.raises(GraphTypeError, match="compatible with dtype"):
        fc.numeric_column("a", default_value=1.5, dtype=ax.int32)
    with pytest.raises(GraphValueError, match="equal to given shape"):
        fc.numeric_column("a", default_value=[1, 2])
    with pytest.raises(GraphTypeError, match="must be a callable"):
        fc.numeric_column("a", normalizer_fn=1)  # type: ignore[arg-type]
    with pytest.raises(GraphValueError, match="key must be a string"):
        fc.numeric_column(1)  # type: ignore[arg-type]
    with pytest.raises(GraphValueError, match="SparseTensor is not supported"):
        fc.input_layer({"a": sparse([1.0, 2.0, 3.0])}, fc.numeric_column("a"))


def test_boundaries_are_checked():
    number = fc.numeric_column("a")

    with pytest.raises(GraphValueError, match=r"generated with numeric_column"):
        fc.bucketized_column("a", [1.0])  # type: ignore[arg-type]
    with pytest.raises(GraphValueError, match="one-dimensional"):
        fc.bucketized_column(fc.numeric_column("a", (1, 2)), [1.0])
    with pytest.raises(GraphValueError, match="must not be empty"):
        fc.bucketized_column(number, [])
    with pytest.raises(GraphValueError, match="sorted list"):
        fc.bucketized_column(number, [1.0, 1.0])


# Categories


async def test_hashes_are_tensorflows():
    text = fc.categorical_column_with_hash_bucket("a", 10)
    numbers = fc.categorical_column_with_hash_bucket("b", 10, dtype=ax.int64)

    found = await counts(text, a=ax.constant([["x", ""], ["y", "x"]]))
    of_numbers = await counts(numbers, b=sparse(np.array([7, 8, 9])))

    assert np.argwhere(found).tolist() == [[0, 0], [1, 0], [1, 5]]  # as TensorFlow has them
    assert np.argwhere(of_numbers).tolist() == [[0, 8], [1, 5], [1, 7]]


async def test_words_are_numbered_by_their_list():
    features = {"a": ax.constant([["x", "?"], ["", "y"]])}

    left_out = await counts(fc.categorical_column_with_vocabulary_list("a", ["x", "y"]), **features)
    default = await counts(
        fc.categorical_column_with_vocabulary_list("a", ["x", "y"], default_value=1), **features
    )
    spare = await counts(
        fc.categorical_column_with_vocabulary_list("a", ["x", "y"], num_oov_buckets=1), **features
    )

    assert left_out.tolist() == [[1, 0], [0, 1]]
    assert default.tolist() == [[1, 1], [0, 1]]
    assert spare.tolist() == [[1, 0, 1], [0, 1, 0]]


async def test_integers_may_have_a_vocabulary():
    column = fc.categorical_column_with_vocabulary_list("a", [30, 10], dtype=ax.int32)

    found = await counts(column, a=sparse(np.array([10, 30, 20], np.int32)))

    assert found.tolist() == [[0, 1], [1, 0]]


async def test_words_are_numbered_by_their_line(tmp_path):
    path = tmp_path / "words"
    path.write_text("x\ny\nz\n")

    whole = fc.categorical_column_with_vocabulary_file("a", str(path))
    part = fc.categorical_column_with_vocabulary_file("a", str(path), 2, num_oov_buckets=1)

    assert whole.num_buckets == 3
    assert (await counts(whole, a=ax.constant(["z", "?"]))).tolist() == [[0, 0, 1], [0, 0, 0]]
    assert (await counts(part, a=ax.constant(["y", "z"]))).tolist() == [[0, 1, 0], [0, 0, 1]]


async def test_integers_may_be_categories_themselves():
    features = {"a": ax.constant([[0, 7], [2, -1]])}

    found = await counts(fc.categorical_column_with_identity("a", 3, default_value=1), **features)

    assert found.tolist() == [[1, 1, 0], [0, 0, 1]]


async def test_a_rank_may_be_known_only_at_run_time():
    fed, fed_sparse = ax.placeholder(ax.int64), ax.sparse_placeholder(ax.int64)
    columns = [fc.indicator_column(fc.categorical_column_with_identity(key, 2)) for key in "ab"]
    made = Features({"a": fed, "b": fed_sparse})
    tensors = [made.get(column) for column in columns]
    vector = ax.SparseTensorValue(np.array([[0], [1]]), np.array([1, 0]), np.array([2]))

    async with ax.Session(graph=ax.get_default_graph()) as session:
        first, second = await session.run(tensors, {fed: [0, 1], fed_sparse: vector})

    assert first.tolist() == [[1, 0], [0, 1]]
    assert second.tolist() == [[0, 1], [1, 0]]


def test_categorical_columns_are_checked(tmp_path):
    words, path = fc.categorical_column_with_vocabulary_list, str(tmp_path / "missing")

    with pytest.raises(GraphValueError, match="hash_bucket_size must be set"):
        fc.categorical_column_with_hash_bucket("a", None)  # type: ignore[arg-type]
    with pytest.raises(GraphValueError, match="at least 1"):
        fc.categorical_column_with_hash_bucket("a", 0)
    with pytest.raises(GraphValueError, match="must be string or integer"):
        fc.categorical_column_with_hash_bucket("a", 1, dtype=ax.float32)
    with pytest.raises(GraphValueError, match="must be non-empty"):
        words("a", [])
    with pytest.raises(GraphValueError, match="Duplicate keys"):
        words("a", ["x", "x"])
    with pytest.raises(GraphValueError, match="do not match"):
        words("a", ["x"], dtype=ax.int64)
    with pytest.raises(GraphValueError, match="Can't specify both"):
        words("a", ["x"], default_value=0, num_oov_buckets=1)
    with pytest.raises(GraphValueError, match="Invalid num_oov_buckets"):
        words("a", ["x"], num_oov_buckets=-1)
    with pytest.raises(GraphValueError, match="Missing vocabulary_file"):
        fc.categorical_column_with_vocabulary_file("a", "")
    with pytest.raises(GraphValueError, match="does not exist"):
        fc.categorical_column_with_vocabulary_file("a", path)
    with pytest.raises(GraphValueError, match="Invalid vocabulary_size"):
        fc.categorical_column_with_vocabulary_file("a", path, 0)
    with pytest.raises(GraphValueError, match="num_buckets 0 < 1"):
        fc.categorical_column_with_identity("a", 0)
    with pytest.raises(GraphValueError, match="not in range"):
        fc.categorical_column_with_identity("a", 2, default_value=2)


def test_features_must_have_the_dtype_of_their_column():
    columns = (
        fc.categorical_column_with_vocabulary_list("a", ["x"]),
        fc.categorical_column_with_identity("a", 2),
    )

    with pytest.raises(GraphValueError, match="must be compatible"):
        fc.linear_model({"a": ax.constant([1])}, columns[0])
    with pytest.raises(GraphValueError, match="not integer"):
        fc.linear_model({"a": ax.constant(["x"])}, columns[1])


# Categories made of others


async def test_weights_are_added_up():
    column = fc.weighted_categorical_column(fc.categorical_column_with_identity("a", 3), "w", dtype=ax.int32)

    found = await counts(column, a=sparse(np.array([1, 2, 2])), w=sparse(np.array([5, 6, 7], np.int32)))
    dense = await counts(column, a=ax.constant([[1], [2]]), w=ax.constant([[5], [6]]))

    assert found.tolist() == [[0, 5, 0], [0, 0, 13]]
    assert dense.tolist() == [[0, 5, 0], [0, 0, 6]]


async def test_crosses_are_hashed_as_by_tensorflow():
    words = fc.categorical_column_with_vocabulary_list("v", ["x", "y"])
    inner = fc.crossed_column(["h", words], 5)
    column = fc.crossed_column([inner, fc.bucketized_column(fc.numeric_column("n"), [0.0])], 10, hash_key=3)
    features = {
        "h": ax.constant([["a"], ["b"]]),
        "v": ax.constant([["x"], ["y"]]),
        "n": ax.constant([1.0, -1.0]),
    }

    found = await counts(column, **features)

    assert column.name == "h_X_n_bucketized_X_v"
    assert np.argwhere(found).tolist() == [[0, 7], [1, 8]]  # as TensorFlow has them


def test_combinations_are_checked():
    number = fc.categorical_column_with_identity("a", 2)

    with pytest.raises(GraphValueError, match="not convertible to float"):
        fc.weighted_categorical_column(number, "w", dtype=ax.string)
    with pytest.raises(GraphValueError, match="hash_bucket_size must be > 1"):
        fc.crossed_column(["a", "b"], 0)
    with pytest.raises(GraphValueError, match="length > 1"):
        fc.crossed_column(["a"], 5)
    with pytest.raises(GraphValueError, match="Unsupported key type"):
        fc.crossed_column(["a", fc.numeric_column("b")], 5)  # type: ignore[list-item]
    with pytest.raises(GraphValueError, match="not supported for crossing"):
        fc.crossed_column(["a", fc.categorical_column_with_hash_bucket("b", 5)], 5)
    weighted = fc.weighted_categorical_column(number, "w")
    with pytest.raises(GraphValueError, match="does not support weight_tensor"):
        fc.linear_model({"a": [[1]], "w": [[1.0]], "b": ["x"]}, fc.crossed_column([weighted, "b"], 5))
    with pytest.raises(GraphValueError, match="Bad dtype"):
        fc.linear_model({"a": [[1]], "w": [[1]]}, weighted)
    with pytest.raises(GraphValueError, match="already exists"):
        _ = fc.weighted_categorical_column(number, "a").parse_example_spec


# Embeddings


async def test_embeddings_are_rows_of_a_variable():
    column = fc.embedding_column(
        fc.categorical_column_with_identity("a", 3), 2, initializer=table([[1, 2], [3, 4], [5, 6]])
    )
    variables: dict[Any, Any] = {}

    found = fc.input_layer({"a": sparse(np.array([0, 1, 2]))}, column, cols_to_vars=variables)

    assert (await value(found)).tolist() == [[1, 2], [4, 5]]
    (variable,) = variables[column]
    assert variable.name == "input_layer/a_embedding/embedding_weights:0"
    assert ax.model_variables() == ax.trainable_variables() == [variable]


async def test_weights_and_norms_of_embeddings():
    number = fc.weighted_categorical_column(fc.categorical_column_with_identity("a", 3), "w")
    column = fc.embedding_column(
        number, 2, "sum", table([[3, 4], [0, 2], [0, 0.5]]), max_norm=1.0, trainable=False
    )

    found = await layer(column, a=sparse(np.array([0, 1, 2])), w=sparse([10.0, 1.0, 2.0]))

    np.testing.assert_allclose(found, [[6, 8], [0, 2]], rtol=1e-6)
    assert ax.trainable_variables() == []


async def test_shared_embeddings_have_one_variable():
    columns = fc.shared_embedding_columns(
        [fc.categorical_column_with_identity("b", 2), fc.categorical_column_with_identity("a", 2)],
        1,
        initializer=table([[1], [2]]),
    )

    found = await value(fc.input_layer({"a": [[0]], "b": [[1]]}, columns))

    assert found.tolist() == [[1, 2]]
    assert [each.name for each in ax.global_variables()] == [
        "input_layer/a_b_shared_embedding/embedding_weights:0"
    ]
    assert [column.name for column in columns] == ["b_shared_embedding", "a_shared_embedding"]


async def test_an_embedding_may_start_with_that_of_a_checkpoint(tmp_path):
    path = f"{tmp_path}/saved"
    with ax.Graph().as_default() as other:
        ax.get_variable("old", initializer=np.array([[1.0], [2.0]], np.float32))
        saver, initialize = ax.train.Saver(), ax.global_variables_initializer()
    async with ax.Session(graph=other) as session:
        await session.run(initialize)
        await saver.save(session, path)
    column = fc.embedding_column(
        fc.categorical_column_with_identity("a", 2), 1, ckpt_to_load_from=path, tensor_name_in_ckpt="old"
    )

    made = await off_loop(fc.input_layer, {"a": [[1]]}, column)

    assert (await value(made)).tolist() == [[2]]


def test_embeddings_are_checked():
    number = fc.categorical_column_with_identity("a", 2)
    other = fc.categorical_column_with_identity("b", 3)

    with pytest.raises(GraphValueError, match="Invalid dimension 0"):
        fc.embedding_column(number, 0)
    with pytest.raises(GraphValueError, match="or none of them"):
        fc.embedding_column(number, 1, ckpt_to_load_from="a")
    with pytest.raises(GraphValueError, match="initializer must be callable"):
        fc.embedding_column(number, 1, initializer=1)  # type: ignore[arg-type]
    with pytest.raises(GraphValueError, match="must be a CategoricalColumn"):
        fc.indicator_column(fc.numeric_column("a"))  # type: ignore[arg-type]
    with pytest.raises(GraphValueError, match="same number of buckets"):
        fc.shared_embedding_columns([number, other], 1)
    with pytest.raises(GraphValueError, match="same type"):
        fc.shared_embedding_columns([number, fc.categorical_column_with_hash_bucket("b", 2)], 1)
    with pytest.raises(GraphValueError, match="must be subclasses of CategoricalColumn"):
        fc.shared_embedding_columns([number, fc.numeric_column("b")], 1)  # type: ignore[list-item]
    first, second = (
        fc.shared_embedding_columns([each], 1, shared_embedding_collection_name="x")[0]
        for each in (number, other)
    )
    with pytest.raises(GraphValueError, match="may only contain one variable"):
        fc.input_layer({"a": [[0]], "b": [[0]]}, [first, second])


# Models


async def test_a_linear_model_adds_up_weighted_columns():
    columns = [fc.numeric_column("n", 2), fc.categorical_column_with_identity("a", 3)]
    features = {"n": ax.constant([[1.0, 2.0], [3.0, 4.0]]), "a": sparse(np.array([0, 1, 2]))}
    variables: dict[Any, Any] = {}

    found = fc.linear_model(features, columns, sparse_combiner="mean", cols_to_vars=variables)
    numbers, categories, bias = (variables[key][0] for key in (*columns, "bias"))
    assigned = [
        numbers.assign([[10.0], [20.0]]),
        categories.assign([[1.0], [2.0], [4.0]]),
        bias.assign([100.0]),
    ]

    assert [each.name for each in (numbers, categories, bias)] == [
        "linear_model/n/weights:0",
        "linear_model/a/weights:0",
        "linear_model/bias_weights:0",
    ]
    async with ax.Session(graph=ax.get_default_graph()) as session:
        await session.run(assigned)
        assert (await session.run(found)).tolist() == [[151], [213]]


def test_models_are_numbered():
    for _ in range(2):
        fc.linear_model({"a": [[1.0]]}, fc.numeric_column("a"), trainable=False)

    assert [each.name for each in ax.global_variables()] == [
        "linear_model/a/weights:0",
        "linear_model/bias_weights:0",
        "linear_model_1/a_1/weights:0",
        "linear_model_1/bias_weights:0",
    ]
    assert ax.trainable_variables() == []


def test_columns_of_a_model_are_checked():
    number, category = fc.numeric_column("a"), fc.categorical_column_with_identity("a", 2)

    with pytest.raises(GraphValueError, match="embedding_column or indicator_column"):
        fc.input_layer({}, category)
    with pytest.raises(GraphValueError, match="Feature a is not in features"):
        fc.input_layer({}, number)
    with pytest.raises(GraphValueError, match="cannot have rank 0"):
        fc.input_layer({"a": 1.0}, number)
    with pytest.raises(GraphValueError, match="must not be empty"):
        fc.input_layer({}, [])
    with pytest.raises(GraphValueError, match="must be a FeatureColumn"):
        fc.input_layer({}, ["a"])
    with pytest.raises(GraphValueError, match="to be iterable, found dict"):
        fc.input_layer({}, {"a": number})
    with pytest.raises(GraphValueError, match="Duplicate feature column name"):
        fc.linear_model({}, [number, category])
    with pytest.raises(GraphValueError, match="Batch size"):
        fc.input_layer({"a": [[1.0]], "b": [[1.0], [2.0]]}, [number, fc.numeric_column("b")])
    with pytest.raises(GraphTypeError, match='"key" must be'):
        Features({}).get(1)  # type: ignore[arg-type]


def test_the_spec_of_columns_reads_their_features():
    number = fc.numeric_column("n", 2, default_value=1.0)
    columns = [
        fc.bucketized_column(number, [1.0]),
        fc.embedding_column(fc.categorical_column_with_hash_bucket("h", 3), 2),
        fc.weighted_categorical_column(fc.categorical_column_with_identity("i", 3), "w"),
        fc.crossed_column(["n", "x"], 3),
    ]

    spec = fc.make_parse_example_spec(columns[:3])

    assert spec == {
        "n": ax.FixedLenFeature((2,), ax.float32, (1.0, 1.0)),
        "h": ax.VarLenFeature(ax.string),
        "i": ax.VarLenFeature(ax.int64),
        "w": ax.VarLenFeature(ax.float32),
    }
    with pytest.raises(GraphValueError, match="different parse_spec for key n"):
        fc.make_parse_example_spec(columns)
    with pytest.raises(GraphValueError, match="must be FeatureColumn instances"):
        fc.make_parse_example_spec(["a"])
