"""Meta graphs from TensorFlow to here and back: what is imported goes on as where it came from, and is exported alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aioexec.formats import protos
from aioexec.graph.proto_functions import get_collection_proto_type
from aioexec.train.off_loop import off_loop
from tests.interop.train.handed_over import PROGRAMS, STEPS, Here, There, names_in_collections

pytestmark = pytest.mark.interop

CASES = [(name, scope) for name in sorted(PROGRAMS) for scope in (None, "inside/of")]


async def handed_over(giver: Any, taker: Any, program: str, scope: str | None, folder: Path) -> None:
    """Train in one engine, save; go on in both; compare losses, collections, and what is exported then."""
    path = str(folder / "model")
    graph = giver.built(PROGRAMS[program])
    before = await giver.trained(graph, STEPS[:2], saved=path)
    expected = await giver.trained(graph, STEPS[2:], restored=path)

    there = await off_loop(taker.imported, f"{path}.meta", scope)
    losses = await taker.trained(there, STEPS[2:], restored=path)

    assert len(set(map(float, [*before, *expected]))) == len(STEPS)  # it learns
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    again = await off_loop(giver.imported, f"{path}.meta", scope)
    assert names_in_collections(there) == names_in_collections(again)
    assert described(taker.exported(there)) == described(giver.exported(again))


def described(meta_graph: bytes) -> dict[str, list[Any]]:
    """The messages in the collections of a meta graph."""
    parsed = protos.MetaGraphDef.FromString(meta_graph)
    found = {}
    for key, items in parsed.collection_def.items():
        kind = get_collection_proto_type(key)
        values = getattr(items, items.WhichOneof("kind")).value
        found[key] = [kind.FromString(value) for value in values] if kind else list(values)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("program", "scope"), CASES)
async def test_what_tensorflow_trained_trains_on_here(
    tf: Any, program: str, scope: str | None, tmp_path: Path
) -> None:
    await handed_over(There(tf), Here(), program, scope, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("program", "scope"), CASES)
async def test_what_was_trained_here_trains_on_in_tensorflow(
    tf: Any, program: str, scope: str | None, tmp_path: Path
) -> None:
    await handed_over(Here(), There(tf), program, scope, tmp_path)
