"""A character model: trained on chunks with the state carried over, then sampled from, character by character."""

import os
import tempfile

import numpy as np
import tensorflow as tf


class TextLoader():
    def __init__(self, text, batch_size, seq_length):
        chars = sorted(set(text))
        self.vocab = {c: i for i, c in enumerate(chars)}
        self.chars = chars
        self.vocab_size = len(chars)
        tensor = np.array([self.vocab[c] for c in text])
        self.num_batches = int(tensor.size / (batch_size * seq_length))
        tensor = tensor[:self.num_batches * batch_size * seq_length]
        ydata = np.roll(tensor, -1)
        self.x_batches = np.split(tensor.reshape(batch_size, -1), self.num_batches, 1)
        self.y_batches = np.split(ydata.reshape(batch_size, -1), self.num_batches, 1)
        self.reset_batch_pointer()

    def next_batch(self):
        x, y = self.x_batches[self.pointer], self.y_batches[self.pointer]
        self.pointer += 1
        return x, y

    def reset_batch_pointer(self):
        self.pointer = 0


class Model():
    def __init__(self, vocab_size, rnn_size=10, batch_size=3, seq_length=5, training=True):
        if not training:
            batch_size = 1
            seq_length = 1
        cells = []
        for _ in range(2):
            cell = tf.nn.rnn_cell.GRUCell(rnn_size)
            if training:
                cell = tf.nn.rnn_cell.DropoutWrapper(cell, output_keep_prob=0.9)
            cells.append(cell)
        self.cell = cell = tf.nn.rnn_cell.MultiRNNCell(cells, state_is_tuple=True)

        self.input_data = tf.placeholder(tf.int32, [batch_size, seq_length])
        self.targets = tf.placeholder(tf.int32, [batch_size, seq_length])
        self.initial_state = cell.zero_state(batch_size, tf.float32)

        with tf.variable_scope('rnnlm'):
            softmax_w = tf.get_variable("softmax_w", [rnn_size, vocab_size])
            softmax_b = tf.get_variable("softmax_b", [vocab_size])
        embedding = tf.get_variable("embedding", [vocab_size, rnn_size])
        inputs = tf.nn.embedding_lookup(embedding, self.input_data)
        inputs = [tf.squeeze(input_, [1]) for input_ in tf.split(inputs, seq_length, 1)]

        outputs, last_state = tf.nn.static_rnn(cell, inputs, initial_state=self.initial_state)
        output = tf.reshape(tf.concat(outputs, 1), [-1, rnn_size])

        self.logits = tf.matmul(output, softmax_w) + softmax_b
        self.probs = tf.nn.softmax(self.logits)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.reshape(self.targets, [-1]), logits=self.logits)
        self.cost = tf.reduce_mean(loss)
        self.final_state = last_state
        self.lr = tf.Variable(0.0, trainable=False)
        tvars = tf.trainable_variables()
        grads, _ = tf.clip_by_global_norm(tf.gradients(self.cost, tvars), 5.0)
        with tf.name_scope('optimizer'):
            optimizer = tf.train.AdamOptimizer(self.lr)
        self.train_op = optimizer.apply_gradients(zip(grads, tvars))

    def sample(self, sess, chars, vocab, num=8, prime='ab', sampling_type=0):
        state = sess.run(self.cell.zero_state(1, tf.float32))
        for char in prime[:-1]:
            x = np.full((1, 1), vocab[char])
            [state] = sess.run([self.final_state], {self.input_data: x, self.initial_state: state})

        ret = prime
        char = prime[-1]
        for n in range(num):
            x = np.zeros((1, 1))
            x[0, 0] = vocab[char]
            feed = {self.input_data: x.astype(np.int32), self.initial_state: state}
            [probs, state] = sess.run([self.probs, self.final_state], feed)
            pred = chars[np.argmax(probs[0])] if sampling_type == 0 else np.random.choice(chars, p=probs[0])
            ret += pred
            char = pred
        return ret


def main(steps):
    loader = TextLoader("abcabcadbcabcaebc" * 3 + "abc", 3, 5)
    directory = tempfile.mkdtemp()
    init = tf.random_uniform_initializer(-0.4, 0.4)
    losses = []
    with tf.Graph().as_default():
        tf.set_random_seed(200)
        with tf.variable_scope('char', initializer=init):
            model = Model(loader.vocab_size)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            saver = tf.train.Saver(tf.global_variables())
            for e in range(steps):
                sess.run(tf.assign(model.lr, 0.05 * (0.97 ** e)))
                loader.reset_batch_pointer()
                state = sess.run(model.initial_state)
                for b in range(loader.num_batches):
                    x, y = loader.next_batch()
                    feed = {model.input_data: x, model.targets: y}
                    for i, h in enumerate(model.initial_state):
                        feed[h] = state[i]
                    train_loss, state, _ = sess.run([model.cost, model.final_state, model.train_op], feed)
                    losses.append(train_loss)
            saver.save(sess, os.path.join(directory, 'model.ckpt'), global_step=e)

    with tf.Graph().as_default():
        with tf.variable_scope('char', initializer=init):
            model = Model(loader.vocab_size, training=False)
        with tf.Session() as sess:
            tf.global_variables_initializer().run()
            saver = tf.train.Saver(tf.global_variables())
            ckpt = tf.train.get_checkpoint_state(directory)
            if ckpt and ckpt.model_checkpoint_path:
                saver.restore(sess, ckpt.model_checkpoint_path)
                text = model.sample(sess, loader.chars, loader.vocab)
    return losses + [loader.vocab[c] for c in text]


if __name__ == '__main__':
    main(20)
