"""Tags each element of a sequence by a bidirectional GRU, with a loss that masks the padding."""

import numpy as np
import tensorflow as tf

MAX_LEN, VOCAB, TAGS = 7, 9, 3


class Tagger:
    def __init__(self, embedding_size=5, hidden=4):
        self.words = tf.placeholder(tf.int32, [None, None], name='words')
        self.tags = tf.placeholder(tf.int32, [None, None], name='tags')
        self.lengths = tf.placeholder(tf.int32, [None], name='lengths')
        self.add_embeddings(embedding_size)
        self.add_logits(hidden)
        self.add_loss()

    def add_embeddings(self, size):
        with tf.variable_scope('embeddings'), tf.device('/cpu:0'):
            table = tf.get_variable('table', [VOCAB, size], tf.float32,
                                    initializer=tf.random_uniform_initializer(-1, 1))
            self.embedded = tf.nn.embedding_lookup(table, self.words)

    def add_logits(self, hidden):
        with tf.variable_scope('bi-gru', initializer=tf.random_normal_initializer(stddev=0.3)):
            fw = tf.nn.rnn_cell.GRUCell(hidden)
            bw = tf.nn.rnn_cell.GRUCell(hidden)
            (out_fw, out_bw), _ = tf.nn.bidirectional_dynamic_rnn(
                fw, bw, self.embedded, sequence_length=self.lengths, dtype=tf.float32)
            output = tf.concat([out_fw, out_bw], axis=-1)
        with tf.variable_scope('proj'):
            W = tf.get_variable('W', [2 * hidden, TAGS], initializer=tf.truncated_normal_initializer(stddev=0.5))
            b = tf.get_variable('b', [TAGS], initializer=tf.zeros_initializer())
            nsteps = tf.shape(output)[1]
            pred = tf.matmul(tf.reshape(output, [-1, 2 * hidden]), W) + b
            self.logits = tf.reshape(pred, [-1, nsteps, TAGS])

    def add_loss(self):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=self.logits, labels=self.tags)
        mask = tf.sequence_mask(self.lengths, tf.shape(self.words)[1])
        self.loss = tf.reduce_mean(tf.boolean_mask(losses, mask))
        optimizer = tf.train.AdagradOptimizer(0.3)
        gradients, variables = zip(*optimizer.compute_gradients(self.loss))
        gradients, self.norm = tf.clip_by_global_norm(gradients, 1.0)
        self.train_op = optimizer.apply_gradients(zip(gradients, variables))

    def fit(self, sess, batches):
        for words, tags, lengths in batches:
            feed = {self.words: words, self.tags: tags, self.lengths: lengths}
            _, loss, norm = sess.run([self.train_op, self.loss, self.norm], feed)
            yield loss, norm


def make_batches(n, size=6):
    """The tag says whether the word before is smaller, equal, or larger."""
    rng = np.random.RandomState(12)
    for _ in range(n):
        length = rng.randint(3, MAX_LEN + 1, size)
        words = rng.randint(0, VOCAB, (size, length.max()))
        before = np.concatenate([words[:, :1], words[:, :-1]], 1)
        yield words, np.sign(words - before) + 1, length


def main(steps):
    tf.set_random_seed(2)
    model = Tagger()
    values = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for loss, norm in model.fit(sess, make_batches(steps)):
            values += [loss, norm]
    return values


if __name__ == '__main__':
    main(200)
