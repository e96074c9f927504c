"""The progress of the demo while it runs; the display reads it."""

import math
from collections import deque
from dataclasses import field
from time import perf_counter

import numpy as np
import numpy.typing as npt

from aioexec.data_classes import dataclass
from aioexec.observability.loop_lag import LoopLag, LoopLagProbe

REQUIRED_ACCURACY = 0.96
"""Of the test images: the network has learnt."""

REQUIRED_NATIVE_SHARE = 0.95
"""Of the nodes of a training step: the compiler, which works meanwhile, is done with it."""

_SMOOTHING = 0.05
_RATE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Prediction:
    """One image, asked for over HTTP."""

    image: npt.NDArray[np.float32]
    label: int
    predicted: int
    probability: float

    @property
    def is_right(self) -> bool:
        """True if the image shows the predicted digit."""
        return self.predicted == self.label


@dataclass(slots=True)
class Progress:
    """Written by the training and by the client of the server, both in one event loop.

    Attributes:
        goal_seconds: how long the training is to take.
        loss: a moving average.
        began_at: how many steps were done when this training began: those of an earlier one that it continues.
        losses, accuracies: after each epoch; the accuracies are those of the test images.
        native_share: of the nodes of a training step, as of the latest epoch.
        native_from: when that was enough for the first time, in seconds; infinity before.
        recent: the latest predictions.
    """

    goal_seconds: float
    probe: LoopLagProbe
    url: str = ""
    began_at: int = 0
    steps: int = 0
    loss: float = float("nan")
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    native_share: float = 0.0
    native_from: float = math.inf
    answered: int = 0
    recent: deque[Prediction] = field(default_factory=lambda: deque(maxlen=100))
    started: float = field(default_factory=perf_counter)
    _marks: deque[tuple[float, int]] = field(default_factory=lambda: deque([(0.0, 0)]))  # seconds, steps

    @property
    def accuracy(self) -> float:
        """Test accuracy after the latest epoch, 0 before the first one ends."""
        return self.accuracies[-1] if self.accuracies else 0.0

    @property
    def epochs(self) -> int:
        """How often all training images have been seen."""
        return len(self.accuracies)

    @property
    def is_success(self) -> bool:
        """True once the network has learnt, and learns natively."""
        return self.accuracy >= REQUIRED_ACCURACY and self.native_share >= REQUIRED_NATIVE_SHARE

    @property
    def seconds(self) -> float:
        """Since training began."""
        return perf_counter() - self.started

    def stepped(self, loss: float) -> None:
        """Note a training step."""
        self.steps += 1
        self.loss = loss if self.steps == 1 else self.loss + _SMOOTHING * (loss - self.loss)

    def epoch_ended(self, accuracy: float, native_share: float) -> None:
        """Note the end of an epoch."""
        self.losses.append(self.loss)
        self.accuracies.append(accuracy)
        self.native_share = native_share
        if native_share >= REQUIRED_NATIVE_SHARE:
            self.native_from = min(self.native_from, self.seconds)

    def predicted(self, prediction: Prediction) -> None:
        """Note an answer of the server."""
        self.answered += 1
        self.recent.append(prediction)

    def steps_per_second(self) -> float:
        """Return the rate since about a second before; to be called about once a second or more often."""
        now = self.seconds
        self._marks.append((now, self.steps))
        while now - self._marks[1][0] >= _RATE_SECONDS:
            self._marks.popleft()
        then, steps = self._marks[0]
        return (self.steps - steps) / (now - then) if now > then else 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the demo reports at its end."""

    accuracy: float
    began_at: int
    steps: int
    seconds: float
    latest_steps_per_second: float
    lag: LoopLag
    native_share: float
    answered: int
    prediction: Prediction
    predict_url: str
    folder: str

    @property
    def steps_per_second(self) -> float:
        """Over the whole training: compiling meanwhile, and a test after each epoch, included."""
        return self.steps / self.seconds
