"""lstm_contrib.py without contrib."""

import numpy as np
import tensorflow as tf


def main(steps):
    tf.set_random_seed(250)
    starts = np.linspace(0, 6, 20)[:, None]
    values = np.sin(starts + 0.4 * np.arange(6)).astype(np.float32)
    X = tf.placeholder(tf.float32, [None, 5, 1])
    y = tf.placeholder(tf.float32, [None, 1])
    with tf.variable_scope('model', initializer=tf.random_uniform_initializer(-0.5, 0.5)):
        cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(6), tf.nn.rnn_cell.GRUCell(6)])
        output, _ = tf.nn.static_rnn(cell, tf.unstack(X, axis=1, num=5), dtype=tf.float32)
        predictions = tf.layers.dense(output[-1], 1, kernel_initializer=tf.random_normal_initializer(stddev=0.5))
    loss = tf.losses.mean_squared_error(y, predictions)
    optimizer = tf.train.AdagradOptimizer(0.1)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    clipped, _ = tf.clip_by_global_norm(gradients, 5.0)
    train_op = optimizer.apply_gradients(zip(clipped, variables))
    feed = {X: values[:, :-1, None], y: values[:, -1:]}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        losses = [sess.run([loss, train_op], feed)[0] for _ in range(steps)]
        return losses + [np.abs(sess.run(predictions, feed)).mean()]
