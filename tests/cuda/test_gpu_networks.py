"""Sessions with the GPU's kernels, emulated, and with cuBLASLt, which is stood in for: placed and computed as on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.devices.cuda import cublaslt
from aioexec.devices.cuda.cublaslt import CublasLt
from aioexec.devices.cuda.programs import products as product_programs
from aioexec.devices.cuda.ptx.contractions import Tile
from aioexec.testing.cublaslt import StubCublasLt
from tests.cuda.conftest import Gpus
from tests.cuda.networks import WITHOUT_GPUS, assert_products_are_close, embedding_losses, products

pytestmark = pytest.mark.slow


@pytest.fixture
def library(emulated_gpus: Gpus, monkeypatch: pytest.MonkeyPatch) -> StubCublasLt:
    made = StubCublasLt(emulated_gpus.stub._reached, emulated_gpus.stub._submit)
    monkeypatch.setattr(cublaslt, "_opened", [CublasLt(made)])
    monkeypatch.setattr(product_programs, "TILE", Tile(8, 8, 4, 2, 2))
    return made


@pytest.mark.parametrize("jit", ["off", "background", "eager"])
async def test_a_network_with_dropout_and_an_embedding_is_trained_as_on_the_processor(
    emulated_gpus: Gpus, library: StubCublasLt, jit: str
):
    expected = await embedding_losses(ax.ConfigProto(device_count=WITHOUT_GPUS))
    assert emulated_gpus.stub.calls == []
    config = ax.ConfigProto()
    config.aioexec.jit = jit

    found = await embedding_losses(config)

    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert len(library.made) > 5
    assert +library.counts == {}


async def test_products_of_all_dtypes_are_those_of_the_processor(emulated_gpus: Gpus, library: StubCublasLt):
    expected = await products(ax.ConfigProto(device_count=WITHOUT_GPUS))

    found = await products(ax.ConfigProto())

    assert_products_are_close(found, expected)
    assert library.multiplied > 25


@pytest.mark.parametrize("jit", ["off", "background", "eager"])
async def test_each_step_draws_other_numbers(emulated_gpus: Gpus, jit: str):
    with ax.Graph().as_default() as graph:
        seed = ax.placeholder(ax.int64, [2])
        drawn = ax.random_uniform([5], seed=7) + 0.0
        placed = ax.random.stateless_uniform([5], seed) + 0.0
    found = []
    for device_count in ({"GPU": 0}, {}):
        config = ax.ConfigProto(device_count=device_count)
        config.aioexec.jit = jit
        async with ax.Session(graph=graph, config=config) as session:
            found.append([await session.run([drawn, placed], {seed: [k, 1]}) for k in range(4)])

    expected, actual = map(np.array, found)
    np.testing.assert_array_equal(actual, expected)
    assert len(np.unique(actual)) == actual.size
