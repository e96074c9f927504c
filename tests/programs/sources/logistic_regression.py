"""Softmax regression, with the accuracy by eval() in the default session."""

import numpy as np
import tensorflow as tf

CLASSES = 4
FEATURES = 16


def make_data(n=120):
    rng = np.random.RandomState(7)
    centers = rng.randn(CLASSES, FEATURES)
    labels = rng.randint(0, CLASSES, n)
    images = centers[labels] + 0.3 * rng.randn(n, FEATURES)
    return images.astype(np.float32), np.eye(CLASSES, dtype=np.float32)[labels]


def main(steps, batch_size=40):
    images, labels = make_data()

    x = tf.placeholder(tf.float32, [None, FEATURES])
    y_ = tf.placeholder(tf.float32, [None, CLASSES])
    W = tf.Variable(tf.zeros([FEATURES, CLASSES]))
    b = tf.Variable(tf.zeros([CLASSES]))
    y = tf.nn.softmax(tf.matmul(x, W) + b)

    cross_entropy = tf.reduce_mean(
        -tf.reduce_sum(y_ * tf.log(y), reduction_indices=[1]))
    train_step = tf.train.GradientDescentOptimizer(0.5).minimize(cross_entropy)

    correct_prediction = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
    accuracy = tf.reduce_mean(tf.cast(correct_prediction, tf.float32))

    losses = []
    sess = tf.InteractiveSession()
    tf.global_variables_initializer().run()
    for i in range(steps):
        start = (i * batch_size) % len(images)
        batch = slice(start, start + batch_size)
        train_step.run({x: images[batch], y_: labels[batch]})
        losses.append(cross_entropy.eval({x: images, y_: labels}))

    # Test the trained model
    losses.append(accuracy.eval({x: images, y_: labels}))
    sess.close()
    return losses


if __name__ == "__main__":
    print(main(100))
