"""The usual tags of graphs in a SavedModel."""

from typing import Final

SERVING: Final = "serve"
TRAINING: Final = "train"
EVAL: Final = "eval"
GPU: Final = "gpu"
TPU: Final = "tpu"
