"""A replica of distributed training: a server, variables placed by a device setter, a monitored session as chief."""

import tempfile

import numpy as np
import tensorflow as tf

IMAGE_PIXELS = 6


def batches(size):
    rng = np.random.RandomState(33)
    prototypes = rng.rand(3, IMAGE_PIXELS * IMAGE_PIXELS)
    while True:
        labels = rng.randint(0, 3, size)
        yield prototypes[labels] + 0.3 * rng.randn(size, IMAGE_PIXELS * IMAGE_PIXELS), np.eye(3)[labels]


def train(target, is_chief, num_steps, logdir):
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, ps_device='/job:localhost/task:0',
                                                  worker_device='/job:localhost/task:0')):
        global_step = tf.train.get_or_create_global_step()
        # Variables of the hidden layer
        hid_w = tf.Variable(tf.truncated_normal([IMAGE_PIXELS * IMAGE_PIXELS, 8], stddev=1.0 / IMAGE_PIXELS),
                            name="hid_w")
        hid_b = tf.Variable(tf.zeros([8]), name="hid_b")
        # Variables of the softmax layer
        sm_w = tf.Variable(tf.truncated_normal([8, 3], stddev=0.35), name="sm_w")
        sm_b = tf.Variable(tf.zeros([3]), name="sm_b")

        x = tf.placeholder(tf.float32, [None, IMAGE_PIXELS * IMAGE_PIXELS])
        y_ = tf.placeholder(tf.float32, [None, 3])
        hid = tf.nn.relu(tf.nn.xw_plus_b(x, hid_w, hid_b))
        y = tf.nn.softmax(tf.nn.xw_plus_b(hid, sm_w, sm_b))
        cross_entropy = -tf.reduce_mean(y_ * tf.log(tf.clip_by_value(y, 1e-10, 1.0)))
        opt = tf.train.AdamOptimizer(0.01)
        train_step = opt.minimize(cross_entropy, global_step=global_step)

    losses = []
    hooks = [tf.train.StopAtStepHook(last_step=num_steps), tf.train.NanTensorHook(cross_entropy)]
    source = batches(10)
    with tf.train.MonitoredTrainingSession(master=target, is_chief=is_chief, checkpoint_dir=logdir,
                                           save_summaries_steps=None, log_step_count_steps=None,
                                           hooks=hooks) as sess:
        while not sess.should_stop():
            batch_xs, batch_ys = next(source)
            _, loss = sess.run([train_step, cross_entropy], feed_dict={x: batch_xs, y_: batch_ys})
            losses.append(loss)
    return losses


def main(steps):
    server = tf.train.Server.create_local_server()
    logdir = tempfile.mkdtemp()
    with tf.Graph().as_default():
        tf.set_random_seed(34)
        first = train(server.target, True, steps, logdir)
    # Continues from the checkpoint
    with tf.Graph().as_default():
        second = train(server.target, True, steps + 2, logdir)
    return first + second


if __name__ == "__main__":
    print(main(20))
