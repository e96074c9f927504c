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
"""The accuracy on the test images from which on training counts as a success."""

REQUIRED_NATIVE_SHARE = 0.95
"""The native share of a training step from which on training counts as native: the compiler runs meanwhile."""

_SMOOTHING = 0.05
_RATE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Prediction:
    """One image, classified over HTTP."""

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
    """The state of the demo; written by the training and by the HTTP client, both in one event loop.

    Attributes:
        goal_seconds: the intended duration of the training.
        loss: a moving average.
        began_at: the global step at the start of this training.
        losses, accuracies: after each epoch; accuracies on the test images.
        native_share: of a training step, as of the latest epoch.
        native_from: when it first reached REQUIRED_NATIVE_SHARE, in seconds; infinity before.
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
        """The number of passes over the training images."""
        return len(self.accuracies)

    @property
    def is_success(self) -> bool:
        """Whether the accuracy and the native share are reached."""
        return self.accuracy >= REQUIRED_ACCURACY and self.native_share >= REQUIRED_NATIVE_SHARE

    @property
    def seconds(self) -> float:
        """Seconds since the start of training."""
        return perf_counter() - self.started

    def stepped(self, loss: float) -> None:
        """Record a training step."""
        self.steps += 1
        self.loss = loss if self.steps == 1 else self.loss + _SMOOTHING * (loss - self.loss)

    def epoch_ended(self, accuracy: float, native_share: float) -> None:
        """Record the end of an epoch."""
        self.losses.append(self.loss)
        self.accuracies.append(accuracy)
        self.native_share = native_share
        if native_share >= REQUIRED_NATIVE_SHARE:
            self.native_from = min(self.native_from, self.seconds)

    def predicted(self, prediction: Prediction) -> None:
        """Record a prediction of the server."""
        self.answered += 1
        self.recent.append(prediction)

    def steps_per_second(self) -> float:
        """Return the rate over about the last second; to be called about once a second or more often."""
        now = self.seconds
        self._marks.append((now, self.steps))
        while now - self._marks[1][0] >= _RATE_SECONDS:
            self._marks.popleft()
        then, steps = self._marks[0]
        return (self.steps - steps) / (now - then) if now > then else 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of the demo."""

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
        """The mean rate of the whole training, including compilation, and a test after each epoch."""
        return self.steps / self.seconds
