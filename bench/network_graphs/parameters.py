"""The weights of a network: constants of a frozen graph, or variables of a graph that can be trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass
class Parameters:
    """Makes weights from one seeded generator, in the current name scope.

    Attributes:
        tf: `tensorflow.compat.v1`.
        trains: the network is trained: batch normalisation takes the statistics of the batch.
        frozen: weights are constants, read by an `Identity`, as `convert_variables_to_constants` leaves them.
        values: by tensor, in the order in which the weights are made; where they are variables, by the placeholders of their
            initial values, which are fed when they are initialised.
        read_bytes: what a step reads of the weights: all of them, but of tables the rows that are looked up.
    """

    tf: Any
    frozen: bool
    trains: bool = False
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(11))
    values: dict[Any, Array] = field(default_factory=dict)
    read_bytes: int = 0

    def normal(self, name: str, shape: Sequence[int], deviation: float) -> Any:
        """A weight of normally distributed values."""
        return self.weight(name, self.generator.standard_normal(shape, np.float32) * np.float32(deviation))

    def uniform(self, name: str, shape: Sequence[int], least: float, most: float) -> Any:
        """A weight of uniformly distributed values."""
        drawn = self.generator.random(shape, np.float32)
        return self.weight(name, drawn * np.float32(most - least) + np.float32(least))

    def table(self, name: str, rows: int, width: int, lookups: int) -> Any:
        """A table of rows, of which a step looks up so many."""
        read = self.read_bytes + lookups * width * 4
        made = self.normal(name, [rows, width], 0.6)
        self.read_bytes = read
        return made

    def weight(self, name: str, value: Array) -> Any:
        """A weight of these values."""
        tf = self.tf
        self.read_bytes += value.nbytes
        if self.frozen:
            constant = tf.constant(value, name=name)
            self.values[constant] = value
            return tf.identity(constant, name=f"{name}/read")
        initial = tf.placeholder(value.dtype, value.shape, name=f"{name}/initial_value")
        self.values[initial] = value
        return tf.Variable(initial, use_resource=True, name=name)


@dataclass(frozen=True)
class Network:
    """What a step of a network fetches and feeds.

    Attributes:
        outputs: the tensors that are fetched and compared.
        feeds: the values of placeholders.
        train: the operation that updates the variables, if the step trains.
    """

    outputs: Sequence[Any]
    feeds: dict[Any, Array]
    train: Any = None
