"""A variational autoencoder as a class with its own session."""

import numpy as np
import tensorflow as tf


def xavier_init(fan_in, fan_out, constant=1):
    """Xavier initialization of network weights"""
    low = -constant * np.sqrt(6.0 / (fan_in + fan_out))
    high = constant * np.sqrt(6.0 / (fan_in + fan_out))
    return tf.random_uniform((fan_in, fan_out), minval=low, maxval=high, dtype=tf.float32)


class VariationalAutoencoder(object):

    def __init__(self, network_architecture, transfer_fct=tf.nn.softplus,
                 learning_rate=0.001, batch_size=100):
        self.network_architecture = network_architecture
        self.transfer_fct = transfer_fct
        self.learning_rate = learning_rate
        self.batch_size = batch_size

        self.x = tf.placeholder(tf.float32, [None, network_architecture["n_input"]])
        self._create_network()
        self._create_loss_optimizer()

        init = tf.global_variables_initializer()
        self.sess = tf.InteractiveSession()
        self.sess.run(init)

    def _create_network(self):
        n = self.network_architecture
        recog = self._layer(self.x, n["n_input"], n["n_hidden"], self.transfer_fct)
        self.z_mean = self._layer(recog, n["n_hidden"], n["n_z"])
        self.z_log_sigma_sq = self._layer(recog, n["n_hidden"], n["n_z"])

        eps = tf.random_normal((self.batch_size, n["n_z"]), 0, 1, dtype=tf.float32)
        # z = mu + sigma*epsilon
        self.z = tf.add(self.z_mean, tf.multiply(tf.sqrt(tf.exp(self.z_log_sigma_sq)), eps))

        gener = self._layer(self.z, n["n_z"], n["n_hidden"], self.transfer_fct)
        self.x_reconstr_mean = self._layer(gener, n["n_hidden"], n["n_input"], tf.nn.sigmoid)

    def _layer(self, x, fan_in, fan_out, activation=tf.identity):
        weights = tf.Variable(xavier_init(fan_in, fan_out))
        bias = tf.Variable(tf.zeros([fan_out], dtype=tf.float32))
        return activation(tf.add(tf.matmul(x, weights), bias))

    def _create_loss_optimizer(self):
        reconstr_loss = -tf.reduce_sum(self.x * tf.log(1e-10 + self.x_reconstr_mean)
                                       + (1 - self.x) * tf.log(1e-10 + 1 - self.x_reconstr_mean), 1)
        latent_loss = -0.5 * tf.reduce_sum(1 + self.z_log_sigma_sq
                                           - tf.square(self.z_mean)
                                           - tf.exp(self.z_log_sigma_sq), 1)
        self.cost = tf.reduce_mean(reconstr_loss + latent_loss)
        self.optimizer = tf.train.AdamOptimizer(learning_rate=self.learning_rate).minimize(self.cost)

    def partial_fit(self, X):
        opt, cost = self.sess.run((self.optimizer, self.cost), feed_dict={self.x: X})
        return cost

    def transform(self, X):
        return self.sess.run(self.z_mean, feed_dict={self.x: X})

    def generate(self, z_mu=None):
        if z_mu is None:
            z_mu = np.zeros((self.batch_size, self.network_architecture["n_z"]))
        return self.sess.run(self.x_reconstr_mean, feed_dict={self.z: z_mu})

    def reconstruct(self, X):
        return self.sess.run(self.x_reconstr_mean, feed_dict={self.x: X})


def train(network_architecture, data, training_epochs, batch_size=16):
    vae = VariationalAutoencoder(network_architecture, learning_rate=0.01, batch_size=batch_size)
    costs = []
    for epoch in range(training_epochs):
        avg_cost = 0.
        for i in range(len(data) // batch_size):
            avg_cost += vae.partial_fit(data[i * batch_size:(i + 1) * batch_size]) / len(data) * batch_size
        costs.append(avg_cost)
    return vae, costs


def main(steps):
    tf.set_random_seed(0)
    rng = np.random.RandomState(0)
    data = (rng.rand(48, 12) < np.linspace(0.1, 0.9, 12)).astype(np.float32)
    vae, costs = train(dict(n_input=12, n_hidden=10, n_z=2), data, steps)
    costs.append(np.mean(vae.generate()))
    costs.append(np.abs(vae.transform(data[:16])).mean())
    vae.sess.close()
    return costs


if __name__ == '__main__':
    main(75)
