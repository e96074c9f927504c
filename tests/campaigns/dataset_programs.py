"""Programs of datasets, for `stateful_programs`: each passes over the elements that are fed."""

from __future__ import annotations

from typing import Any

import numpy as np

import aioexec as ax
from aioexec.graph.apply import apply_any_op


def passes(program: Any) -> None:
    dtype, dims = program.content.dtype, program.content.dims
    slices = apply_any_op("TensorSliceDataset", [program.values], output_shapes=[dims])
    size = ax.cast(program.count, ax.int64)
    says: dict[str, Any] = {"output_types": [dtype], "output_shapes": [None]}
    batch = apply_any_op("BatchDataset", slices, size, **says)
    repeated = apply_any_op("RepeatDataset", batch, np.int64(3), **says)
    for name, variant in (("slices", slices), ("a batch", batch), ("repeated batches", repeated)):
        handle = apply_any_op("IteratorV2", shared_name="", container="", **says)
        program.step(f"begin with {name}", apply_any_op("MakeIterator", variant, handle))
        element = apply_any_op("IteratorGetNext", handle, **says)[0]
        program.step(f"next of {name}", element)
        program.step(f"second of {name}", element) if name != "a batch" else None


def transformations(program: Any) -> None:
    data, experimental, count = ax.data.Dataset, ax.data.experimental, ax.cast(program.count, ax.int64)
    rows = data.from_tensor_slices(program.values)
    chains = {
        "shuffled rows": rows.shuffle(count, seed=1),
        "rows shuffled and repeated": rows.apply(experimental.shuffle_and_repeat(count, 2, seed=1)),
        "cached rows": rows.cache().skip(1).take(count).shard(2, 0),
        "rows padded": rows.padded_batch(count, list(program.content.dims)),
        "rows with numbers": data.zip((rows, data.range(1 << 20))),
        "rows twice, fetched before": rows.concatenate(rows).prefetch(2),
        "rows of a window": rows.window(count, drop_remainder=True).flat_map(lambda window: window),
        "rows of a tensor": data.from_tensors(program.values).apply(experimental.unbatch()),
    }
    if not program.content.dims:
        chains["sparse batches"] = rows.map(lambda x: x[None]).apply(
            experimental.dense_to_sparse_batch(64, [1])
        )
        indices = ax.stack([ax.range(count), ax.zeros_like(ax.range(count))], 1)
        sparse = ax.SparseTensor(indices, program.values, ax.stack([count, 1]))
        chains["rows of a sparse tensor"] = data.from_sparse_tensor_slices(sparse)
    chains["rows of two"] = experimental.choose_from_datasets([rows, rows], data.range(2))
    for name, chain in chains.items():
        iterator = chain.make_initializable_iterator()
        program.step(f"begin with {name}", iterator.initializer)
        element = iterator.get_next()
        program.step(f"next of {name}", element)
    whole = rows.batch(count)
    program.step("the one batch", experimental.get_single_element(whole))
