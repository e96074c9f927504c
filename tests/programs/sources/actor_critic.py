"""An actor and a critic that share a session which is passed to them; the critic's error trains the actor."""

import numpy as np
import tensorflow as tf


class Actor(object):
    def __init__(self, sess, n_features, action_bound, lr=0.01):
        self.sess = sess
        self.s = tf.placeholder(tf.float32, [1, n_features], "state")
        self.a = tf.placeholder(tf.float32, None, name="act")
        self.td_error = tf.placeholder(tf.float32, None, name="td_error")

        l1 = tf.layers.dense(self.s, 12, tf.nn.relu, name='l1',
                             kernel_initializer=tf.random_normal_initializer(0., .3))
        mu = tf.layers.dense(l1, 1, tf.nn.tanh, name='mu',
                             kernel_initializer=tf.random_normal_initializer(0., .3))
        sigma = tf.layers.dense(l1, 1, tf.nn.softplus, name='sigma',
                                kernel_initializer=tf.random_normal_initializer(0., .3))
        global_step = tf.Variable(0, trainable=False)
        self.mu, self.sigma = tf.squeeze(mu * 2), tf.squeeze(sigma + 0.1)
        noise = tf.random_normal([], seed=4)
        self.action = tf.clip_by_value(self.mu + self.sigma * noise, action_bound[0], action_bound[1])

        with tf.name_scope('exp_v'):
            log_prob = -tf.square((self.a - self.mu) / self.sigma) / 2 - tf.log(self.sigma)
            self.exp_v = log_prob * self.td_error + 0.01 * tf.log(self.sigma)

        with tf.name_scope('train'):
            self.train_op = tf.train.AdamOptimizer(lr).minimize(-self.exp_v, global_step)

    def learn(self, s, a, td):
        feed_dict = {self.s: s[np.newaxis, :], self.a: a, self.td_error: td}
        _, exp_v = self.sess.run([self.train_op, self.exp_v], feed_dict)
        return exp_v

    def choose_action(self, s):
        return self.sess.run(self.action, {self.s: s[np.newaxis, :]})


class Critic(object):
    GAMMA = 0.8

    def __init__(self, sess, n_features, lr=0.02):
        self.sess = sess
        with tf.name_scope('inputs'):
            self.s = tf.placeholder(tf.float32, [1, n_features], "state")
            self.v_ = tf.placeholder(tf.float32, [1, 1], name="v_next")
            self.r = tf.placeholder(tf.float32, name='r')
        with tf.variable_scope('Critic'):
            l1 = tf.layers.dense(self.s, 12, tf.nn.relu, name='l1',
                                 kernel_initializer=tf.random_normal_initializer(0., .3))
            self.v = tf.layers.dense(l1, 1, name='V', kernel_initializer=tf.random_normal_initializer(0., .3))
        self.td_error = tf.reduce_mean(self.r + Critic.GAMMA * self.v_ - self.v)
        self.loss = tf.square(self.td_error)
        self.train_op = tf.train.AdamOptimizer(lr).minimize(self.loss)

    def learn(self, s, r, s_):
        s, s_ = s[np.newaxis, :], s_[np.newaxis, :]
        v_ = self.sess.run(self.v, {self.s: s_})
        td_error, _ = self.sess.run([self.td_error, self.train_op],
                                    {self.s: s, self.v_: v_, self.r: r})
        return td_error


def main(steps):
    tf.set_random_seed(21)
    sess = tf.Session()
    actor = Actor(sess, n_features=2, action_bound=[-2, 2])
    critic = Critic(sess, n_features=2)
    sess.run(tf.global_variables_initializer())

    results = []
    s = np.array([1.0, 0.0])
    for t in range(steps):
        a = actor.choose_action(s)
        angle = 0.3 * float(a)
        s_ = np.array([s[0] * np.cos(angle) - s[1] * np.sin(angle), s[0] * np.sin(angle) + s[1] * np.cos(angle)])
        r = s_[1]
        td_error = critic.learn(s, r, s_)  # gradient = grad[r + gamma * V(s_) - V(s)]
        results.append(actor.learn(s, a, td_error))
        s = s_
    sess.close()
    return results


if __name__ == '__main__':
    main(1000)
