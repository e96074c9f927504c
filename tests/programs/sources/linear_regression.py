"""Fits a line through noisy points."""

from __future__ import print_function

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)

# Training data
train_x = np.asarray(rng.uniform(-1, 1, 50), dtype=np.float32)
train_y = 2.0 * train_x + 0.5 + 0.1 * rng.randn(50).astype(np.float32)
n_samples = train_x.shape[0]

# Graph input
X = tf.placeholder("float")
Y = tf.placeholder("float")

# Model weights
W = tf.Variable(rng.randn(), name="weight", dtype=tf.float32)
b = tf.Variable(rng.randn(), name="bias", dtype=tf.float32)

pred = tf.add(tf.multiply(X, W), b)
cost = tf.reduce_sum(tf.pow(pred - Y, 2)) / (2 * n_samples)
optimizer = tf.train.GradientDescentOptimizer(0.01).minimize(cost)

init = tf.global_variables_initializer()


def main(steps):
    costs = []
    with tf.Session() as sess:
        sess.run(init)

        for epoch in range(steps):
            for (x, y) in zip(train_x, train_y):
                sess.run(optimizer, feed_dict={X: x, Y: y})

            c = sess.run(cost, feed_dict={X: train_x, Y: train_y})
            costs.append(c)
            print("Epoch:", '%04d' % (epoch + 1), "cost=", "{:.9f}".format(c),
                  "W=", sess.run(W), "b=", sess.run(b))

        print("Optimization Finished!")
    return costs


if __name__ == '__main__':
    main(20)
