"""The data of the demo: 1,797 handwritten digits of 8×8 pixels.

Test part of "Optical Recognition of Handwritten Digits", E. Alpaydin and C. Kaynak (1998), UCI Machine Learning
Repository, https://doi.org/10.24432/C50P49, as scikit-learn distributes it. Licence of the data: CC BY 4.0. More in
`digits.md`, beside the data.
"""

from collections.abc import Iterator
from importlib import resources

import numpy as np
import numpy.typing as npt

from aioexec.data_classes import dataclass

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int32]

SIZE = 8
"""The width and height of an image in pixels."""

CLASSES = 10

TEST_SHARE = 0.2

_DARKEST = 16
_SHIFTED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Examples:
    """Images, float32 [n, 64] from 0 (paper) to 1 (ink), and their labels, int32 [n]."""

    images: Images
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, size: int, random: np.random.Generator) -> Iterator["Examples"]:
        """Yield all examples once in random order, `size` at a time; half of the images are shifted by up to a pixel.

        The remainder that is too small for a batch is left out.
        """
        padded = np.pad(self.images.reshape(-1, SIZE, SIZE), ((0, 0), (1, 1), (1, 1)))
        moved = np.lib.stride_tricks.sliding_window_view(padded, (SIZE, SIZE), axis=(1, 2))
        order = random.permutation(len(self))
        shifts = random.integers(0, 3, size=(2, len(self)))
        shifts[:, random.random(len(self)) >= _SHIFTED_SHARE] = 1
        for start in range(0, len(self) - size + 1, size):
            chosen = order[start : start + size]
            down, right = shifts[:, start : start + size]
            yield Examples(moved[chosen, down, right].reshape(size, -1), self.labels[chosen])


@dataclass(frozen=True, slots=True)
class Digits:
    """The data set, split."""

    train: Examples
    test: Examples


def load(seed: int = 0) -> Digits:
    """Read the data set and split it at random, one fifth for the test. Blocks while it reads 45 kB."""
    data = resources.files("aioexec.demo") / "digits.npz"
    with data.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        images = arrays["images"].reshape(-1, SIZE * SIZE).astype(np.float32) / _DARKEST
        labels = arrays["labels"].astype(np.int32)
    order = np.random.default_rng(seed).permutation(len(labels))
    tests = round(TEST_SHARE * len(labels))
    test, train = order[:tests], order[tests:]
    return Digits(Examples(images[train], labels[train]), Examples(images[test], labels[test]))
