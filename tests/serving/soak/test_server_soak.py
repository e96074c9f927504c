"""The model server under all protocols at once, while versions come and go: answers stay right, and nothing leaks or grows.

The plugin checks tasks, threads and descriptors after every test.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from aioexec.serving.models import watched_model
from tests.distributed.grpc_process import grpc_runs as grpc_runs
from tests.serving.soak.calls import PROTOCOLS
from tests.serving.soak.checks import FAULTY, REFUSED, UNSERVED
from tests.serving.soak.soaking import ServerSoak, server_soak
from tests.soak.__main__ import empty_caches
from tests.soak.soaking import memory, remains

pytestmark = [pytest.mark.network, pytest.mark.usefixtures("unlogged")]

QUARTERS = 4
CLIENTS = 12
MIB = 1 << 20


@pytest.fixture
def unlogged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Log no damaged versions: pytest would keep the records, in the memory that is measured."""
    with caplog.at_level(logging.CRITICAL, watched_model.__name__):
        yield


async def _soaked(soak: ServerSoak, requests: int, changes: int) -> list[tuple[int, int]]:
    """Soak in quarters: the memory after each."""
    gc.collect()
    before, held = remains(), []
    for _ in range(QUARTERS):
        await soak.run(requests // QUARTERS, CLIENTS, changes // QUARTERS)
        empty_caches()
        held.append(memory())
        assert remains() == before
        assert all(soak.outcomes[name] for name in (*PROTOCOLS, FAULTY, REFUSED, UNSERVED)), soak.outcomes
    return held


@pytest.mark.slow
async def test_clients_of_every_protocol_get_right_answers_while_versions_come_and_go(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """Memory is left to the sweep: in the process of a whole suite other caches fill meanwhile."""
    async with server_soak(tmp_path, seed=28) as soak:
        await _soaked(soak, 2400, 24)

    assert caplog.records == []
    assert soak.requests == 2400
    assert soak.cancelled > 100
    assert min(len(versions) for versions in soak.versions.values()) > 10


@pytest.mark.sweep
@pytest.mark.timeout(7200)
async def test_400000_requests_while_4000_versions_of_each_model_come_and_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    seed = Random().randrange(10**6)

    with capsys.disabled():
        print(f"\nseed {seed}")
        async with server_soak(tmp_path, seed) as soak:
            held = await _soaked(soak, 400_000, 4_000)
        for blocks, resident in held:
            print(f"{blocks} blocks, {resident / MIB:.1f} MiB in memory")

    assert soak.cancelled > 20_000
    (first_blocks, first_resident), *_, (last_blocks, last_resident) = held
    # The soak's own record of versions takes some 15,000 blocks. The clients are in this process, and gRPC's leaks 0.9 KiB for
    # each call that is cancelled (grpcio 1.85, seen with a server without our code), so memory does not stay as it is: measured
    # were 140 bytes a request.
    assert last_blocks - first_blocks < 30_000, "of the 400,000 or so that Python holds"
    assert last_resident - first_resident < 300_000 * 256
