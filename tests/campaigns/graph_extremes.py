"""GraphDefs that are extreme in one way: few bytes that expand to much, or very many of one element."""

from __future__ import annotations

from collections.abc import Callable

from google.protobuf import text_format

from aioexec.formats.protos import AttrValue, FunctionDef, GraphDef, NodeDef
from tests.graph.written import (
    FLOAT,
    INT32,
    STRING,
    graph_def,
    neg,
    no_op,
    node,
    of_type,
    placeholder,
    splat,
)

MANY = 20_000


def of(op: str, name: str, *inputs: str, **attrs: AttrValue) -> NodeDef:
    made = node(name, op, inputs)
    for key, held in attrs.items():
        made.attr[key].CopyFrom(held)
    return made


def enter(name: str, source: str, frame: str) -> NodeDef:
    return node(name, "Enter", [source], T=of_type(FLOAT), frame_name=AttrValue(s=frame.encode()))


def merge(name: str, *inputs: str, dtype: int = FLOAT) -> NodeDef:
    return node(name, "Merge", inputs, T=of_type(dtype), N=AttrValue(i=len(inputs)))


def chain() -> GraphDef:
    return graph_def(placeholder("n0"), *(neg(f"n{k}", f"n{k - 1}") for k in range(1, MANY)))


def control_chain() -> GraphDef:
    return graph_def(no_op("n0"), *(no_op(f"n{k}", f"^n{k - 1}") for k in range(1, MANY)))


def constant_chain() -> GraphDef:
    return graph_def(splat("n0", FLOAT, 2), *(neg(f"n{k}", f"n{k - 1}") for k in range(1, MANY)))


def chain_backwards() -> GraphDef:
    nodes = [placeholder("n0"), *(neg(f"n{k}", f"n{k - 1}") for k in range(1, MANY))]
    return graph_def(*reversed(nodes))


def cycle() -> GraphDef:
    return graph_def(*(neg(f"n{k}", f"n{(k - 1) % MANY}") for k in range(MANY)))


def star() -> GraphDef:
    return graph_def(placeholder("n0"), *(neg(f"n{k}", "n0") for k in range(1, MANY)))


def many_inputs() -> GraphDef:
    add = of("AddN", "sum", *["x"] * MANY, T=of_type(FLOAT), N=AttrValue(i=MANY))
    return graph_def(placeholder("x"), add)


def many_controls() -> GraphDef:
    return graph_def(*(no_op(f"n{k}") for k in range(MANY)), no_op("all", *(f"^n{k}" for k in range(MANY))))


def dense_controls() -> GraphDef:
    """Each node waits for all before it."""
    return graph_def(*(no_op(f"n{k}", *(f"^n{i}" for i in range(k))) for k in range(300)))


def many_back_edges() -> GraphDef:
    nexts = [of("NextIteration", f"n{k}", "m", T=of_type(FLOAT)) for k in range(10_000)]
    return graph_def(
        placeholder("x"), enter("e", "x", "f"), merge("m", "e", *(each.name for each in nexts)), *nexts
    )


def nested_frames() -> GraphDef:
    nodes = [placeholder("n0")]
    nodes += [enter(f"n{k}", f"n{k - 1}", f"frame{k}") for k in range(1, 5000)]
    return graph_def(*nodes)


def unmatched_exits() -> GraphDef:
    return graph_def(
        placeholder("n0"), *(of("Exit", f"n{k}", f"n{k - 1}", T=of_type(FLOAT)) for k in range(1, 1000))
    )


def many_switches() -> GraphDef:
    """Conditionals inside each other."""
    nodes = [placeholder("n0"), placeholder("p", 10)]
    nodes += [of("Switch", f"n{k}", f"n{k - 1}:1", "p", T=of_type(FLOAT)) for k in range(2, 3000)]
    nodes.insert(2, of("Switch", "n1", "n0", "p", T=of_type(FLOAT)))
    return graph_def(*nodes)


def merged_switches() -> GraphDef:
    nodes = [placeholder("n0"), placeholder("p", 10)]
    for k in range(1, 3000):
        nodes.append(of("Switch", f"s{k}", f"n{k - 1}", "p", T=of_type(FLOAT)))
        nodes.append(merge(f"n{k}", f"s{k}", f"s{k}:1"))
    return graph_def(*nodes)


def colocated_in_a_ring() -> GraphDef:
    def group(k: int) -> AttrValue:
        return AttrValue(list=AttrValue.ListValue(s=[f"loc:@n{(k + 1) % 5000}".encode()]))

    return graph_def(*(no_op(f"n{k}", _class=group(k)) for k in range(5000)))


def colocated_with_all() -> GraphDef:
    groups = AttrValue(list=AttrValue.ListValue(s=[f"loc:@n{k}".encode() for k in range(300)]))
    return graph_def(*(no_op(f"n{k}", _class=groups) for k in range(300)))


def long_shape() -> GraphDef:
    held = AttrValue()
    for _ in range(MANY):
        held.shape.dim.add(size=1)
    return graph_def(placeholder("x", shape=held))


def huge_dims() -> GraphDef:
    held = AttrValue()
    for _ in range(3):
        held.shape.dim.add(size=2**62)
    return graph_def(placeholder("x", shape=held))


def added_dims() -> GraphDef:
    """Dimensions beyond 64 bits, by concatenation."""
    held = AttrValue()
    held.shape.dim.add(size=2**62)
    nodes = [placeholder("x", shape=held), splat("axis", INT32, element=0)]
    pair = {"T": of_type(FLOAT), "N": AttrValue(i=2), "Tidx": of_type(INT32)}
    nodes += [of("ConcatV2", f"c{k}", *[f"c{k - 1}" if k else "x"] * 2, "axis", **pair) for k in range(40)]
    return graph_def(*nodes)


def doubled_shapes() -> GraphDef:
    """Vectors that double in length, the last one a shape."""
    nodes = [splat("x", INT32, 1), splat("axis", INT32, element=0)]
    pair = {"T": of_type(INT32), "N": AttrValue(i=2), "Tidx": of_type(INT32)}
    nodes += [of("ConcatV2", f"c{k}", *[f"c{k - 1}" if k else "x"] * 2, "axis", **pair) for k in range(30)]
    nodes += [
        of("Fill", f"f{k}", f"c{k}", "axis", T=of_type(INT32), index_type=of_type(INT32)) for k in range(30)
    ]
    return graph_def(*nodes)


def deep_rank() -> GraphDef:
    nodes = [placeholder("x", shape=AttrValue(shape={})), splat("axis", INT32, element=0)]
    attrs = {"T": of_type(FLOAT), "Tdim": of_type(INT32)}
    nodes += [of("ExpandDims", f"e{k}", f"e{k - 1}" if k else "x", "axis", **attrs) for k in range(1000)]
    return graph_def(*nodes)


def splats_beyond_memory() -> GraphDef:
    return graph_def(splat("x", FLOAT, 2**40))


def splat_of_gigabytes() -> GraphDef:
    return graph_def(splat("x", FLOAT, 2**30), neg("y", "x"))


def splats_of_strings() -> GraphDef:
    return graph_def(*(splat(f"s{k}", STRING, 2**25) for k in range(20)))


def many_splats() -> GraphDef:
    return graph_def(*(splat(f"s{k}", FLOAT, 2**14) for k in range(MANY)))


def half_listed() -> GraphDef:
    return graph_def(*(splat(f"s{k}", FLOAT, 2**25, elements=2) for k in range(20)))


def splats_as_axes() -> GraphDef:
    attrs = {"T": of_type(FLOAT), "Tidx": of_type(INT32), "keep_dims": AttrValue(b=False)}
    nodes = [splat("axes", INT32, 2**30), splat("listed", INT32, 2**16 - 1), splat("x", FLOAT, 2, 2)]
    nodes += [of("Sum", f"s{k}", "x", "listed" if k else "axes", **attrs) for k in range(500)]
    return graph_def(*nodes)


def splats_as_shapes() -> GraphDef:
    attrs = {"T": of_type(FLOAT), "Tshape": of_type(INT32)}
    nodes = [splat("shape", INT32, 2**29), splat("x", FLOAT, 2, 2)]
    return graph_def(*nodes, of("Reshape", "r", "x", "shape", **attrs))


def long_lists() -> GraphDef:
    held = AttrValue(list=AttrValue.ListValue(type=[FLOAT] * 100_000))  # type: ignore[list-item]  # enum numbers
    return graph_def(
        of("IdentityN", "x", T=held),
        no_op("y", _x=AttrValue(list=AttrValue.ListValue(i=range(100_000)))),
    )


def nested_names() -> GraphDef:
    return graph_def(*(no_op("/".join(["a"] * 200) + f"/n{k}") for k in range(300)))


def one_long_name() -> GraphDef:
    return graph_def(no_op("a/" * 100_000 + "b"))


def numbered_names() -> GraphDef:
    return graph_def(*(no_op("n" if k == 0 else f"n_{k}") for k in range(MANY)))


def _function(name: str, *nodes: NodeDef, ret: str, attrs: str = "") -> FunctionDef:
    proto = text_format.Parse(
        f'signature {{ name: "{name}" input_arg {{ name: "a" type: DT_FLOAT }} '
        f'output_arg {{ name: "r" type: DT_FLOAT }} {attrs} }} ret {{ key: "r" value: "{ret}" }}',
        FunctionDef(),
    )
    proto.node_def.extend(nodes)
    return proto


def _called(graph: GraphDef, name: str, **attrs: AttrValue) -> GraphDef:
    graph.node.extend([placeholder("x", shape=_shape(2)), of(name, "call", "x", **attrs)])
    graph.versions.producer = 134
    return graph


def _shape(*sizes: int) -> AttrValue:
    held = AttrValue()
    held.shape.SetInParent()
    for size in sizes:
        held.shape.dim.add(size=size)
    return held


_LEAF = _function("f0", neg("n", "a"), ret="n:y:0")


def _levels(level: Callable[[int], FunctionDef], count: int = 40, leaf: FunctionDef = _LEAF) -> GraphDef:
    graph = GraphDef()
    graph.library.function.extend([leaf, *(level(k) for k in range(1, count))])
    return graph


def doubling_functions() -> GraphDef:
    """Each calls the one before it twice."""

    def level(k: int) -> FunctionDef:
        calls = (of(f"f{k - 1}", "one", "a"), of(f"f{k - 1}", "two", "one:r:0"))
        return _function(f"f{k}", *calls, ret="two:r:0")

    return _called(_levels(level), "f39")


def functions_of_doubling_shapes() -> GraphDef:
    """Each calls the one before it with two shapes."""

    def level(k: int) -> FunctionDef:
        pair = {"T": of_type(FLOAT), "N": AttrValue(i=2), "Tidx": of_type(INT32)}
        return _function(
            f"f{k}",
            splat("axis", INT32, element=0),
            of("ConcatV2", "both", "a", "a", "axis:output:0", **pair),
            of(f"f{k - 1}", "one", "a"),
            of(f"f{k - 1}", "two", "both:output:0"),
            ret="one:r:0",
        )

    return _called(_levels(level), "f39")


def functions_of_doubling_attributes() -> GraphDef:
    """Each sets one of 14 attributes to 0 for one call, to 1 for another, and hands the others on."""
    names = [f"b{k}" for k in range(14)]
    attrs = " ".join(f'attr {{ name: "{name}" type: "int" }}' for name in names)

    def call(k: int, name: str, source: str, value: int) -> NodeDef:
        given = {each: AttrValue(placeholder=each) for each in names}
        given[f"b{k - 1}"] = AttrValue(i=value)
        return of(f"f{k - 1}", name, source, **given)

    def level(k: int) -> FunctionDef:
        calls = (call(k, "one", "a", 0), call(k, "two", "one:r:0", 1))
        return _function(f"f{k}", *calls, ret="two:r:0", attrs=attrs)

    leaf = _function("f0", neg("n", "a"), ret="n:y:0", attrs=attrs)
    return _called(_levels(level, 15, leaf), "f14", **{name: AttrValue(i=0) for name in names})


def attributes_that_double() -> GraphDef:
    """Each calls the one before it with its attribute twice in one."""
    attr = 'attr { name: "g" type: "func" }'

    def level(k: int) -> FunctionDef:
        held = AttrValue()
        for name in ("g", "h"):
            held.func.attr[name].placeholder = "g"
        return _function(f"f{k}", of(f"f{k - 1}", "one", "a", g=held), ret="one:r:0", attrs=attr)

    leaf = _function("f0", neg("n", "a"), ret="n:y:0", attrs=attr)
    held = AttrValue()
    held.func.name = "z"
    return _called(_levels(level, leaf=leaf), "f39", g=held)


def deep_functions() -> GraphDef:
    def level(k: int) -> FunctionDef:
        return _function(f"f{k}", of(f"f{k - 1}", "one", "a"), ret="one:r:0")

    return _called(_levels(level, 10_000), "f9999")


def recursive_functions() -> GraphDef:
    graph = GraphDef()
    graph.library.function.extend(
        [
            _function("f", of("g", "n", "a"), ret="n:r:0"),
            _function("g", of("f", "n", "a"), ret="n:r:0"),
        ]
    )
    return _called(graph, "f")


def wide_function_outputs() -> GraphDef:
    """A function returns one list of an output again and again."""
    graph = GraphDef()
    held = {"T": of_type(FLOAT), "num": AttrValue(i=60_000)}
    graph.library.function.append(
        _function("f", *(of("Unpack", f"n{k}", "a", **held) for k in range(50)), ret="n0:output:0")
    )
    return _called(graph, "f")


def many_outputs() -> GraphDef:
    held = {"T": of_type(FLOAT), "num": AttrValue(i=60_000)}
    return graph_def(placeholder("x"), *(of("Unpack", f"n{k}", "x", **held) for k in range(50)))


EXTREMES: tuple[Callable[[], GraphDef], ...] = (
    chain,
    control_chain,
    constant_chain,
    chain_backwards,
    cycle,
    star,
    many_inputs,
    many_controls,
    dense_controls,
    many_back_edges,
    nested_frames,
    unmatched_exits,
    many_switches,
    merged_switches,
    colocated_in_a_ring,
    colocated_with_all,
    long_shape,
    huge_dims,
    added_dims,
    doubled_shapes,
    deep_rank,
    splats_beyond_memory,
    splat_of_gigabytes,
    splats_of_strings,
    many_splats,
    half_listed,
    splats_as_axes,
    splats_as_shapes,
    long_lists,
    nested_names,
    one_long_name,
    numbered_names,
    doubling_functions,
    functions_of_doubling_shapes,
    functions_of_doubling_attributes,
    attributes_that_double,
    deep_functions,
    recursive_functions,
    wide_function_outputs,
    many_outputs,
)
