"""The host of a gRPC caller reaches the batches of a model, which are divided among hosts."""

import pytest

from aioexec.distributed.transport.grpc.services import host_of
from aioexec.distributed.transport.transport import Call
from aioexec.serving.models.served_version import ServedVersion
from tests.serving.test_grpc_fuzz import REQUESTS, methods


@pytest.mark.parametrize("name", ["ModelInfer", "Predict"])
async def test_an_inference_names_its_callers_host(name, monkeypatch):
    callers, run = [], ServedVersion.run

    async def recorded(*arguments, caller=None):
        callers.append(caller)
        return await run(*arguments, caller=caller)

    monkeypatch.setattr(ServedVersion, "run", recorded)

    await methods()[name](REQUESTS[name], Call("ipv4:10.0.0.7:50123"))

    assert callers == ["ipv4:10.0.0.7"]


@pytest.mark.parametrize(
    ("peer", "host"), [("ipv6:%5B::1%5D:5", "ipv6:%5B::1%5D"), ("unix:", "unix"), ("unix:/run/s", "unix")]
)
def test_a_host_is_a_peer_without_its_port(peer, host):
    assert host_of(Call(peer)) == host
