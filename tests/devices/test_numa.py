"""NUMA nodes as the system describes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aioexec.devices.threads.numa import NumaNode, numa_nodes, read_nodes


def described(folder: Path, online: str, lists: dict[int, str]) -> str:
    (folder / "online").write_text(online)
    for number, text in lists.items():
        (folder / f"node{number}").mkdir()
        (folder / f"node{number}" / "cpulist").write_text(text)
    return str(folder)


def test_nodes_and_their_processors_are_read_from_lists_of_ranges(tmp_path: Path):
    nodes = read_nodes(described(tmp_path, "0-1,4\n", {0: "0-2,8\n", 1: "3\n", 4: "\n"}))

    assert nodes == (
        NumaNode(0, frozenset({0, 1, 2, 8})),
        NumaNode(1, frozenset({3})),
        NumaNode(4, frozenset()),
    )


@pytest.mark.parametrize("online", ["0-x\n", "0,7\n"])
def test_a_system_that_does_not_tell_has_no_nodes(tmp_path: Path, online: str):
    assert read_nodes(described(tmp_path, online, {0: "0"})) == ()
    assert read_nodes(str(tmp_path / "absent")) == ()


def test_this_machine_has_a_node():
    assert len(numa_nodes()) >= 1


def test_a_node_offers_the_processors_this_process_may_use():
    allowed = os.sched_getaffinity(0)
    first = min(allowed)

    assert NumaNode(0, frozenset({first, 10**6})).usable() == {first}
    assert NumaNode(0, frozenset({10**6})).usable() == allowed
