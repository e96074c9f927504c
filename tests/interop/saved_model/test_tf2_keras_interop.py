"""Models that Keras 3 exported and that tf-keras saved have the same results here."""

from __future__ import annotations

import pytest

from tests.interop.saved_model import tf2_keras
from tests.interop.saved_model.tf2_running import differences, fetches_and_feeds, restored

pytestmark = pytest.mark.interop

MODELS = {export.__name__: export for export in tf2_keras.MODELS}


@pytest.mark.parametrize("name", MODELS)
async def test_the_imported_graph_has_the_results_of_tensorflow(name, writer):
    written = writer.written(MODELS[name])
    (call,) = written.calls

    async with restored(written.folder, "eager") as (session, meta_graph):
        fetches, feeds = fetches_and_feeds(meta_graph, call.signature, call.inputs)
        results = [await session.run(fetches, feeds)]
        share = await session.native_share(fetches, feeds)

    assert differences(written, results) == []
    assert share >= 0.95 or "preprocessing" in name
