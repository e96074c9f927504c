"""A SavedModel with variables of both kinds, a table with an asset, and a sparse input."""

from pathlib import Path

import numpy as np

import aioexec as ax
from aioexec.ops.lookup.lookup_tables import StaticHashTable
from aioexec.ops.lookup.table_initializers import TextFileIndex, TextFileInitializer

W = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
B = np.array([10, 20], np.float32)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = X @ W + B
WORDS = ["b", "c", "unknown"]
NUMBERS = [1, 2, -1]


def signatures_in_default_graph(vocabulary: str):
    """Build the model; return its SignatureDefs, and the operation for initialization."""
    x = ax.placeholder(ax.float32, [None, 3], name="x")
    word = ax.placeholder(ax.string, [None], name="word")
    cells = ax.sparse_placeholder(ax.float32, name="cells")
    w = ax.get_variable("w", initializer=W, use_resource=False)
    b = ax.get_variable("b", initializer=B, use_resource=True)
    y = ax.add(ax.matmul(x, w), b, name="y")
    lines = TextFileInitializer(
        vocabulary, ax.string, TextFileIndex.WHOLE_LINE, ax.int64, TextFileIndex.LINE_NUMBER
    )
    number = ax.identity(StaticHashTable(lines, -1).lookup(word), name="number")
    predict = ax.saved_model.predict_signature_def
    signatures = {
        "serving_default": predict({"x": x}, {"y": y}),
        "lookup": predict({"word": word}, {"number": number}),
        "sums": predict({"cells": cells}, {"sums": ax.sparse_reduce_sum(cells, 1), "cells": cells}),
    }
    return signatures, ax.tables_initializer()


async def write_model(path: Path, **options) -> str:
    """Write the model; returns its path."""
    vocabulary = path.parent / "vocabulary.txt"
    vocabulary.write_text("a\nb\nc\n")
    with ax.Graph().as_default() as graph:
        signatures, main_op = signatures_in_default_graph(str(vocabulary))
        start = ax.group(ax.global_variables_initializer(), main_op)
        async with ax.Session(graph=graph) as session:
            await session.run(start)
            builder = ax.saved_model.Builder(path)
            await builder.add_meta_graph_and_variables(
                session,
                [ax.saved_model.SERVING],
                signatures,
                assets_collection=ax.get_collection(ax.GraphKeys.ASSET_FILEPATHS),
                main_op=main_op,
                **options,
            )
            await builder.save()
    vocabulary.unlink()  # the model has its own
    return str(path)
