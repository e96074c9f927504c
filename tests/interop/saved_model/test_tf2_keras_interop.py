"""Models that Keras 3 exported and that tf-keras saved have the same results here."""

from __future__ import annotations

import pytest

import aioexec as ax
from tests.interop.saved_model import tf2_keras
from tests.interop.saved_model.tf2_running import differences, eager, fetches_and_feeds, restored

pytestmark = pytest.mark.interop

MODELS = {export.__name__: export for export in tf2_keras.MODELS}


@pytest.mark.parametrize("name", MODELS)
async def test_the_loaded_model_has_the_results_of_tensorflow(name, writer):
    written = writer.written(MODELS[name])
    (call,) = written.calls

    async with await ax.load(written.folder, config=eager()) as model:
        results = [await model(**call.inputs)]
        signature = model.signatures["serving_default"]
        feeds = {signature.inputs[key]: value for key, value in call.inputs.items()}
        share = await model.session.native_share(list(signature.outputs.values()), feeds)

    assert differences(written, results) == []
    assert share >= 0.95 or "preprocessing" in name


async def test_the_imported_graph_of_an_export_has_the_results_of_tensorflow(writer):
    written = writer.written(MODELS["lstm_keras"])
    (call,) = written.calls

    async with restored(written.folder, "off") as (session, meta_graph):
        results = [await session.run(*fetches_and_feeds(meta_graph, call.signature, call.inputs))]

    assert differences(written, results) == []
