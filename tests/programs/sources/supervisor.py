"""Training by a Supervisor: it restores or initializes the model, saves it, and starts the queue runners."""

import tempfile

import numpy as np
import tensorflow as tf


def build_graph():
    tf.set_random_seed(150)
    data = tf.constant(np.random.RandomState(150).randn(16, 3).astype('float32'))
    target = tf.reduce_sum(data * data, 1, keepdims=True)
    order = tf.train.range_input_producer(16, shuffle=False).dequeue_many(8)
    x, y = tf.gather(data, order), tf.gather(target, order)
    with tf.variable_scope('mlp', initializer=tf.random_normal_initializer(stddev=0.5)):
        w1 = tf.get_variable('w1', [3, 8])
        w2 = tf.get_variable('w2', [8, 1])
    loss = tf.reduce_mean(tf.squared_difference(tf.matmul(tf.nn.softplus(tf.matmul(x, w1)), w2), y))
    global_step = tf.train.get_or_create_global_step()
    train_op = tf.train.AdamOptimizer(0.05).minimize(loss, global_step)
    return loss, train_op, global_step


def train(logdir, max_steps):
    losses = []
    with tf.Graph().as_default():
        loss, train_op, global_step = build_graph()
        sv = tf.train.Supervisor(logdir=logdir, save_model_secs=0, save_summaries_secs=0)
        with sv.managed_session() as sess:
            start = sess.run(global_step)
            for step in range(start, max_steps):
                if sv.should_stop():
                    break
                _, value = sess.run([train_op, loss])
                losses.append(value)
            sv.saver.save(sess, sv.save_path, global_step=global_step)
    return losses


def main(steps):
    logdir = tempfile.mkdtemp()
    first = train(logdir, steps)
    second = train(logdir, 2 * steps)
    assert len(second) == steps
    return first + second


if __name__ == '__main__':
    main(50)
