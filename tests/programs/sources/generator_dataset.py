"""tf.data from arrays and a generator: shapes padded in batches, an initializable iterator with placeholders."""

import numpy as np
import tensorflow as tf


def sentences():
    for i in range(1, 9):
        yield [(i * j) % 7 + 1 for j in range(1, 2 + i % 4)], i % 3


def main(steps):
    tf.set_random_seed(70)
    targets_placeholder = tf.placeholder(tf.float32, [None, 2])
    words = tf.data.Dataset.from_generator(sentences, (tf.int32, tf.int32), (tf.TensorShape([None]), tf.TensorShape([])))
    targets = tf.data.Dataset.from_tensor_slices(targets_placeholder)
    dataset = tf.data.Dataset.zip((words, targets)).repeat()
    dataset = dataset.padded_batch(4, padded_shapes=(([None], []), [2]))
    iterator = dataset.make_initializable_iterator()
    (ids, kind), target = iterator.get_next()

    embedding = tf.get_variable('embedding', [8, 3], initializer=tf.random_normal_initializer())
    kinds = tf.get_variable('kinds', [3, 3], initializer=tf.random_normal_initializer())
    mask = tf.expand_dims(tf.sign(tf.to_float(ids)), -1)
    mean = tf.reduce_sum(tf.nn.embedding_lookup(embedding, ids) * mask, 1) / tf.reduce_sum(mask, 1)
    hidden = tf.nn.relu6(mean + tf.gather(kinds, kind))
    w = tf.get_variable('w', [3, 2], initializer=tf.random_normal_initializer())
    loss = tf.losses.huber_loss(target, tf.matmul(hidden, w))
    train_op = tf.train.GradientDescentOptimizer(0.5).minimize(loss)

    values = np.stack([np.linspace(-1, 1, 8), np.linspace(1, -1, 8) ** 2], 1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(iterator.initializer, feed_dict={targets_placeholder: values})
        losses = [sess.run((loss, train_op))[0] for _ in range(steps)]
    return losses


if __name__ == '__main__':
    main(100)
