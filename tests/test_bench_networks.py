"""The benchmark of whole networks: its cases name networks, networks are read from files, and cases can be chosen."""

from itertools import pairwise

import numpy as np
import pytest

from bench import harness, networks, packaged_networks, step_overhead
from bench.harness import Effort
from bench.network_graphs.files import exported, write
from bench.network_graphs.networks import NETWORKS
from bench.network_graphs.packages import PACKAGES
from bench.peak import Peak


def _unet_operations(size: int, widths: list[int]) -> int:
    """Multiplications and additions of a U-Net by hand; `widths` are the channels of the image and of each level."""
    total = 2 * size**2 * widths[1]  # the last convolution, 1x1 to one channel
    for level, (above, width) in enumerate(pairwise(widths)):
        pixels = (size >> level) ** 2
        total += 2 * pixels * 9 * (above + width) * width
        if level < len(widths) - 2:  # on the way up: 2x2 from the level below, then 3x3 of both halves
            total += 2 * pixels * 2 * width * width
            total += 2 * pixels * 9 * (2 * width + width) * width
    return total


@pytest.mark.parametrize("case", networks.CASES, ids=lambda case: case.name)
def test_a_case_names_a_network_and_where_its_weights_are(case):
    network, kind = case.variant.split()

    assert network in NETWORKS
    assert kind in ("frozen", "variables")


def test_each_case_of_constants_or_of_training_has_its_network_in_torch():
    pytest.importorskip("torch")
    from bench.network_graphs.torch_networks import TORCH_NETWORKS
    from bench.network_graphs.torch_training import TORCH_TRAINING

    variants = [case.variant.split() for case in networks.CASES]

    assert {name for name, kind in variants if kind == "frozen"} <= {*TORCH_NETWORKS}
    assert {name for name, _ in variants if name.endswith("training")} == {*TORCH_TRAINING}


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


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize(
    ("name", "batch", "expected"),
    [
        ("wide_and_deep", 2, 2 * 2 * (141 * 1024 + 1024 * 512 + 512 * 256 + 256)),
        ("lstm_256", 8, 2 * 8 * 100 * (128 + 256) * 1024),
        ("unet", 1, _unet_operations(256, [3, 32, 64, 128, 256, 512])),
    ],
)
def test_the_operations_of_products_and_convolutions_are_counted(tmp_path, name, batch, expected):
    assert exported(tmp_path / name, name, batch, "frozen").flops == expected


def test_the_least_time_is_that_of_the_operations_or_of_the_bytes_whichever_is_longer():
    peak = Peak(8)
    peak.flops_per_second, peak.bytes_per_second = 1000.0, 10.0

    assert peak.least_seconds(flops=5000, read_bytes=20) == 5.0
    assert peak.least_seconds(flops=1000, read_bytes=20) == 2.0
