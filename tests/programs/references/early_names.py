"""early_names.py in the names of TensorFlow 1.x."""

import numpy as np
import tensorflow as tf


def main(steps):
    tf.set_random_seed(230)
    rng = np.random.RandomState(230)
    x = tf.placeholder(tf.float32, [None, 6])
    y = tf.placeholder(tf.int64, [None])
    weights = tf.get_variable('weights', [6, 5], initializer=tf.random_normal_initializer(0.0, 0.4))
    hidden = tf.nn.relu(tf.matmul(x, weights))
    left, right = tf.split(tf.concat([hidden, tf.negative(hidden)], 1), 2, 1)
    rows = tf.multiply(tf.subtract(left, right), 0.5)
    out = tf.get_variable('out', [5, 3], initializer=tf.random_normal_initializer(0.0, 0.4))
    loss = tf.losses.sparse_softmax_cross_entropy(y, tf.matmul(rows, out))
    train_op = tf.train.AdagradOptimizer(0.2).minimize(loss)

    data = rng.randn(24, 6)
    labels = np.argmax(data[:, :3], 1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return [sess.run([loss, train_op], {x: data, y: labels})[0] for _ in range(steps)]
