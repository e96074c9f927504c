"""Nodes fused by TensorFlow's optimiser are split into their parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.distributed.worker.fused_nodes import expanded
from aioexec.distributed.worker.partition_graphs import import_partition
from aioexec.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from aioexec.formats.protos import AttrValue, DataType, GraphDef

FLOAT = AttrValue(type=DataType.DT_FLOAT)


def fused(op: str, inputs: list[str], **attrs: AttrValue) -> GraphDef:
    """A graph of placeholders "a" to "f" and one fused node "z"."""
    graph_def = GraphDef()
    for name in "abcdef":
        graph_def.node.add(name=name, op="Placeholder").attr["dtype"].CopyFrom(FLOAT)
    node = graph_def.node.add(name="z", op=op, input=inputs, device="/device:CPU:0")
    for name, value in {"T": FLOAT, **attrs}.items():
        node.attr[name].CopyFrom(value)
    return graph_def


def strings(*values: str) -> AttrValue:
    made = AttrValue()
    made.list.s.extend(value.encode() for value in values)
    return made


async def result(graph_def: GraphDef, **feeds: Any) -> Any:
    with ax.Graph().as_default():
        ax.import_graph_def(expanded(graph_def), name="")
        async with ax.Session() as session:
            return await session.run(
                "z:0", {f"{name}:0": np.array(fed, np.float32) for name, fed in feeds.items()}
            )


A, B, C = [[1.0, -2.0]], [[3.0, 1.0], [0.5, 4.0]], [1.0, 1.0]
PRODUCT = np.array(A) @ np.array(B)
FOLLOWING = {
    ("BiasAdd",): PRODUCT + C,
    ("BiasAdd", "Relu"): np.maximum(PRODUCT + C, 0),
    ("BiasAdd", "Relu6"): np.clip(PRODUCT + C, 0, 6),
    ("BiasAdd", "Elu"): np.where(PRODUCT + C > 0, PRODUCT + C, np.expm1(PRODUCT + C)),
    ("BiasAdd", "Tanh"): np.tanh(PRODUCT + C),
    ("BiasAdd", "Sigmoid"): 1 / (1 + np.exp(-PRODUCT - C)),
    ("BiasAdd", "LeakyRelu"): np.where(PRODUCT + C > 0, PRODUCT + C, (PRODUCT + C) * 0.5),
    ("BiasAdd", "Add"): PRODUCT + C + 10.0,
}


@pytest.mark.parametrize("ops", FOLLOWING, ids="-".join)
async def test_products_with_what_follows_them(ops):
    inputs = ["a", "b", "c", *(["d"] if "Add" in ops else [])]
    graph_def = fused("_FusedMatMul", inputs, fused_ops=strings(*ops), leakyrelu_alpha=AttrValue(f=0.5))

    found = await result(graph_def, a=A, b=B, c=C, d=[[10.0, 10.0]])

    np.testing.assert_allclose(found, FOLLOWING[ops], rtol=1e-6)


async def test_convolutions_with_a_normalisation():
    ones = AttrValue()
    ones.list.i.extend([1, 1, 1, 1])
    graph_def = fused(
        "_FusedConv2D",
        list("abcdef"),
        fused_ops=strings("FusedBatchNorm", "Relu"),
        strides=ones,
        padding=AttrValue(s=b"VALID"),
        epsilon=AttrValue(f=0.0),
    )

    found = await result(graph_def, a=[[[[2.0], [-3.0]]]], b=[[[[3.0]]]], c=[2.0], d=[1.0], e=[0.5], f=[4.0])

    np.testing.assert_allclose(found.ravel(), [(6.0 - 0.5) / 2.0 * 2.0 + 1.0, 0.0], rtol=1e-6)


async def test_chains_of_functions():
    graph_def = fused("_UnaryOpsComposition", ["a"], op_names=strings("Abs", "Sqrt", "Neg"))

    np.testing.assert_allclose(await result(graph_def, a=[4.0, -9.0]), [-2.0, -3.0])


def test_the_last_part_has_the_name_and_the_first_the_control_edges():
    graph_def = fused("_FusedMatMul", ["a", "b", "c", "^d"], fused_ops=strings("BiasAdd", "Relu"))

    product, bias, last = expanded(graph_def).node[-3:]

    assert [product.op, bias.op, last.op] == ["MatMul", "BiasAdd", "Relu"]
    assert list(product.input) == ["a", "b", "^d"]
    assert list(bias.input) == [product.name, "c"]
    assert (last.name, last.device) == ("z", "/device:CPU:0")


def test_graphs_without_fused_nodes_stay_as_they_are():
    graph_def = fused("Neg", ["a"])

    assert expanded(graph_def) is graph_def


def test_what_cannot_be_taken_apart_is_refused():
    with pytest.raises(InvalidArgumentError, match="lacks an input for its BiasAdd"):
        expanded(fused("_FusedMatMul", ["a", "b"], fused_ops=strings("BiasAdd")))
    with pytest.raises(UnimplementedError, match="quantised"):
        expanded(fused("_FusedConv2D", ["a", "b"], num_host_args=AttrValue(i=2)))


def test_a_function_whose_name_is_no_text_is_not_found():
    source = GraphDef()
    node = source.node.add(name="x", op="_UnaryOpsComposition")
    node.attr["op_names"].list.s.append(b"\xff")

    with pytest.raises(NotFoundError, match=r"not registered '\\\\xff'"):
        import_partition(source)
