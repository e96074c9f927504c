"""How long the reference kernels of ops take that go through what a handle or a list holds, whose size no input shows.

The numbers are nanoseconds, measured and rounded up, as those of `kernel_work`; `tests.campaigns.stateful_holds` looks for ops
that are missing. Ops on one element take about as long as its bytes, and state nothing. The resources are known by attributes
alone, since `import aioexec` does not load them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.graph import registry
from aioexec.graph.kernels.kernel import Attrs
from aioexec.graph.kernels.work import UNBOUNDED, Work, product, value_of

Count = Callable[[Sequence[Any]], int]
"""Inputs to how many elements a kernel deals with."""


def _behind(given: Any) -> Any:
    """What a handle or a variant tensor holds."""
    return given.item() if isinstance(given, np.ndarray) and given.size == 1 else given


def _rows(position: int) -> Count:
    return lambda inputs: (*getattr(inputs[position], "shape", ()), 1)[0]


def _held(position: int = 0) -> Count:
    """How many elements a list or array holds."""
    return lambda inputs: getattr(_behind(inputs[position]), "stored", 0)


def _each(nanoseconds: float, count: Count) -> Work:
    """So much for each element, and a nanosecond for each byte of those that the first input holds."""
    return lambda attrs, inputs: (
        count(inputs) * (nanoseconds + getattr(_behind(inputs[0]), "element_bytes", 0))
    )


def _exported(attrs: Attrs, inputs: Sequence[Any]) -> float:
    table = _behind(inputs[0])
    row = 8.0 * product(table.value_dims)
    return float(table.size * (2000.0 + row) + getattr(table, "buckets", 0) * (20.0 + row))


def _by_key(nanoseconds: float, in_buckets: float) -> Work:
    """So much for each key, in a table with buckets more; there all keys may be put into others."""

    def work(attrs: Attrs, inputs: Sequence[Any]) -> float:
        table, count = _behind(inputs[0]), int(inputs[1].size)
        buckets = getattr(table, "buckets", None)
        if buckets is None:
            return nanoseconds * count
        moved = table.size if table.size + count > buckets * table.max_load_factor else 0
        return in_buckets * float(count + moved)

    return work


def _added(attrs: Attrs, inputs: Sequence[Any]) -> float:
    """Each sparse tensor of a batch is one of its own, also those without elements."""
    sizes = value_of(inputs[2])
    if sizes is None or not sizes.size:
        return UNBOUNDED
    return 10_000.0 * _rows(1)(inputs) + 2000.0 * abs(float(sizes.reshape(-1)[0]))


def _state(work: Work, names: str) -> None:
    for name in names.split():
        registry.complete(name, work=work)


for _suffix in ("", "V2", "V3"):
    _state(_each(2000, _rows(1)), f"TensorArrayGather{_suffix}")
    _state(_each(2000, _rows(2)), f"TensorArrayScatter{_suffix} TensorArraySplit{_suffix}")
    _state(_each(2000, _held()), f"TensorArrayConcat{_suffix} TensorArrayGrad{_suffix}")
_state(_each(2000, _rows(1)), "TensorArrayUnpack")
_state(_each(2000, _held()), "TensorArrayPack TensorArrayGradWithShape")
_state(_each(600, _rows(0)), "TensorListFromTensor")
_state(_each(1000, _rows(1)), "TensorListGather")
_state(_each(3000, _rows(1)), "TensorListScatter TensorListScatterV2 TensorListPushBackBatch")
_state(_each(1000, _rows(2)), "TensorListSplit")
_state(_each(3000, _rows(2)), "TensorListScatterIntoExistingList")
_state(_each(1000, _held()), "TensorListStack")
_state(_each(3000, _held()), "TensorListConcat TensorListConcatV2")
_state(_each(3000, _held(1)), "TensorListConcatLists")
_state(_added, "AddManySparseToTensorsMap")
_state(_each(20_000, _rows(0)), "TakeManySparseFromTensorsMap")
for _suffix in ("", "V2"):
    _state(_exported, f"LookupTableExport{_suffix}")
    _state(
        _by_key(500, 4000), f"LookupTableInsert{_suffix} LookupTableImport{_suffix} InitializeTable{_suffix}"
    )
    _state(_by_key(300, 600), f"LookupTableFind{_suffix}")
_state(_by_key(300, 1500), "LookupTableRemoveV2")
