"""Generated images of circles and squares."""

import numpy as np

IMAGE_SIZE = 10
NUM_CLASSES = 2


def load(n, seed):
    rng = np.random.RandomState(seed)
    y, x = np.mgrid[:IMAGE_SIZE, :IMAGE_SIZE]
    images, labels = [], []
    for _ in range(n):
        cy, cx = rng.uniform(3, 7, 2)
        label = rng.randint(NUM_CLASSES)
        far = np.hypot(y - cy, x - cx) if label else np.maximum(abs(y - cy), abs(x - cx))
        images.append((far < 3) + 0.2 * rng.randn(IMAGE_SIZE, IMAGE_SIZE))
        labels.append(label)
    return np.array(images, dtype=np.float32)[..., None], np.array(labels)


class DataSet:
    def __init__(self, images, labels):
        self._images = images
        self._labels = labels
        self._index_in_epoch = 0
        self.epochs_completed = 0

    @property
    def num_examples(self):
        return len(self._labels)

    def next_batch(self, batch_size):
        start = self._index_in_epoch
        self._index_in_epoch += batch_size
        if self._index_in_epoch > self.num_examples:
            self.epochs_completed += 1
            start = 0
            self._index_in_epoch = batch_size
        end = self._index_in_epoch
        return self._images[start:end], self._labels[start:end]


def read_data_sets():
    class DataSets:
        pass

    data_sets = DataSets()
    data_sets.train = DataSet(*load(32, 170))
    data_sets.test = DataSet(*load(16, 171))
    return data_sets
