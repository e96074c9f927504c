"""Models that TensorFlow 2 wrote answer over HTTP what TensorFlow gives for them."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import aiohttp
import numpy as np
import pytest

from aioexec.saved_model.loaded_model import load
from aioexec.serving import ModelConfig, Repository, serve
from tests.interop.saved_model import tf2_keras, tf2_modules

pytestmark = [pytest.mark.interop, pytest.mark.network]

MODELS = {
    export.__name__: export
    for export in (*tf2_keras.MODELS, tf2_modules.tables, tf2_modules.loops)
    if "tf_keras" not in export.__name__
}


def json_of(value: Any) -> Any:
    """A value of a request."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list):
        return [json_of(element) for element in value]
    return {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


async def available(repository: Repository, name: str) -> None:
    """Wait until a model's version is loaded, or could not be."""
    while all(status.state.name in ("START", "LOADING") for status in repository.status(name)):
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("name", MODELS)
async def test_the_answers_over_http_are_those_of_tensorflow(name, writer):
    written = writer.written(MODELS[name])
    async with (
        Repository.watching([ModelConfig(name, str(written.folder))], load) as repository,
        serve(repository) as server,
        aiohttp.ClientSession() as http,
    ):
        await available(repository, name)
        answers = []
        for call in written.calls:
            inputs = {key: json_of(value) for key, value in call.inputs.items()}
            body = {"signature_name": call.signature, "inputs": inputs}
            async with http.post(server.predict_url(name), json=body) as response:
                answers.append((response.status, (await response.json()).get("outputs")))

    for (status, outputs), expected in zip(answers, written.expected, strict=True):
        assert status == 200
        if len(expected) == 1:
            outputs = {next(iter(expected)): outputs}
        assert outputs.keys() == expected.keys()
        for key, value in expected.items():
            if value.dtype == object:
                assert (
                    outputs[key] == np.vectorize(lambda text: text.decode(), otypes=[object])(value).tolist()
                )
            else:
                np.testing.assert_allclose(outputs[key], value, rtol=2e-5 * written.tolerance, atol=1e-6)
