"""What `tf.saved_model.save` wrote of modules and functions has the same results here."""

from __future__ import annotations

from typing import Any

import pytest

import aioexec as ax
from tests.interop.saved_model import tf2_modules
from tests.interop.saved_model.tf2_running import differences, eager, fetches_and_feeds, restored

pytestmark = pytest.mark.interop

MODULES = {export.__name__: export for export in tf2_modules.MODULES}


@pytest.mark.parametrize("name", MODULES)
async def test_the_imported_graph_has_the_results_of_tensorflow(name, writer):
    written = writer.written(MODULES[name])

    async with restored(written.folder, "off") as (session, meta_graph):
        results: list[Any] = [
            await session.run(*fetches_and_feeds(meta_graph, call.signature, call.inputs))
            for call in written.calls
        ]

    assert differences(written, results) == []


@pytest.mark.parametrize("name", MODULES)
async def test_the_loaded_model_has_the_results_of_tensorflow(name, writer):
    written = writer.written(MODULES[name])

    async with await ax.load(written.folder, config=eager()) as model:
        results: list[Any] = [await model.signatures[call.signature](**call.inputs) for call in written.calls]

    assert differences(written, results) == []


@pytest.mark.parametrize("name", tf2_modules.NATIVE)
async def test_functions_loops_and_conditionals_run_natively(name, writer):
    written = writer.written(MODULES[name])

    async with restored(written.folder, "eager") as (session, meta_graph):
        for call in written.calls:
            fetches, feeds = fetches_and_feeds(meta_graph, call.signature, call.inputs)
            await session.run(fetches, feeds)

            assert await session.native_share(fetches, feeds) >= 0.95
