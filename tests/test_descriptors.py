"""The limit on connections follows from the process's limit on descriptors."""

from __future__ import annotations

import resource

import pytest

from aioexec.descriptors import most_connections


@pytest.mark.parametrize(
    ("descriptors", "connections"), [(1024, 512), (100_000, 4096), (resource.RLIM_INFINITY, 4096)]
)
def test_a_server_takes_half_of_the_descriptors_and_at_most_4096(monkeypatch, descriptors, connections):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (descriptors, resource.RLIM_INFINITY))

    assert most_connections() == connections
