"""`aioexec server`: a server as a process."""

from __future__ import annotations

import pytest

from tests.distributed.processes import servers

pytestmark = pytest.mark.network


@pytest.mark.slow
async def test_a_server_says_where_it_serves_and_ends_when_it_is_told_to():
    async with servers("ps", "worker") as cluster:
        ps = cluster["ps", 0]

        assert ps.said.startswith(f"{ps.target} serves /job:ps/replica:0/task:0 with ")
        assert await ps.terminate() == 0
        assert "ended" in ps.output
