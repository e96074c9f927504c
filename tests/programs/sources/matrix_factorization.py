"""Recommends items by matrix factorization: embeddings of users and items, global and local biases, regularization."""

import collections

import numpy as np
import tensorflow as tf

Ratings = collections.namedtuple('Ratings', ['user', 'item', 'rate'])


class ShuffleIterator(object):
    """Randomly generate batches"""

    def __init__(self, inputs, batch_size, seed):
        self.inputs = inputs
        self.batch_size = batch_size
        self.rng = np.random.RandomState(seed)

    def __iter__(self):
        return self

    def __next__(self):
        ids = self.rng.randint(0, len(self.inputs.rate), (self.batch_size,))
        return Ratings(*[each[ids] for each in self.inputs])


def inference_svd(user_batch, item_batch, user_num, item_num, dim=3):
    with tf.device("/cpu:0"):
        bias_global = tf.get_variable("bias_global", shape=[])
        w_bias_user = tf.get_variable("embd_bias_user", shape=[user_num])
        w_bias_item = tf.get_variable("embd_bias_item", shape=[item_num])
        bias_user = tf.nn.embedding_lookup(w_bias_user, user_batch, name="bias_user")
        bias_item = tf.nn.embedding_lookup(w_bias_item, item_batch, name="bias_item")
        w_user = tf.get_variable("embd_user", shape=[user_num, dim],
                                 initializer=tf.truncated_normal_initializer(stddev=0.2))
        w_item = tf.get_variable("embd_item", shape=[item_num, dim],
                                 initializer=tf.truncated_normal_initializer(stddev=0.2))
        embd_user = tf.nn.embedding_lookup(w_user, user_batch, name="embedding_user")
        embd_item = tf.nn.embedding_lookup(w_item, item_batch, name="embedding_item")
    infer = tf.reduce_sum(tf.multiply(embd_user, embd_item), 1)
    infer = tf.add(infer, bias_global)
    infer = tf.add(infer, bias_user)
    infer = tf.add(infer, bias_item, name="svd_inference")
    regularizer = tf.add(tf.nn.l2_loss(embd_user), tf.nn.l2_loss(embd_item), name="svd_regularizer")
    return infer, regularizer


def main(steps):
    tf.set_random_seed(100)
    rng = np.random.RandomState(100)
    user, item = rng.randint(0, 10, 80), rng.randint(0, 8, 80)
    rates = 3 + np.sin(user) * np.cos(item)
    iterator = ShuffleIterator(Ratings(user, item, rates), 16, 101)

    user_batch = tf.placeholder(tf.int32, shape=[None], name="id_user")
    item_batch = tf.placeholder(tf.int32, shape=[None], name="id_item")
    rate_batch = tf.placeholder(tf.float32, shape=[None])
    with tf.variable_scope('svd', initializer=tf.random_uniform_initializer(-0.1, 0.1)):
        infer, regularizer = inference_svd(user_batch, item_batch, 10, 8)
    tf.train.get_or_create_global_step()
    cost_l2 = tf.nn.l2_loss(tf.subtract(infer, rate_batch))
    penalty = tf.constant(0.05, dtype=tf.float32, shape=[], name="l2")
    cost = tf.add(cost_l2, tf.multiply(regularizer, penalty))
    train_op = tf.train.AdagradOptimizer(0.3).minimize(cost, global_step=tf.train.get_global_step())

    errors = collections.deque(maxlen=5)
    out = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for i, batch in zip(range(steps), iterator):
            _, pred_batch = sess.run([train_op, infer], feed_dict={
                user_batch: batch.user, item_batch: batch.item, rate_batch: batch.rate})
            pred_batch = np.clip(pred_batch, 1.0, 5.0)
            errors.append(np.mean(np.power(pred_batch - batch.rate, 2)))
            out.append(np.sqrt(np.mean(errors)))
    return out


if __name__ == '__main__':
    main(200)
