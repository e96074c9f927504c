"""The benchmark of whole networks: its cases name networks, networks are read from files, and cases can be chosen."""

import numpy as np
import pytest

from bench import harness, networks, packaged_networks, step_overhead
from bench.harness import Effort
from bench.network_graphs.files import exported, write
from bench.network_graphs.networks import NETWORKS
from bench.network_graphs.packages import PACKAGES


@pytest.mark.parametrize("case", networks.CASES, ids=lambda case: case.name)
def test_a_case_names_a_network_and_where_its_weights_are(case):
    network, kind = case.variant.split()

    assert network in NETWORKS
    assert kind in ("frozen", "variables")


def test_each_network_of_a_package_is_a_case():
    assert sorted(case.variant for case in packaged_networks.CASES) == sorted(PACKAGES)


def test_a_written_network_is_read_without_being_built(tmp_path):
    step = {"outputs": ["y:0"], "targets": [], "init": ["init"], "flops": 12, "read_bytes": 8}
    write(tmp_path, b"graph", {"x:0": np.arange(3)}, {"w:0": np.ones(2), "b:0": np.zeros(1)}, step)

    network = exported(tmp_path, "no such network", 1, "frozen")

    assert (network.graph_def, network.outputs, network.init, network.flops) == (
        b"graph",
        ["y:0"],
        ["init"],
        12,
    )
    assert {name: value.tolist() for name, value in network.feeds.items()} == {"x:0": [0, 1, 2]}
    assert {name: value.tolist() for name, value in network.weights.items()} == {"w:0": [1, 1], "b:0": [0]}


@pytest.mark.slow
def test_only_cases_with_a_chosen_part_in_their_name_run():
    report = harness.run("step_overhead", ["numpy"], Effort(rounds=1, seconds=0.0), ["64 elem"])

    assert [case.name for case in step_overhead.CASES] != ["square of 64 elements"]
    assert list(report.cases) == ["square of 64 elements"]
