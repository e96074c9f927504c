"""Estimated work of reference kernels that traverse a resource or list, whose size is not visible in the inputs.

Values are nanoseconds, measured and rounded up, as in `kernel_work`; `tests.campaigns.stateful_holds` finds ops that are
missing. Ops on a single element need about as long as its bytes and are not listed. Resources are recognised by their
attributes, since `import aioexec` does not import their classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.graph import registry
from aioexec.graph.kernels.kernel import Attrs
from aioexec.graph.kernels.work import UNBOUNDED, Work, product, value_of

Count = Callable[[Sequence[Any]], int]
"""The number of elements that a kernel processes, from its inputs."""


def _behind(given: Any) -> Any:
    """Return the object in a handle or variant tensor."""
    return given.item() if isinstance(given, np.ndarray) and given.size == 1 else given


def _rows(position: int) -> Count:
    return lambda inputs: (*getattr(inputs[position], "shape", ()), 1)[0]


def _held(position: int = 0) -> Count:
    """Count the elements of a list or array."""
    return lambda inputs: getattr(_behind(inputs[position]), "stored", 0)


def _each(nanoseconds: float, count: Count) -> Work:
    """Per element, plus a nanosecond per byte of those in the first input."""
    return lambda attrs, inputs: (
        count(inputs) * (nanoseconds + getattr(_behind(inputs[0]), "element_bytes", 0))
    )


def _exported(attrs: Attrs, inputs: Sequence[Any]) -> float:
    table = _behind(inputs[0])
    row = 8.0 * product(table.value_dims)
    return float(table.size * (2000.0 + row) + getattr(table, "buckets", 0) * (20.0 + row))


def _by_key(nanoseconds: float, in_buckets: float) -> Work:
    """Per key; a hash table with buckets costs more and may rehash all its keys."""

    def work(attrs: Attrs, inputs: Sequence[Any]) -> float:
        table, count = _behind(inputs[0]), int(inputs[1].size)
        buckets = getattr(table, "buckets", None)
        if buckets is None:
            return nanoseconds * count
        moved = table.size if table.size + count > buckets * table.max_load_factor else 0
        return in_buckets * float(count + moved)

    return work


def _added(attrs: Attrs, inputs: Sequence[Any]) -> float:
    """Per sparse tensor of a batch, which are stored separately, empty ones included."""
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
