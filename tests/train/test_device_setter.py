"""replica_device_setter: which nodes go to parameter servers, and to which."""

from __future__ import annotations

from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.train import GreedyLoadBalancingStrategy, byte_size_load_fn, replica_device_setter


def devices(setter: Any, asked: list[str]) -> list[str]:
    """The devices of variables that request these devices, and of a node."""
    with ax.Graph().as_default(), ax.device(setter):
        made = []
        for device in asked:
            with ax.device(device):
                made.append(ax.Variable(0.0))
        return [variable.device for variable in made] + [ax.constant(1.0).device]


CASES: list[tuple[dict[str, Any], list[str], list[str]]] = [
    ({"ps_tasks": 2}, [""] * 3, ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0", "/job:worker"]),
    ({"cluster": {"ps": ["a:1"], "worker": ["b:1"]}}, [""], ["/job:ps/task:0", "/job:worker"]),
    ({"ps_tasks": 1, "worker_device": "/job:worker/task:3"}, [""], ["/job:ps/task:0", "/job:worker/task:3"]),
    ({"ps_tasks": 2, "ps_device": "/cpu:0"}, [""], ["/device:CPU:0", "/job:worker"]),
    ({"ps_tasks": 2, "ps_strategy": lambda op: 7}, [""], ["/job:ps/task:7", "/job:worker"]),
    ({"ps_tasks": 1, "ps_ops": ["Const"]}, [""], ["/job:worker", "/job:ps/task:0"]),
    ({"ps_tasks": 2}, ["/cpu:0", "/job:other"], ["/job:ps/task:0/device:CPU:0", "/job:other", "/job:worker"]),
    ({"ps_tasks": 2, "merge_devices": False}, ["/cpu:0"], ["/device:CPU:0", "/job:worker"]),
]


@pytest.mark.parametrize(("options", "asked", "expected"), CASES)
def test_nodes_go_to_parameter_servers_and_workers(
    options: dict[str, Any], asked: list[str], expected: list[str]
):
    assert devices(replica_device_setter(**options), asked) == expected


@pytest.mark.parametrize(
    "options", [{}, {"ps_tasks": 0}, {"cluster": {"worker": ["a:1"]}}, {"cluster": {"ps": []}}]
)
def test_without_parameter_servers_nothing_is_placed(options: dict[str, Any]):
    assert replica_device_setter(**options) is None


def test_a_strategy_is_a_function():
    with pytest.raises(GraphTypeError, match="ps_strategy must be callable"):
        replica_device_setter(ps_tasks=1, ps_strategy=3)  # type: ignore[arg-type]


def test_balanced_variables_go_to_the_server_with_the_least_bytes():
    strategy = GreedyLoadBalancingStrategy(2, byte_size_load_fn)
    setter = replica_device_setter(cluster=ax.train.ClusterSpec({"ps": ["a:1", "b:1"]}), ps_strategy=strategy)

    with ax.Graph().as_default(), ax.device(setter):
        variables = [ax.Variable(ax.zeros([size])) for size in (10, 3, 4, 2, 8)]

    assert [variable.device[-1] for variable in variables] == ["0", "1", "1", "1", "1"]


def test_what_has_no_known_size_has_no_load():
    with ax.Graph().as_default(), pytest.raises(GraphValueError, match="its load is the size of"):
        byte_size_load_fn(ax.placeholder(ax.float32, [None]).op)
