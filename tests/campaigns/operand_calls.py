"""Calls: an op with its operands and attributes, as trees that can be mutated and then built as a graph.

They are taken from the tables of op tests, from the tables of the parity tests, or made from the signature of an op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from aioexec import dtypes as dt
from aioexec.dtypes import DType
from aioexec.graph import registry
from aioexec.graph.opdef import ArgDef, OpDef
from tests.campaigns.hostile_values import (
    Array,
    mutated,
    mutated_attr,
    random_array,
    random_attr,
    with_hostile_elements,
)
from tests.interop.parity.table import AS_VALUE, Back, Feed, Function, Node, Output, dtype_of
from tests.ops import harness

KNOWN, PARTLY, UNKNOWN, CONSTANT = "known", "partly", "unknown", "constant"
"""Static knowledge of an operand: its shape, its rank, nothing, its content."""


class NoCallError(Exception):
    """A table row that cannot be built without TensorFlow, or is no single call."""


@dataclass(eq=False)
class Leaf:
    """An operand; `later` is its content in later rounds, where the call is in a loop."""

    value: Array
    static: str = KNOWN
    later: Array | None = None


@dataclass(eq=False)
class Out:
    """An output of another call."""

    call: Call
    index: int


Argument = Any
"""A Leaf, an Out, or a list of these."""


@dataclass(eq=False)
class Call:
    """An op, the argument for each entry of its signature, and attributes; `initial` is what a variable begins with."""

    op_type: str
    arguments: list[Argument]
    attrs: dict[str, Any]
    initial: Array | None = None
    after: list[Call] = field(default_factory=list)

    @property
    def definition(self) -> OpDef:
        return registry.lookup(self.op_type).definition

    def operands(self) -> Iterator[Leaf | Out]:
        for argument in self.arguments:
            yield from argument if isinstance(argument, list) else [argument]


def all_calls(call: Call) -> list[Call]:
    """A call, and those whose outputs it takes."""
    found: dict[int, Call] = {}

    def visit(each: Call) -> None:
        if id(each) not in found:
            found[id(each)] = each
            for operand in each.operands():
                if isinstance(operand, Out):
                    visit(operand.call)

    visit(call)
    return list(found.values())


# From tables


def from_ops_table(case: harness.Case, random: Random) -> Call:
    """The call of a case of tests/ops, in one of the dtypes it has there."""
    name = random.choice(harness.dtypes_of(case))
    varied = harness.varied_attribute(case)
    values = iter([harness.typed(arg, value, varied, name) for arg, value in harness.flat_inputs(case)])
    attrs = dict(harness.attrs_of(case))
    definition = registry.lookup(case.op_type).definition
    arguments: list[Argument] = []
    for arg, value in zip(definition.inputs, case.inputs, strict=True):
        if arg.is_list:
            arguments.append([_table_operand(arg, next(values)) for _ in value])
        else:
            arguments.append(_table_operand(arg, next(values)))
    if varied is not None and name is not None and definition.attr(varied) is not None:
        attrs.setdefault(varied, dt.as_dtype(name))
    return Call(case.op_type, arguments, attrs)


def _table_operand(arg: ArgDef, value: Any) -> Leaf | Out:
    if not isinstance(value, harness.Ref):
        return Leaf(np.asarray(value))
    attrs = {"dtype": dtype_of(value.value), "shape": value.value.shape}
    return Out(Call("VariableV2" if arg.is_ref else "VarHandleOp", [], attrs, initial=value.value), 0)


def from_node(node: Node, known: dict[int, Any] | None = None) -> Call:
    """The call of a node of a parity table.

    Raises:
        NoCallError: it is part of a loop, or has a function.
    """
    known = {} if known is None else known
    if id(node) in known:
        return known[id(node)]
    definition = registry.lookup(node.op_type).definition
    attrs = {key: _plain_attr(definition, key, value) for key, value in node.attrs.items()}
    if len(definition.inputs) != len(node.inputs):
        raise NoCallError
    arguments: list[Argument] = []
    for arg, value in zip(definition.inputs, node.inputs, strict=True):
        listed = list(value) if arg.is_list else [value]
        kinds = attrs.get(arg.type_list_attr) if arg.type_list_attr else None
        found = []
        for k, each in enumerate(listed):
            wanted = arg.dtype if arg.dtype is not None else attrs.get(arg.type_attr)
            wanted = kinds[k] if kinds is not None and k < len(kinds) else wanted
            operand, dtype = _operand(each, wanted, known)
            if arg.type_attr and dtype is not None:
                attrs.setdefault(arg.type_attr, dtype)
            found.append(operand)
        if arg.number_attr:
            attrs.setdefault(arg.number_attr, len(listed))
        arguments.append(found if arg.is_list else found[0])
    call = known[id(node)] = Call(node.op_type, arguments, attrs, node.initial)
    call.after = [from_node(each, known) for each in node.after]
    return call


def _plain_attr(definition: OpDef, name: str, value: Any) -> Any:
    if isinstance(value, Function) or (
        isinstance(value, list | tuple) and any(isinstance(each, Function) for each in value)
    ):
        raise NoCallError
    attr = definition.attr(name)
    if attr is not None and attr.kind == "type":
        return dt.as_dtype(value)
    if attr is not None and attr.kind == "list(type)":
        return tuple(dt.as_dtype(each) for each in value)
    return tuple(value) if isinstance(value, list) else value


def _operand(value: Any, wanted: DType | None, known: dict[int, Any]) -> tuple[Leaf | Out, DType | None]:
    if isinstance(value, Back):
        raise NoCallError
    if isinstance(value, Node):
        value = Output(value, 0)
    if isinstance(value, Output):
        if value.node.op_type == "Const":
            array = np.asarray(value.node.attrs["value"])
            return Leaf(array, CONSTANT), dtype_of(array)
        call = from_node(value.node, known)
        dtype = call.attrs.get("dtype")
        return Out(call, value.index), dtype if isinstance(dtype, DType) else None
    feed = value if isinstance(value, Feed) else Feed(value)
    array = np.asarray(
        feed.value if isinstance(feed.value, np.ndarray | np.generic) else dt.to_array(feed.value, wanted)
    )
    static = KNOWN if feed.shape is AS_VALUE else UNKNOWN if feed.shape is None else PARTLY
    return Leaf(array, static), dtype_of(array)


# From a signature


def from_signature(op_type: str, random: Random) -> Call:
    """A call with random operands of small shapes, which are often the same for all."""
    definition = registry.lookup(op_type).definition
    attrs = _random_attrs(definition, random)
    shared = random_array(random, dt.bool).shape

    def operand(arg: ArgDef, dtype: DType) -> Leaf | Out:
        shape = shared if random.random() < 0.6 else None
        if dtype is dt.resource or arg.is_ref:
            dtype = dt.float32 if dtype is dt.resource else dtype
            initial = random_array(random, dtype, shape)
            given = {"dtype": dtype, "shape": initial.shape}
            return Out(Call("VariableV2" if arg.is_ref else "VarHandleOp", [], given, initial=initial), 0)
        if dtype is dt.variant:
            empty = Leaf(np.array([], np.int32), CONSTANT)
            made = Call(
                "TensorListReserve",
                [empty, Leaf(np.array(2, np.int32), CONSTANT)],
                {"element_dtype": dt.float32},
            )
            return Out(made, 0)
        return Leaf(random_array(random, dtype, shape))

    arguments: list[Argument] = []
    for arg in definition.inputs:
        if arg.type_list_attr:
            arguments.append([operand(arg, dtype) for dtype in attrs[arg.type_list_attr]])
            continue
        dtype = arg.dtype if arg.dtype is not None else attrs[arg.type_attr]
        if arg.number_attr:
            arguments.append([operand(arg, dtype) for _ in range(attrs[arg.number_attr])])
        else:
            arguments.append(operand(arg, dtype))
    return Call(op_type, arguments, attrs)


def _random_attrs(definition: OpDef, random: Random) -> dict[str, Any]:
    """Attributes that are inferred from operands, as these are to be, and those that are required."""
    attrs: dict[str, Any] = {}
    for attr in definition.attrs:
        if attr.kind == "type" and attr.name in definition.inferred_attrs:
            attrs[attr.name] = random.choice(attr.allowed or (dt.float32, dt.int32, dt.int64, dt.string))
        elif attr.kind == "list(type)" and attr.name in definition.inferred_attrs:
            kinds = attr.allowed or (dt.float32, dt.int32, dt.string)
            attrs[attr.name] = tuple(random.choice(kinds) for _ in range(random.randrange(1, 4)))
        elif attr.kind == "int" and attr.name in definition.inferred_attrs:
            attrs[attr.name] = max(random.randrange(1, 4), attr.minimum or 0)
        elif attr.required:
            value = random_attr(random, attr)
            if value is not None:
                attrs[attr.name] = value
    return attrs


# Mutations


def copied(call: Call, known: dict[int, Call] | None = None) -> Call:
    """A copy of a tree of calls, whose arrays are shared: mutations replace them."""
    known = {} if known is None else known
    if id(call) in known:
        return known[id(call)]

    def copy(operand: Leaf | Out) -> Leaf | Out:
        if isinstance(operand, Out):
            return Out(copied(operand.call, known), operand.index)
        return Leaf(operand.value, operand.static, operand.later)

    arguments = [
        [copy(each) for each in argument] if isinstance(argument, list) else copy(argument)
        for argument in call.arguments
    ]
    made = known[id(call)] = Call(call.op_type, arguments, dict(call.attrs), call.initial)
    made.after = [copied(each, known) for each in call.after]
    return made


def mutate(call: Call, random: Random) -> None:
    """Change a call, and those before it, in a few places."""
    calls = all_calls(call)
    for _ in range(random.choice((0, 1, 1, 1, 1, 2, 2, 3, 5))):
        target = call if random.random() < 0.8 else random.choice(calls)
        sites = _sites(target, random)
        if sites:
            random.choice(sites)()
    for each in calls:
        for operand in each.operands():
            if isinstance(operand, Leaf):
                operand.static = random.choice((operand.static, KNOWN, KNOWN, PARTLY, UNKNOWN, CONSTANT))
    leaves = [operand for operand in call.operands() if isinstance(operand, Leaf) and operand.value.size]
    if leaves and random.random() < 0.6:
        leaf = random.choice(leaves)
        leaf.later = with_hostile_elements(random, leaf.value)


def _sites(target: Call, random: Random) -> list[Callable[[], None]]:
    """The possible mutations of one part of a call each."""
    sites: list[Callable[[], None]] = []
    for operand in target.operands():
        if isinstance(operand, Leaf):
            sites += [_value_site(operand, random)] * 3
    for k, argument in enumerate(target.arguments):
        if isinstance(argument, list):
            sites.append(_list_site(target, k, random))
    for attr in target.definition.attrs:
        if attr.kind not in ("func", "list(func)") and attr.name not in target.definition.inferred_attrs:
            sites.append(_attr_site(target, attr.name, random))
    if target.initial is not None:
        sites.append(_initial_site(target, random))
    return sites


def _value_site(leaf: Leaf, random: Random) -> Callable[[], None]:
    def change() -> None:
        leaf.value = mutated(random, leaf.value)

    return change


def _list_site(call: Call, k: int, random: Random) -> Callable[[], None]:
    def change() -> None:
        listed = call.arguments[k]
        arg = call.definition.inputs[k]
        if listed and random.random() < 0.5:
            listed.pop(random.randrange(len(listed)))
        elif listed:
            listed.append(random.choice(listed))
        if arg.number_attr:
            call.attrs[arg.number_attr] = len(listed)
        elif arg.type_list_attr and all(isinstance(each, Leaf) for each in listed):
            call.attrs[arg.type_list_attr] = tuple(dtype_of(each.value) for each in listed)

    return change


def _attr_site(call: Call, name: str, random: Random) -> Callable[[], None]:
    def change() -> None:
        attr = call.definition.attr(name)
        assert attr is not None
        call.attrs[name] = mutated_attr(random, attr, call.attrs.get(name, attr.default))

    return change


def _initial_site(call: Call, random: Random) -> Callable[[], None]:
    def change() -> None:
        assert call.initial is not None
        call.initial = mutated(random, call.initial)
        if random.random() < 0.8:
            call.attrs["shape"] = call.initial.shape

    return change


def described(call: Call) -> str:
    """A call in one line."""

    def operand(each: Leaf | Out) -> str:
        if isinstance(each, Out):
            return f"{described(each.call)}:{each.index}"
        text = f"{each.static} {dtype_of(each.value).name}{list(each.value.shape)}"
        if each.value.size <= 8:
            text += f" {each.value.tolist()!r}"
        if each.later is not None and each.later.size <= 8:
            text += f" later {each.later.tolist()!r}"
        return text

    texts = [
        f"[{', '.join(map(operand, each))}]" if isinstance(each, list) else operand(each)
        for each in call.arguments
    ]
    attrs = {key: value.name if isinstance(value, DType) else value for key, value in call.attrs.items()}
    initial = "" if call.initial is None else f" = {list(call.initial.shape)}"
    return f"{call.op_type}({', '.join(texts)}, {attrs}){initial}"
