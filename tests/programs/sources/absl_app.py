"""A command of absl: flags, logging and an application; regularized quantile regression with a learned loss weight."""

import os
import tempfile

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_string('absl_app_dir', None, 'Where to write the model.')
tf.app.flags.DEFINE_list('absl_app_quantiles', ['0.1', '0.5', '0.9'], 'The quantiles.')
tf.app.flags.DEFINE_enum('absl_app_optimizer', 'adam', ['adam', 'sgd'], 'The optimizer.')
FLAGS = tf.app.flags.FLAGS


def quantile_loss(y, q_hat, quantiles):
    error = y - q_hat
    return tf.reduce_mean(tf.maximum(quantiles * error, (quantiles - 1) * error))


def get_optimizer():
    if FLAGS.absl_app_optimizer == 'adam':
        return tf.train.AdamOptimizer(0.05)
    return tf.train.GradientDescentOptimizer(0.05)


def fit(num_steps):
    quantiles = tf.constant([float(q) for q in FLAGS.absl_app_quantiles])
    rng = np.random.RandomState(320)
    x = rng.uniform(-1, 1, (64, 1)).astype(np.float32)
    y = x ** 2 + 0.2 * rng.randn(64, 1).astype(np.float32)

    net = tf.layers.dense(x, 8, tf.nn.tanh, kernel_initializer=tf.orthogonal_initializer(seed=1))
    q_hat = tf.layers.dense(net, 3, kernel_initializer=tf.truncated_normal_initializer(stddev=0.4, seed=2))
    loss = quantile_loss(y, q_hat, quantiles)
    train_op = get_optimizer().minimize(loss)
    saver = tf.train.Saver()
    losses = []
    directory = FLAGS.absl_app_dir or tempfile.mkdtemp()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(num_steps):
            _, value = sess.run([train_op, loss])
            tf.logging.debug('step %d: loss %f', step, value)
            losses.append(value)
        saver.save(sess, os.path.join(directory, 'model'))
        under = sess.run(tf.reduce_mean(tf.to_float(y < q_hat), 0))
    return losses + list(under)


def main(steps):
    tf.logging.set_verbosity(tf.logging.INFO)
    return fit(steps)


def run(argv):
    print(main(100))


if __name__ == '__main__':
    tf.app.run(run)
