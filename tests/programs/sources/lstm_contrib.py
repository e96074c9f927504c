"""Predicts a sine by contrib's recurrent cells and layers, trained by optimize_loss with HParams."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib import layers, rnn

hparams = tf.contrib.training.HParams(hidden=6, time_steps=5, learning_rate=0.1, clip=5.0)


def generate(n):
    starts = np.linspace(0, 6, n)[:, None]
    values = np.sin(starts + 0.4 * np.arange(hparams.time_steps + 1))
    return values[:, :-1, None].astype(np.float32), values[:, -1:].astype(np.float32)


def lstm_model(X, y):
    cells = [rnn.BasicLSTMCell(hparams.hidden), rnn.DropoutWrapper(rnn.GRUCell(hparams.hidden), 1.0)]
    stacked = rnn.MultiRNNCell(cells)
    x_ = tf.unstack(X, axis=1, num=hparams.time_steps)
    output, _ = rnn.static_rnn(stacked, x_, dtype=tf.float32)
    predictions = layers.fully_connected(output[-1], 1, activation_fn=None,
                                         weights_initializer=tf.random_normal_initializer(stddev=0.5))
    loss = tf.losses.mean_squared_error(y, predictions)
    train_op = layers.optimize_loss(loss, tf.train.get_or_create_global_step(), optimizer='Adagrad',
                                    learning_rate=hparams.learning_rate, clip_gradients=hparams.clip)
    return predictions, loss, train_op


def main(steps):
    tf.set_random_seed(250)
    x_data, y_data = generate(20)
    X = tf.placeholder(tf.float32, [None, hparams.time_steps, 1])
    y = tf.placeholder(tf.float32, [None, 1])
    with tf.variable_scope('model', initializer=tf.random_uniform_initializer(-0.5, 0.5)):
        predictions, loss, train_op = lstm_model(X, y)
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(steps):
            losses.append(sess.run(train_op, {X: x_data, y: y_data}))
        losses.append(np.abs(predictions.eval({X: x_data})).mean())
    return losses


if __name__ == '__main__':
    main(100)
