"""REINFORCE: a policy network whose steps are weighted by discounted rewards."""

import numpy as np
import tensorflow as tf


class Bandit:
    """The reward is higher for the action that the sign of the state asks for."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)

    def reset(self):
        self.count = 0
        self.state = self.rng.uniform(-1, 1, 2)
        return self.state

    def step(self, action):
        reward = 1.0 if (self.state[0] * self.state[1] > 0) == bool(action) else -1.0
        self.count += 1
        self.state = self.rng.uniform(-1, 1, 2)
        return self.state, reward, self.count == 6, {}


class PolicyGradient:
    def __init__(self, n_actions, n_features, learning_rate=0.02, reward_decay=0.5, output_graph=False):
        self.n_actions = n_actions
        self.n_features = n_features
        self.lr = learning_rate
        self.gamma = reward_decay
        self.ep_obs, self.ep_as, self.ep_rs = [], [], []
        self.rng = np.random.RandomState(1)

        self._build_net()

        self.sess = tf.Session()

        if output_graph:
            # $ tensorboard --logdir=logs
            tf.summary.FileWriter("logs/", self.sess.graph)

        self.sess.run(tf.global_variables_initializer())

    def _build_net(self):
        with tf.name_scope('inputs'):
            self.tf_obs = tf.placeholder(tf.float32, [None, self.n_features], name="observations")
            self.tf_acts = tf.placeholder(tf.int32, [None, ], name="actions_num")
            self.tf_vt = tf.placeholder(tf.float32, [None, ], name="actions_value")
        # fc1
        layer = tf.layers.dense(
            inputs=self.tf_obs,
            units=10,
            activation=tf.nn.tanh,
            kernel_initializer=tf.random_normal_initializer(mean=0, stddev=0.3),
            bias_initializer=tf.constant_initializer(0.1),
            name='fc1'
        )
        # fc2
        all_act = tf.layers.dense(
            inputs=layer,
            units=self.n_actions,
            activation=None,
            kernel_initializer=tf.random_normal_initializer(mean=0, stddev=0.3),
            bias_initializer=tf.constant_initializer(0.1),
            name='fc2'
        )
        self.all_act_prob = tf.nn.softmax(all_act, name='act_prob')

        with tf.name_scope('loss'):
            neg_log_prob = tf.reduce_sum(
                -tf.log(self.all_act_prob) * tf.one_hot(self.tf_acts, self.n_actions), axis=1)
            self.loss = tf.reduce_mean(neg_log_prob * self.tf_vt)
        with tf.name_scope('train'):
            self.train_op = tf.train.AdamOptimizer(self.lr).minimize(self.loss)

    def choose_action(self, observation):
        prob_weights = self.sess.run(self.all_act_prob, feed_dict={self.tf_obs: observation[np.newaxis, :]})
        return self.rng.choice(range(prob_weights.shape[1]), p=prob_weights.ravel() / prob_weights.sum())

    def store_transition(self, s, a, r):
        self.ep_obs.append(s)
        self.ep_as.append(a)
        self.ep_rs.append(r)

    def learn(self):
        discounted_ep_rs_norm = self._discount_and_norm_rewards()
        _, loss = self.sess.run([self.train_op, self.loss], feed_dict={
            self.tf_obs: np.vstack(self.ep_obs),
            self.tf_acts: np.array(self.ep_as),
            self.tf_vt: discounted_ep_rs_norm,
        })
        self.ep_obs, self.ep_as, self.ep_rs = [], [], []
        return loss

    def _discount_and_norm_rewards(self):
        discounted_ep_rs = np.zeros_like(self.ep_rs)
        running_add = 0
        for t in reversed(range(0, len(self.ep_rs))):
            running_add = running_add * self.gamma + self.ep_rs[t]
            discounted_ep_rs[t] = running_add
        discounted_ep_rs -= np.mean(discounted_ep_rs)
        return discounted_ep_rs / (np.std(discounted_ep_rs) + 1e-6)


def main(steps):
    tf.set_random_seed(1)
    env = Bandit(3)
    RL = PolicyGradient(n_actions=2, n_features=2)
    losses = []
    for i_episode in range(steps):
        observation = env.reset()
        while True:
            action = RL.choose_action(observation)
            observation_, reward, done, info = env.step(action)
            RL.store_transition(observation, action, reward)
            if done:
                losses += [sum(RL.ep_rs), RL.learn()]
                break
            observation = observation_
    RL.sess.close()
    return losses


if __name__ == '__main__':
    main(300)
