"""A convolutional GAN with batch normalization: training flag, update ops, transposed convolutions."""

import numpy as np
import tensorflow as tf

batch_size = 8
noise_dim = 5
init = tf.random_normal_initializer(stddev=0.1)


def generator(x, training, reuse=False):
    with tf.variable_scope('Generator', reuse=reuse):
        x = tf.layers.dense(x, units=3 * 3 * 8, kernel_initializer=init, use_bias=False)
        x = tf.layers.batch_normalization(x, training=training)
        x = tf.nn.relu(x)
        x = tf.reshape(x, shape=[-1, 3, 3, 8])
        x = tf.layers.conv2d_transpose(x, 4, 4, strides=2, padding='same', kernel_initializer=init, use_bias=False)
        x = tf.layers.batch_normalization(x, training=training)
        x = tf.nn.relu(x)
        x = tf.layers.conv2d_transpose(x, 1, 4, strides=2, padding='same', kernel_initializer=init, use_bias=False)
        return tf.nn.tanh(x)


def discriminator(x, training, reuse=False):
    with tf.variable_scope('Discriminator', reuse=reuse):
        x = tf.layers.conv2d(x, 4, 5, strides=2, padding='same', kernel_initializer=init, use_bias=False)
        x = tf.nn.leaky_relu(tf.layers.batch_normalization(x, training=training))
        x = tf.layers.conv2d(x, 8, 5, strides=2, padding='same', kernel_initializer=init, use_bias=False)
        x = tf.nn.leaky_relu(tf.layers.batch_normalization(x, training=training))
        x = tf.layers.flatten(x)
        return tf.layers.dense(x, 2, kernel_initializer=init)


def images(n):
    y, x = np.mgrid[:12, :12]
    rng = np.random.RandomState(4)
    centers = rng.uniform(3, 9, (n, 2, 1, 1))
    return np.tanh(2 - np.hypot(y - centers[:, 0], x - centers[:, 1]))[..., None]


def main(steps):
    tf.set_random_seed(8)
    noise_input = tf.placeholder(tf.float32, shape=[None, noise_dim])
    real_image_input = tf.placeholder(tf.float32, shape=[None, 12, 12, 1])
    is_training = tf.placeholder(tf.bool)

    gen_sample = generator(noise_input, is_training)
    disc_real = discriminator(real_image_input, is_training)
    disc_fake = discriminator(gen_sample, is_training, reuse=True)

    def cross_entropy(logits, label):
        labels = tf.fill([tf.shape(logits)[0]], label)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels))

    disc_loss = cross_entropy(disc_real, 1) + cross_entropy(disc_fake, 0)
    gen_loss = cross_entropy(disc_fake, 1)

    gen_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope='Generator')
    disc_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope='Discriminator')

    gen_update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS, scope='Generator')
    disc_update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS, scope='Discriminator')
    with tf.control_dependencies(gen_update_ops):
        train_gen = tf.train.AdamOptimizer(0.002, beta1=0.5).minimize(gen_loss, var_list=gen_vars)
    with tf.control_dependencies(disc_update_ops):
        train_disc = tf.train.AdamOptimizer(0.002, beta1=0.5).minimize(disc_loss, var_list=disc_vars)

    data, rng = images(32), np.random.RandomState(6)
    history = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for i in range(steps):
            batch_x = data[(i * batch_size) % 32:][:batch_size]
            z = rng.uniform(-1., 1., size=[batch_size, noise_dim])
            _, dl = sess.run([train_disc, disc_loss],
                             feed_dict={real_image_input: batch_x, noise_input: z, is_training: True})
            _, gl = sess.run([train_gen, gen_loss], feed_dict={noise_input: z, is_training: True})
            history.extend([dl, gl])
        g = sess.run(gen_sample, feed_dict={noise_input: np.ones((2, noise_dim)), is_training: False})
    return history + [g.mean(), g.std()]


if __name__ == '__main__':
    main(100)
