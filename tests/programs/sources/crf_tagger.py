"""Tags sequences with a conditional random field on top of a bidirectional LSTM; decoding by Viterbi in Python."""

import numpy as np
import tensorflow as tf

VOCAB, TAGS, MAX_LEN = 10, 3, 6


def get_batch(rng, n):
    """A tag begins with each even word, and goes on until the next one."""
    lengths = rng.randint(2, MAX_LEN + 1, n)
    words = rng.randint(1, VOCAB, (n, MAX_LEN))
    tags = np.zeros((n, MAX_LEN), dtype=np.int64)
    for row in range(n):
        inside = False
        for t in range(lengths[row]):
            inside = inside or words[row, t] % 2 == 0
            tags[row, t] = 1 if words[row, t] % 2 == 0 else 2 * inside
        words[row, lengths[row]:] = 0
        tags[row, lengths[row]:] = 0
    return words, tags, lengths


class NERModel(object):
    def __init__(self, dim=6, hidden=5):
        self.word_ids = tf.placeholder(tf.int32, shape=[None, MAX_LEN], name="word_ids")
        self.labels = tf.placeholder(tf.int32, shape=[None, MAX_LEN], name="labels")
        self.sequence_lengths = tf.placeholder(tf.int32, shape=[None], name="sequence_lengths")
        with tf.variable_scope("model", initializer=tf.random_uniform_initializer(-0.5, 0.5)):
            embeddings = tf.get_variable("embeddings", [VOCAB, dim])
            word_embeddings = tf.nn.embedding_lookup(embeddings, self.word_ids)
            with tf.variable_scope("bi-lstm"):
                cell_fw = tf.contrib.rnn.LSTMCell(hidden)
                cell_bw = tf.contrib.rnn.LSTMCell(hidden)
                (output_fw, output_bw), _ = tf.nn.bidirectional_dynamic_rnn(
                    cell_fw, cell_bw, word_embeddings, sequence_length=self.sequence_lengths, dtype=tf.float32)
                output = tf.concat([output_fw, output_bw], axis=-1)
            with tf.variable_scope("proj"):
                W = tf.get_variable("W", dtype=tf.float32, shape=[2 * hidden, TAGS])
                b = tf.get_variable("b", shape=[TAGS], dtype=tf.float32, initializer=tf.zeros_initializer())
            pred = tf.matmul(tf.reshape(output, [-1, 2 * hidden]), W) + b
            self.logits = tf.reshape(pred, [-1, MAX_LEN, TAGS])
            log_likelihood, self.trans_params = tf.contrib.crf.crf_log_likelihood(
                self.logits, self.labels, self.sequence_lengths)
        self.loss = tf.reduce_mean(-log_likelihood)
        self.train_op = tf.train.AdamOptimizer(0.05).minimize(self.loss)

    def predict_batch(self, sess, words, lengths):
        feed = {self.word_ids: words, self.sequence_lengths: lengths}
        viterbi_sequences = []
        logits, trans_params = sess.run([self.logits, self.trans_params], feed_dict=feed)
        # iterate over the sentences because no batching in viterbi_decode
        for logit, sequence_length in zip(logits, lengths):
            logit = logit[:sequence_length]  # keep only the valid steps
            viterbi_seq, viterbi_score = tf.contrib.crf.viterbi_decode(logit, trans_params)
            viterbi_sequences += [viterbi_seq]
        return viterbi_sequences


def main(steps):
    tf.set_random_seed(310)
    rng = np.random.RandomState(310)
    model = NERModel()
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(steps):
            words, tags, lengths = get_batch(rng, 8)
            feed = {model.word_ids: words, model.labels: tags, model.sequence_lengths: lengths}
            _, loss = sess.run([model.train_op, model.loss], feed)
            losses.append(loss)
        words, tags, lengths = get_batch(rng, 20)
        found = model.predict_batch(sess, words, lengths)
        correct = sum(np.sum(np.array(f) == t[:n]) for f, t, n in zip(found, tags, lengths))
    return losses + [correct]


if __name__ == '__main__':
    main(100)
