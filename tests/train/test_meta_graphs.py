"""Meta graphs: export and import of a graph with its collections."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec
from aioexec.errors import DataLossError, NotFoundError
from aioexec.formats import protos
from aioexec.graph.graph import Graph
from aioexec.graph.io.metagraph_export import create_meta_graph_def
from aioexec.graph.io.op_def_export import stripped_op_list_for_graph
from aioexec.graph.io.proto_functions import register_proto_function
from aioexec.ops.functions.defun import Defun
from aioexec.train.checkpoints.meta_graph_import import (
    copy_scoped_meta_graph,
    import_meta_graph_with_return_elements,
    import_scoped_meta_graph,
    read_meta_graph_file,
)
from aioexec.train.checkpoints.meta_graphs import export_scoped_meta_graph
from aioexec.train.off_loop import off_loop


def trainable_graph() -> Graph:
    """A line that is fitted, with what it takes to go on in collections."""
    with Graph().as_default() as graph:
        x = aioexec.placeholder(aioexec.float32, [None], name="x")
        with aioexec.variable_scope("line"):
            slope = aioexec.get_variable("slope", initializer=1.0)
            offset = aioexec.get_variable("offset", initializer=0.5, use_resource=True)
        loss = aioexec.reduce_mean(aioexec.square(slope * x + offset - 3.0 * x))
        train = aioexec.train.AdamOptimizer(0.1).minimize(loss)
        kept = {"x": x, "loss": loss, "go": train, "init": aioexec.global_variables_initializer()}
        for name, item in kept.items():
            aioexec.add_to_collection(name, item)
        aioexec.add_to_collection("savers", aioexec.train.Saver())
    return graph


async def losses(graph: Graph, saver: Any, restored: str | None, saved: str | None, steps: int) -> list[Any]:
    (x,), (loss,), (go,) = (graph.get_collection(name) for name in ("x", "loss", "go"))
    async with aioexec.Session(graph=graph) as session:
        if restored is None:
            await session.run(graph.get_collection("init"))
        else:
            await saver.restore(session, restored)
        found = [(await session.run([loss, go], {x: [1.0, 2.0]}))[0] for _ in range(steps)]
        if saved is not None:
            await saver.save(session, saved)
    return found


@pytest.mark.parametrize("scope", [None, "inner", "inner/most/"])
async def test_an_imported_graph_trains_on_from_its_checkpoint(tmp_path: Path, scope: str | None) -> None:
    prefix, graph = f"{tmp_path}/model", trainable_graph()
    saver = graph.get_collection("savers")[0]
    await losses(graph, saver, None, prefix, 3)
    expected = await losses(graph, saver, prefix, None, 3)

    with Graph().as_default() as other:
        imported = await off_loop(aioexec.train.import_meta_graph, f"{prefix}.meta", import_scope=scope)

    assert imported is not None
    assert await losses(other, imported, prefix, None, 3) == expected
    names = [variable.name for variable in other.get_collection("trainable_variables")]
    under = "" if scope is None else f"{scope.rstrip('/')}/"
    assert names == [f"{under}line/slope:0", f"{under}line/offset:0"]


def test_variables_in_several_collections_are_one_object() -> None:
    exported = aioexec.train.export_meta_graph(graph=trainable_graph())

    with Graph().as_default() as graph:
        variables = import_scoped_meta_graph(exported)

    assert graph.get_collection("trainable_variables")[0] is graph.get_collection("variables")[0]
    assert variables["line/slope:0"] is graph.get_collection("variables")[0]
    assert [each.trainable for each in graph.get_collection("variables")] == [True, True, *[False] * 6]


@pytest.mark.parametrize(
    ("version", "expected"), [("1.8.0", [True, True]), ("1.15.0", [False, False]), ("", [False, False])]
)
def test_variables_of_old_graphs_are_trainable_where_the_collection_says_so(
    version: str, expected: list[bool]
) -> None:
    exported = aioexec.train.export_meta_graph(graph=trainable_graph())
    exported.meta_info_def.tensorflow_version = version
    for key in ("variables", "trainable_variables"):
        values = exported.collection_def[key].bytes_list.value
        for place, value in enumerate(values):
            variable = protos.VariableDef.FromString(value)
            variable.trainable = False  # as programs that do not have the field leave it
            values[place] = variable.SerializeToString()

    with Graph().as_default() as graph:
        import_scoped_meta_graph(exported)

    assert [each.trainable for each in graph.get_collection("trainable_variables")] == expected
    assert not any(each.trainable for each in graph.get_collection("variables")[2:])


def test_collections_travel_by_what_is_in_them(caplog: pytest.LogCaptureFixture) -> None:
    items: dict[str, list[Any]] = {
        "ints": [1, -2],
        "floats": [0.5, 2.0],
        "texts": ["a", "b"],
        "bytes": [b"\xff"],
        "others": [object()],
        "mixed": [1, "a"],
    }
    with Graph().as_default() as graph:
        node = aioexec.constant(1.0, name="c")
        for key, values in {**items, "tensors": [node], "operations": [node.op]}.items():
            for value in values:
                aioexec.add_to_collection(key, value)
        with caplog.at_level(logging.WARNING):
            exported = aioexec.train.export_meta_graph()

    with Graph().as_default() as other:
        assert aioexec.train.import_meta_graph(exported) is None
    found = {key: other.get_collection(key) for key in other.get_all_collection_keys()}

    assert found["tensors"][0] is other.get_tensor_by_name("c:0")
    assert found["operations"][0] is other.get_operation_by_name("c")
    assert found["ints"] == [1, -2]
    assert found["floats"] == [0.5, 2.0]
    assert found["texts"] == [b"a", b"b"]  # as in TensorFlow: only a scope makes text of them
    assert found["bytes"] == [b"\xff"]
    assert {"others", "mixed"}.isdisjoint(found)
    assert [record.args[:1] for record in caplog.records if isinstance(record.args, tuple)] == [
        ("others",),
        ("mixed",),
    ]
    assert graph.get_collection("others")


def test_collections_are_chosen_on_the_way_out_and_on_the_way_in() -> None:
    graph = trainable_graph()
    exported = aioexec.train.export_meta_graph(graph=graph, collection_list=["variables", "loss"])

    with Graph().as_default() as other:
        import_scoped_meta_graph(exported, restore_collections_predicate=lambda key: key != "loss")

    assert set(exported.collection_def) == {"variables", "loss"}
    assert other.get_all_collection_keys() == ["variables"]


def test_elements_are_returned_and_inputs_replaced() -> None:
    exported = aioexec.train.export_meta_graph(graph=trainable_graph())

    with Graph().as_default():
        given = aioexec.constant([4.0])
        _, elements = import_meta_graph_with_return_elements(
            exported, import_scope="s", return_elements=["x:0", "line/slope"], input_map={"x:0": given}
        )

    assert elements is not None
    assert elements[0] is given
    assert elements[1].name == "s/line/slope"


def test_what_is_said_of_a_meta_graph_is_kept() -> None:
    info = protos.MetaGraphDef.MetaInfoDef(meta_graph_version="v0", tags=["train"])
    exported = aioexec.train.export_meta_graph(graph=trainable_graph(), meta_info_def=info)

    found = exported.meta_info_def
    assert (found.meta_graph_version, list(found.tags)) == ("v0", ["train"])
    assert found.tensorflow_version
    used = {node.op for node in exported.graph_def.node}
    assert [op.name for op in found.stripped_op_list.op] == sorted(used)
    assert not info.tensorflow_version  # the caller's own is as it was


def test_the_ops_of_functions_are_among_those_it_needs() -> None:
    with Graph().as_default() as graph:

        @Defun(aioexec.float32, func_name="inner")
        def inner(x: Any) -> Any:
            return aioexec.tanh(x)

        @Defun(aioexec.float32, func_name="outer")
        def outer(x: Any) -> Any:
            return inner(x) * 2.0

        outer(aioexec.constant(1.0))

    needed = {op.name for op in stripped_op_list_for_graph(graph.as_graph_def()).op}

    assert {"Tanh", "Mul", "Const"} <= needed
    assert needed.isdisjoint({"inner", "outer"})


def test_devices_and_default_attributes_are_left_out_where_that_is_asked_for() -> None:
    with Graph().as_default() as graph, graph.device("/cpu:0"):
        aioexec.matmul(aioexec.ones([1, 2]), aioexec.ones([2, 1]), name="product", transpose_b=False)

    plain = aioexec.train.export_meta_graph(graph=graph)
    spare = aioexec.train.export_meta_graph(graph=graph, clear_devices=True, strip_default_attrs=True)

    (whole,), (part,) = (
        [node for node in each.graph_def.node if node.name == "product"] for each in (plain, spare)
    )
    assert (whole.device, part.device) == ("/device:CPU:0", "")
    assert "transpose_b" in whole.attr
    assert set(part.attr) == {"T", "_output_shapes"}
    assert spare.meta_info_def.stripped_default_attrs
    assert not plain.meta_info_def.stripped_default_attrs
    with Graph().as_default() as other:
        import_scoped_meta_graph(plain, clear_devices=True)
    assert other.get_operation_by_name("product").device == ""


def test_savers_other_than_the_one_meant_are_left_out() -> None:
    graph = trainable_graph()
    with graph.as_default():
        other = aioexec.train.Saver(name="other")
        aioexec.add_to_collection("savers", other)

    exported = aioexec.train.export_meta_graph(
        graph=graph, saver_def=other.as_saver_def(), clear_extraneous_savers=True
    )

    scopes = {node.name.split("/")[0] for node in exported.graph_def.node}
    assert "other" in scopes
    assert "save" not in scopes
    (kept,) = exported.collection_def["savers"].bytes_list.value
    assert protos.SaverDef.FromString(kept) == other.as_saver_def()


# Parts of graphs


def scoped_graph() -> Graph:
    """Two scopes, the second taking an input from the first and waiting for it; their names begin alike."""
    with Graph().as_default() as graph:
        with aioexec.name_scope("layer"):
            x = aioexec.placeholder(aioexec.float32, [2], name="x")
            begun = aioexec.no_op(name="begun")
        with aioexec.variable_scope("layer_1"):
            weights = aioexec.get_variable("weights", initializer=aioexec.constant([2.0, 3.0]))
            with aioexec.control_dependencies([begun]):
                y = aioexec.multiply(x, weights, name="y")
            _, sums = aioexec.while_loop(
                lambda i, total: i < 3, lambda i, total: [i + 1, total + y], [0, y], name="loop"
            )
            aioexec.identity(sums, name="sums")
    return graph


def test_a_part_of_a_graph_names_what_it_takes_from_outside() -> None:
    exported, variables = export_scoped_meta_graph(graph=scoped_graph(), export_scope="layer_1")

    names = {node.name for node in exported.graph_def.node}
    assert {"weights", "y", "sums", "loop/Enter"} <= names
    assert not any(name.startswith("layer") for name in names)
    unbound = exported.collection_def["unbound_inputs"].bytes_list.value
    assert sorted(unbound) == [b"$unbound_inputs_layer/x", b"^$unbound_inputs_layer/begun"]
    assert list(variables) == ["weights:0"]
    frames = {node.attr["frame_name"].s for node in exported.graph_def.node if node.op == "Enter"}
    assert frames == {b"loop/while_context"}


async def test_a_part_of_a_graph_is_bound_where_it_is_imported() -> None:
    exported, _ = export_scoped_meta_graph(graph=scoped_graph(), export_scope="layer_1")

    with Graph().as_default() as graph:
        x = aioexec.constant([10.0, 100.0])
        bound = {"$unbound_inputs_layer/x": x, "^$unbound_inputs_layer/begun": x.op}
        with pytest.raises(ValueError, match=r"Graph contains unbound inputs: .*layer/x"):
            import_scoped_meta_graph(exported, import_scope="there")
        assert graph.version == 1
        variables = import_scoped_meta_graph(exported, import_scope="there", input_map=bound)
        async with aioexec.Session(graph=graph) as session:
            await session.run(variables["weights:0"].initializer)
            found = await session.run("there/sums:0")

    np.testing.assert_array_equal(found, [80, 1200])


async def test_a_scope_is_copied_into_another_with_frames_of_its_own() -> None:
    with Graph().as_default() as graph:
        with aioexec.variable_scope("one"):
            value = aioexec.get_variable("value", initializer=1.0)
            _, total = aioexec.while_loop(lambda i, x: i < 3, lambda i, x: [i + 1, x + value], [0, 0.0])
            aioexec.identity(total, name="total")
        copied = copy_scoped_meta_graph("one", "two")
        async with aioexec.Session(graph=graph) as session:
            await session.run(aioexec.global_variables_initializer())
            await session.run(copied["value:0"].assign(10.0))
            found = await session.run(["one/total:0", "two/total:0"])

    assert found == [3, 30]
    frames = {op.attrs["frame_name"] for op in graph.get_operations() if op.type == "Enter"}
    assert frames == {"one/while/while_context", "two/while/while_context"}
    with pytest.raises(ValueError, match="need to be different"):
        copy_scoped_meta_graph("one", "one", graph, graph)


async def test_two_copies_of_a_loop_and_its_gradient_run_side_by_side() -> None:
    with Graph().as_default():
        x = aioexec.placeholder(aioexec.float32, [], name="x")
        _, power = aioexec.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y * x], [0, 1.0])
        aioexec.add_to_collection("slope", aioexec.gradients(power, x)[0])
        exported = aioexec.train.export_meta_graph()

    with Graph().as_default() as graph:
        for scope in ("one", "two"):
            import_scoped_meta_graph(exported, import_scope=scope)
        async with aioexec.Session(graph=graph) as session:
            found = await session.run(graph.get_collection("slope"), {"one/x:0": 1.0, "two/x:0": 2.0})

    assert found == [3, 12]


async def test_gradients_taken_in_a_loop_travel() -> None:
    with Graph().as_default() as graph:
        x = aioexec.placeholder(aioexec.float32, [], name="x")

        def body(i: Any, a: Any) -> list[Any]:
            _, power = aioexec.while_loop(lambda j, y: j < 2, lambda j, y: [j + 1, y * a], [0, a])
            (slope,) = aioexec.gradients(aioexec.cond(power > 1.0, lambda: power * 2.0, lambda: power), a)
            return [i + 1, a + slope]

        aioexec.add_to_collection("y", aioexec.while_loop(lambda i, a: i < 2, body, [0, x])[1])
        graph.finalize()
        exported = aioexec.train.export_meta_graph()

    with Graph().as_default() as graph:
        import_scoped_meta_graph(exported, import_scope="there")
        async with aioexec.Session(graph=graph) as session:
            found = await session.run(graph.get_collection("y")[0], {"there/x:0": 0.5})

    first = 0.5 + 3 * 0.5**2  # the slope of a³, which is doubled where that is more than 1
    assert found == pytest.approx(first + 6 * first**2)


async def test_gradients_are_taken_through_what_was_imported() -> None:
    with Graph().as_default() as graph:
        x = aioexec.placeholder(aioexec.float32, [], name="x")
        _, power = aioexec.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y * x], [0, 1.0])
        result = aioexec.cond(x > 0, lambda: power, lambda: -power)
        aioexec.add_to_collection("result", result)
        exported = aioexec.train.export_meta_graph()

    with Graph().as_default() as graph:
        import_scoped_meta_graph(exported, import_scope="there")
        (result,), x = graph.get_collection("result"), graph.get_tensor_by_name("there/x:0")
        (gradient,) = aioexec.gradients(result, x)
        async with aioexec.Session(graph=graph) as session:
            assert await session.run([result, gradient], {x: 2.0}) == [8, 12]
            assert await session.run([result, gradient], {x: -2.0}) == [8, -12]


async def test_nodes_are_added_to_an_imported_conditional() -> None:
    with Graph().as_default():
        x = aioexec.placeholder(aioexec.float32, [], name="x")
        aioexec.cond(x > 0, lambda: aioexec.multiply(x, 2.0, name="double"), lambda: x)
        exported = aioexec.train.export_meta_graph()

    with Graph().as_default() as graph:
        import_scoped_meta_graph(exported)
        taken: Any
        taken, _ = graph.get_collection("cond_context")
        inside = graph.get_tensor_by_name("cond/double:0")
        taken.Enter()
        more = inside + aioexec.constant(1.0)
        taken.Exit()

    known = set(taken.to_proto().values_def.values)
    assert inside.op._get_control_flow_context() is taken
    assert more.op._get_control_flow_context() is taken
    assert {"cond/double:0", more.name} <= known


async def test_an_imported_graph_is_built_on(tmp_path: Path) -> None:
    exported = aioexec.train.export_meta_graph(
        graph=trainable_graph(), collection_list=["variables", "loss", "x"]
    )

    with Graph().as_default() as graph:
        import_scoped_meta_graph(exported, import_scope="there")
        slope, offset = graph.get_collection("variables")[:2]
        doubled = aioexec.Variable(slope.initialized_value() * 2.0)
        optimizer = aioexec.train.MomentumOptimizer(0.1, 0.9)
        step = optimizer.minimize(graph.get_collection("loss")[0], var_list=[slope, offset])
        ready = aioexec.report_uninitialized_variables()
        async with aioexec.Session(graph=graph) as session:
            await session.run(aioexec.global_variables_initializer())
            assert (await session.run(ready)).size == 0
            (x,) = graph.get_collection("x")
            await session.run(step, {x: [1.0]})
            assert await session.run(doubled) == 2
            assert (await session.run([slope, offset]))[0] > 1
            await session.run(offset.assign_add(1.0))
            await offset.load(7.0, session)
            assert await session.run(offset) == 7


# Files, and what is wrong


async def test_a_meta_graph_is_read_as_bytes_and_as_text(tmp_path: Path) -> None:
    graph = trainable_graph()
    paths = [tmp_path / "model.meta", tmp_path / "model.pbtxt"]
    for path in paths:
        await off_loop(aioexec.train.export_meta_graph, path, graph=graph, as_text=path.suffix == ".pbtxt")

    one, other = [await off_loop(read_meta_graph_file, path) for path in paths]

    assert one == other == aioexec.train.export_meta_graph(graph=graph)


@pytest.mark.parametrize(
    ("content", "error"),
    [(None, NotFoundError), (b"\xff\xfe", DataLossError), (b"no message", DataLossError)],
)
async def test_a_file_that_is_no_meta_graph_is_refused(
    tmp_path: Path, content: bytes | None, error: type[Exception]
) -> None:
    path = tmp_path / "model.meta"
    if content is not None:
        await off_loop(path.write_bytes, content)

    with pytest.raises(error, match=r"model\.meta"):
        await off_loop(aioexec.train.import_meta_graph, path)


def spoiled(how: str) -> protos.MetaGraphDef:
    """A meta graph with a fault in its collections."""
    exported = aioexec.train.export_meta_graph(graph=trainable_graph())
    variables = exported.collection_def["variables"].bytes_list.value
    if how == "node":
        exported.collection_def["loss"].node_list.value[0] = "nowhere:0"
    elif how == "bytes":
        variables[0] = b"\xff"
    elif how == "saver":
        exported.saver_def.max_to_keep = 5  # and the names of no nodes
    elif how == "name":
        variables[0] = protos.VariableDef(variable_name="nowhere:0").SerializeToString()
    else:
        variables[0] = protos.VariableDef(variable_name="x:0", is_resource=True).SerializeToString()
    return exported


@pytest.mark.parametrize("how", ["node", "bytes", "name", "kind", "saver"])
def test_a_graph_is_as_it_was_when_an_import_fails(how: str) -> None:
    exported = spoiled(how)
    with Graph().as_default() as graph:
        aioexec.add_to_collection("loss", aioexec.constant(1.0))
        before = graph.version, {key: graph.get_collection(key) for key in graph.collections}

        with pytest.raises((ValueError, KeyError, aioexec.errors.OpError)):
            aioexec.train.import_meta_graph(exported)

        after = (
            graph.version,
            {key: graph.get_collection(key) for key in graph.collections if key in before[1]},
        )
    assert after == before


def test_arguments_of_another_type_are_refused() -> None:
    wrong: Any = 1
    for name in ("graph", "saver_def", "graph_def", "meta_info_def"):
        with pytest.raises(TypeError, match=f"{name} must be of type"):
            create_meta_graph_def(**{name: wrong})
    with pytest.raises(TypeError, match="meta_graph_or_file"):
        aioexec.train.import_meta_graph(protos.GraphDef())
    with pytest.raises(TypeError, match="to_proto must be callable"):
        register_proto_function("a collection", to_proto=wrong)
    with pytest.raises(ValueError, match="already"):
        register_proto_function("variables")
