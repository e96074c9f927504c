"""Batch normalization by hand: moving averages that tf.cond updates in training only; parameters by a helper with a cache."""

import functools

import numpy as np
import tensorflow as tf


def lazy_property(function):
    attribute = '_cache_' + function.__name__

    @property
    @functools.wraps(function)
    def decorator(self):
        if not hasattr(self, attribute):
            setattr(self, attribute, function(self))
        return getattr(self, attribute)

    return decorator


class Model(object):
    def __init__(self, data, target, phase_train):
        self.data = data
        self.target = target
        self.phase_train = phase_train
        self.prediction
        self.optimize
        self.error

    def batch_norm(self, x, n_out, scope='bn'):
        with tf.variable_scope(scope):
            beta = tf.Variable(tf.constant(0.0, shape=[n_out]), name='beta', trainable=True)
            gamma = tf.Variable(tf.constant(1.0, shape=[n_out]), name='gamma', trainable=True)
            moving_mean = tf.Variable(tf.zeros([n_out]), trainable=False)
            moving_var = tf.Variable(tf.ones([n_out]), trainable=False)
            batch_mean, batch_var = tf.nn.moments(x, [0], name='moments')

            def mean_var_with_update():
                update_mean = tf.assign(moving_mean, moving_mean * 0.7 + batch_mean * 0.3)
                update_var = tf.assign(moving_var, moving_var * 0.7 + batch_var * 0.3)
                with tf.control_dependencies([update_mean, update_var]):
                    return tf.identity(batch_mean), tf.identity(batch_var)

            mean, var = tf.cond(self.phase_train, mean_var_with_update,
                                lambda: (tf.identity(moving_mean), tf.identity(moving_var)))
            return tf.nn.batch_normalization(x, mean, var, beta, gamma, 1e-3)

    @lazy_property
    def prediction(self):
        size = int(self.data.get_shape()[1])
        W1 = tf.Variable(tf.random_normal([size, 10], stddev=0.4))
        hidden = tf.nn.elu(self.batch_norm(tf.matmul(self.data, W1), 10))
        W2 = tf.Variable(tf.random_normal([10, 2], stddev=0.4))
        return tf.nn.softmax(tf.matmul(hidden, W2))

    @lazy_property
    def optimize(self):
        cross_entropy = -tf.reduce_sum(self.target * tf.log(self.prediction + 1e-8)) / 16
        optimizer = tf.train.RMSPropOptimizer(0.03, momentum=0.5, centered=True)
        return optimizer.minimize(cross_entropy)

    @lazy_property
    def error(self):
        mistakes = tf.reduce_mean(tf.abs(self.target - self.prediction))
        return mistakes


def main(steps):
    tf.set_random_seed(130)
    rng = np.random.RandomState(130)
    data = tf.placeholder(tf.float32, [None, 6])
    target = tf.placeholder(tf.float32, [None, 2])
    phase_train = tf.placeholder(tf.bool, name='phase_train')
    model = Model(data, target, phase_train)
    errors = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        test = rng.randn(20, 6)
        test_labels = np.eye(2)[(test[:, 0] > test[:, 1]).astype(int)]
        for _ in range(steps):
            x = rng.randn(16, 6)
            y = np.eye(2)[(x[:, 0] > x[:, 1]).astype(int)]
            sess.run(model.optimize, {data: x, target: y, phase_train: True})
            error = sess.run(model.error, {data: test, target: test_labels, phase_train: False})
            errors.append(error)
    return errors


if __name__ == '__main__':
    main(100)
