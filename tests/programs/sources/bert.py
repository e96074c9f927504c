"""BERT's model and optimizer: masked words are predicted; weight decay without the biases and layer norms; linear warm-up."""

from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import copy
import math
import re

import numpy as np
import tensorflow as tf


class BertConfig(object):
    def __init__(self, vocab_size, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=16,
                 hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, max_position_embeddings=8,
                 type_vocab_size=2, initializer_range=0.2):
        self.__dict__.update({k: v for k, v in locals().items() if k != 'self'})


def gelu(x):
    cdf = 0.5 * (1.0 + tf.tanh((np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3)))))
    return x * cdf


def create_initializer(initializer_range):
    return tf.truncated_normal_initializer(stddev=initializer_range)


def dropout(input_tensor, dropout_prob):
    if dropout_prob is None or dropout_prob == 0.0:
        return input_tensor
    return tf.nn.dropout(input_tensor, 1.0 - dropout_prob)


def layer_norm(input_tensor, name):
    with tf.variable_scope(name):
        size = input_tensor.shape[-1:]
        beta = tf.get_variable('beta', size, initializer=tf.zeros_initializer())
        gamma = tf.get_variable('gamma', size, initializer=tf.ones_initializer())
        mean, variance = tf.nn.moments(input_tensor, axes=[-1], keep_dims=True)
        return tf.nn.batch_normalization(input_tensor, mean, variance, beta, gamma, 1e-12)


class BertModel(object):
    def __init__(self, config, is_training, input_ids, input_mask, token_type_ids):
        config = copy.deepcopy(config)
        if not is_training:
            config.hidden_dropout_prob = 0.0
            config.attention_probs_dropout_prob = 0.0
        self.config = config
        batch_size, seq_length = input_ids.shape.as_list()
        init = create_initializer(config.initializer_range)
        with tf.variable_scope("bert"):
            with tf.variable_scope("embeddings"):
                self.embedding_table = tf.get_variable(
                    "word_embeddings", [config.vocab_size, config.hidden_size], initializer=init)
                output = tf.gather(self.embedding_table, input_ids)
                types = tf.get_variable("token_type_embeddings", [config.type_vocab_size, config.hidden_size],
                                        initializer=init)
                output += tf.reshape(
                    tf.matmul(tf.one_hot(tf.reshape(token_type_ids, [-1]), config.type_vocab_size), types),
                    [batch_size, seq_length, config.hidden_size])
                full = tf.get_variable("position_embeddings", [config.max_position_embeddings, config.hidden_size],
                                       initializer=init)
                output += tf.expand_dims(tf.slice(full, [0, 0], [seq_length, -1]), 0)
                self.embedding_output = dropout(layer_norm(output, "LayerNorm"), config.hidden_dropout_prob)
            with tf.variable_scope("encoder"):
                mask = tf.ones([batch_size, seq_length, 1]) * tf.cast(input_mask[:, tf.newaxis, :], tf.float32)
                layer_output = self.embedding_output
                for layer_idx in range(config.num_hidden_layers):
                    with tf.variable_scope("layer_%d" % layer_idx):
                        layer_output = self.transformer_layer(layer_output, mask, init)
                self.sequence_output = layer_output
            with tf.variable_scope("pooler"):
                self.pooled_output = tf.layers.dense(self.sequence_output[:, 0], config.hidden_size,
                                                     activation=tf.tanh, kernel_initializer=init)

    def transformer_layer(self, layer_input, mask, init):
        config = self.config
        batch_size, seq_length, hidden = layer_input.shape.as_list()
        heads = config.num_attention_heads
        size = hidden // heads

        def transpose_for_scores(name):
            projected = tf.layers.dense(layer_input, hidden, name=name, kernel_initializer=init)
            return tf.transpose(tf.reshape(projected, [batch_size, seq_length, heads, size]), [0, 2, 1, 3])

        with tf.variable_scope("attention"):
            query, key, value = [transpose_for_scores(name) for name in ("query", "key", "value")]
            scores = tf.multiply(tf.matmul(query, key, transpose_b=True), 1.0 / math.sqrt(float(size)))
            scores += (1.0 - tf.expand_dims(mask, axis=[1])) * -10000.0
            probs = dropout(tf.nn.softmax(scores), config.attention_probs_dropout_prob)
            context = tf.transpose(tf.matmul(probs, value), [0, 2, 1, 3])
            context = tf.reshape(context, [batch_size, seq_length, hidden])
            with tf.variable_scope("output"):
                attention = tf.layers.dense(context, hidden, kernel_initializer=init)
                attention = dropout(attention, config.hidden_dropout_prob)
                attention = layer_norm(attention + layer_input, "LayerNorm")
        with tf.variable_scope("intermediate"):
            inner = tf.layers.dense(attention, config.intermediate_size, activation=gelu, kernel_initializer=init)
        with tf.variable_scope("output"):
            output = dropout(tf.layers.dense(inner, hidden, kernel_initializer=init), config.hidden_dropout_prob)
            return layer_norm(output + attention, "LayerNorm")


class AdamWeightDecayOptimizer(tf.train.Optimizer):
    """A basic Adam optimizer that includes "correct" L2 weight decay."""

    def __init__(self, learning_rate, weight_decay_rate=0.01, beta_1=0.9, beta_2=0.999, epsilon=1e-6,
                 exclude_from_weight_decay=None, name="AdamWeightDecayOptimizer"):
        super(AdamWeightDecayOptimizer, self).__init__(False, name)
        self.learning_rate = learning_rate
        self.weight_decay_rate = weight_decay_rate
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.exclude_from_weight_decay = exclude_from_weight_decay

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        assignments = []
        for (grad, param) in grads_and_vars:
            if grad is None or param is None:
                continue
            param_name = re.match("^(.*):\\d+$", param.name).group(1)
            m = tf.get_variable(name=param_name + "/adam_m", shape=param.shape.as_list(), dtype=tf.float32,
                                trainable=False, initializer=tf.zeros_initializer())
            v = tf.get_variable(name=param_name + "/adam_v", shape=param.shape.as_list(), dtype=tf.float32,
                                trainable=False, initializer=tf.zeros_initializer())
            next_m = tf.multiply(self.beta_1, m) + tf.multiply(1.0 - self.beta_1, grad)
            next_v = tf.multiply(self.beta_2, v) + tf.multiply(1.0 - self.beta_2, tf.square(grad))
            update = next_m / (tf.sqrt(next_v) + self.epsilon)
            if not any(re.search(r, param_name) for r in self.exclude_from_weight_decay or ()):
                update += self.weight_decay_rate * param
            assignments.extend([param.assign(param - self.learning_rate * update), m.assign(next_m), v.assign(next_v)])
        return tf.group(*assignments, name=name)


def create_optimizer(loss, init_lr, num_train_steps, num_warmup_steps):
    global_step = tf.train.get_or_create_global_step()
    learning_rate = tf.constant(value=init_lr, shape=[], dtype=tf.float32)
    learning_rate = tf.train.polynomial_decay(learning_rate, global_step, num_train_steps,
                                              end_learning_rate=0.0, power=1.0, cycle=False)
    steps = tf.cast(global_step, tf.float32)
    warmup = init_lr * steps / num_warmup_steps
    is_warmup = tf.cast(steps < num_warmup_steps, tf.float32)
    learning_rate = (1.0 - is_warmup) * learning_rate + is_warmup * warmup
    optimizer = AdamWeightDecayOptimizer(learning_rate, exclude_from_weight_decay=["LayerNorm", "layer_norm", "bias"])
    tvars = tf.trainable_variables()
    (grads, _) = tf.clip_by_global_norm(tf.gradients(loss, tvars), clip_norm=1.0)
    train_op = optimizer.apply_gradients(zip(grads, tvars), global_step=global_step)
    return tf.group(train_op, [global_step.assign(global_step + 1)])


def get_masked_lm_output(model, positions, label_ids, config):
    batch_size, seq_length, width = model.sequence_output.shape.as_list()
    offsets = tf.reshape(tf.range(0, batch_size, dtype=tf.int32) * seq_length, [-1, 1])
    flat = tf.reshape(positions + offsets, [-1])
    masked = tf.gather(tf.reshape(model.sequence_output, [-1, width]), flat)
    with tf.variable_scope("cls/predictions"):
        output_bias = tf.get_variable("output_bias", [config.vocab_size], initializer=tf.zeros_initializer())
        logits = tf.nn.bias_add(tf.matmul(masked, model.embedding_table, transpose_b=True), output_bias)
        log_probs = tf.nn.log_softmax(logits, axis=-1)
        one_hot = tf.one_hot(tf.reshape(label_ids, [-1]), depth=config.vocab_size)
        return tf.reduce_mean(-tf.reduce_sum(log_probs * one_hot, axis=[-1]))


def main(steps, batch=4, length=6, vocab=11):
    tf.set_random_seed(77)
    config = BertConfig(vocab)
    ids = tf.placeholder(tf.int32, [batch, length])
    mask = tf.placeholder(tf.int32, [batch, length])
    positions = tf.placeholder(tf.int32, [batch, 2])
    labels = tf.placeholder(tf.int32, [batch, 2])
    model = BertModel(config, True, ids, mask, tf.zeros_like(ids))
    loss = get_masked_lm_output(model, positions, labels, config)
    train_op = create_optimizer(loss, 0.01, 20, 2)

    rng = np.random.RandomState(1)
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(steps):
            words = (rng.randint(0, vocab - 1, (batch, 1)) + np.arange(length)) % (vocab - 1)
            places = np.stack([rng.permutation(length)[:2] for _ in range(batch)])
            answer = np.take_along_axis(words, places, 1)
            np.put_along_axis(words, places, vocab - 1, 1)
            feed = {ids: words, mask: np.ones((batch, length), dtype=np.int32), positions: places, labels: answer}
            losses.append(sess.run([loss, train_op], feed)[0])
    return losses


if __name__ == "__main__":
    main(20)
