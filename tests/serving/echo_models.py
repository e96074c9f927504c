"""Models for tests of protocols: signatures that return what they are fed, and a repository of them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np

import aioexec as ax
from aioexec.errors import InvalidArgumentError
from aioexec.serving.admission import Admission
from aioexec.serving.limits import Limits
from aioexec.serving.repository import Repository


class Echo:
    """A signature whose outputs are its inputs; `hold` is waited for first, `error` raised instead."""

    method_name = "tensorflow/serving/predict"

    def __init__(self, name="serving_default", **tensors):
        self.name = name
        with ax.Graph().as_default():
            self.inputs = {
                each: ax.placeholder(dtype, shape, name=each) for each, (dtype, shape) in tensors.items()
            }
        self.outputs = self.inputs
        self.hold = None
        self.error = None
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def run(self, inputs, outputs=None):
        self.started.set()
        try:
            if self.hold is not None:
                await self.hold.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        if self.error is not None:
            raise self.error
        unknown = {*inputs, *(outputs or ())} - self.inputs.keys()
        if unknown or inputs.keys() != self.inputs.keys():
            raise InvalidArgumentError(f"signature {self.name!r}: no tensors {sorted(unknown)}")
        return {name: np.array(inputs[name]) for name in outputs or self.outputs}


class Served:
    """A repository with the model "echo" of two signatures, and the model "strings" of one."""

    def __init__(self):
        self.default = Echo(x=(ax.float32, [None, 2]), y=(ax.int64, [None]))
        self.other = Echo("other", z=(ax.complex64, None))
        self.strings = Echo("only", s=(ax.string, [None]))
        self.admission = Admission(Limits())
        self._models = {}
        self.add("strings", {"only": self.strings})
        self.add("echo", {"serving_default": self.default, "other": self.other})

    def add(self, name, signatures):
        """Add a model."""
        self._models[name] = SimpleNamespace(signatures=signatures)
        self.repository = Repository(self._models)
