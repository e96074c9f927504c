"""Reads records from CSV files by queues: file names, a reader, decoding, batches, a coordinator and queue runners."""

import os
import tempfile

import numpy as np
import tensorflow as tf


def write_files(directory, count=2, rows=12):
    rng = np.random.RandomState(40)
    names = []
    for i in range(count):
        name = os.path.join(directory, 'part-%d.csv' % i)
        with open(name, 'w') as f:
            f.write('a,b,label\n')
            for _ in range(rows):
                a, b = rng.uniform(-1, 1, 2)
                f.write('%.3f,%.3f,%d\n' % (a, b, a > b))
        names.append(name)
    return names


def read_my_file_format(filename_queue):
    reader = tf.TextLineReader(skip_header_lines=1)
    key, value = reader.read(filename_queue)
    a, b, label = tf.decode_csv(value, record_defaults=[[0.0], [0.0], [0]])
    return tf.stack([a, b]), label


def input_pipeline(filenames, batch_size, num_epochs=None):
    filename_queue = tf.train.string_input_producer(filenames, num_epochs=num_epochs, shuffle=False)
    example, label = read_my_file_format(filename_queue)
    return tf.train.batch([example, label], batch_size=batch_size, capacity=3 * batch_size)


def inference(features):
    with tf.variable_scope('linear'):
        w = tf.get_variable('w', [2], initializer=tf.zeros_initializer())
        b = tf.get_variable('b', [], initializer=tf.zeros_initializer())
    return tf.reduce_sum(features * w, 1) + b


def main(steps):
    directory = tempfile.mkdtemp()
    features, labels = input_pipeline(write_files(directory), 4, num_epochs=steps)
    logits = inference(features)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.to_float(labels), logits=logits))
    train_op = tf.train.FtrlOptimizer(0.5, l2_regularization_strength=0.01).minimize(loss)
    init_op = tf.group(tf.global_variables_initializer(), tf.local_variables_initializer())

    sess = tf.Session()
    sess.run(init_op)
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(sess=sess, coord=coord)

    losses = []
    try:
        while not coord.should_stop():
            # Run training steps or whatever
            losses.append(sess.run([train_op, loss])[1])
    except tf.errors.OutOfRangeError:
        print('Done training -- epoch limit reached')
    finally:
        # When done, ask the threads to stop.
        coord.request_stop()

    # Wait for threads to finish.
    coord.join(threads)
    sess.close()
    return losses


if __name__ == '__main__':
    main(2)
