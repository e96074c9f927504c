"""Imports mutants of GraphDefs and MetaGraphDefs, and plans what was accepted.

    python -m tests.campaigns.graphs [--first SEED] [--count N] [--limit SECONDS]

A mutant is refused with an error of the API, or imported, exported and imported again; each within the bounds of
`mutants.bounded`. In every tenth case, what was accepted is also placed and planned by a session, and run with a deadline.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from random import Random
from typing import Any

from google.protobuf.message import DecodeError

import aioexec as ax
from aioexec import errors
from aioexec.formats.protos import AttrValue, GraphDef, MetaGraphDef, NodeDef
from aioexec.formats.tensor_codec import decode_tensor, encode_tensor
from tests.campaigns import campaign, mutants
from tests.campaigns.graph_corpus import graphs, meta_graphs

EXPECTED = (ValueError, TypeError, errors.OpError)
"""Those of `import_graph_def`; the classes of Python are the bases of GraphValueError and GraphTypeError."""
FOREIGN = (UnicodeError,)
"""Subclasses of what is expected that are none of ours."""
RUN_EVERY = 10
DEADLINE_MS = 500
RUN_SECONDS = 2.0
"""For three nodes: planning, the deadline of each, and what kernels compute on workers until they see it."""


def case(seed: int) -> str | None:
    """Import one mutant."""
    random = Random(seed)
    if random.random() < 0.1:
        data = mutants.mutant(random, meta_graphs())
        return mutants.bounded(lambda: _import_meta_graph(data), EXPECTED, len(data))
    corpus = graphs()
    if random.random() < 0.2:  # few of these can be parsed
        data = mutants.mutant(random, corpus)
    else:
        proto = GraphDef.FromString(random.choice(corpus))
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            random.choice(_CHANGES)(random, proto)
        data = proto.SerializeToString()
    wrong = mutants.bounded(lambda: _import(data), EXPECTED, len(data))
    if wrong is None and seed % RUN_EVERY == 0:
        wrong = mutants.bounded(lambda: asyncio.run(_run(data)), EXPECTED, len(data), RUN_SECONDS)
    return wrong


def _import(data: bytes) -> ax.Graph | None:
    """Import a GraphDef, and what is exported of the graph; return the graph, or None if these are not bytes of one."""
    try:
        proto = GraphDef.FromString(data)
    except DecodeError:
        return None
    with ax.Graph().as_default() as graph:
        _own(lambda: ax.import_graph_def(proto, name=""))
    exported = graph.as_graph_def()
    with ax.Graph().as_default() as again:
        ax.import_graph_def(exported, name="")
    assert len(again.get_operations()) == len(graph.get_operations()), "nodes were lost"
    return graph


def _import_meta_graph(data: bytes) -> None:
    try:
        proto = MetaGraphDef.FromString(data)
    except DecodeError:
        return
    with ax.Graph().as_default():
        _own(lambda: ax.train.import_meta_graph(proto))


def _own(call: Callable[[], object]) -> None:
    try:
        call()
    except FOREIGN as error:
        raise AssertionError(f"a foreign exception: {error!r}") from error


async def _run(data: bytes) -> None:
    """Run up to three nodes of an accepted graph that need no feed, on a worker, with a deadline."""
    graph = _import(data)
    if graph is None:
        return
    config = ax.ConfigProto()
    config.operation_timeout_in_ms = DEADLINE_MS
    async with ax.Session(graph=graph, config=config) as session:
        for operation in graph.get_operations()[-3:]:
            try:
                _ = await session.run(operation)
            except errors.OpError:
                continue


# Changes of structure


def _node(random: Random, proto: GraphDef) -> NodeDef:
    nodes = [*proto.node, *(node for function in proto.library.function for node in function.node_def)]
    return random.choice(nodes) if nodes else proto.node.add()


def _tensor_names(random: Random, proto: GraphDef) -> str:
    name = _node(random, proto).name
    port = random.choice(("", ":1", ":0", ":7", ":99999999999999999999", ":-1", ":", ":output:0", ":1:1"))
    return random.choice(("", "", "", "^", "^^")) + name + port


def _redirect(random: Random, proto: GraphDef) -> None:
    """An input comes from anywhere: itself, behind it, a missing output."""
    node = _node(random, proto)
    text = _tensor_names(random, proto)
    if node.input and random.random() < 0.8:
        node.input[random.randrange(len(node.input))] = text
    else:
        node.input.append(text)


def _rename(random: Random, proto: GraphDef) -> None:
    node = _node(random, proto)
    node.name = random.choice(
        (_node(random, proto).name, "", "/", "a//b", "^a", "a:0", "_", "\u00e9", "x" * 5000, "a b")
    )


def _remove(random: Random, proto: GraphDef) -> None:
    if proto.node:
        del proto.node[random.randrange(len(proto.node))]


def _duplicate(random: Random, proto: GraphDef) -> None:
    node = proto.node.add()
    node.CopyFrom(_node(random, proto))
    if random.random() < 0.7:
        node.name = f"{node.name}_again"


def _change_op(random: Random, proto: GraphDef) -> None:
    names = (
        *(
            "Merge",
            "Switch",
            "Enter",
            "Exit",
            "NextIteration",
            "LoopCond",
            "While",
            "If",
            "Case",
            "PartitionedCall",
            "Placeholder",
        ),
        *(
            "Identity",
            "Const",
            "NoOp",
            "SymbolicGradient",
            "_Arg",
            "_Retval",
            "_Send",
            "_Recv",
            "VariableV2",
            "VarHandleOp",
        ),
        *(
            "StatefulPartitionedCall",
            "StatelessWhile",
            "RefMerge",
            "RefEnter",
            "IdentityN",
            "Missing",
            "",
            "FIFOQueueV2",
            "Fill",
        ),
    )
    _node(random, proto).op = random.choice((*names, _node(random, proto).op))


def _change_attr(random: Random, proto: GraphDef) -> None:
    node = _node(random, proto)
    if not node.attr or random.random() < 0.1:
        name = random.choice(
            ("T", "N", "dtype", "_class", "_output_shapes", "shape", "value", "f", "Tout", "frame_name")
        )
    else:
        name = random.choice(sorted(node.attr))
    node.attr[name].CopyFrom(_attr(random, proto))


def _swap_attrs(random: Random, proto: GraphDef) -> None:
    first, second = _node(random, proto), _node(random, proto)
    if first.attr and second.attr:
        first.attr[random.choice(sorted(first.attr))].CopyFrom(
            second.attr[random.choice(sorted(second.attr))]
        )


def _attr(random: Random, proto: GraphDef) -> AttrValue:
    attr = AttrValue()
    kind = random.choice(
        ("i", "f", "b", "s", "type", "shape", "tensor", "func", "placeholder", "list", "nothing")
    )
    number = random.choice(mutants.NUMBERS)
    if kind == "i":
        attr.i = random.choice((-1, number - 2**63))
    elif kind == "f":
        attr.f = random.choice((float("nan"), float("inf"), -1.0, 1e38))
    elif kind == "b":
        attr.b = bool(random.randrange(2))
    elif kind == "s":
        attr.s = random.choice(
            (b"", b"\xff", b"loc:@", b"loc:@" + _node(random, proto).name.encode(), b"x" * 10**5)
        )
    elif kind == "type":
        attr.type = random.choice((0, 1, 2, 3, 7, 20, 21, 101, 107, 999, -1))  # type: ignore[assignment]
    elif kind == "shape":
        _set_shape(random, attr.shape)
    elif kind == "tensor":
        _set_tensor(random, attr.tensor)
    elif kind == "func":
        _set_function(random, proto, attr, random.choice((0, 1, 40)))
    elif kind == "placeholder":
        attr.placeholder = random.choice(("T", "", "missing"))
    elif kind == "list":
        _set_list(random, proto, attr)
    return attr


def _set_shape(random: Random, shape: Any) -> None:
    if random.random() < 0.2:
        shape.unknown_rank = True
    for _ in range(random.choice((0, 1, 2, 3, 300))):
        shape.dim.add(size=random.choice((-1, -2, 0, 1, 3, 2**31, 2**62, 2**63 - 1, -(2**63))))


def _set_tensor(random: Random, tensor: Any) -> None:
    """Among others: one value that stands for 2^40 equal ones."""
    tensor.dtype = random.choice((1, 3, 7, 10, 9, 14, 20, 21, 0, 99))
    for _ in range(random.choice((0, 1, 2, 3))):
        tensor.tensor_shape.dim.add(size=random.choice((0, 1, 2, 2**10, 2**20, 2**40, -1, 2**62)))
    match random.randrange(5):
        case 0:
            tensor.float_val.append(1.0)
        case 1:
            tensor.int_val.extend([random.choice((1, -(2**31)))] * random.choice((1, 2, 100)))
        case 2:
            tensor.tensor_content = random.randbytes(random.choice((1, 4, 8, 100)))
        case 3:
            tensor.string_val.append(b"x")
        case _:
            pass


def _set_function(random: Random, proto: GraphDef, attr: AttrValue, depth: int) -> None:
    names = [function.signature.name for function in proto.library.function] or ["missing"]
    function = attr.func
    function.name = random.choice((*names, *names, "missing", ""))
    for _ in range(depth):
        function = function.attr["f"].func
        function.name = random.choice(names)


def _set_list(random: Random, proto: GraphDef, attr: AttrValue) -> None:
    count = random.choice((0, 1, 2, 3, 1000))
    attr.list.SetInParent()
    match random.randrange(6):
        case 0:
            attr.list.i.extend([random.choice((1, -1, 2**62))] * count)
        case 1:
            attr.list.s.extend([b"loc:@" + _node(random, proto).name.encode()] * count)
        case 2:
            attr.list.type.extend([random.choice((1, 3, 20, 21, 200))] * count)  # type: ignore[list-item]
        case 3:
            for _ in range(min(count, 3)):
                _set_shape(random, attr.list.shape.add())
        case 4:
            for _ in range(min(count, 3)):
                _set_tensor(random, attr.list.tensor.add())
        case _:
            for _ in range(min(count, 3)):
                attr.list.func.add(name="twice")


def _change_device(random: Random, proto: GraphDef) -> None:
    devices = (
        "/",
        "/job:",
        "/device:CPU:-1",
        "/device:CPU:99999999999999999999",
        "//",
        "/cpu:*",
        "/job:\u00e9/task:x",
        "x" * 10**4,
    )
    _node(random, proto).device = random.choice((*devices, "/job:worker/task:5", "/gpu:0"))


def _change_version(random: Random, proto: GraphDef) -> None:
    proto.versions.producer = random.choice((0, 5, 20, 100, 2**31 - 1, -1))
    proto.versions.min_consumer = random.choice((0, 0, 0, 2**31 - 1, -1))


def _change_library(random: Random, proto: GraphDef) -> None:
    """Functions that call themselves, are defined twice, have outputs that are missing, or gradients of what there is not."""
    library = proto.library
    if not library.function:
        return
    function = random.choice(library.function)
    match random.randrange(6):
        case 0:
            for node in function.node_def:
                node.op = random.choice(library.function).signature.name
        case 1:
            library.function.add().CopyFrom(function)
        case 2:
            function.signature.name = random.choice(
                (random.choice(library.function).signature.name, "", "Add")
            )
        case 3:
            for name in function.ret:
                function.ret[name] = random.choice(("missing:z:0", "x", "", ":", "a:b:99999999999"))
        case 4:
            library.gradient.add(
                function_name=function.signature.name,
                gradient_func=random.choice(library.function).signature.name,
            )
        case _:
            function.signature.input_arg.add(name="more", type_list_attr="Tin", number_attr="N")


def _splat(random: Random, proto: GraphDef) -> None:
    """A constant becomes one of many equal elements, which take the memory of one."""
    constants = [node for node in proto.node if node.op == "Const" and node.attr["value"].tensor.dtype != 7]
    if not constants:
        return
    tensor = random.choice(constants).attr["value"].tensor
    value = decode_tensor(tensor).reshape(-1)[:1]
    tensor.CopyFrom(encode_tensor(value, None))
    if tensor.tensor_content:
        return  # encoded as bytes, which stand for themselves
    del tensor.tensor_shape.dim[:]
    for size in random.choice(([2**22], [2**24], [2**20, 2], [2**28], [1, 2**22], [2**40], [2**14])):
        tensor.tensor_shape.dim.add(size=size)


def _chain(random: Random, proto: GraphDef) -> None:
    """A long chain of nodes, in order or against it."""
    name, count = _node(random, proto).name, random.choice((100, 300))
    nodes = []
    for k in range(count):
        node = NodeDef(name=f"chain_{k}", op="Identity", input=[name])
        node.attr["T"].type = 1  # type: ignore[assignment]  # enum numbers are ints here
        name = node.name
        nodes.append(node)
    proto.node.extend(reversed(nodes) if random.random() < 0.5 else nodes)


def _double(random: Random, proto: GraphDef) -> None:
    """Functions of which each calls the one before twice: 2^40 nodes if they were inlined."""
    functions = {function.signature.name: function for function in proto.library.function}
    if "four_times" not in functions:
        return
    name = "twice"
    for k in range(40):
        function = proto.library.function.add()
        function.CopyFrom(functions["four_times"])
        for node in function.node_def:
            if node.op == "twice":
                node.op = name
            for held in node.attr.values():
                if held.func.name == "twice":
                    held.func.name = name
        name = function.signature.name = f"doubled_{k}"
    for node in proto.node:
        if node.op == "four_times":
            node.op = name
        for held in node.attr.values():
            if held.HasField("func") and held.func.name == "four_times":
                held.func.name = name


_CHANGES = (
    *(
        _redirect,
        _redirect,
        _redirect,
        _rename,
        _remove,
        _duplicate,
        _change_op,
        _change_op,
        _change_attr,
        _change_attr,
    ),
    *(
        _change_attr,
        _swap_attrs,
        _swap_attrs,
        _change_device,
        _change_version,
        _change_library,
        _change_library,
        _chain,
        _double,
    ),
)

warnings.simplefilter("ignore")  # of what is deprecated, or was newer than this library

if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
