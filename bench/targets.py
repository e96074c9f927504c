"""The targets of a run: for each workload the required ratio of a peer's time to aioexec's, or an absolute limit.

The ratios were fixed from times measured on one machine; within one run only ratios are compared.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench import networks

OURS = "aioexec"
PEAK, NEAR_PEAK = "peak", 0.85
"""The peer whose time is the bound of a case; from this share of the peak on a ratio of times counts as met. A share over 100 %
does not count: other processes had the machine while the peak was measured, or the step computes less than what is counted."""

Run = dict[str, Any]
"""Of one run, each benchmark's report as JSON has it (`report.as_json`), by name."""


@dataclass(frozen=True)
class Target:
    """One thing to show.

    Attributes:
        benchmark, case: where it is measured.
        peer: whose figure is divided by aioexec's; "" where aioexec's own must be within `limit`.
        ratio: at least this.
        limit: at most this, in `unit`.
        figure: what is taken of each run; of what is to keep a limit no minimum.
        less: a case whose figures are taken off first: the price of something is the difference of two rows.
    """

    workload: str
    benchmark: str
    case: str
    peer: str = ""
    ratio: float = 0.0
    limit: float = 0.0
    figure: str = "minimum_s"
    less: str = ""

    @property
    def is_of_times(self) -> bool:
        """Whether it is how many times faster than a peer."""
        return self.ratio > 0 and self.figure == "minimum_s"

    @property
    def unit(self) -> str:
        return "%" if self.figure.endswith("%") else "ms"


def _against(workload: str, benchmark: str, case: str, less: str = "", **ratios: float) -> list[Target]:
    return [Target(workload, benchmark, case, peer, ratio, less=less) for peer, ratio in ratios.items()]


def _lag(workload: str, benchmark: str, case: str, p99: float, most: float | None = None) -> list[Target]:
    found = [Target(f"{workload}, p99", benchmark, case, limit=p99, figure="median_s")]
    if most is not None:
        found.append(Target(f"{workload}, most", benchmark, case, limit=most, figure="lag max ms"))
    return found


def _network(case: str, best: float, tensorflow: float = 1.2) -> list[Target]:
    """Of a whole network: the ratio to TensorFlow, and to the best of the other peers."""
    ratio = max(best, tensorflow)
    return _against(case, "networks", case, tensorflow=ratio, onnxruntime=best, torch=best)


def _training(case: str, best: float = 1.1, tensorflow: float = 1.2) -> list[Target]:
    return _against(case, "networks", f"{case}, variables", tensorflow=tensorflow, torch=best)


_NETWORKS: list[Target] = [
    *_network("ResNet-50, batch 1", 1.15),
    *_network("ResNet-50, batch 8", 1.1),
    *_network("MobileNet v1, batch 1", 1.3),
    *_network("BERT-base, batch 1", 1.1),
    *_network("BERT-base, batch 8", 1.05),
    *_network("LSTM 256, batch 8", 1.1, tensorflow=2.5),
    *_network("DLRM, batch 32", 1.3),
    *_network("GPT-2 a token, batch 1", 1.2),
    *_network("WaveNet, batch 1", 1.5),
    *_network("U-Net, batch 1", 1.1),
    *_training("ResNet-50 training, batch 8"),
    *_training("BERT-base training, batch 4"),
    *_training("LSTM 256 training, batch 64"),
]


def _of_every_network() -> list[Target]:
    """What holds for each case: faster than TensorFlow, in no more memory, native, and the loop stays free."""
    found, named = [], {target.case for target in _NETWORKS}
    for case in (case.name for case in networks.CASES):
        if case not in named:
            found += _against(case, "networks", case, tensorflow=1.2)
        found.append(Target(f"{case}, memory", "networks", case, "tensorflow", 1.0, figure="resident MiB"))
        found.append(Target(f"{case}, not native", "networks", case, limit=1.0, figure="not native %"))
        found.append(Target(f"{case}, lag p99", "networks", case, limit=2.0, figure="lag p99 ms"))
    return found


TARGETS: list[Target] = [
    *_against("1-node step", "step_overhead", "square of 1 element", tensorflow=31, tensorflow_inline=10.2),
    *_against("1-node step", "step_overhead", "square of 1 element", onnxruntime=0.9, jax=1.2),
    *_against("1000 cheap ops, 64 elements", "chain", "64 elements", tensorflow=10, jax=7.15),
    *_against("1000 ops on 1e6 elements", "chain", "1e6 elements", tensorflow=3.1, torch=2.0),
    *_against("256 branches, joined", "wide", "256 branches", tensorflow=1.36, jax=1.25, onnxruntime=1.64),
    *_against("Black-Scholes, 4e6", "black_scholes", "4e6 options", tensorflow=4.3, torch=1.06),
    *_against("MLP inference, batch 1", "mlp_inference", "batch 1", tensorflow=6.5, torch=0.98),
    *_against("MLP inference, batch 32", "mlp_inference", "batch 32", tensorflow=1.96, onnxruntime=1.09),
    *_against("MLP inference, batch 256", "mlp_inference", "batch 256", tensorflow=1.5, numpy=1.1),
    *_against("MLP training, SGD", "mlp_training", "SGD", tensorflow=1.46, jax=1.07),
    *_against("MLP training, Adam", "mlp_training", "Adam", tensorflow=1.41, jax=1.12),
    *_against("CNN inference, batch 32", "cnn", "inference", tensorflow=1.09, onnxruntime=1.02),
    *_against("while loop, a round", "while_loop", "count: i + 1", tensorflow=42),
    *_against("enqueue + dequeue", "queues", "FIFOQueue, float32 scalars", tensorflow=17),
    *_against("setup + 2 partial runs", "partial_run", "a + 1, then times b: scalars", tensorflow=7.35),
    *_against(
        "3 stock hooks, over the plain step",
        "monitored_step",
        "monitored, 3 stock hooks",
        less="plain step",
        tensorflow=6,
    ),
    *_against("save 200 MiB", "checkpoints", "save", tensorflow=1.0),
    *_against("restore 200 MiB", "checkpoints", "restore", tensorflow=1.5),
    *_against("load a builder's 100 MiB", "model_loading", "TensorFlow 1.x's builder", tensorflow=1.0),
    *_against("load TensorFlow 2's 100 MiB", "model_loading", "tf.saved_model.save", tensorflow=1.0),
    Target(
        "builder's, first answer",
        "model_loading",
        "TensorFlow 1.x's builder",
        limit=1000,
        figure="first answer ms",
    ),
    Target(
        "TensorFlow 2's, first answer",
        "model_loading",
        "tf.saved_model.save",
        limit=1000,
        figure="first answer ms",
    ),
    *_lag("loop lag, saving", "checkpoints", "lag while saving", 5),
    *_lag("loop lag, restoring", "checkpoints", "lag while restoring", 5),
    *_against("remote step, same process", "remote_step", "server in the same process", tensorflow=1.45),
    *_against("remote step, other process", "remote_step", "server in another process", tensorflow=2.8),
    *_against("step with one edge", "cross_worker", "one edge of 4 bytes", tensorflow=2.5),
    *_against("20 edges, in turn", "cross_worker", "20 edges, one after the other", tensorflow=2.0),
    *_against("64 MiB between workers", "transfer", "64 MiB", tensorflow=1.26),
    *_against(
        "64 clients of the MLP", "concurrent", "64 clients", tensorflow_threads=2.6, onnxruntime_threads=1.2
    ),
    Target("64 clients, a request", "concurrent", "64 clients", limit=1 / 14, figure="median_s"),
    Target("64 clients, loop lag, p99", "concurrent", "64 clients", limit=2, figure="lag p99 ms"),
    *_against(
        "64 clients, batched",
        "concurrent",
        "64 clients, batched",
        tensorflow_threads=9.2,
        onnxruntime_threads=4.3,
    ),
    Target(
        "64 clients, batched, a request", "concurrent", "64 clients, batched", limit=0.02, figure="median_s"
    ),
    Target("64 clients, batched, lag p99", "concurrent", "64 clients, batched", limit=2, figure="lag p99 ms"),
    *_against("KServe v2 over gRPC, 150 kB", "kserve", "16 clients", onnxruntime_grpc=1.2),
    *_against("HTTP, JSON, throughput", "http_serving", "JSON", onnxruntime_aiohttp=1.5),
    *_against("HTTP, tensors, throughput", "http_serving", "binary tensors", onnxruntime_aiohttp=1.5),
    *_against("HTTP, JSON, p99", "http_serving", "JSON, 600 requests/s", onnxruntime_aiohttp=1 / 0.7),
    *_against(
        "HTTP, tensors, p99", "http_serving", "binary tensors, 600 requests/s", onnxruntime_aiohttp=1 / 0.7
    ),
    Target(
        "p99 moved by a load",
        "http_serving",
        "a version loads, 300 requests/s",
        limit=10,
        figure="p99 moved %",
    ),
    *_lag("loop lag, products", "loop_lag", "4 matmuls 1024x1024 in turn", 2, 10),
    *_lag("loop lag, elementwise", "loop_lag", "100 elementwise ops on 1e6", 2, 10),
    *_lag("loop lag, small steps", "loop_lag", "100 small steps a turn", 2, 10),
    *_NETWORKS,
    *_of_every_network(),
    *_against("20,000 rounds, empty cache", "first_rounds", "empty kernel cache", tensorflow=1),
    *_against("import", "import_time", "import", tensorflow=13, onnxruntime=0.33),
]


@dataclass(frozen=True)
class Verdict:
    """A target and what runs showed.

    Attributes:
        shown: of each run the ratio, or the figure where the target is a limit.
        peaks: of each run that knows it, the share of the machine's peak.
    """

    target: Target
    shown: list[float]
    peaks: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.shown)

    @property
    def is_within(self) -> bool:
        """Whether the median run keeps the ratio or the limit."""
        return self.median <= self.target.limit if self.target.limit else self.median >= self.target.ratio

    @property
    def peak(self) -> float:
        """The median share of the peak, 0 if it is not known."""
        return statistics.median(self.peaks) if self.peaks else 0.0

    @property
    def is_met(self) -> bool:
        """Whether the median run is within the target, or so near the peak that little can be gained."""
        return self.is_within or NEAR_PEAK <= self.peak <= 1


def verdicts(runs: Sequence[Run]) -> list[Verdict]:
    """The verdict of runs on each target; targets without results are left out."""
    found = []
    for target in TARGETS:
        shown = [value for run in runs if (value := _shown(target, run)) is not None]
        if shown:
            peaks = [share for run in runs if (share := _share_of_peak(target, run)) is not None]
            found.append(Verdict(target, shown, peaks))
    return found


def _share_of_peak(target: Target, run: Run) -> float | None:
    """What part of aioexec's time the machine's least time is; None if the target is none of times, or there is no bound."""
    least, ours = _figure(target, run, PEAK), _figure(target, run, OURS)
    return least / ours if target.is_of_times and least and ours else None


def _shown(target: Target, run: Run) -> float | None:
    ours = _figure(target, run, OURS)
    if not target.peer:
        return ours
    theirs = _figure(target, run, target.peer)
    return theirs / ours if ours and theirs is not None else None


def _figure(target: Target, run: Run, peer: str) -> float | None:
    """A peer's figure, seconds as milliseconds; None if there is none or its results were wrong."""
    cases = run.get(target.benchmark, {}).get("cases", {})
    total = 0.0
    for case, sign in ((target.case, 1), (target.less, -1)):
        if case:
            figure = cases.get(case, {}).get("peers", {}).get(peer, {}).get(target.figure)
            if figure is None:
                return None
            total += sign * figure
    return total * 1e3 if target.figure.endswith("_s") else total
