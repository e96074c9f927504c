"""A recurrent language model: train and test models that share variables, epochs as functions, a learning rate that is assigned."""

import numpy as np
import tensorflow as tf


class Config(object):
    init_scale = 0.2
    learning_rate = 1.0
    max_grad_norm = 5
    num_layers = 2
    num_steps = 4
    hidden_size = 8
    max_epoch = 1
    keep_prob = 0.8
    lr_decay = 0.5
    batch_size = 3
    vocab_size = 10


class LanguageModel(object):
    """The model."""

    def __init__(self, is_training, config):
        batch_size, num_steps = config.batch_size, config.num_steps
        size = config.hidden_size
        self.input_data = tf.placeholder(tf.int32, [batch_size, num_steps])
        self.targets = tf.placeholder(tf.int32, [batch_size, num_steps])

        def make_cell():
            cell = tf.nn.rnn_cell.BasicLSTMCell(size, forget_bias=0.0, state_is_tuple=True)
            if is_training and config.keep_prob < 1:
                cell = tf.nn.rnn_cell.DropoutWrapper(cell, output_keep_prob=config.keep_prob)
            return cell

        cell = tf.nn.rnn_cell.MultiRNNCell([make_cell() for _ in range(config.num_layers)])
        self._initial_state = cell.zero_state(batch_size, tf.float32)

        with tf.device("/cpu:0"):
            embedding = tf.get_variable("embedding", [config.vocab_size, size])
            inputs = tf.nn.embedding_lookup(embedding, self.input_data)

        outputs = []
        state = self._initial_state
        with tf.variable_scope("RNN"):
            for time_step in range(num_steps):
                if time_step > 0:
                    tf.get_variable_scope().reuse_variables()
                (cell_output, state) = cell(inputs[:, time_step, :], state)
                outputs.append(cell_output)

        output = tf.reshape(tf.concat(outputs, 1), [-1, size])
        softmax_w = tf.get_variable("softmax_w", [size, config.vocab_size])
        softmax_b = tf.get_variable("softmax_b", [config.vocab_size])
        logits = tf.matmul(output, softmax_w) + softmax_b
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
            logits=logits, labels=tf.reshape(self.targets, [-1]))
        self._cost = cost = tf.reduce_sum(loss) / batch_size
        self._final_state = state

        if not is_training:
            return

        self._lr = tf.Variable(0.0, trainable=False)
        tvars = tf.trainable_variables()
        grads, _ = tf.clip_by_global_norm(tf.gradients(cost, tvars), config.max_grad_norm)
        optimizer = tf.train.GradientDescentOptimizer(self._lr)
        self._train_op = optimizer.apply_gradients(
            zip(grads, tvars), global_step=tf.train.get_or_create_global_step())
        self._new_lr = tf.placeholder(tf.float32, shape=[], name="new_learning_rate")
        self._lr_update = tf.assign(self._lr, self._new_lr)

    def assign_lr(self, session, lr_value):
        session.run(self._lr_update, feed_dict={self._new_lr: lr_value})

    @property
    def cost(self):
        return self._cost


def iterate(raw, batch_size, num_steps):
    data = raw[:len(raw) // batch_size * batch_size].reshape(batch_size, -1)
    for i in range((data.shape[1] - 1) // num_steps):
        yield data[:, i * num_steps:][:, :num_steps], data[:, i * num_steps + 1:][:, :num_steps]


def run_epoch(session, model, data, eval_op=None, config=Config):
    """Runs the model on the given data."""
    costs = 0.0
    iters = 0
    state = session.run(model._initial_state)
    fetches = {"cost": model.cost, "final_state": model._final_state}
    if eval_op is not None:
        fetches["eval_op"] = eval_op
    for x, y in iterate(data, config.batch_size, config.num_steps):
        feed_dict = {model.input_data: x, model.targets: y}
        for i, (c, h) in enumerate(model._initial_state):
            feed_dict[c] = state[i].c
            feed_dict[h] = state[i].h
        vals = session.run(fetches, feed_dict)
        state = vals["final_state"]
        costs += vals["cost"]
        iters += config.num_steps
    return np.exp(costs / iters)


def main(steps):
    text = np.cumsum(np.random.RandomState(3).randint(1, 3, 80)) % Config.vocab_size
    perplexities = []
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(4)
        initializer = tf.random_uniform_initializer(-Config.init_scale, Config.init_scale)
        with tf.variable_scope("model", reuse=None, initializer=initializer):
            m = LanguageModel(is_training=True, config=Config)
        with tf.variable_scope("model", reuse=True, initializer=initializer):
            mtest = LanguageModel(is_training=False, config=Config)

        tf.global_variables_initializer().run()
        for i in range(steps):
            lr_decay = Config.lr_decay ** max(i - Config.max_epoch, 0.0)
            m.assign_lr(session, Config.learning_rate * lr_decay)
            perplexities.append(run_epoch(session, m, text, eval_op=m._train_op))
            perplexities.append(run_epoch(session, mtest, text[:40]))
    return perplexities


if __name__ == "__main__":
    print(main(10))
