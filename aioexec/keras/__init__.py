"""The modules of `tf.keras` that programs of graphs use: layers called on tensors, and functions. Models are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.keras import (
        activations as activations,
        backend as backend,
        datasets as datasets,
        initializers as initializers,
        layers as layers,
        regularizers as regularizers,
        utils as utils,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
