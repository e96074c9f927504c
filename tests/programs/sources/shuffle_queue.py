"""A queue that the program fills itself, from a thread of the coordinator's kind, and slices produced in memory."""

import numpy as np
import tensorflow as tf

BATCH = 5


def build(images, labels):
    image, label = tf.train.slice_input_producer([images, labels], shuffle=False, capacity=8)
    image = tf.image.per_image_standardization(image)
    return tf.train.batch([image, label], batch_size=BATCH, num_threads=1)


def main(steps):
    tf.set_random_seed(50)
    rng = np.random.RandomState(50)
    images = rng.rand(10, 4, 4, 1).astype(np.float32)
    labels = (images.mean((1, 2, 3)) > 0.5).astype(np.int32)
    images[labels == 1, 0] += 1

    image_batch, label_batch = build(images, labels)
    queue = tf.FIFOQueue(capacity=20, dtypes=[tf.float32, tf.int32], shapes=[[BATCH, 4, 4, 1], [BATCH]])
    enqueue_op = queue.enqueue([image_batch, label_batch])
    runner = tf.train.QueueRunner(queue, [enqueue_op])
    x, y = queue.dequeue()

    flat = tf.reshape(x, [BATCH, 16])
    w = tf.Variable(tf.random_normal([16, 2], stddev=0.1))
    logits = tf.matmul(flat, w)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    ema = tf.train.ExponentialMovingAverage(0.8)
    averaged = ema.apply([loss])
    with tf.control_dependencies([averaged]):
        train_op = tf.train.ProximalGradientDescentOptimizer(0.1, l2_regularization_strength=0.01).minimize(loss)
    smooth = ema.average(loss)

    out = []
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coord = tf.train.Coordinator()
        enqueue_threads = runner.create_threads(sess, coord=coord, start=True)
        tf.train.start_queue_runners(sess=sess, coord=coord)
        with coord.stop_on_exception():
            for step in range(steps):
                if coord.should_stop():
                    break
                _, value = sess.run([train_op, loss])
                out += [value, sess.run(smooth)]
        coord.request_stop()
        coord.join(enqueue_threads, stop_grace_period_secs=5)
    return out


if __name__ == '__main__':
    main(40)
