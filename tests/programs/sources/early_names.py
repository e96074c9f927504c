"""A program in the names from before TensorFlow 1.0."""

import tempfile

import numpy as np
import tensorflow as tf


def inference(images):
    with tf.variable_scope('hidden'):
        weights = tf.get_variable('weights', [6, 5], initializer=tf.random_normal_initializer(0.0, 0.4))
        tf.histogram_summary('weights', weights)
        hidden = tf.nn.relu(tf.matmul(images, weights))
    left, right = tf.split(1, 2, tf.concat(1, [hidden, tf.neg(hidden)]))
    both = tf.mul(tf.sub(left, right), 0.5)
    rows = tf.pack(tf.unpack(both, axis=1), axis=1)
    out = tf.get_variable('out', [5, 3], initializer=tf.random_normal_initializer(0.0, 0.4))
    return tf.matmul(rows, out)


def main(steps):
    tf.set_random_seed(230)
    rng = np.random.RandomState(230)
    x = tf.placeholder(tf.float32, [None, 6])
    y = tf.placeholder(tf.int64, [None])
    logits = inference(x)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits, y))
    tf.scalar_summary('loss', loss)
    train_op = tf.train.AdagradOptimizer(0.2).minimize(loss)
    summary_op = tf.merge_all_summaries()
    saver = tf.train.Saver(tf.all_variables())

    data = rng.randn(24, 6)
    labels = np.argmax(data[:, :3], 1)
    directory = tempfile.mkdtemp()
    losses = []
    sess = tf.Session()
    sess.run(tf.initialize_all_variables())
    writer = tf.train.SummaryWriter(directory, sess.graph)
    for step in xrange(steps) if 'xrange' in globals() else range(steps):
        _, value, summary = sess.run([train_op, loss, summary_op], {x: data, y: labels})
        losses.append(value)
        writer.add_summary(summary, step)
    saver.save(sess, directory + '/model')
    writer.close()
    sess.close()
    return losses


if __name__ == '__main__':
    main(50)
