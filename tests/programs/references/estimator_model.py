"""estimator_model.py without an estimator: what it computes, in a session."""

import numpy as np
import tensorflow as tf


def main(steps):
    tf.set_random_seed(7)
    rng = np.random.RandomState(160)
    x_data = rng.randn(40, 3).astype(np.float32)
    y_data = (x_data[:, 0] * x_data[:, 1] > 0).astype(np.int32)

    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.placeholder(tf.int32, [None])
    net = tf.layers.dense(x, 8, tf.nn.relu, name='hidden',
                          kernel_initializer=tf.random_normal_initializer(stddev=0.5, seed=1))
    logits = tf.layers.dense(net, 2, kernel_initializer=tf.random_normal_initializer(stddev=0.5, seed=2))
    loss = tf.losses.sparse_softmax_cross_entropy(labels=y, logits=logits)
    train_op = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    classes, probabilities = tf.argmax(logits, axis=1), tf.nn.softmax(logits)

    results = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for part in range(2):
            for step in range(steps):  # each call of `train` begins with the first batch
                batch = np.arange(10 * step, 10 * step + 10) % 40
                sess.run(train_op, {x: x_data[batch], y: y_data[batch]})
            value, found = sess.run([loss, classes], {x: x_data, y: y_data})
            results += [value, (found == y_data).mean(), steps * (part + 1)]
        found, chances = sess.run([classes, probabilities], {x: x_data})
        results += chances[:4, 0].tolist() + [i * c for i, c in enumerate(found)]
        results.append(sess.run(tf.trainable_variables()[0]).sum())
    return results
