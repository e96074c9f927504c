"""The time that the kernel of each op may block the event loop: the cases of the tables, at the largest sizes that run there.

A seed is an op, in alphabetical order. Each of its cases is scaled in several ways: along each set of equal dimensions, along
all, in the length of strings, in the numbers of shape operands; with repeated content, and with distinct elements. The largest
one that the engine would run on the loop is run, and its processor time compared with a bound. Asynchronous kernels, and ops
without such cases, are those of `stateful_holds`.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from time import thread_time
from types import SimpleNamespace
from typing import Any

import numpy as np

import aioexec.ops
from aioexec.graph import registry
from aioexec.graph.graph import Graph
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.workload import HEAVY_BYTES, takes_long
from tests.campaigns import campaign
from tests.ops import harness
from tests.ops.evaluate import context_of, seen
from tests.ops.harness import Case, Ref

BOUND_MS = 2.0
Inputs = Callable[[], list[Any]]

_FACTORS = [2**k for k in range(20, -1, -1)]


@cache
def op_types() -> list[str]:
    """The ops whose kernels are called on the event loop unless they are found to take long."""
    for module in pkgutil.walk_packages(aioexec.ops.__path__, "aioexec.ops."):
        importlib.import_module(module.name)
    return sorted(
        row.name
        for row in registry.registered()
        if row.kernel is not None and row.role is not Role.PLACEHOLDER
    )


@cache
def cases_of(op_type: str) -> list[Case]:
    return [each for each in harness.tables() if each.op_type == op_type and each.raises is None]


def longest_hold(op_type: str) -> tuple[float, str]:
    """Milliseconds of the processor that a call on the loop takes, at most, and what call that was."""
    worst = (0.0, "")
    for one in cases_of(op_type):
        names = list(harness.dtypes_of(one))
        for name in dict.fromkeys((names[0], names[-1])):
            setting = harness.setting(one, name)
            for scaled in scalings(setting):
                worst = max(worst, _hold(setting, scaled))
    return worst


def case(seed: int) -> str | None:
    """Return what is wrong with an op, if anything."""
    names = op_types()
    if seed >= len(names):
        return None
    milliseconds, call = longest_hold(names[seed])
    if milliseconds > BOUND_MS:
        return f"{names[seed]} holds the loop for {milliseconds:.1f} ms: {call}"
    return None


def scalings(setting: harness.Setting) -> Iterator[list[Inputs]]:
    """Lists of inputs for an op, each list from the largest on."""
    arrays = [value.value if isinstance(value, Ref) else value for value in setting.values]
    sizes = sorted({dim for array in arrays for dim in array.shape if dim})
    operands = setting.op.row.shape_operands
    for differ in (False, True):
        for chosen in [*({size} for size in sizes), set(sizes)]:
            yield [partial(_larger, setting.values, chosen, factor, differ) for factor in _FACTORS]
    if any(array.dtype == object for array in arrays):
        yield [partial(_all_longer, setting.values, factor) for factor in _FACTORS]
    for k in operands:
        if -len(arrays) <= k < len(arrays) and arrays[k].dtype.kind in "iu" and arrays[k].size:
            for place in range(min(arrays[k].size, 4)):
                yield [
                    partial(_with_number, setting.values, k % len(arrays), place, factor)
                    for factor in _FACTORS
                ]


class TooLarge(Exception):
    """Inputs that are larger than what runs on the loop: they are not made."""


def _larger(values: Sequence[Any], sizes: set[int], factor: int, differ: bool) -> list[Any]:
    shapes = [
        tuple(dim * factor if dim in sizes else dim for dim in _content(value).shape) for value in values
    ]
    for shape, value in zip(shapes, values, strict=True):
        if math.prod(max(dim, 1) for dim in shape) * _content(value).itemsize > HEAVY_BYTES:
            raise TooLarge
    return [_resized(value, shape, differ) for value, shape in zip(values, shapes, strict=True)]


def _all_longer(values: Sequence[Any], factor: int) -> list[Any]:
    return [_longer(value, factor) for value in values]


def _content(value: Any) -> Any:
    return value.value if isinstance(value, Ref) else value


def _resized(value: Any, shape: tuple[int, ...], differ: bool) -> Any:
    made = _content(value)
    for axis, dim in enumerate(shape):
        if made.shape[axis]:
            made = np.take(made, np.arange(dim) % made.shape[axis], axis)
    if differ:
        made = _all_different(made)
    made = np.ascontiguousarray(made).reshape(shape)
    return Ref(made, value.dtype) if isinstance(value, Ref) else made


def _all_different(array: Any) -> Any:
    if array.dtype.kind == "f":
        return np.random.default_rng(0).normal(size=array.shape).astype(array.dtype)
    if array.dtype.kind in "iu" and array.size > 64:
        return np.random.default_rng(0).permutation(array.size).reshape(array.shape).astype(array.dtype)
    if array.dtype == object:
        made = np.empty(array.shape, object)
        for number, (index, each) in enumerate(np.ndenumerate(array)):
            made[index] = each + b"%d" % number if isinstance(each, bytes) else each
        return made
    return array


def _longer(value: Any, factor: int) -> Any:
    content = _content(value)
    if content.dtype != object:
        return value
    made = np.empty(content.shape, object)
    for index, each in np.ndenumerate(content):
        made[index] = (
            each * factor if isinstance(each, bytes) and len(each) * factor <= 2 * HEAVY_BYTES else each
        )
    return Ref(made, value.dtype) if isinstance(value, Ref) else made


def _with_number(values: Sequence[Any], k: int, place: int, factor: int) -> list[Any]:
    changed = np.array(_content(values[k]))
    with np.errstate(all="ignore"):
        changed.reshape(-1)[place] = min(
            int(changed.reshape(-1)[place]) * factor, np.iinfo(changed.dtype).max
        )
    return [changed if n == k else value for n, value in enumerate(values)]


def _hold(setting: harness.Setting, candidates: list[Inputs]) -> tuple[float, str]:
    """The time of the largest inputs that run on the loop and that the kernel takes."""
    for candidate in candidates:
        try:
            values = candidate()
        except (TooLarge, OverflowError):
            continue
        milliseconds = _run(setting, values)
        if milliseconds is not None:
            shapes = [_content(value).shape for value in values]
            return (
                milliseconds,
                f"{shapes} of {[_content(v).dtype.name for v in values]}, {setting.case.attrs}",
            )
    return 0.0, ""


def _run(setting: harness.Setting, values: Sequence[Any]) -> float | None:
    one, row = setting.case, setting.op.row
    try:
        with Graph().as_default() as graph:
            tensors = [
                harness.source(graph, arg, value, constant=False, dims=None)
                for (arg, _), value in zip(harness.flat_inputs(one), values, strict=True)
            ]
            op = graph.create_op(one.op_type, tensors, attrs=harness.attrs_of(one))
        instruction: Any = SimpleNamespace(node=SimpleNamespace(op=op, row=row), sizes={}, structure=None)
        times = []
        for _ in range(2):
            inputs = [
                seen(op, k, harness.variable(value) if isinstance(value, Ref) else value)
                for k, value in enumerate(values)
            ]
            if row.asynchronous or takes_long(instruction, inputs):
                return None
            assert row.kernel is not None
            kernel = row.kernel(context_of(op))
            began = thread_time()
            with np.errstate(all="ignore"):
                kernel(*inputs)
            times.append(thread_time() - began)
    except Exception:
        return None  # scaled too far: it is no valid call
    return min(times) * 1000


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
