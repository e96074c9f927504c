"""Writes models with TensorFlow 2, and records what it gives for them after it has loaded them itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a signature: its name, and the values of its inputs."""

    signature: str
    inputs: Mapping[str, Any]

    def __init__(self, signature: str, **inputs: Any) -> None:
        object.__setattr__(self, "signature", signature)
        object.__setattr__(self, "inputs", inputs)


@dataclass(frozen=True, eq=False)
class Exported:
    """What to save, and what to call after loading, in this order.

    Attributes:
        root: a module or function, saved with `tf.saved_model.save`; or a function that saves into a folder.
        signatures: functions by name; None: none are named.
        calls: of signatures.
        tolerance: factor on what a dtype allows.
    """

    root: Any
    signatures: Mapping[str, Any] | None
    calls: Sequence[Call]
    tolerance: float = 1.0


Export = Callable[[Any, Path], Exported]


@dataclass(frozen=True, eq=False)
class Written:
    """A model in a folder, with what TensorFlow gives for its calls: the outputs by name."""

    folder: Path
    calls: Sequence[Call]
    expected: Sequence[Mapping[str, Any]]
    tolerance: float


@dataclass
class Writer:
    """Writes each model once; `_done` has the ones written."""

    tf: Any
    folder: Path
    _done: dict[Export, Written] = field(default_factory=dict)

    def written(self, export: Export) -> Written:
        if export not in self._done:
            self._done[export] = self._write(export)
        return self._done[export]

    def _write(self, export: Export) -> Written:
        tf = self.tf
        own = self.folder / f"{export.__name__}_files"
        own.mkdir()
        model = self.folder / export.__name__
        made = export(tf, own)
        if callable(made.root) and not hasattr(made.root, "_trackable_children"):
            made.root(str(model))
        else:
            tf.saved_model.save(made.root, str(model), signatures=made.signatures)
        loaded = tf.saved_model.load(str(model))
        expected = [_called(tf, loaded, call) for call in made.calls]
        return Written(model, made.calls, expected, made.tolerance)


def _called(tf: Any, loaded: Any, call: Call) -> dict[str, Any]:
    function = loaded.signatures[call.signature]
    inputs = {name: tf.constant(value) for name, value in call.inputs.items()}
    return {name: _array(value.numpy()) for name, value in function(**inputs).items()}


def _array(value: Any) -> Any:
    return np.array(value, object) if isinstance(value, bytes) else value
