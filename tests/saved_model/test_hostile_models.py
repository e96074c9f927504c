"""A SavedModel that is damaged, incomplete or hostile is refused with an error that names it; nothing is left behind."""

import shutil

import pytest

import aioexec as ax
from aioexec.errors import DataLossError, InvalidArgumentError, NotFoundError, OpError
from aioexec.formats.protos import AssetFileDef, DataType, MetaGraphDef, SavedModel, TensorInfo
from tests.saved_model.writing import write_model

PROTO = "saved_model.pb"


@pytest.fixture
async def folder(tmp_path):
    """The folder of a SavedModel that each test damages."""
    await write_model(tmp_path / "1")
    return tmp_path / "1"


def change(folder, edit) -> None:
    """Change the proto of the model by `edit(meta_graph)`."""
    proto = SavedModel.FromString((folder / PROTO).read_bytes())
    edit(proto.meta_graphs[0])
    (folder / PROTO).write_bytes(proto.SerializeToString())


async def refused(folder, error, *parts: str) -> None:
    """Loading raises `error`, with all parts in its message."""
    with pytest.raises(error) as caught:
        await ax.load(folder)
    assert isinstance(caught.value, OpError)
    missing = [part for part in parts if part not in str(caught.value)]
    assert missing == [], str(caught.value)


async def test_a_folder_without_a_model(tmp_path):
    await refused(tmp_path / "none", NotFoundError, "SavedModel file does not exist at", "none", PROTO)
    await refused(tmp_path / "none", OSError)


async def test_unknown_tags(folder):
    with pytest.raises(NotFoundError, match=r"tags \['train'\].*available tags \[\['serve'\]\]"):
        await ax.load(folder, tags="train")
    with pytest.raises(RuntimeError, match="could not be found"):
        await ax.saved_model.load(ax.Session(graph=ax.Graph()), {"train"}, folder)


@pytest.mark.parametrize("kept", [0, 1, 100, -1, -7])
async def test_a_truncated_proto(folder, kept):
    data = (folder / PROTO).read_bytes()
    (folder / PROTO).write_bytes(data[:kept])

    await refused(folder, DataLossError, str(folder / PROTO))


@pytest.mark.parametrize(
    "data",
    [
        b"\x08\x01\x12\xff\xff\xff\xff\x0f",  # a graph of 4 GiB
        b"\x08\x07\x12\x00",  # another schema version
        b"\x08\x01",  # no graph
        b"<html>",
    ],
)
async def test_a_proto_whose_sizes_lie(folder, data):
    (folder / PROTO).write_bytes(data)

    await refused(folder, DataLossError, str(folder / PROTO))


@pytest.mark.parametrize("name", ["variables.index", "variables.data-00000-of-00001"])
@pytest.mark.parametrize("kept", [0, 20])
async def test_truncated_variables(folder, name, kept):
    path = folder / "variables" / name
    path.write_bytes(path.read_bytes()[:kept])

    await refused(folder, (DataLossError, InvalidArgumentError), "variables")


@pytest.mark.parametrize("name", ["variables", "variables/variables.index"])
async def test_variables_that_are_missing(folder, name):
    path = folder / name
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()

    await refused(folder, NotFoundError, str(folder), "expected a checkpoint with the variables of the graph")


async def test_a_variable_that_the_checkpoint_lacks(folder):
    async with ax.Session(graph=ax.Graph()) as session:
        with session.graph.as_default():
            ax.get_variable("w", initializer=[[1.0, 2], [3, 4], [5, 6]], use_resource=False)
            saver = ax.train.Saver()
            await session.run(ax.global_variables_initializer())
            shutil.rmtree(folder / "variables")
            (folder / "variables").mkdir()
            await saver.save(session, folder / "variables" / "variables", write_meta_graph=False)

    await refused(folder, NotFoundError, str(folder), "Key b not found in checkpoint")


@pytest.mark.parametrize("path", ["../../secret", "/etc/passwd", "a/../../secret", "", "a\0b"])
@pytest.mark.parametrize("is_field", [True, False])
async def test_an_asset_outside_of_the_folder(folder, path, is_field):
    def edit(graph: MetaGraphDef) -> None:
        asset = AssetFileDef(filename=path)
        asset.tensor_info.name = "x:0"
        if is_field:
            graph.asset_file_def.append(asset)
        else:
            graph.collection_def["saved_model_assets"].any_list.value[0].value = asset.SerializeToString()

    change(folder, edit)

    await refused(folder, InvalidArgumentError, str(folder), "inside of 'assets'", repr(path))


async def test_a_missing_asset_file(folder):
    (folder / "assets" / "vocabulary.txt").unlink()

    await refused(folder, NotFoundError, str(folder), "vocabulary.txt")


async def test_a_damaged_collection_of_assets(folder):
    change(
        folder,
        lambda graph: setattr(graph.collection_def["saved_model_assets"].any_list.value[0], "value", b"\xff"),
    )

    await refused(folder, DataLossError, str(folder), "no AssetFileDef")


@pytest.mark.parametrize("key", ["inputs", "outputs"])
async def test_a_signature_of_a_tensor_that_is_not_there(folder, key):
    def edit(graph: MetaGraphDef) -> None:
        getattr(graph.signature_def["serving_default"], key)["z"].CopyFrom(
            TensorInfo(name="missing:0", dtype=DataType.DT_FLOAT)
        )

    change(folder, edit)

    await refused(folder, InvalidArgumentError, str(folder), "'serving_default'", "'z'", "'missing:0'")


async def test_a_signature_of_another_dtype(folder):
    change(folder, lambda graph: setattr(graph.signature_def["serving_default"].inputs["x"], "dtype", 9))

    await refused(folder, InvalidArgumentError, str(folder), "expected 'x:0' to be int64, got float32")


@pytest.mark.parametrize("name", ["missing", ""])
async def test_an_operation_for_initialization_that_is_not_there(folder, name):
    change(
        folder,
        lambda graph: graph.collection_def["saved_model_main_op"].node_list.value.__setitem__(0, name),
    )

    await refused(folder, OpError, repr(name))


async def test_a_graph_with_an_unknown_op_or_edge(folder):
    change(folder, lambda graph: setattr(graph.graph_def.node[0], "op", "Nonsense"))
    await refused(folder, NotFoundError, "Nonsense")


async def test_a_graph_with_a_cycle(folder):
    def edit(graph: MetaGraphDef) -> None:
        node = next(each for each in graph.graph_def.node if each.op == "MatMul")
        node.input[0] = node.name

    change(folder, edit)

    await refused(folder, InvalidArgumentError)
