"""Ops of lookup tables: creation, initialisation, lookup and modification.

No op waits for a table, so all have plain kernels; files are read on a worker. V1 ops that create tables are stateful here,
unlike in TensorFlow, so that no two are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec import dtypes as dt, shapes
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.formats.vocabulary_file import Layout, read
from aioexec.graph.kernels.kernel import Compute, KernelContext, Reference, Role, StepContext
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, ShapeRule, register
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.common.handles import finder, maker
from aioexec.resources.dense_table import DenseHashTable
from aioexec.resources.tables import HashTable, LookupTable, MutableHashTable, MutableHashTableOfTensors
from aioexec.shapes import Dims

# Making tables


def _common(context: KernelContext, name: str) -> tuple[Any, ...]:
    attrs = context.attrs
    types: tuple[DType, DType] = (attrs["key_dtype"], attrs["value_dtype"])
    for dtype in types:
        if dtype in (dt.resource, dt.variant):
            raise InvalidArgumentError(f"table {name!r}: no keys or values of {dtype.name}")
    return name, *types, attrs.get("value_shape", ()), context.device


def _make(context: KernelContext, name: str, kind: type[LookupTable]) -> LookupTable:
    return kind(*_common(context, name))


def _make_dense(
    context: KernelContext, name: str, empty_key: Array, deleted_key: Array | None = None
) -> LookupTable:
    return DenseHashTable(
        *_common(context, name),
        empty_key=empty_key,
        deleted_key=deleted_key,
        buckets=context.attrs["initial_num_buckets"],
        max_load_factor=round(context.attrs["max_load_factor"], 6),
    )


def _check_shared(found: LookupTable, wanted: LookupTable) -> None:
    types = [(table.key_dtype, table.value_dtype) for table in (wanted, found)]
    if types[0] != types[1]:
        asked, has = ("->".join(dtype.name for dtype in pair) for pair in types)
        raise InvalidArgumentError(f"Conflicting key/value dtypes {asked} with {has} for table {found.name}")


_NAMES = "container:string=''; shared_name:string=''; use_node_name_sharing:bool=false; key_dtype:type; value_dtype:type"
_VECTORS = "; value_shape:shape=[]"
_BUCKETS = "; initial_num_buckets:int=131072; max_load_factor:float=0.800000011920929"

for _name, _more, _kind in (
    ("HashTable", "", HashTable),
    ("MutableHashTable", "", MutableHashTable),
    ("MutableHashTableOfTensors", _VECTORS, MutableHashTableOfTensors),
):
    for _suffix, _handle, _dims in (("", "Ref(string)", (2,)), ("V2", "resource", ())):
        register(
            f"{_name}{_suffix}() -> (table_handle:{_handle}) [{_NAMES}{_more}] {{stateful}}",
            shape=partial(lambda context, dims: [dims], dims=_dims),
            kernel=maker(LookupTable, partial(_make, kind=_kind), _check_shared),
            gradient=NOT_DIFFERENTIABLE,
            role=Role.VARIABLE,
        )


def _dense_shape(context: ShapeContext, dims: Dims) -> Sequence[Dims]:
    for given in context.inputs:
        shapes.with_rank_at_most(given, 1)
    return [dims]


for _name, _inputs, _handle, _dims in (
    ("MutableDenseHashTable", "empty_key:key_dtype", "Ref(string)", (2,)),
    ("MutableDenseHashTableV2", "empty_key:key_dtype, deleted_key:key_dtype", "resource", ()),
):
    register(
        f"{_name}({_inputs}) -> (table_handle:{_handle}) [{_NAMES}{_VECTORS}{_BUCKETS}] {{stateful}}",
        shape=partial(_dense_shape, dims=_dims),
        kernel=maker(LookupTable, _make_dense, _check_shared),
        gradient=NOT_DIFFERENTIABLE,
    )

# Ops on tables


def _find_table(context: KernelContext, key: str = "", value: str = "") -> Callable[[Any], LookupTable]:
    """Return a function from a handle to its table, which checks the dtypes in these attributes of the node."""

    def check(table: LookupTable) -> None:
        for what, attr, has in (("keys", key, table.key_dtype), ("values", value, table.value_dtype)):
            if attr and context.attrs[attr] != has:
                raise InvalidArgumentError(
                    f"Signature mismatch: table {table.name!r} has {what} of {has.name}, "
                    f"the node expects {context.attrs[attr].name}"
                )

    return finder(context, LookupTable, check)


def _method_kernel(method: str, key: str = "", value: str = "") -> Reference:
    """Return a kernel that calls a method of the table with the inputs."""

    def kernel(context: KernelContext) -> Compute:
        find = _find_table(context, key, value)
        return lambda handle, *inputs: getattr(find(handle), method)(*inputs)

    return kernel


def _initialize_from_file(context: KernelContext) -> Compute:
    attrs = context.attrs
    find = _find_table(context)

    def initialize(step: StepContext, handle: Any, filename: Array) -> Any:
        table = find(handle)
        if np.shape(filename) != ():
            raise InvalidArgumentError(
                f"filename should be a single string, but received shape {shown(np.shape(filename))}"
            )
        if not isinstance(table, HashTable):
            raise InvalidArgumentError(f"Table {table.name} is not initializable")
        layout = Layout(
            *[attrs[name] for name in ("key_index", "value_index", "vocab_size", "delimiter", "offset")]
        )
        path = filename.item().decode(errors="surrogateescape")
        return _fill(step, table, partial(read, path, layout, table.key_dtype, table.value_dtype))

    return initialize


async def _fill(step: StepContext, table: HashTable, reads: Callable[[], tuple[Any, Any]]) -> None:
    def entries() -> tuple[int, Any]:
        keys, values = reads()
        return len(keys), None if table.is_initialized else table.entries_of(keys, values)

    table.begin_with(*await step.run_in_worker(entries))


# Shape rules


def _keys_with_values(context: ShapeContext) -> Sequence[Dims]:
    shapes.merge(shapes.with_rank(context.inputs[1], 1), context.inputs[2])
    return []


def _found(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank_at_most(context.inputs[2], 1)
    return [None]


class _TableSpec:
    """The dtypes, key shape and value shape of the node that creates the table, if that is known statically."""

    def __init__(self, context: ShapeContext) -> None:
        made_by = context.maker(0)
        self.is_known = made_by is not None and made_by.type.startswith("Mutable")
        if made_by is None or not self.is_known:
            return
        self._types = {"key": made_by.attrs["key_dtype"], "value": made_by.attrs["value_dtype"]}
        self.value_dims: Dims = made_by.attrs.get("value_shape", ())
        self.key_dims: Dims = made_by.inputs[0] if made_by.inputs else ()

    def check(self, context: ShapeContext, **attrs: str) -> None:
        for what, attr in attrs.items():
            if self.is_known and context.attrs[attr] != self._types[what]:
                raise GraphValueError(
                    f"Trying to read value with wrong dtype. Expected {self._types[what].name} "
                    f"got {context.attrs[attr].name}"
                )

    def outer(self, keys: Dims) -> Dims:
        """Return the shape of a tensor of keys without the dimensions of a key."""
        if keys is None or self.key_dims is None:
            return None
        if not self.key_dims:
            return keys
        shapes.merge(shapes.with_rank_at_least(keys, 1), (*((None,) * (len(keys) - 1)), *self.key_dims))
        return keys[:-1]


def _found_in(context: ShapeContext) -> Sequence[Dims]:
    spec = _TableSpec(context)
    spec.check(context, key="Tin", value="Tout")
    if not spec.is_known:
        return [None]
    return [shapes.concatenate(spec.outer(context.inputs[1]), spec.value_dims)]


def _imported(context: ShapeContext) -> Sequence[Dims]:
    spec = _TableSpec(context)
    spec.check(context, key="Tin", value="Tout")
    if spec.is_known and not spec.key_dims:
        keys = shapes.with_rank(context.inputs[1], 1)
        shapes.merge(shapes.concatenate(keys, spec.value_dims), context.inputs[2])
    return []


def _removed(context: ShapeContext) -> Sequence[Dims]:
    _TableSpec(context).check(context, key="Tin")
    shapes.with_rank_at_least(context.inputs[1], 1)
    return []


def _exported(context: ShapeContext) -> Sequence[Dims]:
    _TableSpec(context).check(context, key="Tkeys", value="Tvalues")
    return [None, None]


def _inserted(context: ShapeContext) -> Sequence[Dims]:
    _TableSpec(context).check(context, key="Tin", value="Tout")
    return []


# Rows


def _size(context: KernelContext) -> Compute:
    find = _find_table(context)
    return lambda handle: np.int64(find(handle).size)


_KEYS_AND_VALUES = "keys:Tin, values:Tout) -> () [Tin:type; Tout:type]"
_FILE = (
    "filename:string) -> () [key_index:int>=-2; value_index:int>=-2; vocab_size:int>=-1=-1; delimiter:string='\\t'; "
    "offset:int=0]"
)


def _verbs(suffix: str) -> Sequence[tuple[str, str, ShapeRule, Reference]]:
    """Return (name, signature after the handle, shape rule, kernel) of the ops of a version."""
    second = suffix != ""
    return (
        (
            "InitializeTable",
            ", keys:Tkey, values:Tval) -> () [Tkey:type; Tval:type]",
            _keys_with_values,
            _method_kernel("initialize", "Tkey", "Tval"),
        ),
        (
            "LookupTableFind",
            ", keys:Tin, default_value:Tout) -> (values:Tout) [Tin:type; Tout:type]",
            _found_in if second else _found,
            _method_kernel("find", "Tin", "Tout"),
        ),
        (
            "LookupTableInsert",
            f", {_KEYS_AND_VALUES}",
            _inserted if second else lambda context: [],
            _method_kernel("insert", "Tin", "Tout"),
        ),
        (
            "LookupTableImport",
            f", {_KEYS_AND_VALUES}",
            _imported if second else lambda context: [],
            _method_kernel("replace", "Tin", "Tout"),
        ),
        (
            "LookupTableExport",
            ") -> (keys:Tkeys, values:Tvalues) [Tkeys:type; Tvalues:type]",
            _exported if second else lambda context: [(None,), None],
            _method_kernel("export", "Tkeys", "Tvalues"),
        ),
        ("LookupTableSize", ") -> (size:int64)", lambda context: [()], _size),
    )


def _register(signature: str, shape: ShapeRule, kernel: Reference, asynchronous: bool = False) -> None:
    register(
        f"{signature} {{stateful}}",
        shape=shape,
        kernel=kernel,
        gradient=NOT_DIFFERENTIABLE,
        asynchronous=asynchronous,
    )


for _suffix, _handle in (("", "Ref(string)"), ("V2", "resource")):
    _first = f"(table_handle:{_handle}"
    for _name, _signature, _shape, _kernel in _verbs(_suffix):
        _register(f"{_name}{_suffix}{_first}{_signature}", _shape, _kernel)
    _register(
        f"InitializeTableFromTextFile{_suffix}{_first}, {_FILE}",
        lambda context: [],
        _initialize_from_file,
        asynchronous=True,
    )
_register(
    "LookupTableRemoveV2(table_handle:resource, keys:Tin) -> () [Tin:type]",
    _removed,
    _method_kernel("remove", "Tin"),
)
