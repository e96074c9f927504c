"""A siamese network: two branches share their variables by scope, with a contrastive loss."""

import numpy as np
import tensorflow as tf


class siamese:

    # Create model
    def __init__(self):
        self.x1 = tf.placeholder(tf.float32, [None, 10])
        self.x2 = tf.placeholder(tf.float32, [None, 10])

        with tf.variable_scope("siamese") as scope:
            self.o1 = self.network(self.x1)
            scope.reuse_variables()
            self.o2 = self.network(self.x2)

        # Create loss
        self.y_ = tf.placeholder(tf.float32, [None])
        self.loss = self.loss_with_spring()

    def network(self, x):
        fc1 = self.fc_layer(x, 12, "fc1")
        ac1 = tf.nn.selu(fc1)
        fc2 = self.fc_layer(ac1, 8, "fc2")
        ac2 = tf.nn.softsign(fc2)
        return self.fc_layer(ac2, 2, "fc3")

    def fc_layer(self, bottom, n_weight, name):
        assert len(bottom.get_shape()) == 2
        n_prev_weight = bottom.get_shape()[1]
        initer = tf.truncated_normal_initializer(stddev=0.3)
        W = tf.get_variable(name + 'W', dtype=tf.float32, shape=[n_prev_weight, n_weight], initializer=initer)
        b = tf.get_variable(name + 'b', dtype=tf.float32,
                            initializer=tf.constant(0.01, shape=[n_weight], dtype=tf.float32))
        return tf.nn.bias_add(tf.matmul(bottom, W), b)

    def loss_with_spring(self):
        margin = 2.0
        labels_t = self.y_
        labels_f = tf.subtract(1.0, self.y_, name="1-yi")
        eucd2 = tf.reduce_sum(tf.pow(tf.subtract(self.o1, self.o2), 2), 1)
        eucd = tf.sqrt(eucd2 + 1e-6, name="eucd")
        C = tf.constant(margin, name="C")
        pos = tf.multiply(labels_t, eucd2, name="yi_x_eucd2")
        neg = tf.multiply(labels_f, tf.pow(tf.maximum(tf.subtract(C, eucd), 0), 2), name="Nyi_x_C-eucd_xx_2")
        return tf.reduce_mean(tf.add(pos, neg, name="losses"), name="loss")


def main(steps):
    tf.set_random_seed(120)
    sess = tf.InteractiveSession()
    net = siamese()
    train_step = tf.train.GradientDescentOptimizer(0.1).minimize(net.loss)
    saver = tf.train.Saver(max_to_keep=1)
    tf.initialize_all_variables().run()

    rng = np.random.RandomState(121)
    prototypes = rng.randn(3, 10)
    losses = []
    for step in range(steps):
        kind1, kind2 = rng.randint(0, 3, (2, 12))
        batch_x1, batch_x2 = [prototypes[kind] + 0.3 * rng.randn(12, 10) for kind in (kind1, kind2)]
        batch_y = (kind1 == kind2).astype('float')

        _, loss_v = sess.run([train_step, net.loss], feed_dict={
            net.x1: batch_x1,
            net.x2: batch_x2,
            net.y_: batch_y})

        if np.isnan(loss_v):
            print('Model diverged with loss = NaN')
            quit()
        losses.append(loss_v)

    embed = net.o1.eval({net.x1: prototypes})
    losses.append(np.abs(embed).mean())
    sess.close()
    return losses


if __name__ == '__main__':
    main(100)
