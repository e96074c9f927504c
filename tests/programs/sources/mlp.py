"""A multilayer perceptron with dropout, weight decay and a decayed learning rate; weights in dictionaries."""

import numpy as np
import tensorflow as tf

# Parameters
starter_learning_rate = 0.05
batch_size = 32

# Network Parameters
n_hidden_1 = 24
n_hidden_2 = 16
n_input = 8
n_classes = 3


def next_batch(rng, size):
    batch_x = rng.uniform(-1, 1, (size, n_input)).astype("float32")
    score = np.stack([batch_x[:, 0] * batch_x[:, 1], batch_x[:, 2], batch_x[:, 3] ** 2], 1)
    return batch_x, np.eye(n_classes)[score.argmax(1)]


def multilayer_perceptron(x, weights, biases, keep_prob):
    layer_1 = tf.nn.relu(tf.add(tf.matmul(x, weights['h1']), biases['b1']))
    layer_1 = tf.nn.dropout(layer_1, keep_prob)
    layer_2 = tf.nn.tanh(tf.nn.xw_plus_b(layer_1, weights['h2'], biases['b2']))
    return tf.matmul(layer_2, weights['out']) + biases['out']


def main(steps):
    tf.set_random_seed(42)
    rng = np.random.RandomState(1)

    x = tf.placeholder("float", [None, n_input])
    y = tf.placeholder("float", [None, n_classes])
    keep_prob = tf.placeholder(tf.float32)

    weights = {
        'h1': tf.Variable(tf.random_normal([n_input, n_hidden_1], stddev=0.3)),
        'h2': tf.Variable(tf.truncated_normal([n_hidden_1, n_hidden_2], stddev=0.3)),
        'out': tf.Variable(tf.random_uniform([n_hidden_2, n_classes], -0.3, 0.3))
    }
    biases = {
        'b1': tf.Variable(tf.zeros([n_hidden_1])),
        'b2': tf.Variable(tf.constant(0.1, shape=[n_hidden_2])),
        'out': tf.Variable(tf.zeros([n_classes]))
    }

    logits = multilayer_perceptron(x, weights, biases, keep_prob)
    cost = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
    decay = sum(tf.nn.l2_loss(w) for w in weights.values())
    loss = cost + 1e-3 * decay

    global_step = tf.Variable(0, trainable=False)
    rate = tf.train.exponential_decay(starter_learning_rate, global_step, 5, 0.9, staircase=True)
    train_op = tf.train.AdamOptimizer(rate).minimize(loss, global_step=global_step)

    history = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(steps):
            batch_x, batch_y = next_batch(rng, batch_size)
            _, c, lr = sess.run([train_op, loss, rate],
                                feed_dict={x: batch_x, y: batch_y, keep_prob: 0.8})
            history.append(c)
            print("loss %.4f, learning rate %.4f" % (c, lr))
        test_x, test_y = next_batch(rng, 200)
        history += [sess.run(cost, {x: test_x, y: test_y, keep_prob: 1.0}) for _ in range(1)]
    return history


if __name__ == '__main__':
    main(200)
