"""Copies of cells for encoders, which have variables of their own."""

from __future__ import annotations

import copy
from typing import Any

from aioexec.contrib.rnn.linear import Linear
from aioexec.layers.base import Layer
from aioexec.layers.conditional_values import ConditionalValues


def unbuilt_copy(cell: Any) -> Any:
    """Return a copy of a cell that creates its variables at its first call.

    A cell that has been called has variables, which a deep copy would copy, with their graph. This happens to the cell of a
    model that is built for several buckets. Its copy is the cell as it was before the first call.
    """
    if not isinstance(cell, Layer) or cell._scope is None:
        return copy.deepcopy(cell)
    return _unbuilt(cell, {})


def _unbuilt(value: Any, copies: dict[int, Any]) -> Any:
    """Return the value of an attribute for the copy; a cell that is held twice is copied once."""
    if isinstance(value, Layer):
        if id(value) not in copies:
            copies[id(value)] = copied = copy.copy(value)
            for name, held in vars(value).items():
                setattr(copied, name, _unbuilt(held, copies))
            _forget_variables(copied)
        return copies[id(value)]
    if isinstance(value, Linear):
        return None  # the wrappers of cells make it at the first call
    if type(value) in (list, tuple):
        return type(value)(_unbuilt(each, copies) for each in value)
    return value


def _forget_variables(layer: Layer) -> None:
    layer.built = False
    layer._scope = layer._current_scope = None
    layer._trainable_weights, layer._non_trainable_weights = [], []
    layer._own_losses, layer._own_updates = ConditionalValues(), ConditionalValues()
    vars(layer).pop("_outer_scope", None)
