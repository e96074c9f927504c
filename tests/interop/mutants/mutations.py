"""Changes to a GraphDef: of its nodes, attributes, edges, constants, functions, versions and bytes.

A mutation takes a generator and a GraphDef and changes it in place; if nothing applies, it has no effect.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Hashable
from typing import Any

from google.protobuf.message import DecodeError

from aioexec.formats.protos import AttrValue, FunctionDef, GraphDef, NodeDef, TensorShapeProto
from aioexec.graph import registry
from aioexec.graph.opdef import OpDef

INTEGERS = (0, 1, -1, 2, 3, 7, -2, 64, 1000, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))
SMALL = (0, 1, -1, 2, 3, 5, -7, 1000, 10**6, 2**31 - 1, -(2**31))
FLOATS = (0.0, -1.0, 1e-30, 1e30, float("inf"), float("-inf"), float("nan"))
TEXTS = (b"", b"a", b"\xff\xfe", b"loc:@nowhere", b"VALID", b"NHWC", b"NCHW", b"x" * 5000, b"a/b:0", b"\0")
SIZES = (0, 1, 2, 3, 5, 17, 1000, 10**6, 2**31, 2**40, 2**62, -1, -2)
INPUTS = ("", "^", ":", "a:b", "a:-1", "^^a", "a:99999999999", "_", "nowhere", "nowhere:1")
DEVICES = ("", "/cpu:0", "/device:GPU:9", "/job:worker/task:3", "/device:CPU:1", "nonsense", "/" * 100)
MEMBERS = ("b", "f", "func", "i", "list", "placeholder", "s", "shape", "tensor", "type")  # of an AttrValue

Mutation = Callable[[random.Random, GraphDef], None]


def mutate(chance: random.Random, source: GraphDef) -> GraphDef:
    """A GraphDef with one change, or a few."""
    mutant = GraphDef()
    mutant.CopyFrom(source)
    for _ in range(chance.choice((1, 1, 1, 1, 1, 2, 4))):
        chance.choices(*_WEIGHTED)[0](chance, mutant)
    return mutant if chance.random() < 0.9 else flip_bytes(chance, mutant)


def flip_bytes(chance: random.Random, source: GraphDef) -> GraphDef:
    """Other bytes in a few places, such that it can still be read as a GraphDef."""
    serialized = source.SerializeToString()
    for _ in range(20):
        changed = bytearray(serialized)
        for _ in range(chance.choice((1, 1, 2, 5)) if changed else 0):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            return GraphDef.FromString(bytes(changed))
        except DecodeError:
            continue
    return source


def _nodes(chance: random.Random, mutant: GraphDef) -> Any:
    """The nodes of the graph, or of one of its functions."""
    bodies = [function.node_def for function in mutant.library.function if function.node_def]
    return chance.choice(bodies) if bodies and (chance.random() < 0.5 or not mutant.node) else mutant.node


def _node(chance: random.Random, mutant: GraphDef) -> NodeDef:
    nodes = _nodes(chance, mutant)
    return chance.choice(nodes) if nodes else NodeDef()


def _attr(chance: random.Random, mutant: GraphDef) -> AttrValue:
    node = _node(chance, mutant)
    if node.op == "Const":
        return node.attr["value"]
    return node.attr[chance.choice(sorted(node.attr))] if node.attr else AttrValue()


def drop_node(chance: random.Random, mutant: GraphDef) -> None:
    nodes = _nodes(chance, mutant)
    if nodes:
        del nodes[chance.randrange(len(nodes))]


def double_node(chance: random.Random, mutant: GraphDef) -> None:
    nodes = _nodes(chance, mutant)
    if nodes:
        node = nodes.add()
        node.CopyFrom(chance.choice(nodes))
        node.name += chance.choice(("", "_again", "/again"))


def rename_node(chance: random.Random, mutant: GraphDef) -> None:
    other = _node(chance, mutant).name
    node = _node(chance, mutant)
    old, node.name = (
        node.name,
        chance.choice((other, node.name.upper(), "", "a b", "^a", "n" * 3000, f"{other}/x")),
    )
    for each in mutant.node if chance.random() < 0.7 else ():
        for place, text in enumerate(each.input):
            if text.lstrip("^").partition(":")[0] == old:
                each.input[place] = text.replace(old, node.name, 1)


def change_op(chance: random.Random, mutant: GraphDef) -> None:
    ops = [row.name for row in registry.registered()]
    functions = [function.signature.name for function in mutant.library.function]
    pick = chance.choice((ops, ops, [_node(chance, mutant).op], functions or ops, ["Nope", ""]))
    _node(chance, mutant).op = chance.choice(pick)


def change_to_similar_op(chance: random.Random, mutant: GraphDef) -> None:
    """An op with the same signature and dtypes; its other attributes are plain."""
    node = _node(chance, mutant)
    if not registry.is_registered(node.op):
        return
    old = registry.lookup(node.op).definition
    definition = chance.choice(_alike()[_form(old)])
    held = {attr.name: node.attr[attr.name] for attr in old.attrs if attr.name in node.attr}
    places = zip((*old.inputs, *old.outputs), (*definition.inputs, *definition.outputs), strict=True)
    held.update(
        (new.type_attr, held[arg.type_attr]) for arg, new in places if arg.type_attr in held and new.type_attr
    )
    kept = {
        attr.name: held.get(attr.name, _PLAIN.get(attr.kind)) for attr in definition.attrs if attr.required
    }
    copies = {
        name: AttrValue.FromString(each.SerializeToString())
        for name, each in kept.items()
        if each is not None
    }
    node.op = definition.name
    node.ClearField("attr")
    for name, each in copies.items():
        node.attr[name].CopyFrom(each)


def _form(definition: OpDef) -> Hashable:
    return tuple(
        tuple((arg.is_list, arg.is_ref, arg.dtype) for arg in arguments)
        for arguments in (definition.inputs, definition.outputs)
    )


@functools.cache
def _alike() -> dict[Hashable, list[OpDef]]:
    """All ops by signature."""
    found: dict[Hashable, list[OpDef]] = {}
    for row in registry.registered():
        found.setdefault(_form(row.definition), []).append(row.definition)
    return found


_PLAIN = {
    "int": AttrValue(i=1),
    "float": AttrValue(f=0.5),
    "bool": AttrValue(b=True),
    "string": AttrValue(s=b"VALID"),
    "shape": AttrValue(shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=2)])),
    "type": AttrValue(type="DT_FLOAT"),
    "list(int)": AttrValue(list=AttrValue.ListValue(i=[1, 2, 2, 1])),
    "list(type)": AttrValue(list=AttrValue.ListValue(type=["DT_FLOAT"])),
    "list(shape)": AttrValue(list=AttrValue.ListValue(shape=[TensorShapeProto()])),
    "list(string)": AttrValue(list=AttrValue.ListValue(s=[b"a"])),
    "list(float)": AttrValue(list=AttrValue.ListValue(f=[1.0])),
}


def change_device(chance: random.Random, mutant: GraphDef) -> None:
    _node(chance, mutant).device = chance.choice(DEVICES)


def shuffle_nodes(chance: random.Random, mutant: GraphDef) -> None:
    nodes = _nodes(chance, mutant)
    order = list(nodes)
    chance.shuffle(order)
    copies = [NodeDef.FromString(node.SerializeToString()) for node in order]
    del nodes[:]
    nodes.extend(copies)


def _endpoint(chance: random.Random, nodes: Any) -> str:
    name = chance.choice(nodes).name
    return chance.choice((*[name] * 7, f"{name}:1", f"{name}:{chance.choice((0, 2, 9))}", f"^{name}"))


def redirect_edge(chance: random.Random, mutant: GraphDef) -> None:
    nodes = _nodes(chance, mutant)
    node = chance.choice(nodes) if nodes else NodeDef()
    if node.input:
        others = [*chance.choice(nodes).input, _endpoint(chance, nodes), _endpoint(chance, nodes)]
        node.input[chance.randrange(len(node.input))] = chance.choice(others)


def malform_edge(chance: random.Random, mutant: GraphDef) -> None:
    node = _node(chance, mutant)
    if node.input:
        node.input[chance.randrange(len(node.input))] = chance.choice(INPUTS)


def add_edge(chance: random.Random, mutant: GraphDef) -> None:
    nodes = _nodes(chance, mutant)
    if nodes:
        node = chance.choice(nodes)
        if chance.random() < 0.6:
            node.input.append(f"^{chance.choice(nodes).name}")
        else:
            node.input.insert(chance.choice((0, len(node.input))), _endpoint(chance, nodes))


def drop_edge(chance: random.Random, mutant: GraphDef) -> None:
    node = _node(chance, mutant)
    if node.input:
        del node.input[chance.randrange(len(node.input))]


def swap_edges(chance: random.Random, mutant: GraphDef) -> None:
    edges = _node(chance, mutant).input
    if edges:
        first, second = chance.randrange(len(edges)), chance.randrange(len(edges))
        edges[first], edges[second] = edges[second], edges[first]


def drop_attr(chance: random.Random, mutant: GraphDef) -> None:
    node = _node(chance, mutant)
    if node.attr:
        del node.attr[chance.choice(sorted(node.attr))]


def add_attr(chance: random.Random, mutant: GraphDef) -> None:
    name = chance.choice(("_class", "_output_shapes", "new", "_new", "T", "_kernel", "", "shape"))
    _node(chance, mutant).attr[name].CopyFrom(_attr(chance, mutant))


def take_attr(chance: random.Random, mutant: GraphDef) -> None:
    _attr(chance, mutant).CopyFrom(_attr(chance, mutant))


def change_attr(chance: random.Random, mutant: GraphDef) -> None:
    """Another value, most often of the kind that was there."""
    attr = _attr(chance, mutant)
    for _ in range(8):  # another dtype alone seldom fits
        if attr.type:
            attr = _attr(chance, mutant)
    kind = attr.WhichOneof("value")
    if kind is None or chance.random() < 0.1:
        kind = chance.choice(MEMBERS)
    _VALUES[kind](chance, attr)


def _change_list(chance: random.Random, attr: AttrValue) -> None:
    held = [items for _, items in attr.list.ListFields()]
    items = chance.choice(held) if held else attr.list.i
    what = chance.randrange(4)
    if what == 0 and items:
        del items[chance.randrange(len(items))]
    elif what == 1 and items:
        items.extend([chance.choice(items)] * chance.choice((1, 3, 1000)))
    elif what == 2:
        del items[:]
    else:
        field = chance.choice(("i", "type", "s"))
        getattr(attr.list, field).append(chance.choice({"i": INTEGERS, "type": range(30), "s": TEXTS}[field]))


def _change_shape(chance: random.Random, attr: AttrValue) -> None:
    _change_dims(chance, attr.shape)


def _change_dims(chance: random.Random, shape: Any) -> None:
    what = chance.randrange(5)
    if what == 0:
        shape.unknown_rank = not shape.unknown_rank
    elif what == 1 and shape.dim:
        del shape.dim[chance.randrange(len(shape.dim))]
    elif what == 2 and shape.dim:
        chance.choice(shape.dim).size = chance.choice(SIZES)
    else:
        for _ in range(chance.choice((1, 1, 2, 70))):
            shape.dim.add(size=chance.choice(SIZES))


def _change_tensor(chance: random.Random, attr: AttrValue) -> None:
    tensor = attr.tensor
    what = chance.randrange(8)
    if what == 0:
        tensor.dtype = chance.randrange(130)  # type: ignore[assignment]
    elif what == 1:
        tensor.tensor_content = tensor.tensor_content[: chance.choice((0, 1, -1))] + chance.choice(TEXTS)
    elif what == 2:
        _change_dims(chance, tensor.tensor_shape)
    elif what == 3:
        tensor.ClearField("tensor_content")
        tensor.ClearField("tensor_shape")
        tensor.tensor_shape.dim.add(size=chance.choice(SIZES))
    elif what == 4 and tensor.tensor_content:
        content = bytearray(tensor.tensor_content)
        for _ in range(4):
            content[chance.randrange(len(content))] = chance.randrange(256)
        tensor.tensor_content = bytes(content)
    else:
        _repeat_element(chance, tensor)


def _repeat_element(chance: random.Random, tensor: Any) -> None:
    """One number for all elements, which most constants of shapes, axes and counts survive at first."""
    for field, values in (
        ("float_val", FLOATS),
        ("int_val", SMALL),
        ("int64_val", INTEGERS),
        ("bool_val", (True, False)),
    ):
        tensor.ClearField(field)
        getattr(tensor, field).append(chance.choice(values))
    tensor.ClearField("tensor_content")


def _change_func(chance: random.Random, attr: AttrValue) -> None:
    attr.func.name = chance.choice((attr.func.name[:-1], "Nope", "", "Neg"))


def _setter(field: str, values: Any) -> Callable[[random.Random, AttrValue], None]:
    def change(chance: random.Random, attr: AttrValue) -> None:
        setattr(attr, field, chance.choice(values))

    return change


_VALUES: dict[str, Callable[[random.Random, AttrValue], None]] = {
    "b": _setter("b", (True, False)),
    "f": _setter("f", FLOATS),
    "func": _change_func,
    "i": _setter("i", INTEGERS),
    "list": _change_list,
    "placeholder": _setter("placeholder", ("T", "")),
    "s": _setter("s", TEXTS),
    "shape": _change_shape,
    "tensor": _change_tensor,
    "type": _setter("type", (*range(30), 101, 103, 109, 120)),
}


def change_versions(chance: random.Random, mutant: GraphDef) -> None:
    mutant.versions.producer = chance.choice((0, 5, 134, 10**6, 10**6, -1))
    mutant.versions.min_consumer = chance.choice((0, 0, 0, 134, 135, -1))


def _function(chance: random.Random, mutant: GraphDef) -> FunctionDef:
    functions = mutant.library.function
    return chance.choice(functions) if functions else FunctionDef()


def drop_function(chance: random.Random, mutant: GraphDef) -> None:
    if mutant.library.function:
        del mutant.library.function[chance.randrange(len(mutant.library.function))]


def rename_function(chance: random.Random, mutant: GraphDef) -> None:
    name = _function(chance, mutant).signature.name
    _function(chance, mutant).signature.name = chance.choice((name, "", "Neg", name + "x"))


def exchange_bodies(chance: random.Random, mutant: GraphDef) -> None:
    """Functions that call each other, or themselves, are among what this makes."""
    one, other = _function(chance, mutant), _function(chance, mutant)
    name = one.signature.name
    one.CopyFrom(other)
    one.signature.name = name


def change_signature(chance: random.Random, mutant: GraphDef) -> None:
    signature = _function(chance, mutant).signature
    arguments = chance.choice((signature.input_arg, signature.output_arg))
    what = chance.randrange(4)
    if not arguments or what == 0:
        arguments.add(name=chance.choice(("new", "x", "")), type=chance.randrange(25))
    elif what == 1:
        del arguments[chance.randrange(len(arguments))]
    elif what == 2:
        chance.choice(arguments).type = chance.randrange(130)  # type: ignore[assignment]
    else:
        chance.choice(arguments).name = chance.choice(arguments).name


def change_results(chance: random.Random, mutant: GraphDef) -> None:
    function = _function(chance, mutant)
    held = chance.choice((function.ret, function.ret, function.control_ret))
    if held:
        key = chance.choice(sorted(held))
        held[key] = chance.choice((*held.values(), "nowhere:y:0", "", "a", "x:0"))


def drop_result(chance: random.Random, mutant: GraphDef) -> None:
    held = _function(chance, mutant).ret
    if held:
        del held[chance.choice(sorted(held))]


def set_gradient(chance: random.Random, mutant: GraphDef) -> None:
    mutant.library.gradient.add(
        function_name=_function(chance, mutant).signature.name,
        gradient_func=_function(chance, mutant).signature.name,
    )


_WEIGHTED: tuple[list[Mutation], list[int]] = (
    [
        *(drop_node, double_node, rename_node, change_op, change_to_similar_op, change_device, shuffle_nodes),
        *(redirect_edge, malform_edge, add_edge, drop_edge, swap_edges),
        *(drop_attr, add_attr, take_attr, change_attr, change_versions),
        *(drop_function, rename_function, exchange_bodies, change_signature),
        *(change_results, drop_result, set_gradient),
    ],
    [4, 4, 2, 3, 40, 4, 2, 16, 2, 8, 4, 6, 3, 3, 6, 40, 1, 2, 1, 4, 4, 3, 1, 1],
)
