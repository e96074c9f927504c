"""A denoising autoencoder by tf.layers."""

import numpy as np
import tensorflow as tf

num_inputs, num_hid1, num_hid2 = 20, 12, 6

he_init = tf.variance_scaling_initializer(scale=2.0)


def corrupt(x, scale):
    """Adds Gaussian noise to the input."""
    return x + scale * tf.random_normal(tf.shape(x))


def encoder(x):
    net = tf.layers.dense(x, num_hid1, activation=tf.nn.elu, kernel_initializer=he_init, name='enc1')
    return tf.layers.dense(net, num_hid2, activation=tf.nn.elu, kernel_initializer=he_init, name='enc2')


def decoder(code):
    net = tf.layers.dense(code, num_hid1, activation=tf.nn.elu, kernel_initializer=he_init, name='dec1')
    return tf.layers.dense(net, num_inputs, kernel_initializer=he_init, name='dec2')


def signals(n):
    rng = np.random.RandomState(2)
    phase = rng.uniform(0, 2 * np.pi, (n, 1))
    return np.sin(phase + np.linspace(0, 3, num_inputs)).astype(np.float32)


def main(steps):
    tf.set_random_seed(9)
    X = tf.placeholder(tf.float32, shape=[None, num_inputs])
    noise = tf.placeholder_with_default(0.1, shape=[])
    code = encoder(corrupt(X, noise))
    reconstructed = decoder(code)

    loss = tf.losses.mean_squared_error(X, reconstructed)
    sparsity = 1e-3 * tf.reduce_mean(tf.abs(code))
    train = tf.train.RMSPropOptimizer(0.005).minimize(loss + sparsity)

    data = signals(60)
    batches = [data[i:i + 20] for i in range(0, 60, 20)]
    with tf.Session() as sess:
        tf.global_variables_initializer().run()
        history = []
        for epoch in range(steps):
            total = sum(sess.run([loss, train], feed_dict={X: batch})[0] for batch in batches)
            history.append(total / len(batches))
        clean = reconstructed.eval(feed_dict={X: data, noise: 0.0})
        history.append(np.mean((clean - data) ** 2))
    return history


if __name__ == '__main__':
    print(main(50))
