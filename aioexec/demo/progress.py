"""What the demo knows about itself while it runs; the display reads it."""

from collections import deque
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import numpy.typing as npt

from aioexec.observability.loop_lag import LoopLag, LoopLagProbe

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

    `loss` is a moving average. `losses` and `accuracies` have an entry an epoch, the accuracy of the test images.
    """

    epochs: int
    probe: LoopLagProbe
    epoch: int = 0
    steps: int = 0
    loss: float = float("nan")
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    answered: int = 0
    latest: Prediction | None = None
    recent: deque[Prediction] = field(default_factory=lambda: deque(maxlen=100))
    url: str = ""
    started: float = field(default_factory=perf_counter)
    _marks: deque[tuple[float, int]] = field(default_factory=deque)  # (time, steps) of the last second

    @property
    def accuracy(self) -> float:
        """Test accuracy after the latest epoch, 0 before the first one ends."""
        return self.accuracies[-1] if self.accuracies else 0.0

    @property
    def seconds(self) -> float:
        """Since training began."""
        return perf_counter() - self.started

    def stepped(self, loss: float) -> None:
        """Note a training step."""
        self.steps += 1
        self.loss = loss if self.steps == 1 else self.loss + _SMOOTHING * (loss - self.loss)

    def epoch_ended(self, accuracy: float) -> None:
        """Note the end of an epoch."""
        self.epoch += 1
        self.losses.append(self.loss)
        self.accuracies.append(accuracy)

    def predicted(self, prediction: Prediction) -> None:
        """Note an answer of the server."""
        self.answered += 1
        self.latest = prediction
        self.recent.append(prediction)

    def steps_per_second(self) -> float:
        """Return the rate of the last second or so; to be asked a few times a second."""
        now = self.seconds
        self._marks.append((now, self.steps))
        while len(self._marks) > 2 and now - self._marks[0][0] > _RATE_SECONDS:
            self._marks.popleft()
        then, steps = self._marks[0]
        return (self.steps - steps) / (now - then) if now > then else 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the demo reports at its end."""

    accuracy: float
    steps: int
    seconds: float
    lag: LoopLag
    native_share: float
    answered: int
    prediction: Prediction
    predict_url: str

    @property
    def steps_per_second(self) -> float:
        """Over the whole training, its tests after each epoch included."""
        return self.steps / self.seconds
