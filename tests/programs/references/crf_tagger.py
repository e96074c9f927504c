"""crf_tagger.py without contrib: the forward algorithm by a loop, and Viterbi's in NumPy."""

import itertools

import numpy as np
import tensorflow as tf

VOCAB, TAGS, MAX_LEN = 10, 3, 6


def get_batch(rng, n):
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


def log_likelihood(logits, labels, lengths, transitions):
    """The score of the labels less the logarithm of the sum over all sequences of labels."""
    mask = tf.sequence_mask(lengths, MAX_LEN, tf.float32)
    score = tf.reduce_sum(tf.reduce_sum(logits * tf.one_hot(labels, TAGS), 2) * mask, 1)
    pairs = tf.gather_nd(transitions, tf.stack([labels[:, :-1], labels[:, 1:]], 2))
    score += tf.reduce_sum(pairs * mask[:, 1:], 1)
    alphas = logits[:, 0]
    for t in range(1, MAX_LEN):
        after = tf.reduce_logsumexp(alphas[:, :, None] + transitions, 1) + logits[:, t]
        alphas = tf.where(t < lengths, after, alphas)
    return score - tf.reduce_logsumexp(alphas, 1)


def best(logits, transitions):
    """The best sequence of all."""
    def score(tags):
        return sum(logits[t, tag] for t, tag in enumerate(tags)) + sum(transitions[p] for p in zip(tags, tags[1:]))

    return max(itertools.product(range(TAGS), repeat=len(logits)), key=score)


def main(steps):
    tf.set_random_seed(310)
    rng = np.random.RandomState(310)
    word_ids = tf.placeholder(tf.int32, [None, MAX_LEN])
    labels = tf.placeholder(tf.int32, [None, MAX_LEN])
    lengths_ = tf.placeholder(tf.int32, [None])
    with tf.variable_scope('model', initializer=tf.random_uniform_initializer(-0.5, 0.5)):
        embedded = tf.nn.embedding_lookup(tf.get_variable('embeddings', [VOCAB, 6]), word_ids)
        outputs, _ = tf.nn.bidirectional_dynamic_rnn(tf.nn.rnn_cell.LSTMCell(5), tf.nn.rnn_cell.LSTMCell(5), embedded,
                                                     sequence_length=lengths_, dtype=tf.float32)
        W = tf.get_variable('W', [10, TAGS])
        b = tf.get_variable('b', [TAGS], initializer=tf.zeros_initializer())
        transitions = tf.get_variable('transitions', [TAGS, TAGS])
    logits = tf.reshape(tf.matmul(tf.reshape(tf.concat(outputs, -1), [-1, 10]), W) + b, [-1, MAX_LEN, TAGS])
    loss = tf.reduce_mean(-log_likelihood(logits, labels, lengths_, transitions))
    train_op = tf.train.AdamOptimizer(0.05).minimize(loss)
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(steps):
            words, tags, lengths = get_batch(rng, 8)
            losses.append(sess.run([loss, train_op], {word_ids: words, labels: tags, lengths_: lengths})[0])
        words, tags, lengths = get_batch(rng, 20)
        scores, trans = sess.run([logits, transitions], {word_ids: words, lengths_: lengths})
    correct = sum(np.sum(np.array(best(s[:n], trans)) == t[:n]) for s, t, n in zip(scores, tags, lengths))
    return losses + [correct]
