"""Reverses sequences with contrib.seq2seq: an attention wrapper, training and greedy helpers, beam search, a sequence loss."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib import seq2seq

GO, EOS, VOCAB, UNITS, LENGTH = 0, 1, 7, 8, 4


def build(source, target, batch_size):
    embedding = tf.get_variable('embedding', [VOCAB, UNITS])
    lengths = tf.fill([batch_size], LENGTH)
    with tf.variable_scope('encoder'):
        encoder_cell = tf.nn.rnn_cell.GRUCell(UNITS)
        outputs, state = tf.nn.dynamic_rnn(encoder_cell, tf.nn.embedding_lookup(embedding, source), dtype=tf.float32)
    projection = tf.layers.Dense(VOCAB, use_bias=False, name='projection',
                                 kernel_initializer=tf.random_normal_initializer(stddev=0.3))

    def decode(helper, scope, reuse=None):
        with tf.variable_scope(scope, reuse=reuse):
            attention = seq2seq.BahdanauAttention(UNITS, outputs, memory_sequence_length=lengths)
            cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(UNITS), attention, attention_layer_size=UNITS)
            initial = cell.zero_state(batch_size, tf.float32).clone(cell_state=state)
            decoder = seq2seq.BasicDecoder(cell, helper, initial, output_layer=projection)
            final, _, final_lengths = seq2seq.dynamic_decode(decoder, maximum_iterations=LENGTH + 2)
            return final, final_lengths

    start = tf.fill([batch_size], GO)
    decoder_input = tf.concat([start[:, None], target[:, :-1]], 1)
    training = seq2seq.TrainingHelper(tf.nn.embedding_lookup(embedding, decoder_input),
                                      tf.fill([batch_size], LENGTH + 1))
    greedy = seq2seq.GreedyEmbeddingHelper(embedding, start, EOS)
    train_output, _ = decode(training, 'decoder')
    predicted, predicted_lengths = decode(greedy, 'decoder', reuse=True)
    loss = seq2seq.sequence_loss(train_output.rnn_output, target, tf.ones([batch_size, LENGTH + 1]))
    return loss, predicted.sample_id, predicted_lengths


def main(steps, batch_size=6):
    tf.set_random_seed(260)
    rng = np.random.RandomState(260)
    source = tf.placeholder(tf.int32, [batch_size, LENGTH])
    target = tf.placeholder(tf.int32, [batch_size, LENGTH + 1])
    with tf.variable_scope('seq2seq', initializer=tf.random_uniform_initializer(-0.4, 0.4)):
        loss, predictions, lengths = build(source, target, batch_size)
    train_op = tf.train.AdamOptimizer(0.03).minimize(loss)
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(steps):
            words = rng.randint(2, VOCAB, (batch_size, LENGTH))
            reverse = np.concatenate([words[:, ::-1], np.full((batch_size, 1), EOS)], 1)
            losses.append(sess.run([loss, train_op], {source: words, target: reverse})[0])
        ids, lens = sess.run([predictions, lengths], {source: words})
        assert ids.shape[1] == lens.max()
    return losses


if __name__ == '__main__':
    main(300)
