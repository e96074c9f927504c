"""Trains the classifier of several files."""

import numpy as np
import tensorflow as tf

import data
import model as models

DATA = data.read_data_sets()


def optimize(model, num_iterations, batch_size=8):
    for i in range(num_iterations):
        yield model.step(DATA.train.next_batch(batch_size))


def print_test_accuracy(model, report=print):
    accuracy = model.session.run(model.accuracy, model.feed(DATA.test.next_batch(DATA.test.num_examples)))
    report("Accuracy on Test-Set: {0:.1%}".format(accuracy))
    return accuracy


def main(steps):
    tf.set_random_seed(172)
    with models.Classifier.create(learning_rate=0.01) as model:
        losses = list(optimize(model, steps))
        accuracy = print_test_accuracy(model)
        certainty = np.max(model(DATA.test.next_batch(4)[0]), 1).mean()
        size = np.abs(model.weights).sum()
    return losses + [accuracy, certainty, size, models.Classifier.instances]


if __name__ == '__main__':
    main(100)
