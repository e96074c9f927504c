"""Programs of stateful ops: each method of queues, barriers, staging areas, tables, accumulators, arrays and lists.

A program is a list of steps that run sequentially in a session. Their feeds depend on the number of elements, so one program
serves for few and for many.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.graph.apply import apply_any_op
from aioexec.graph.node import producers
from aioexec.ops.containers.barrier import Barrier
from aioexec.ops.containers.staging_class import MapStagingArea, StagingArea
from tests.campaigns import dataset_programs

Feeds = dict[Any, Any]


@dataclass(frozen=True)
class Content:
    """The elements: `count` of a dtype, each of shape `dims`."""

    name: str
    dtype: Any
    count: int
    dims: tuple[int, ...] = ()

    def values(self, count: int) -> Any:
        total = count * int(np.prod(self.dims))
        if self.dtype is ax.string:
            made = np.empty(total, object)
            made[:] = [b"%d" % (7 * k % total) for k in range(total)]
            return made.reshape(count, *self.dims)
        numbers = np.random.default_rng(0).permutation(total) % 251 if total < 1 << 20 else np.zeros(total)
        return numbers.astype(self.dtype.as_numpy_dtype).reshape(count, *self.dims)


CONTENTS = (
    Content("16,384 numbers", ax.int64, 16384),
    Content("100,000 bytes", ax.uint8, 100_000),
    Content("16,384 strings", ax.string, 16384),
    Content("64 rows of 2 KiB", ax.float32, 64, (512,)),
    Content("8 rows of 4 MiB", ax.float32, 8, (1 << 20,)),
)


@dataclass(frozen=True)
class Step:
    """Runs of `fetches`, at once if there are several; once, or `for_each` of up to a hundred elements.

    `is_last`: nothing can be done with the resource afterwards.
    """

    name: str
    fetches: Sequence[Any]
    for_each: bool = False
    is_last: bool = False

    def fed(self, feeds: Feeds) -> Feeds:
        """Those of the placeholders that the fetches need."""
        found = set()
        waiting = [getattr(fetch, "op", fetch) for fetches in self.fetches for fetch in _listed(fetches)]
        while waiting:
            op = waiting.pop()
            if op not in found:
                found.add(op)
                waiting += producers(op)
        return {tensor: value for tensor, value in feeds.items() if tensor.op in found}


def _listed(fetches: Any) -> Sequence[Any]:
    return fetches if isinstance(fetches, list | tuple) else [fetches]


@dataclass
class Program:
    """Steps, and for a number of elements what they are fed."""

    content: Content
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.values = ax.placeholder(self.content.dtype, [None, *self.content.dims])
        self.priorities = ax.placeholder(ax.int64, [None])
        self.keys = ax.placeholder(ax.string, [None])
        self.numbers = ax.placeholder(ax.int64, [None])
        self.count = ax.placeholder(ax.int32, [])

    def step(self, name: str, *fetches: Any) -> None:
        self.steps.append(Step(name, fetches))

    def step_for_each(self, name: str, fetch: Any) -> None:
        """A step for each element, of a hundred."""
        self.steps.append(Step(name, [fetch], for_each=True))

    def last_step(self, name: str, *fetches: Any) -> None:
        self.steps.append(Step(name, fetches, is_last=True))

    def feeds(self, count: int) -> Feeds:
        keys = np.empty(count, object)
        keys[:] = [b"key %d" % (k * 7919 % 1000003) for k in range(count)]
        return {
            self.values: self.content.values(count),
            self.priorities: np.random.default_rng(1).integers(0, count, count),
            self.keys: keys,
            self.numbers: np.random.default_rng(2).permutation(count).astype(np.int64),
            self.count: np.int32(count),
        }


Build = Callable[[Program], None]

# Queues


def _queue(make: Callable[[Any, Any], Any]) -> Build:
    def build(program: Program) -> None:
        dtype, dims = program.content.dtype, list(program.content.dims)
        queue = make(dtype, dims)
        many, take = queue.enqueue_many([program.values]), queue.dequeue_many(program.count)
        program.step("enqueue_many", many)
        program.step("dequeue_many", take)
        program.step("dequeue_many that waits, enqueue_many", take, many)
        program.step("enqueue_many again", many)
        program.step("dequeue_up_to", queue.dequeue_up_to(program.count))
        program.step_for_each("enqueue", queue.enqueue([program.values[0]]))
        program.step("dequeue_up_to of single ones", queue.dequeue_up_to(ax.minimum(program.count, 100)))
        program.step_for_each("enqueue again", queue.enqueue([program.values[0]]))
        program.step_for_each("dequeue", queue.dequeue())
        program.last_step("enqueue_many before close", many)
        program.last_step("close", queue.close(cancel_pending_enqueues=True))
        program.last_step("dequeue_up_to at the end", queue.dequeue_up_to(program.count + 1))

    return build


def _small_queue(program: Program) -> None:
    """All elements go through a queue that holds few."""
    dtype, dims = program.content.dtype, list(program.content.dims)
    queue = ax.FIFOQueue(100, dtype, shapes=[dims])
    take = queue.dequeue_many(program.count)
    program.step("enqueue_many that waits, dequeue_many", queue.enqueue_many([program.values]), take)


def _priority_queue(program: Program) -> None:
    queue = ax.PriorityQueue(1 << 20, [program.content.dtype], [list(program.content.dims)])
    many = queue.enqueue_many([program.priorities, program.values])
    program.step("enqueue_many", many)
    program.step("enqueue_many again", many)
    program.step("dequeue_many", queue.dequeue_many(program.count))
    program.step_for_each("dequeue", queue.dequeue())
    program.step(
        "dequeue_many of the rest", queue.dequeue_many(program.count - ax.minimum(program.count, 100))
    )
    program.last_step("enqueue_many before close", many)
    program.last_step("close", queue.close())
    program.last_step("dequeue_up_to at the end", queue.dequeue_up_to(program.count))


# Barriers, staging areas


def _barrier(program: Program) -> None:
    barrier = Barrier([program.content.dtype, ax.int64], [list(program.content.dims), []])
    first = barrier.insert_many(0, program.keys, program.values)
    second = barrier.insert_many(1, program.keys, program.priorities)
    take = barrier.take_many(program.count).values
    program.step("insert_many that begins tuples", first)
    program.step("insert_many that completes them", second)
    program.step("take_many", take)
    program.step("insert_many again", first)
    program.step("take_many that waits, insert_many", take, second)
    program.last_step("insert_many of what is forgotten", first)
    program.last_step("close", barrier.close(cancel_pending_enqueues=True))


def _staging_area(program: Program) -> None:
    area = StagingArea([program.content.dtype])
    program.step("put", area.put([program.values]))
    program.step("peek", area.peek(0))
    program.step("get", area.get())
    program.step("put again", area.put([program.values]))
    program.step("clear", area.clear())


def _staging_map(is_ordered: bool) -> Build:
    def build(program: Program) -> None:
        area = MapStagingArea([program.content.dtype], ordered=is_ordered)
        key = ax.placeholder_with_default(np.int64(1), [])
        program.step("put", area.put(key, [program.values], [0]))
        program.step("peek", area.peek(key))
        program.step("get", area.get(key)[1])
        program.step("put again", area.put(key, [program.values], [0]))
        program.step("get the first", area.get()[1])
        several = [area.put(np.int64(k), [program.values[:1]], [0]) for k in range(50)]
        program.step("put 50", *several)
        program.step("get the first of 50", area.get()[1])
        program.step("clear", area.clear())

    return build


# Tables


def _table(op_type: str, **attrs: Any) -> Build:
    def build(program: Program) -> None:
        dtype = program.content.dtype
        for key_dtype, keys in ((ax.int64, program.numbers), (ax.string, program.keys)):
            extra: list[Any] = []
            if "Dense" in op_type:
                extra = [[b"", b"-"] if key_dtype is ax.string else np.array([-1, -2])]
                extra = [ax.constant(extra[0][0], key_dtype), ax.constant(extra[0][1], key_dtype)]
            shape: dict[str, Any] = (
                {} if op_type == "MutableHashTableV2" else {"value_shape": program.content.dims}
            )
            handle = apply_any_op(op_type, *extra, key_dtype=key_dtype, value_dtype=dtype, **shape, **attrs)
            default = ax.constant(program.content.values(1)[0], dtype)
            says = {"Tkeys": key_dtype, "Tvalues": dtype}
            name = f"of {key_dtype.name}"
            program.step(f"insert {name}", apply_any_op("LookupTableInsertV2", handle, keys, program.values))
            program.step(f"find {name}", apply_any_op("LookupTableFindV2", handle, keys, default))
            program.step(f"export {name}", *apply_any_op("LookupTableExportV2", handle, **says)[:1])
            program.step(f"import {name}", apply_any_op("LookupTableImportV2", handle, keys, program.values))
            program.step(f"remove {name}", apply_any_op("LookupTableRemoveV2", handle, keys))
            program.step(f"size {name}", apply_any_op("LookupTableSizeV2", handle))

    return build


def _static_table(program: Program) -> None:
    dtype = program.content.dtype
    handle = apply_any_op("HashTableV2", key_dtype=ax.string, value_dtype=dtype)
    default = ax.constant(program.content.values(1)[0], dtype)
    program.last_step("initialize", apply_any_op("InitializeTableV2", handle, program.keys, program.values))
    program.last_step("find", apply_any_op("LookupTableFindV2", handle, program.keys, default))
    program.last_step(
        "export", *apply_any_op("LookupTableExportV2", handle, Tkeys=ax.string, Tvalues=dtype)[:1]
    )


# Accumulators


def _accumulator(program: Program) -> None:
    made = ax.ConditionalAccumulator(program.content.dtype, shape=[None, *program.content.dims])
    put = made.apply_grad(program.values)
    program.step("apply_grad", put)
    program.step("apply_grad of another one", made.apply_grad(program.values, local_step=9))
    program.step("take_grad", made.take_grad(1))
    program.step(
        "take_grad that waits, apply_grad", made.take_grad(1), made.apply_grad(program.values, local_step=9)
    )


def _sparse_accumulator(program: Program) -> None:
    made = ax.SparseConditionalAccumulator(program.content.dtype, shape=[None, *program.content.dims])
    numbers = ax.range(ax.cast(program.count, ax.int64))
    for name, indices in (("in order", numbers), ("in no order", program.numbers)):
        put = made.apply_grad(indices, program.values, local_step=9)
        program.step(f"apply_grad {name}", put)
        program.step(f"apply_grad of another one {name}", put)
        program.step(f"take_grad {name}", made.take_grad(1).values)


# Arrays and lists, within one step


def _tensor_array(program: Program) -> None:
    def made(**options: Any) -> Any:
        return ax.TensorArray(program.content.dtype, program.count, clear_after_read=False, **options)

    array = made().unstack(program.values)
    program.step("unstack", array.flow)
    program.step("unstack, stack", array.stack())
    program.step("unstack, grad", apply_any_op("TensorArrayGradV3", array.handle, array.flow, source="g")[1])
    places = ax.cast(program.numbers, ax.int32)
    program.step("unstack, gather", array.gather(places))
    program.step("scatter", made().scatter(places, program.values).flow)
    rows = ax.reshape(program.values, [-1, 1, *program.content.dims])
    split = made(infer_shape=False).split(ax.reshape(rows, [-1, *program.content.dims]), ax.ones_like(places))
    program.step("split", split.flow)
    program.step("split, concat", split.concat())


def _blanks(program: Program) -> None:
    """Unwritten elements."""
    dims = program.content.dims
    array = ax.TensorArray(program.content.dtype, program.count, element_shape=dims)
    program.step("stack", array.stack())


def _sums_of_lists(program: Program) -> None:
    made = apply_any_op("TensorListFromTensor", program.values, np.array(program.content.dims, np.int32))
    program.step("sum", apply_any_op("TensorListLength", apply_any_op("AddN", [made, made])))
    program.step("zeros", apply_any_op("TensorListLength", apply_any_op("ZerosLike", made)))


def _tensor_list(program: Program) -> None:
    dtype, dims = program.content.dtype, np.array(program.content.dims, np.int32)
    of = {"element_dtype": dtype}
    made = apply_any_op("TensorListFromTensor", program.values, dims)
    places = ax.cast(program.numbers, ax.int32)
    program.step("from a tensor", apply_any_op("TensorListLength", made))
    program.step("from a tensor, stack", apply_any_op("TensorListStack", made, dims, **of))
    program.step("from a tensor, gather", apply_any_op("TensorListGather", made, places, dims, **of))
    scattered = apply_any_op("TensorListScatterV2", program.values, places, dims, program.count)
    program.step("scatter", apply_any_op("TensorListLength", scattered))
    again = apply_any_op("TensorListScatterIntoExistingList", made, program.values, places)
    program.step("scatter into a list", apply_any_op("TensorListLength", again))
    program.step(
        "concat of lists",
        apply_any_op("TensorListLength", apply_any_op("TensorListConcatLists", made, made, **of)),
    )
    resized = apply_any_op("TensorListResize", made, program.count * 2)
    program.step("resize", apply_any_op("TensorListLength", resized))
    last = apply_any_op("TensorListPopBack", made, dims, **of)[1]
    program.step("from a tensor, pop", last)
    rows = ax.reshape(program.values, [-1, *program.content.dims])
    parts = apply_any_op(
        "TensorListSplit", rows, np.array([-1, *dims], np.int32), ax.ones_like(program.numbers)
    )
    program.step("split", apply_any_op("TensorListLength", parts))
    joined = apply_any_op(
        "TensorListConcatV2", parts, np.array([-1, *dims], np.int32), np.zeros(0, np.int64), **of
    )
    program.step("split, concat", joined[0])
    batch = apply_any_op(
        "TensorListPushBackBatch", ax.fill(ax.reshape(program.count, [1]), made), program.values
    )
    program.step("push a batch", ax.size(batch))


def _stack(program: Program) -> None:
    handle = apply_any_op("StackV2", np.int32(-1), elem_type=program.content.dtype)
    pushed = apply_any_op("StackPushV2", handle, program.values)
    program.step("push", pushed)
    with ax.control_dependencies([pushed]):
        program.step("push, pop", apply_any_op("StackPopV2", handle, elem_type=program.content.dtype))


def _sparse_tensors_map(program: Program) -> None:
    indices = ax.stack([program.numbers, ax.zeros_like(program.numbers)], 1)
    ordered = ax.stack([ax.range(ax.cast(program.count, ax.int64)), ax.zeros_like(program.numbers)], 1)
    shape = ax.cast(ax.stack([program.count, 1]), ax.int64)
    says: dict[str, Any] = {"shared_name": "map"}
    add = apply_any_op("AddSparseToTensorsMap", indices, program.values, shape, **says)
    program.step("add", add)
    many = apply_any_op("AddManySparseToTensorsMap", ordered, program.values, shape, **says)
    program.step("add many", many)
    taken = apply_any_op("TakeManySparseFromTensorsMap", many, dtype=program.content.dtype, **says)
    program.step("add many, take many", taken[1])


# Sessions' own state


def _session_handles(program: Program) -> None:
    handle = apply_any_op("GetSessionHandleV2", program.values)
    program.step("keep a tensor", handle)


def _one_element(program: Program) -> None:
    """Ops on one element of many."""
    dtype, dims = program.content.dtype, np.array(program.content.dims, np.int32)
    of = {"element_dtype": dtype}
    many = apply_any_op("TensorListFromTensor", program.values, dims)
    program.step("get an item", apply_any_op("TensorListGetItem", many, 1, dims, **of))
    for name, changed in (
        ("set an item", apply_any_op("TensorListSetItem", many, 1, program.values[0])),
        ("push an item", apply_any_op("TensorListPushBack", many, program.values[0])),
    ):
        program.step(name, apply_any_op("TensorListLength", changed))
    blank = apply_any_op("TensorListReserve", dims, program.count, element_dtype=dtype)
    program.step("get an unset item", apply_any_op("TensorListGetItem", blank, 1, dims, **of))
    array = ax.TensorArray(dtype, program.count, clear_after_read=False).unstack(program.values)
    program.step("read an element", array.read(1))
    longer = ax.TensorArray(dtype, program.count, dynamic_size=True).unstack(program.values)
    program.step("write an element", longer.write(program.count, program.values[0]).size())


def _optional(program: Program) -> None:
    dtype = program.content.dtype
    made = apply_any_op("OptionalFromValue", [program.values])
    got = apply_any_op("OptionalGetValue", made, output_types=[dtype], output_shapes=[None])
    program.step("value of an optional", got[0])


def _temporary_variable(program: Program) -> None:
    dims = [program.content.count, *program.content.dims]
    made = apply_any_op("TemporaryVariable", shape=dims, dtype=program.content.dtype, var_name="v")
    with ax.control_dependencies([made]):
        program.step("temporary variable", apply_any_op("DestroyTemporaryVariable", made, var_name="v"))


def _print(program: Program) -> None:
    text = apply_any_op("StringFormat", [program.values], template="%s", placeholder="%s", summarize=3)
    program.step("print", apply_any_op("PrintV2", text, output_stream="file:///dev/null"))


def _identity(program: Program) -> None:
    """No state: what a session itself takes to feed and fetch such values."""
    program.step("feed, fetch", ax.identity(program.values))


PROGRAMS: dict[str, Build] = {
    "identity": _identity,
    "FIFOQueue": _queue(lambda dtype, dims: ax.FIFOQueue(1 << 20, dtype, shapes=[dims])),
    "FIFOQueue of 100": _small_queue,
    "PaddingFIFOQueue": _queue(
        lambda dtype, dims: ax.PaddingFIFOQueue(1 << 20, [dtype], [[None] * len(dims)])
    ),
    "RandomShuffleQueue": _queue(
        lambda dtype, dims: ax.RandomShuffleQueue(1 << 20, 0, dtype, shapes=[dims], seed=1)
    ),
    "PriorityQueue": _priority_queue,
    "Barrier": _barrier,
    "StagingArea": _staging_area,
    "MapStagingArea": _staging_map(is_ordered=False),
    "MapStagingArea, ordered": _staging_map(is_ordered=True),
    "HashTable": _static_table,
    "MutableHashTable": _table("MutableHashTableV2"),
    "MutableHashTableOfTensors": _table("MutableHashTableOfTensorsV2"),
    "MutableDenseHashTable": _table("MutableDenseHashTableV2", initial_num_buckets=8),
    "ConditionalAccumulator": _accumulator,
    "SparseConditionalAccumulator": _sparse_accumulator,
    "TensorArray": _tensor_array,
    "blanks": _blanks,
    "TensorList": _tensor_list,
    "sums of lists": _sums_of_lists,
    "one element": _one_element,
    "Stack": _stack,
    "SparseTensorsMap": _sparse_tensors_map,
    "datasets": dataset_programs.passes,
    "transformed datasets": dataset_programs.transformations,
    "session handles": _session_handles,
    "optional": _optional,
    "temporary variable": _temporary_variable,
    "print": _print,
}


_NO_STRINGS = (
    "ConditionalAccumulator",
    "SparseConditionalAccumulator",
    "temporary variable",
    "sums of lists",
    "blanks",
)
_SCALARS = ("HashTable", "MutableHashTable", "SparseTensorsMap")
_VECTORS = ("MutableHashTableOfTensors",)


def cases() -> Iterator[tuple[str, Build, Content]]:
    """Each program with each content that it takes."""
    for (name, build), content in itertools.product(PROGRAMS.items(), CONTENTS):
        if name in _NO_STRINGS and content.dtype is ax.string:
            continue
        if name in _SCALARS + _VECTORS and bool(content.dims) is (name in _SCALARS):
            continue
        yield name, build, content
