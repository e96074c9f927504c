"""Predicts a word from the mean of its neighbours (CBOW), with a sampled softmax and momentum."""

import numpy as np
import tensorflow as tf

VOCAB, DIM, WINDOW = 15, 7, 2


class CBOW(object):
    def __init__(self, seed=31):
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf.set_random_seed(seed)
            self._build()

    def _build(self):
        self.context = tf.placeholder(tf.int64, [None, 2 * WINDOW])
        self.target = tf.placeholder(tf.int64, [None, 1])
        embeddings = tf.get_variable('embeddings', [VOCAB, DIM], initializer=tf.random_uniform_initializer(-1, 1))
        weights = tf.get_variable('weights', [VOCAB, DIM], initializer=tf.truncated_normal_initializer(stddev=0.3))
        biases = tf.get_variable('biases', VOCAB, initializer=tf.zeros_initializer())
        mean = tf.reduce_mean(tf.nn.embedding_lookup(embeddings, self.context), axis=1)
        self.loss = tf.reduce_mean(tf.nn.sampled_softmax_loss(
            weights, biases, self.target, mean, num_sampled=5, num_classes=VOCAB))
        logits = tf.matmul(mean, tf.transpose(weights)) + biases
        self.full_loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(
            labels=tf.one_hot(self.target[:, 0], VOCAB), logits=logits))
        self.train_op = tf.train.MomentumOptimizer(0.2, 0.9, use_nesterov=True).minimize(self.loss)
        self.in_top = tf.reduce_mean(tf.to_float(tf.nn.in_top_k(logits, self.target[:, 0], 3)))

    def fit(self, contexts, targets, steps):
        history = []
        self.sess = tf.Session(graph=self.graph)
        with self.sess.as_default(), self.graph.as_default():
            tf.global_variables_initializer().run()
            for _ in range(steps):
                feed = {self.context: contexts, self.target: targets}
                loss = self.sess.run([self.train_op, self.loss], feed)[1]
                history.append(loss)
        return history

    def evaluate(self, contexts, targets):
        return self.sess.run([self.full_loss, self.in_top], {self.context: contexts, self.target: targets})

    def __del__(self):
        self.graph = None


def main(steps):
    text = (np.arange(60) * 4) % VOCAB
    contexts = np.stack([np.r_[text[i - WINDOW:i], text[i + 1:i + 1 + WINDOW]] for i in range(WINDOW, 40)])
    targets = text[WINDOW:40, None]
    model = CBOW()
    result = model.fit(contexts, targets, steps)
    result.extend(model.evaluate(contexts, targets))
    model.sess.close()
    return result


if __name__ == '__main__':
    main(100)
