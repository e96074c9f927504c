"""Classifies sequences of different lengths by an LSTM; state of the last step by gather."""

from __future__ import print_function

import random

import tensorflow as tf


class ToySequenceData(object):
    """Linear sequences and random ones."""

    def __init__(self, n_samples=60, max_seq_len=8, min_seq_len=3, max_value=20):
        self.data = []
        self.labels = []
        self.seqlen = []
        for i in range(n_samples):
            len = random.randint(min_seq_len, max_seq_len)
            self.seqlen.append(len)
            if random.random() < .5:
                rand_start = random.randint(0, max_value - len)
                s = [[float(i) / max_value] for i in range(rand_start, rand_start + len)]
                self.labels.append([1., 0.])
            else:
                s = [[float(random.randint(0, max_value)) / max_value] for i in range(len)]
                self.labels.append([0., 1.])
            s += [[0.] for i in range(max_seq_len - len)]
            self.data.append(s)
        self.batch_id = 0

    def next(self, batch_size):
        if self.batch_id == len(self.data):
            self.batch_id = 0
        end = min(self.batch_id + batch_size, len(self.data))
        batch = [part[self.batch_id:end] for part in (self.data, self.labels, self.seqlen)]
        self.batch_id = end
        return batch


seq_max_len = 8
n_hidden = 6


def dynamic_rnn(x, seqlen, weights, biases):
    with tf.variable_scope('rnn', initializer=tf.random_uniform_initializer(-0.4, 0.4)):
        lstm_cell = tf.nn.rnn_cell.BasicLSTMCell(n_hidden)
        outputs, states = tf.nn.dynamic_rnn(lstm_cell, x, dtype=tf.float32, sequence_length=seqlen)

    # The output of the last step of each sequence
    batch_size = tf.shape(outputs)[0]
    index = tf.range(0, batch_size) * seq_max_len + (seqlen - 1)
    outputs = tf.gather(tf.reshape(outputs, [-1, n_hidden]), index)
    return tf.matmul(outputs, weights['out']) + biases['out']


def main(steps):
    random.seed(1)
    tf.set_random_seed(1)
    trainset = ToySequenceData()
    x = tf.placeholder("float", [None, seq_max_len, 1])
    y = tf.placeholder("float", [None, 2])
    seqlen = tf.placeholder(tf.int32, [None])
    weights = {'out': tf.Variable(tf.random_normal([n_hidden, 2]))}
    biases = {'out': tf.Variable(tf.random_normal([2]))}

    pred = dynamic_rnn(x, seqlen, weights, biases)
    cost = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(logits=pred, labels=y))
    optimizer = tf.train.GradientDescentOptimizer(learning_rate=0.5).minimize(cost)
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(pred, 1), tf.argmax(y, 1)), tf.float32))

    result = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(1, steps + 1):
            batch_x, batch_y, batch_seqlen = trainset.next(20)
            feed = {x: batch_x, y: batch_y, seqlen: batch_seqlen}
            sess.run(optimizer, feed_dict=feed)
            if step % 2 == 0 or step == 1:
                acc, loss = sess.run([accuracy, cost], feed_dict=feed)
                print("Step " + str(step) + ", Minibatch Loss= " + "{:.6f}".format(loss))
                result.append(loss)
        print("Testing Accuracy:", sess.run(accuracy, feed_dict={
            x: trainset.data, y: trainset.labels, seqlen: trainset.seqlen}))
    return result


if __name__ == '__main__':
    main(100)
