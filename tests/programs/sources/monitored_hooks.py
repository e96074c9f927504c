"""A monitored session with hooks of the program's own, scaffold, summaries and a step function."""

import tempfile

import numpy as np
import tensorflow as tf


class LossHook(tf.train.SessionRunHook):
    """Collects the loss, and evaluates on other data at the end."""

    def __init__(self, loss, weights, test_feed):
        self._loss = loss
        self._weights = weights
        self._test_feed = test_feed
        self.values = []

    def begin(self):
        self._step = -1

    def after_create_session(self, session, coord):
        self.values.append(session.run(self._weights).sum())

    def before_run(self, run_context):
        self._step += 1
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        self.values.append(run_values.results)
        if run_values.results < 1e-3:
            run_context.request_stop()

    def end(self, session):
        test_loss = session.run(self._loss, feed_dict=self._test_feed)
        self.values.append(test_loss)


def main(steps):
    tf.set_random_seed(140)
    rng = np.random.RandomState(140)
    x_data = rng.randn(30, 4)
    y_data = x_data.dot([1.0, -2.0, 0.5, 0.0])[:, None]

    x = tf.placeholder(tf.float32, [None, 4])
    y = tf.placeholder(tf.float32, [None, 1])
    weights = tf.get_variable('weights', [4, 1], initializer=tf.random_normal_initializer())
    loss = tf.losses.absolute_difference(y, tf.matmul(x, weights))
    regularized = tf.losses.get_total_loss() + 0.01 * tf.nn.l2_loss(weights)
    global_step = tf.train.get_or_create_global_step()
    train_op = tf.train.AdamOptimizer(0.1).minimize(regularized, global_step=global_step)
    tf.summary.scalar('loss', loss)
    tf.summary.histogram('weights', weights)

    halve = weights.assign(weights * 0.5)

    def init_fn(scaffold, session):
        session.run(halve)

    directory = tempfile.mkdtemp()
    hook = LossHook(loss, weights, {x: x_data[20:], y: y_data[20:]})
    scaffold = tf.train.Scaffold(init_op=tf.global_variables_initializer(), init_fn=init_fn)
    counted = []
    with tf.train.MonitoredTrainingSession(checkpoint_dir=directory, scaffold=scaffold, save_checkpoint_steps=4,
                                           save_summaries_steps=2, log_step_count_steps=None,
                                           hooks=[tf.train.StopAtStepHook(num_steps=steps), hook]) as mon_sess:
        def step_fn(step_context):
            counted.append(step_context.session.run(global_step))
            return step_context.run_with_hooks(train_op, feed_dict={x: x_data[:20], y: y_data[:20]})

        while not mon_sess.should_stop():
            if len(counted) < 3:
                mon_sess.run_step_fn(step_fn)
            else:
                mon_sess.run(train_op, {x: x_data[:20], y: y_data[:20]})

    last = tf.train.load_variable(directory, 'global_step')
    events = [e for path in tf.gfile.Glob(directory + '/events*') for e in tf.train.summary_iterator(path)]
    return hook.values + counted + [last, len([e for e in events if e.HasField('summary')])]


if __name__ == '__main__':
    main(30)
