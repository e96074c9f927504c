"""Mutants of GraphDefs by structure: edges, names, attributes, tensors, functions and frames, changed at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from aioexec.formats.protos import AttrValue, FunctionDef, GraphDef, MetaGraphDef, NameAttrList, NodeDef
from tests.campaigns.mutants import NUMBERS, mutant

NAMES = (
    "",
    "a",
    "/",
    "a/" * 50,
    "^a",
    "a:0",
    "loc:@",
    "_a",
    "é",
    "a b",
    "x" * 5000,
    "import",
    "a_1",
    "../a",
    "\x00",
    "$",
    "a" + "/b" * 2000,
)
DEVICES = (
    "",
    "/cpu:0",
    "/device:CPU:99999999999999999999",
    "/job:worker/task:1",
    "/job:a/replica:-1",
    "cpu",
    "/gpu:0",
    "/job:" + "w" * 3000,
    "/device:CPU:*",
    "//",
    "/job:localhost/replica:0/task:0/device:CPU:0",
    "\x00",
)
FRAME_OPS = (
    "Enter",
    "Exit",
    "NextIteration",
    "Merge",
    "Switch",
    "LoopCond",
    "RefEnter",
    "RefExit",
    "RefMerge",
)
_INT64 = tuple(n if n < 2**63 else n - 2**64 for n in NUMBERS)


def mutate(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    """Change a GraphDef in place by one to four random edits."""
    for _ in range(random.choice((1, 1, 2, 4))):
        if not graph.node:
            return
        random.choice(_EDITS)(random, graph, corpus)


def mutate_collections(random: Random, meta_graph: MetaGraphDef) -> None:
    """Change an item of a collection, by its bytes; or the name of a collection, or the kind of its items."""
    collections = meta_graph.collection_def
    key = random.choice(sorted(collections))
    items = collections[key]
    held = items.bytes_list.value
    drawn = random.random()
    if drawn < 0.7 and held:
        held[random.randrange(len(held))] = mutant(random, list(held))
    elif drawn < 0.85:
        other = random.choice((*_COLLECTIONS, *sorted(collections)))
        collections[other].CopyFrom(items)
    else:
        kind = random.choice(("bytes_list", "node_list", "int64_list", "float_list", "any_list"))
        value: Any = {
            "bytes_list": b"\xff",
            "node_list": random.choice(NAMES),
            "int64_list": -1,
            "float_list": 1.0,
        }
        if kind in value:
            getattr(items, kind).value.append(value[kind])
        else:
            items.any_list.value.add(type_url="x", value=b"\xff")


_COLLECTIONS = (
    "unbound_inputs",
    "saved_model_train_op",
    "variables",
    "while_context",
    "cond_context",
    "queue_runners",
)


def _nodes(random: Random, graph: GraphDef) -> Any:
    """The nodes of the graph, or sometimes those of one of its functions."""
    functions = [each for each in graph.library.function if each.node_def]
    if functions and random.random() < 0.4:
        return random.choice(functions).node_def
    return graph.node


def _node(random: Random, graph: GraphDef) -> NodeDef:
    node: NodeDef = random.choice(_nodes(random, graph))
    return node


def _edge(random: Random, nodes: Any) -> str:
    name = random.choice(nodes).name if random.random() < 0.9 else random.choice(NAMES)
    kind = random.random()
    if kind < 0.2:
        return f"^{name}"
    return f"{name}:{random.choice((0, 1, 2, 7, -1, 2**31, 10**20))}" if kind < 0.5 else str(name)


def _redirect(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    nodes = _nodes(random, graph)
    node = random.choice(nodes)
    if node.input:
        node.input[random.randrange(len(node.input))] = _edge(random, nodes)


def _more_edges(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    nodes = _nodes(random, graph)
    edge = _edge(random, nodes)
    random.choice(nodes).input.extend([edge] * random.choice((1, 1, 2, 30, 1000)))


def _fewer_edges(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    node = _node(random, graph)
    if node.input:
        del node.input[random.randrange(len(node.input))]


def _close_cycle(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    """An input of an ancestor comes from a node below it."""
    nodes = {node.name: node for node in graph.node}
    last = random.choice(graph.node)
    node = last
    for _ in range(random.randrange(1, 9)):
        above = [nodes[name] for text in node.input if (name := text.lstrip("^").partition(":")[0]) in nodes]
        if not above:
            break
        node = random.choice(above)
    if node.input:
        node.input[random.randrange(len(node.input))] = last.name
    else:
        node.input.append(f"^{last.name}")


def _rename(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    nodes = _nodes(random, graph)
    other = random.choice(nodes).name if random.random() < 0.4 else random.choice(NAMES)
    random.choice(nodes).name = other


def _drop(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    nodes = _nodes(random, graph)
    del nodes[random.randrange(len(nodes))]


def _duplicate(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    nodes = _nodes(random, graph)
    made = nodes.add()
    made.CopyFrom(random.choice(nodes))
    made.name = f"{made.name[:99]}_{random.randrange(3)}"


def _reorder(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    nodes = _nodes(random, graph)
    copies = [NodeDef.FromString(node.SerializeToString()) for node in nodes]
    random.shuffle(copies)
    del nodes[:]
    nodes.extend(copies)


def _other_op(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    node = _node(random, graph)
    drawn = random.random()
    if drawn < 0.3:
        node.op = random.choice(FRAME_OPS)
    elif drawn < 0.5 and graph.library.function:
        node.op = random.choice(graph.library.function).signature.name
    else:
        node.op = _node(random, random.choice(corpus)).op


def _place(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    _node(random, graph).device = random.choice(DEVICES)


def _colocate(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    nodes = _nodes(random, graph)
    groups = nodes[random.randrange(len(nodes))].attr["_class"].list.s
    for _ in range(random.choice((1, 2, 200))):
        name = random.choice(nodes).name if random.random() < 0.9 else random.choice(NAMES)
        groups.append(f"loc:@{name}".encode())


def _change_attr(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    node = _node(random, graph)
    if node.attr:
        spoil(random, node.attr[random.choice(sorted(node.attr))])


def _swap_attr(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    """An attribute gets the value that another has."""
    node, other = _node(random, graph), _node(random, random.choice(corpus))
    if node.attr and other.attr:
        name = random.choice(sorted(node.attr))
        source = name if name in other.attr and random.random() < 0.7 else random.choice(sorted(other.attr))
        node.attr[name].CopyFrom(other.attr[source])


def _drop_attr(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    node = _node(random, graph)
    if node.attr:
        del node.attr[random.choice(sorted(node.attr))]


def _add_attr(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    node = _node(random, graph)
    name = random.choice(
        ("_class", "_output_shapes", "_handle_shape", "_x", "T", "N", "x", "", "_gradient_op_type")
    )
    random.choice(_VALUES)(random, node.attr[name])


def _tensor(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    constants = [node for node in graph.node if node.attr.get("value", AttrValue()).HasField("tensor")]
    if constants:
        _spoil_tensor(random, random.choice(constants).attr["value"].tensor)


def _versions(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    number = random.choice((-(2**31), -1, 0, 1, 8, 21, 134, 135, 2**31 - 1))
    if random.random() < 0.3:
        graph.versions.bad_consumers.append(number)
    else:
        setattr(graph.versions, random.choice(("producer", "min_consumer")), number)


def _frame(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    """Enter and Exit in the middle of an edge, or an attribute of a frame of another value."""
    enters = [node for node in graph.node if "frame_name" in node.attr]
    if enters and random.random() < 0.5:
        node = random.choice(enters)
        node.attr["frame_name"].s = random.choice(
            (b"", b"other", b"\xff", b"while/while_context", b"f" * 3000)
        )
        node.attr["parallel_iterations"].i = random.choice((10, 0, -1, 1, *_INT64))
        return
    consumer = _node(random, graph)
    typed = [each for each in graph.node if each.attr.get("T", AttrValue()).type]
    if not consumer.input or not typed:
        return
    made = graph.node.add(name=f"frame_{len(graph.node)}", op=random.choice(FRAME_OPS[:4]))
    made.input.append(consumer.input[0].lstrip("^"))
    made.attr["T"].CopyFrom(random.choice(typed).attr["T"])
    if made.op == "Enter":
        made.attr["frame_name"].s = b"new"
    if made.op == "Merge":
        made.input.append(random.choice(typed).name)
        made.attr["N"].i = 2
    consumer.input[0] = made.name


def _function(random: Random, graph: GraphDef, corpus: Sequence[GraphDef]) -> None:
    """Change what a function is: what it calls, returns, takes; or let it be another's gradient."""
    functions = graph.library.function
    if not functions:
        donors = [each for each in corpus if each.library.function]
        graph.library.CopyFrom(random.choice(donors).library)
        return
    proto = random.choice(functions)
    random.choice(_FUNCTION_EDITS)(random, graph, proto)


def _call_another(random: Random, graph: GraphDef, proto: FunctionDef) -> None:
    name = random.choice(graph.library.function).signature.name
    called = proto.node_def.add(name=f"call_{len(proto.node_def)}", op=name)
    called.input.extend(arg.name for arg in proto.signature.input_arg)


def _call_by_attr(random: Random, graph: GraphDef, proto: FunctionDef) -> None:
    name = random.choice(graph.library.function).signature.name
    for node in (*proto.node_def, *graph.node):
        for held in node.attr.values():
            if held.HasField("func"):
                held.func.name = name


def _return_another(random: Random, graph: GraphDef, proto: FunctionDef) -> None:
    for key in sorted(proto.ret):
        proto.ret[key] = random.choice(("", "x", "x:y:0", "a:b:c:d", f"{_edge(random, graph.node)}:z:0"))


def _other_signature(random: Random, graph: GraphDef, proto: FunctionDef) -> None:
    args = random.choice((proto.signature.input_arg, proto.signature.output_arg))
    drawn = random.random()
    if drawn < 0.3 and args:
        del args[random.randrange(len(args))]
    elif drawn < 0.6 and args:
        arg = random.choice(args)
        arg.type = random.choice((0, 1, 3, 7, 21, 101))  # type: ignore[assignment]  # enum numbers
        arg.number_attr = random.choice(("", "N", "T"))
    elif drawn < 0.8:
        attr = proto.signature.attr.add(
            name=random.choice(("T", "N", "")), type=random.choice(("type", "int", "x"))
        )
        random.choice(_VALUES)(random, attr.default_value)
    else:
        proto.signature.name = random.choice((*NAMES, "Add", graph.library.function[0].signature.name))


def _gradient_def(random: Random, graph: GraphDef, proto: FunctionDef) -> None:
    other = random.choice(graph.library.function).signature.name if random.random() < 0.8 else "none"
    graph.library.gradient.add(function_name=proto.signature.name, gradient_func=other)


_FUNCTION_EDITS: tuple[Callable[[Random, GraphDef, FunctionDef], None], ...] = (
    _call_another,
    _call_by_attr,
    _return_another,
    _other_signature,
    _gradient_def,
)


def spoil(random: Random, held: AttrValue) -> None:
    """Give an attribute another value of its kind, or one of another kind."""
    kind = held.WhichOneof("value")
    if kind == "tensor" and random.random() < 0.8:
        _spoil_tensor(random, held.tensor)
    elif kind in _OF_KIND and random.random() < 0.7:
        _OF_KIND[kind](random, held)
    elif kind == "list" and random.random() < 0.7:
        for field, items in held.list.ListFields():
            drawn = random.random()
            if drawn < 0.3:
                del items[random.randrange(len(items))]
            elif drawn < 0.8 or field.name in ("shape", "tensor", "func"):
                items.extend(list(items) * random.choice((1, 2, 500)))
            else:
                del items[:]
    else:
        random.choice(_VALUES)(random, held)


def _set_int(random: Random, held: AttrValue) -> None:
    held.i = random.choice(_INT64) if random.random() < 0.6 else random.randrange(-4, 9)


def _set_shape(random: Random, held: AttrValue) -> None:
    held.shape.SetInParent()
    del held.shape.dim[:]
    _spoil_shape(random, held.shape)


def _set_func(random: Random, held: AttrValue) -> None:
    """A function called with functions, nested."""
    held.func.name = random.choice(NAMES)
    func = held.func
    for _ in range(random.choice((0, 1, 5, 20, 90))):
        func = func.attr["f"].func
        func.name = random.choice(NAMES)


def _set_list(random: Random, held: AttrValue) -> None:
    count = random.choice((0, 1, 3, 2000))
    field = random.choice(("s", "i", "f", "b", "type", "shape", "func"))
    items = getattr(held.list, field)
    held.list.SetInParent()
    if field == "shape":
        for _ in range(min(count, 100)):
            _spoil_shape(random, items.add())
    elif field == "func":
        items.extend([NameAttrList(name=random.choice(NAMES))] * count)
    else:
        items.extend(
            [{"s": b"\xff", "type": random.choice((1, 3, 999))}.get(field, random.randrange(2))] * count
        )


_OF_KIND: dict[str, Callable[[Random, AttrValue], None]] = {
    "i": _set_int,
    "f": lambda random, held: setattr(
        held, "f", random.choice((float("nan"), float("inf"), -1.0, 0.0, 1e38))
    ),
    "b": lambda random, held: setattr(held, "b", not held.b),
    "s": lambda random, held: setattr(
        held, "s", random.choice((b"", b"\xff", b"a" * 5000, b"SAME", b"loc:@a"))
    ),
    "type": lambda random, held: setattr(
        held, "type", random.choice((0, 1, 2, 3, 7, 9, 14, 20, 21, 101, 107, 99))
    ),
    "shape": _set_shape,
    "func": _set_func,
}
_VALUES: tuple[Callable[[Random, AttrValue], None], ...] = (
    *_OF_KIND.values(),
    _set_list,
    lambda random, held: setattr(held, "placeholder", random.choice(("T", "N", ""))),
    lambda random, held: _spoil_tensor(random, held.tensor),
)


def _spoil_shape(random: Random, shape: Any) -> None:
    if random.random() < 0.1:
        shape.unknown_rank = True
    for _ in range(random.choice((0, 1, 1, 2, 3, 70, 300, 3000))):
        shape.dim.add(size=random.choice((-2, -1, 0, 1, 1, 2, 3, *_INT64)))


def _spoil_tensor(random: Random, tensor: Any) -> None:
    drawn = random.random()
    if drawn < 0.3:
        del tensor.tensor_shape.dim[:]
        _spoil_shape(random, tensor.tensor_shape)
    elif drawn < 0.6:  # few elements stand for many
        del tensor.tensor_shape.dim[:]
        for size in random.choice(
            ((2**40,), (2**24,), (2**26,), (2**20, 2**20), (2**30,), (1000, 1000), (2**22,))
        ):
            tensor.tensor_shape.dim.add(size=size)
        tensor.tensor_content = b""
        if tensor.dtype == 7:
            del tensor.string_val[1:]
        elif random.random() < 0.8:
            del tensor.float_val[1:]
            del tensor.int_val[1:]
    elif drawn < 0.8:
        tensor.dtype = random.choice((0, 1, 2, 3, 7, 9, 14, 20, 21, 101, 99))
    else:
        tensor.tensor_content = random.choice((b"", b"\xff" * 7, b"\x01" * 16, tensor.tensor_content[:-1]))


_EDITS: tuple[Callable[[Random, GraphDef, Sequence[GraphDef]], None], ...] = (
    _redirect,
    _redirect,
    _more_edges,
    _fewer_edges,
    _close_cycle,
    _rename,
    _drop,
    _duplicate,
    _reorder,
    _other_op,
    _other_op,
    _place,
    _colocate,
    _change_attr,
    _change_attr,
    _change_attr,
    _swap_attr,
    _drop_attr,
    _add_attr,
    _tensor,
    _tensor,
    _versions,
    _frame,
    _frame,
    _function,
    _function,
)
