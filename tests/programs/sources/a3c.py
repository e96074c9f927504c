"""Asynchronous advantage actor-critic: workers in threads with networks of their own push gradients to the global network."""

import threading
import time

import numpy as np
import tensorflow as tf

N_S, N_A = 3, 2
GAMMA = 0.9
GLOBAL_NET_SCOPE = 'Global_Net'


class Env(object):
    """A target moves; the action says to which side."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)

    def reset(self):
        self.t = 0
        self.s = self.rng.randn(N_S)
        return self.s

    def step(self, a):
        r = 1.0 if (self.s[0] > 0) == bool(a) else -1.0
        self.s = 0.5 * self.s + self.rng.randn(N_S)
        self.t += 1
        return self.s, r, self.t >= 7


class ACNet(object):
    def __init__(self, scope, globalAC=None, sess=None, opt=None):
        self.sess = sess
        with tf.variable_scope(scope):
            self.s = tf.placeholder(tf.float32, [None, N_S], 'S')
            if scope == GLOBAL_NET_SCOPE:
                self.a_params, self.c_params = self._build_net(scope)[-2:]
                return
            self.a_his = tf.placeholder(tf.int32, [None, ], 'A')
            self.v_target = tf.placeholder(tf.float32, [None, 1], 'Vtarget')
            self.a_prob, self.v, self.a_params, self.c_params = self._build_net(scope)

            td = tf.subtract(self.v_target, self.v, name='TD_error')
            with tf.name_scope('c_loss'):
                self.c_loss = tf.reduce_mean(tf.square(td))
            with tf.name_scope('a_loss'):
                log_prob = tf.reduce_sum(tf.log(self.a_prob + 1e-5) * tf.one_hot(self.a_his, N_A), axis=1, keep_dims=True)
                exp_v = log_prob * tf.stop_gradient(td)
                entropy = -tf.reduce_sum(self.a_prob * tf.log(self.a_prob + 1e-5), axis=1, keep_dims=True)
                self.a_loss = tf.reduce_mean(-(0.01 * entropy + exp_v))
            with tf.name_scope('local_grad'):
                self.a_grads = tf.gradients(self.a_loss, self.a_params)
                self.c_grads = tf.gradients(self.c_loss, self.c_params)
            with tf.name_scope('sync'):
                with tf.name_scope('pull'):
                    self.pull_params_op = [l_p.assign(g_p) for l_p, g_p in
                                           zip(self.a_params + self.c_params, globalAC.a_params + globalAC.c_params)]
                with tf.name_scope('push'):
                    self.update_a_op = opt.apply_gradients(zip(self.a_grads, globalAC.a_params))
                    self.update_c_op = opt.apply_gradients(zip(self.c_grads, globalAC.c_params))

    def _build_net(self, scope):
        w_init = tf.random_normal_initializer(0., .3)
        with tf.variable_scope('actor'):
            l_a = tf.layers.dense(self.s, 8, tf.nn.relu6, kernel_initializer=w_init, name='la')
            a_prob = tf.layers.dense(l_a, N_A, tf.nn.softmax, kernel_initializer=w_init, name='ap')
        with tf.variable_scope('critic'):
            l_c = tf.layers.dense(self.s, 8, tf.nn.relu6, kernel_initializer=w_init, name='lc')
            v = tf.layers.dense(l_c, 1, kernel_initializer=w_init, name='v')
        a_params = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope=scope + '/actor')
        c_params = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope=scope + '/critic')
        return a_prob, v, a_params, c_params

    def update_global(self, feed_dict):
        return self.sess.run([self.a_loss, self.c_loss, self.update_a_op, self.update_c_op], feed_dict)[:2]

    def pull_global(self):
        self.sess.run([self.pull_params_op])

    def choose_action(self, s, rng):
        prob_weights = self.sess.run(self.a_prob, feed_dict={self.s: s[np.newaxis, :]})
        return rng.choice(range(N_A), p=prob_weights.ravel() / prob_weights.sum())


class Worker(object):
    def __init__(self, name, globalAC, sess, opt, coord):
        self.name = name
        self.coord = coord
        self.env = Env(300)
        self.rng = np.random.RandomState(301)
        self.AC = ACNet(name, globalAC, sess, opt)
        self.losses = []

    def work(self, max_episodes):
        for _ in range(max_episodes):
            if self.coord.should_stop():
                return
            s = self.env.reset()
            buffer_s, buffer_a, buffer_r = [], [], []
            done = False
            while not done:
                a = self.AC.choose_action(s, self.rng)
                s_, r, done = self.env.step(a)
                buffer_s.append(s)
                buffer_a.append(a)
                buffer_r.append(r)
                s = s_
            v_s_ = 0
            buffer_v_target = []
            for r in buffer_r[::-1]:
                v_s_ = r + GAMMA * v_s_
                buffer_v_target.append(v_s_)
            buffer_v_target.reverse()
            feed_dict = {self.AC.s: np.vstack(buffer_s), self.AC.a_his: np.array(buffer_a),
                         self.AC.v_target: np.vstack(buffer_v_target)}
            self.losses.extend(self.AC.update_global(feed_dict))
            self.AC.pull_global()
            time.sleep(0)


def main(steps, n_workers=1):
    tf.set_random_seed(302)
    sess = tf.Session()
    coord = tf.train.Coordinator()
    with tf.device("/cpu:0"):
        opt = tf.train.RMSPropOptimizer(0.01, name='RMSProp')
        global_ac = ACNet(GLOBAL_NET_SCOPE)
        workers = [Worker('W_%i' % i, global_ac, sess, opt, coord) for i in range(n_workers)]
    sess.run(tf.global_variables_initializer())

    worker_threads = []
    for worker in workers:
        job = lambda: worker.work(steps)
        t = threading.Thread(target=job)
        t.start()
        worker_threads.append(t)
    coord.join(worker_threads)
    sess.close()
    return workers[0].losses


if __name__ == '__main__':
    main(300, 4)
