"""A SavedModel that was written is loaded again, with its variables, tables and signatures."""

import os
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import AlreadyExistsError, FailedPreconditionError, InvalidArgumentError, NotFoundError
from tests.saved_model.writing import NUMBERS, WORDS, B, W, X, Y, write_model

SIGNATURES = ["lookup", "serving_default", "sums"]


async def test_a_written_model_gives_the_same_outputs(tmp_path):
    path = await write_model(tmp_path / "1")

    async with await ax.load(path) as model:
        assert sorted(model.signatures) == SIGNATURES
        assert model.tags == {"serve"}
        np.testing.assert_array_equal((await model(x=X))["y"], Y)
        found = await model.signatures["lookup"](word=WORDS)

    assert found["number"].tolist() == NUMBERS


async def test_a_sparse_input_is_fed_with_a_sparse_value(tmp_path):
    path = await write_model(tmp_path / "1")
    cells = ax.SparseTensorValue([[0, 1], [1, 0]], [5.0, 7.0], [2, 4])

    async with await ax.load(path) as model:
        found: Any = await model.signatures["sums"](cells=cells)

    np.testing.assert_array_equal(found["sums"], [5, 7])
    np.testing.assert_array_equal(found["cells"].values, [5, 7])


async def test_a_model_is_loaded_into_a_session_and_a_scope(tmp_path):
    path = await write_model(tmp_path / "1")

    async with ax.Session(graph=ax.Graph()) as session:
        found = await ax.saved_model.loader.load(session, ["serve"], path, import_scope="ours")
        signature = found.signature_def["serving_default"]
        tensors: list[Any] = [
            ax.saved_model.utils.get_tensor_from_tensor_info(info, session.graph, "ours")
            for info in (signature.inputs["x"], signature.outputs["y"])
        ]
        y = await session.run(tensors[1], {tensors[0]: X})

    assert tensors[1].name == "ours/y:0"
    np.testing.assert_array_equal(y, Y)


async def test_text_form_is_loaded_too(tmp_path):
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [])
        signatures = {"double": ax.saved_model.predict_signature_def({"x": x}, {"y": x * 2})}
        builder = ax.saved_model.builder.SavedModelBuilder(tmp_path / "1")
        async with ax.Session(graph=graph) as session:
            await builder.add_meta_graph_and_variables(session, ["serve"], signatures)
            written = await builder.save(as_text=True)

    async with await ax.load(tmp_path / "1") as model:
        assert (await model(x=4))["y"] == 8
    assert os.fsdecode(written) == str(tmp_path / "1" / "saved_model.pbtxt")


def test_a_folder_with_a_proto_is_a_model(tmp_path):
    assert not ax.saved_model.contains_saved_model(tmp_path)
    (tmp_path / "saved_model.pb").touch()
    assert ax.saved_model.contains_saved_model(tmp_path)
    assert ax.saved_model.loader.maybe_saved_model_directory(str(tmp_path))


async def test_a_second_graph_uses_the_variables_of_the_first(tmp_path):
    async def build(builder, tags, factor, is_first):
        with ax.Graph().as_default() as graph:
            w = ax.get_variable("w", initializer=W)
            outputs = {"y": w * factor}
            signature = ax.saved_model.build_signature_def(
                outputs={"y": ax.saved_model.build_tensor_info(outputs["y"])}
            )
            if not is_first:
                return await builder.add_meta_graph(tags, {"serving_default": signature})
            async with ax.Session(graph=graph) as session:
                await session.run(ax.global_variables_initializer())
                return await builder.add_meta_graph_and_variables(
                    session, tags, {"serving_default": signature}
                )

    builder = ax.saved_model.Builder(tmp_path / "1")
    await build(builder, ["serve"], 2, is_first=True)
    await build(builder, {"serve", "gpu"}, 3, is_first=False)
    await builder.save()

    for tags, factor in (("serve", 2), (["gpu", "serve"], 3)):
        async with await ax.load(tmp_path / "1", tags=tags) as model:
            np.testing.assert_array_equal((await model())["y"], W * factor)
    async with await ax.load(tmp_path / "1") as model:
        assert model.tags == {"serve"}


async def test_simple_save_writes_one_signature(tmp_path):
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2])
        y = x + ax.get_variable("b", initializer=B)
        async with ax.Session(graph=graph) as session:
            await session.run(ax.global_variables_initializer())
            await ax.saved_model.simple_save(session, str(tmp_path / "1"), {"x": x}, {"y": y})

    async with await ax.load(tmp_path / "1") as model:
        found = await model.signatures["serving_default"](x=[1, 2])
    np.testing.assert_array_equal(found["y"], B + [1, 2])


async def test_equal_names_of_different_assets_get_a_number(tmp_path):
    for folder, text in (("a", "one"), ("b", "two"), ("c", "one")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "words.txt").write_text(text)
    with ax.Graph().as_default() as graph:
        assets = [ax.constant(str(tmp_path / folder / "words.txt")) for folder in "abc"]
        contents = {f"content_{k}": ax.read_file(asset) for k, asset in enumerate(assets)}
        signature = ax.saved_model.build_signature_def(
            outputs={key: ax.saved_model.build_tensor_info(each) for key, each in contents.items()}
        )
        builder = ax.saved_model.Builder(tmp_path / "1")
        async with ax.Session(graph=graph) as session:
            await builder.add_meta_graph_and_variables(session, ["serve"], {"s": signature}, assets)
            await builder.save()

    assert sorted(os.listdir(tmp_path / "1" / "assets")) == ["words.txt", "words.txt_1"]


async def test_a_folder_that_is_not_empty_is_refused_and_left_as_it_is(tmp_path):
    (tmp_path / "file").write_text("ours")
    builder = ax.saved_model.Builder(tmp_path)
    with ax.Graph().as_default() as graph:
        async with ax.Session(graph=graph) as session:
            with pytest.raises(AssertionError, match="already exists, and isn't empty"):
                await builder.add_meta_graph_and_variables(session, ["serve"])
    with pytest.raises(AlreadyExistsError):
        await builder.save()

    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("reason", ["uninitialized", "asset"])
async def test_a_failed_call_leaves_no_file(tmp_path, reason):
    with ax.Graph().as_default() as graph:
        ax.get_variable("w", initializer=W)
        missing = ax.constant(str(tmp_path / "missing.txt"))
        builder = ax.saved_model.Builder(tmp_path / "1")
        async with ax.Session(graph=graph) as session:
            if reason == "asset":
                await session.run(ax.global_variables_initializer())
            with pytest.raises((FailedPreconditionError, NotFoundError)):
                await builder.add_meta_graph_and_variables(session, ["serve"], assets_collection=[missing])

    assert os.listdir(tmp_path) == []


async def test_calls_in_the_wrong_order_are_errors(tmp_path):
    with ax.Graph().as_default() as graph:
        builder = ax.saved_model.Builder(tmp_path / "1")
        with pytest.raises(AssertionError, match="has not been saved yet"):
            await builder.add_meta_graph(["serve"])
        async with ax.Session(graph=graph) as session:
            await builder.add_meta_graph_and_variables(session, ["serve"])
            with pytest.raises(AssertionError, match="has already been saved"):
                await builder.add_meta_graph_and_variables(session, ["serve"])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda info: {"__saved_model_init_op": {}}, KeyError, "reserved for initialization"),
        (lambda info: {"s": {"x": type(info)()}}, AssertionError, "signature 's', 'x': .* 'encoding'"),
        (lambda info: {"s": {"x": type(info)(name="x:0")}}, AssertionError, "must have the dtype field"),
    ],
)
async def test_an_incomplete_signature_is_refused(tmp_path, make, error, message):
    with ax.Graph().as_default() as graph:
        info = ax.saved_model.build_tensor_info(ax.constant(1.0))
        signatures = {key: ax.saved_model.build_signature_def(inputs) for key, inputs in make(info).items()}
        builder = ax.saved_model.Builder(tmp_path / "1")
        async with ax.Session(graph=graph) as session:
            with pytest.raises(error, match=message) as caught:
                await builder.add_meta_graph_and_variables(session, ["serve"], signatures)

    assert isinstance(caught.value, InvalidArgumentError)
    assert os.listdir(tmp_path) == []


async def test_a_main_op_must_be_an_operation_and_the_only_one(tmp_path):
    with ax.Graph().as_default() as graph:
        builder = ax.saved_model.Builder(tmp_path / "1")
        main_op = ax.saved_model.main_op.main_op()
        name: Any = "main"
        async with ax.Session(graph=graph) as session:
            with pytest.raises(TypeError, match="to be an Operation"):
                await builder.add_meta_graph_and_variables(session, ["a"], main_op=name)
            ax.add_to_collection("legacy_init_op", main_op)
            with pytest.raises(ValueError, match="already contains one or more main ops"):
                await builder.add_meta_graph_and_variables(session, ["a"], main_op=main_op)
