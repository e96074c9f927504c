"""Where a program's imports lead: TensorFlow's modules to aioexec's, and imports within the program to its files."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable, Mapping

_PREFIXES = re.compile(r"^tensorflow(?:_core)?(?:\.compat\.v1|\._api\.v1|\.compat\.v2)?(?=\.|$)")

_PRIVATE = {
    "python.platform.gfile": "gfile",
    "python.platform.flags": "flags",
    "python.platform.app": "app",
    "python.platform.tf_logging": "logging",
    "python.platform.test": "test",
    "python.platform.googletest": "test",
    "python.lib.io.python_io": "python_io",
    "python.lib.io.tf_record": "python_io",
    "python.lib.io.file_io": "gfile",
    "python.client.timeline": "client.timeline",
    "python.client.device_lib": "client.device_lib",
    "python.framework.errors": "errors",
    "python.framework.errors_impl": "errors",
    "python.framework.dtypes": "dtypes",
    "python.framework.graph_util": "graph_util",
    "python.framework.tensor_util": "contrib.util",
    "python.pywrap_tensorflow": "python.pywrap_tensorflow",
    "python.tools.freeze_graph": "python.freeze_graph",
    "python.util.compat": "compat",
    "python.data.util.nest": "contrib.framework.nest",
    "python.estimator.export.export_output": "estimator.export",
    "python.layers": "layers",
    "python.layers.core": "layers",
    "python.layers.convolutional": "layers",
    "python.layers.normalization": "layers",
    "python.layers.pooling": "layers",
    "python.layers.base": "layers",
    "python.layers.layers": "layers",
    "python.layers.utils": "contrib.layers.utils",
    "python.summary.summary": "summary",
    "python.ops.nn": "nn",
    "python.ops.nn_ops": "nn",
    "python.ops.nn_impl": "nn",
    "python.ops.control_flow_ops": "python.control_flow_ops",
    "python.ops.nccl_ops": "contrib.nccl",
    "python.ops.rnn": "python.rnn",
    "python.ops.rnn_cell": "python.rnn_cell",
    "python.ops.rnn_cell_impl": "python.rnn_cell_impl",
    "python.ops.embedding_ops": "nn",
    "python.ops.candidate_sampling_ops": "nn",
    "python.ops.image_ops": "image",
    "python.ops.lookup_ops": "contrib.lookup",
    "python.ops.metrics": "metrics",
    "python.ops.losses.losses": "losses",
    "python.ops.distributions": "distributions",
    "python.util.nest": "contrib.framework.nest",
    "python.training": "train",
    "python.training.moving_averages": "train.optimizers.moving_averages",
    "python.training.slot_creator": "train.optimizers.slots",
    "python.training.summary_io": "python.summary_io",
    "python.training.training_ops": "gen_ops",
    "python.training.gen_training_ops": "gen_ops",
    "python.data": "data",
    "python.estimator": "estimator",
    "python.saved_model": "saved_model",
    "contrib.layers.python.layers.layers": "contrib.layers.python.layers",
    "contrib.rnn.python.ops.core_rnn_cell": "python.rnn_cell_impl",
    "contrib.rnn.python.ops.core_rnn_cell_impl": "python.rnn_cell_impl",
    **{
        f"python.saved_model.{name}{suffix}": f"saved_model.{name}"
        for name in ("builder", "loader", "main_op", "signature_def_utils", "utils")
        for suffix in ("", "_impl")
    },
    **{
        f"python.saved_model.{name}": f"saved_model.{name}"
        for name in ("constants", "signature_constants", "tag_constants")
    },
}
"""Modules that are no public interface, by the module of aioexec that has their public names. Others are aioexec itself."""

_GENERATED = re.compile(r"python\.ops\.gen_\w+_ops$")
"""Modules that have a function for each op of a family."""

_MESSAGES = re.compile(r"core\.(?:framework|protobuf|util|example)(?:\.\w+_pb2)?$")
"""Folders and modules of messages."""

_CONTRIB = re.compile(r"contrib\.(?P<name>\w+)\.python\.(?:ops|layers|training)(?:\.|$)")
_CONTRIB_MODULES = {"contrib.framework.python.ops", "contrib.layers.python.layers"}
"""Private modules that aioexec has under their names; the names of others are in the public module around them."""

_FOLDERS = {
    "client", "data.ops", "data.util", "estimator", "feature_column", "framework", "layers", "lib.io", "ops", "ops.losses",
    "ops.distributions", "platform", "saved_model", "summary", "tools", "training", "util",
}  # fmt: skip


def own_path(module: str) -> str | None:
    """The dotted path in aioexec of a module of TensorFlow; None if it is none of TensorFlow's."""
    found = _PREFIXES.match(module)
    if found is None:
        return None
    rest = module[found.end() :].lstrip(".")
    rest = rest.replace("contrib.slim.python.slim", "contrib.slim")
    if _GENERATED.match(rest):
        return "aioexec.gen_ops"
    if _MESSAGES.match(rest):
        return "aioexec.formats.protos"
    if rest.partition(".")[0] == "python" or rest in _PRIVATE:
        rest = next((_PRIVATE[path] for path in (rest, *_parents(rest)) if path in _PRIVATE), "")
    inner = _CONTRIB.match(rest)
    if inner is not None and not any(path in _CONTRIB_MODULES for path in (rest, *_parents(rest))):
        rest = f"contrib.{inner['name']}"
    return f"aioexec.{rest}" if rest else "aioexec"


def holds_modules(module: str) -> bool:
    """Whether a private module of TensorFlow is a folder of modules, so that a name in it is a module too."""
    public = module.removeprefix("tensorflow.")
    if _CONTRIB.fullmatch(public):
        return public not in _CONTRIB_MODULES
    if _MESSAGES.match(public):
        return not public.endswith("_pb2")
    inner = module.partition("tensorflow.python.")[2]
    return module == "tensorflow.python" or inner in _FOLDERS


def _parents(path: str) -> Iterable[str]:
    while "." in path:
        path = path.rpartition(".")[0]
        yield path


def find_file(paths: Mapping[str, object], importer: str, module: str, level: int = 0) -> str | None:
    """The file of the program that an import of a module leads to: relative, beside the importer, or from a folder above it.

    Args:
        paths: the files of the program.
        level: the leading dots.
    """
    folder = os.path.dirname(importer)
    for _ in range(level - 1):
        folder = os.path.dirname(folder)
    inner = module.replace(".", "/") if module else ""
    while True:
        base = os.path.join(folder, inner) if inner else folder
        for candidate in (f"{base}.py", os.path.join(base, "__init__.py")):
            if os.path.normpath(candidate) in paths:
                return os.path.normpath(candidate)
        if level or not folder or folder == os.path.dirname(folder):
            return None
        folder = os.path.dirname(folder)
