"""Translates by an encoder and a decoder with attention, both by hand: teacher forcing, then a greedy search in Python."""

import numpy as np
import tensorflow as tf

PAD, GO, EOS = 0, 1, 2
VOCAB, SIZE = 9, 8


def attention(query, memory, mask):
    """Additive attention."""
    keys = tf.layers.dense(memory, SIZE, use_bias=False, name='keys', reuse=tf.AUTO_REUSE,
                           kernel_initializer=tf.random_normal_initializer(stddev=0.3))
    v = tf.get_variable('v', [SIZE])
    scores = tf.reduce_sum(v * tf.tanh(keys + tf.expand_dims(query, 1)), [2])
    scores = tf.where(mask, scores, tf.fill(tf.shape(scores), -1e9))
    weights = tf.nn.softmax(scores)
    return tf.reduce_sum(tf.expand_dims(weights, 2) * memory, 1), weights


class Seq2Seq(object):
    def __init__(self, learning_rate=0.05):
        self.source = tf.placeholder(tf.int32, [None, None])
        self.lengths = tf.placeholder(tf.int32, [None])
        self.inputs = tf.placeholder(tf.int32, [None, 4])
        self.targets = tf.placeholder(tf.int32, [None, 4])
        with tf.variable_scope('seq2seq', initializer=tf.random_uniform_initializer(-0.5, 0.5)):
            self.embedding = tf.get_variable('embedding', [VOCAB, SIZE])
            with tf.variable_scope('encoder'):
                cell = tf.nn.rnn_cell.LSTMCell(SIZE)
                self.memory, state = tf.nn.dynamic_rnn(
                    cell, tf.nn.embedding_lookup(self.embedding, self.source), self.lengths, dtype=tf.float32)
            mask = tf.sequence_mask(self.lengths, tf.shape(self.source)[1])
            self.state = state
            with tf.variable_scope('decoder') as scope:
                decoder = tf.nn.rnn_cell.LSTMCell(SIZE)
                logits = []
                for t in range(4):
                    if t > 0:
                        scope.reuse_variables()
                    context, self.weights = attention(state.h, self.memory, mask)
                    word = tf.nn.embedding_lookup(self.embedding, self.inputs[:, t])
                    output, state = decoder(tf.concat([word, context], 1), state)
                    logits.append(tf.matmul(output, self.embedding, transpose_b=True))
        self.logits = tf.stack(logits, 1)
        weights = tf.cast(tf.not_equal(self.targets, PAD), tf.float32)
        crossent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.targets, logits=self.logits)
        self.loss = tf.reduce_sum(crossent * weights) / tf.reduce_sum(weights)
        params = tf.trainable_variables()
        gradients = tf.gradients(self.loss, params)
        clipped_gradients, self.gradient_norm = tf.clip_by_global_norm(gradients, 1.0)
        optimizer = tf.train.AdamOptimizer(learning_rate)
        self.update = optimizer.apply_gradients(zip(clipped_gradients, params))

    def step(self, session, source, lengths, inputs, targets=None, forward_only=False):
        """Run a step of the model feeding the given inputs."""
        input_feed = {self.source: source, self.lengths: lengths, self.inputs: inputs}
        if forward_only:
            return session.run(self.logits, input_feed)
        input_feed[self.targets] = targets
        output_feed = [self.update, self.gradient_norm, self.loss]
        outputs = session.run(output_feed, input_feed)
        return outputs[1], outputs[2]

    def decode(self, session, source, lengths):
        words = np.full((len(source), 4), PAD)
        words[:, 0] = GO
        for t in range(4):
            logits = self.step(session, source, lengths, words, forward_only=True)
            best = np.argmax(logits[:, t], axis=1)
            if t < 3:
                words[:, t + 1] = best
        return np.concatenate([words[:, 1:], best[:, None]], axis=1)


def pairs(rng, n):
    """The translation is the first three words, reversed."""
    lengths = rng.randint(3, 6, n)
    source = rng.randint(3, VOCAB, (n, 5)) * (np.arange(5) < lengths[:, None])
    translation = source[:, 2::-1]
    return (source, lengths, np.concatenate([np.full((n, 1), GO), translation], 1),
            np.concatenate([translation, np.full((n, 1), EOS)], 1))


def main(steps):
    tf.set_random_seed(210)
    rng = np.random.RandomState(210)
    model = Seq2Seq()
    results = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(steps):
            norm, loss = model.step(sess, *pairs(rng, 10))
            results += [norm, loss]
        source, lengths = pairs(rng, 3)[:2]
        for sentence in model.decode(sess, source, lengths):
            results.extend(sentence)
    return results


if __name__ == '__main__':
    main(300)
