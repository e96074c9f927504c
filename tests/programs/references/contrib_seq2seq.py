"""contrib_seq2seq.py without contrib: additive attention, the attentional state and teacher forcing by hand."""

import numpy as np
import tensorflow as tf

GO, EOS, VOCAB, UNITS, LENGTH, BATCH = 0, 1, 7, 8, 4, 6


def no_bias(x, units, name, init=None):
    w = tf.get_variable(name, [x.shape[-1], units], initializer=init)
    return tf.tensordot(x, w, 1)


def build(source, target):
    embedding = tf.get_variable('embedding', [VOCAB, UNITS])
    outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(UNITS), tf.nn.embedding_lookup(embedding, source),
                                       dtype=tf.float32)
    keys = no_bias(outputs, UNITS, 'memory')
    inputs = tf.nn.embedding_lookup(embedding, tf.concat([tf.fill([BATCH, 1], GO), target[:, :-1]], 1))
    cell = tf.nn.rnn_cell.GRUCell(UNITS)
    attention = tf.zeros([BATCH, UNITS])
    losses = []
    with tf.variable_scope('decoder') as scope:
        for t in range(LENGTH + 1):
            output, state = cell(tf.concat([inputs[:, t], attention], 1), state)
            query = no_bias(output, UNITS, 'query')
            v = tf.get_variable('v', [UNITS])
            weights = tf.nn.softmax(tf.reduce_sum(v * tf.tanh(keys + query[:, None]), 2))
            context = tf.reduce_sum(weights[:, :, None] * outputs, 1)
            attention = no_bias(tf.concat([output, context], 1), UNITS, 'attention')
            logits = no_bias(attention, VOCAB, 'projection', tf.random_normal_initializer(stddev=0.3))
            losses.append(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target[:, t], logits=logits))
            scope.reuse_variables()
    return tf.reduce_mean(losses)


def main(steps):
    tf.set_random_seed(260)
    rng = np.random.RandomState(260)
    source = tf.placeholder(tf.int32, [BATCH, LENGTH])
    target = tf.placeholder(tf.int32, [BATCH, LENGTH + 1])
    with tf.variable_scope('seq2seq', initializer=tf.random_uniform_initializer(-0.4, 0.4)):
        loss = build(source, target)
    train_op = tf.train.AdamOptimizer(0.03).minimize(loss)
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(steps):
            words = rng.randint(2, VOCAB, (BATCH, LENGTH))
            reverse = np.concatenate([words[:, ::-1], np.full((BATCH, 1), EOS)], 1)
            losses.append(sess.run([loss, train_op], {source: words, target: reverse})[0])
    return losses
