"""tf.data: records are written, read, parsed and batched; training and validation share a reinitializable iterator."""

import os
import tempfile

import numpy as np
import tensorflow as tf


def _float_feature(value):
    return tf.train.Feature(float_list=tf.train.FloatList(value=value))


def _int64_feature(value):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def convert_to(path, seed, n):
    rng = np.random.RandomState(seed)
    with tf.python_io.TFRecordWriter(path) as writer:
        for _ in range(n):
            x = rng.randn(5)
            example = tf.train.Example(features=tf.train.Features(feature={
                'x': _float_feature(x.tolist()),
                'label': _int64_feature(int(x[:2].sum() > 0))}))
            writer.write(example.SerializeToString())


def decode(serialized_example):
    features = tf.parse_single_example(
        serialized_example,
        features={
            'x': tf.FixedLenFeature([5], tf.float32),
            'label': tf.FixedLenFeature([], tf.int64),
        })
    return features['x'], tf.cast(features['label'], tf.int32)


def augment(x, label):
    return tf.concat([x, x[:1] * x[1:2]], 0), label


def make_dataset(path, batch_size, training):
    dataset = tf.data.TFRecordDataset(path)
    dataset = dataset.map(decode).map(augment)
    if training:
        dataset = dataset.filter(lambda x, label: tf.less(tf.reduce_max(tf.abs(x)), 3.0))
    return dataset.batch(batch_size).prefetch(1)


def main(steps):
    directory = tempfile.mkdtemp()
    train_path, test_path = [os.path.join(directory, name + '.tfrecords') for name in ('train', 'test')]
    convert_to(train_path, 60, 22)
    convert_to(test_path, 61, 9)

    train, test = make_dataset(train_path, 6, True), make_dataset(test_path, 9, False)
    iterator = tf.data.Iterator.from_structure(train.output_types, train.output_shapes)
    x, label = iterator.get_next()
    train_init, test_init = iterator.make_initializer(train), iterator.make_initializer(test)

    with tf.variable_scope('model', initializer=tf.constant_initializer(0.1)):
        w = tf.get_variable('w', [6, 2])
        b = tf.get_variable('b', [2])
    logits = tf.nn.xw_plus_b(x, w, b)
    loss = tf.losses.sparse_softmax_cross_entropy(label, logits)
    accuracy, update_accuracy = tf.metrics.accuracy(label, tf.argmax(logits, 1))
    train_op = tf.train.AdadeltaOptimizer(5.0, epsilon=1e-2).minimize(loss)

    history = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for epoch in range(steps):
            sess.run(train_init)
            while True:
                try:
                    history.append(sess.run([loss, train_op])[0])
                except tf.errors.OutOfRangeError:
                    break
            sess.run([tf.local_variables_initializer(), test_init])
            sess.run(update_accuracy)
            history.append(sess.run(accuracy))
    return history


if __name__ == '__main__':
    main(5)
