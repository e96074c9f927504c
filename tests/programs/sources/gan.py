"""A generative adversarial network of a mixture of two Gaussians; two optimizers with variables by scope."""

from __future__ import division

import numpy as np
import tensorflow as tf


class DataDistribution(object):
    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)

    def sample(self, N):
        side = self.rng.choice([-2.0, 2.0], size=N)
        samples = side + 0.3 * self.rng.randn(N)
        return np.sort(samples)


class GeneratorDistribution(object):
    def __init__(self, range, seed):
        self.range = range
        self.rng = np.random.RandomState(seed)

    def sample(self, N):
        return np.linspace(-self.range, self.range, N) + self.rng.random_sample(N) * 0.01


def linear(input, output_dim, scope=None, stddev=0.5):
    with tf.variable_scope(scope or 'linear'):
        w = tf.get_variable('w', [input.get_shape()[1], output_dim],
                            initializer=tf.random_normal_initializer(stddev=stddev))
        b = tf.get_variable('b', [output_dim], initializer=tf.constant_initializer(0.0))
        return tf.matmul(input, w) + b


def generator(input, h_dim):
    h0 = tf.nn.softplus(linear(input, h_dim, 'g0'))
    return linear(h0, 1, 'g1')


def discriminator(input, h_dim):
    h0 = tf.nn.relu(linear(input, h_dim * 2, 'd0'))
    h1 = tf.nn.leaky_relu(linear(h0, h_dim * 2, 'd1'))
    return tf.sigmoid(linear(h1, 1, 'd2'))


def log(x):
    return tf.log(tf.maximum(x, 1e-5))


class GAN(object):
    def __init__(self, batch_size, hidden_size):
        with tf.variable_scope('G'):
            self.z = tf.placeholder(tf.float32, shape=(batch_size, 1))
            self.G = generator(self.z, hidden_size)

        self.x = tf.placeholder(tf.float32, shape=(batch_size, 1))
        with tf.variable_scope('D'):
            self.D1 = discriminator(self.x, hidden_size)
        with tf.variable_scope('D', reuse=True):
            self.D2 = discriminator(self.G, hidden_size)

        self.loss_d = tf.reduce_mean(-log(self.D1) - log(1 - self.D2))
        self.loss_g = tf.reduce_mean(-log(self.D2))

        vars = tf.trainable_variables()
        self.d_params = [v for v in vars if v.name.startswith('D/')]
        self.g_params = [v for v in vars if v.name.startswith('G/')]
        self.opt_d = tf.train.AdamOptimizer(0.01, beta1=0.5).minimize(self.loss_d, var_list=self.d_params)
        self.opt_g = tf.train.AdamOptimizer(0.01, beta1=0.5).minimize(self.loss_g, var_list=self.g_params)


def train(model, data, gen, num_steps, batch_size=12):
    losses = []
    with tf.Session() as session:
        tf.local_variables_initializer().run()
        tf.global_variables_initializer().run()

        for step in range(num_steps):
            # update discriminator
            x = data.sample(batch_size)
            z = gen.sample(batch_size)
            loss_d, _ = session.run([model.loss_d, model.opt_d], {
                model.x: np.reshape(x, (batch_size, 1)),
                model.z: np.reshape(z, (batch_size, 1))
            })

            # update generator
            z = gen.sample(batch_size)
            loss_g, _ = session.run([model.loss_g, model.opt_g], {
                model.z: np.reshape(z, (batch_size, 1))
            })
            losses += [loss_d, loss_g]
        losses.append(np.std(session.run(model.G, {model.z: gen.sample(12)[:, None]})))
    return losses


def main(steps):
    tf.set_random_seed(3)
    return train(GAN(12, 4), DataDistribution(1), GeneratorDistribution(8, 2), steps)


if __name__ == '__main__':
    main(1000)
