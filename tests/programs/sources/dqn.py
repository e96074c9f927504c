"""Deep Q-learning of a walk along a line; a class that makes its session when it is constructed."""

import collections
import random

import numpy as np
import tensorflow as tf


class Corridor(object):
    """The agent begins in the middle, and is rewarded at the right end."""

    def __init__(self, length=7):
        self.length = length

    def reset(self):
        self.place = self.length // 2
        return self._observe()

    def step(self, action):
        self.place += 1 if action == 1 else -1
        done = self.place in (0, self.length - 1)
        reward = 1.0 if self.place == self.length - 1 else -0.1
        return self._observe(), reward, done

    def _observe(self):
        return np.eye(self.length)[self.place]


class DQN(object):
    def __init__(self, env, hidden=16):
        self.replay_buffer = collections.deque(maxlen=200)
        self.epsilon = 0.5
        self.state_dim = env.length
        self.action_dim = 2

        self.create_q_network(hidden)
        self.create_training_method()

        # Init session
        self.session = tf.Session()
        self.session.run(tf.global_variables_initializer())

    def create_q_network(self, hidden):
        self.state_input = tf.placeholder("float", [None, self.state_dim])
        with tf.variable_scope('current_net'):
            W1 = tf.get_variable('W1', [self.state_dim, hidden],
                                 initializer=tf.truncated_normal_initializer(stddev=0.3))
            b1 = tf.get_variable('b1', [hidden], initializer=tf.constant_initializer(0.01))
            W2 = tf.get_variable('W2', [hidden, self.action_dim],
                                 initializer=tf.truncated_normal_initializer(stddev=0.3))
            h_layer = tf.nn.relu(tf.matmul(self.state_input, W1) + b1)
            self.Q_value = tf.matmul(h_layer, W2)

    def create_training_method(self):
        self.action_input = tf.placeholder("float", [None, self.action_dim])
        self.y_input = tf.placeholder("float", [None])
        Q_action = tf.reduce_sum(tf.multiply(self.Q_value, self.action_input), axis=1)
        self.cost = tf.reduce_mean(tf.square(self.y_input - Q_action))
        self.optimizer = tf.train.AdamOptimizer(0.01).minimize(self.cost)

    def perceive(self, state, action, reward, next_state, done):
        one_hot_action = np.zeros(self.action_dim)
        one_hot_action[action] = 1
        self.replay_buffer.append((state, one_hot_action, reward, next_state, done))
        if len(self.replay_buffer) > 8:
            return self.train_q_network()

    def train_q_network(self, batch_size=8, gamma=0.9):
        minibatch = random.sample(list(self.replay_buffer), batch_size)
        state_batch = [data[0] for data in minibatch]
        next_state_batch = [data[3] for data in minibatch]

        y_batch = []
        Q_value_batch = self.Q_value.eval(feed_dict={self.state_input: next_state_batch},
                                          session=self.session)
        for i in range(batch_size):
            if minibatch[i][4]:
                y_batch.append(minibatch[i][2])
            else:
                y_batch.append(minibatch[i][2] + gamma * np.max(Q_value_batch[i]))

        cost, _ = self.session.run([self.cost, self.optimizer], feed_dict={
            self.y_input: y_batch,
            self.action_input: [data[1] for data in minibatch],
            self.state_input: state_batch
        })
        return cost

    def egreedy_action(self, state):
        Q_value = self.Q_value.eval({self.state_input: [state]}, self.session)[0]
        if random.random() <= self.epsilon:
            return random.randint(0, self.action_dim - 1)
        return np.argmax(Q_value)

    def action(self, state):
        return np.argmax(self.session.run(self.Q_value, {self.state_input: [state]})[0])


def main(steps):
    random.seed(5)
    tf.set_random_seed(5)
    env = Corridor()
    agent = DQN(env)
    costs = []
    for episode in range(steps):
        state = env.reset()
        for step in range(12):
            action = agent.egreedy_action(state)
            next_state, reward, done = env.step(action)
            cost = agent.perceive(state, action, reward, next_state, done)
            if cost is not None:
                costs.append(cost)
            state = next_state
            if done:
                break
    costs.append(agent.action(env.reset()))
    agent.session.close()
    return costs


if __name__ == '__main__':
    main(100)
