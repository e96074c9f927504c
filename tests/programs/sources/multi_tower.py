"""Several towers share variables; their gradients are averaged on the CPU; moving averages of the variables are saved."""

from __future__ import division

import os
import tempfile

import numpy as np
import tensorflow as tf

NUM_TOWERS = 2
TOWER_NAME = 'tower'
MOVING_AVERAGE_DECAY = 0.9


def _variable_on_cpu(name, shape, initializer):
    with tf.device('/cpu:0'):
        return tf.get_variable(name, shape, initializer=initializer)


def _variable_with_weight_decay(name, shape, stddev, wd):
    var = _variable_on_cpu(name, shape, tf.truncated_normal_initializer(stddev=stddev))
    if wd is not None:
        tf.add_to_collection('losses', tf.multiply(tf.nn.l2_loss(var), wd, name='weight_loss'))
    return var


def inference(images):
    with tf.variable_scope('conv1') as scope:
        kernel = _variable_with_weight_decay('weights', [3, 3, 1, 4], 0.2, None)
        conv = tf.nn.conv2d(images, kernel, [1, 1, 1, 1], padding='SAME')
        biases = _variable_on_cpu('biases', [4], tf.constant_initializer(0.0))
        conv1 = tf.nn.relu(tf.nn.bias_add(conv, biases), name=scope.name)
    norm1 = tf.nn.lrn(conv1, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75, name='norm1')
    pool1 = tf.nn.avg_pool(norm1, [1, 2, 2, 1], [1, 2, 2, 1], 'SAME', name='pool1')
    with tf.variable_scope('softmax_linear'):
        reshape = tf.reshape(pool1, [images.get_shape()[0], -1])
        dim = reshape.get_shape()[1].value
        weights = _variable_with_weight_decay('weights', [dim, 3], 1 / dim, 0.01)
        biases = _variable_on_cpu('biases', [3], tf.constant_initializer(0.0))
        return tf.add(tf.matmul(reshape, weights), biases)


def tower_loss(scope, images, labels):
    logits = inference(images)
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    tf.add_to_collection('losses', tf.reduce_mean(cross_entropy))
    return tf.add_n(tf.get_collection('losses', scope), name='total_loss')


def average_gradients(tower_grads):
    average_grads = []
    for grad_and_vars in zip(*tower_grads):
        grads = [tf.expand_dims(g, 0) for g, _ in grad_and_vars]
        grad = tf.reduce_mean(tf.concat(axis=0, values=grads), 0)
        average_grads.append((grad, grad_and_vars[0][1]))
    return average_grads


def main(steps):
    with tf.Graph().as_default() as g, tf.device('/cpu:0'):
        tf.set_random_seed(80)
        images = [tf.placeholder(tf.float32, [4, 6, 6, 1]) for _ in range(NUM_TOWERS)]
        labels = [tf.placeholder(tf.int32, [4]) for _ in range(NUM_TOWERS)]
        global_step = tf.get_variable('global_step', [], initializer=tf.constant_initializer(0), trainable=False)
        lr = tf.train.inverse_time_decay(0.5, global_step, 2, 0.1)
        opt = tf.train.GradientDescentOptimizer(lr)

        tower_grads = []
        with tf.variable_scope(tf.get_variable_scope()):
            for i in range(NUM_TOWERS):
                with tf.device('/cpu:0'):
                    with tf.name_scope('%s_%d' % (TOWER_NAME, i)) as scope:
                        loss = tower_loss(scope, images[i], labels[i])
                        tf.get_variable_scope().reuse_variables()
                        tower_grads.append(opt.compute_gradients(loss))
        grads = average_gradients(tower_grads)
        apply_gradient_op = opt.apply_gradients(grads, global_step=global_step)
        variable_averages = tf.train.ExponentialMovingAverage(MOVING_AVERAGE_DECAY, global_step)
        variables_averages_op = variable_averages.apply(tf.trainable_variables())

        saver = tf.train.Saver(tf.global_variables())
        sess = tf.Session(config=tf.ConfigProto(allow_soft_placement=True))
        sess.run(tf.global_variables_initializer())

        rng = np.random.RandomState(81)
        history = []
        for step in range(steps):
            feed = {}
            for i in range(NUM_TOWERS):
                kinds = rng.randint(0, 3, 4)
                feed[labels[i]] = kinds
                feed[images[i]] = rng.rand(4, 6, 6, 1) + (np.arange(6) // 2 == kinds[:, None])[:, :, None, None]
            loss_value = sess.run(loss, feed_dict=feed)
            assert not np.isnan(loss_value), 'Model diverged with loss = NaN'
            history.append(loss_value)
            # One after the other: in one step TensorFlow would average variables before or after their update.
            sess.run(apply_gradient_op, feed_dict=feed)
            sess.run(variables_averages_op)
        checkpoint_path = os.path.join(tempfile.mkdtemp(), 'model.ckpt')
        saver.save(sess, checkpoint_path, global_step=global_step)

        # Restores the moving averages into the variables.
        restorer = tf.train.Saver(variable_averages.variables_to_restore())
        restorer.restore(sess, tf.train.latest_checkpoint(os.path.dirname(checkpoint_path)))
        history.append(sess.run(loss, feed))
        sess.close()
        return history


if __name__ == '__main__':
    main(20)
