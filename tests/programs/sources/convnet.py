"""A convolutional network for small images, with helper functions, as in the tutorials; checkpoints at the end."""

import os
import tempfile

import numpy as np
import tensorflow as tf


def weight_variable(shape):
    initial = tf.truncated_normal(shape, stddev=0.1)
    return tf.Variable(initial)


def bias_variable(shape):
    return tf.Variable(tf.constant(0.1, shape=shape))


def conv2d(x, W):
    return tf.nn.conv2d(x, W, strides=[1, 1, 1, 1], padding='SAME')


def max_pool_2x2(x):
    return tf.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding='SAME')


def images_and_labels(n):
    """Bars, horizontal or vertical, in noise."""
    rng = np.random.RandomState(3)
    labels = rng.randint(0, 2, n)
    images = 0.3 * rng.rand(n, 12, 12, 1)
    for i, label in enumerate(labels):
        place = rng.randint(0, 12)
        if label:
            images[i, place, :, 0] += 1
        else:
            images[i, :, place, 0] += 1
    return images.astype(np.float32), labels


def main(steps):
    tf.set_random_seed(11)
    x = tf.placeholder(tf.float32, shape=[None, 12, 12, 1], name='x-input')
    y_ = tf.placeholder(tf.int64, shape=[None], name='y-input')

    with tf.name_scope('conv1'):
        h_conv1 = tf.nn.relu(conv2d(x, weight_variable([5, 5, 1, 8])) + bias_variable([8]))
        h_pool1 = max_pool_2x2(h_conv1)
    with tf.name_scope('conv2'):
        h_conv2 = tf.nn.relu(conv2d(h_pool1, weight_variable([3, 3, 8, 8])) + bias_variable([8]))
        h_pool2 = max_pool_2x2(h_conv2)
    with tf.name_scope('fc'):
        flat = tf.reshape(h_pool2, [-1, 3 * 3 * 8])
        h_fc1 = tf.nn.relu(tf.matmul(flat, weight_variable([72, 32])) + bias_variable([32]))
        y_conv = tf.matmul(h_fc1, weight_variable([32, 2])) + bias_variable([2])

    cross_entropy = tf.losses.sparse_softmax_cross_entropy(labels=y_, logits=y_conv)
    train_step = tf.train.AdamOptimizer(1e-2).minimize(cross_entropy)
    correct = tf.equal(tf.argmax(y_conv, 1), y_)
    accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
    saver = tf.train.Saver()

    images, labels = images_and_labels(64)
    losses = []
    directory = tempfile.mkdtemp()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for i in range(steps):
            batch = np.arange(i * 16, i * 16 + 16) % 64
            _, loss = sess.run([train_step, cross_entropy], {x: images[batch], y_: labels[batch]})
            losses.append(loss)
        before = accuracy.eval(feed_dict={x: images, y_: labels})
        path = saver.save(sess, os.path.join(directory, 'model.ckpt'), global_step=steps)

    with tf.Session() as sess:
        saver.restore(sess, path)
        after = sess.run(accuracy, {x: images, y_: labels})
    assert before == after
    return losses + [after]


if __name__ == '__main__':
    main(50)
