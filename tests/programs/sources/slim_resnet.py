"""A residual network by slim: argument scopes, collections of losses, a training op that updates the moving averages."""

import numpy as np
import tensorflow as tf
import tensorflow.contrib.slim as slim


def unit(net, depth, stride, scope):
    with tf.variable_scope(scope):
        preact = slim.batch_norm(net, activation_fn=tf.nn.relu, scope='preact')
        if depth == net.get_shape()[-1].value and stride == 1:
            shortcut = net
        else:
            shortcut = slim.conv2d(preact, depth, [1, 1], stride=stride, normalizer_fn=None, activation_fn=None,
                                   scope='shortcut')
        residual = slim.conv2d(preact, depth, [3, 3], stride=stride, scope='conv1')
        residual = slim.conv2d(residual, depth, [3, 3], normalizer_fn=None, activation_fn=None, scope='conv2')
        return shortcut + residual


def resnet_arg_scope(is_training, weight_decay=0.01):
    batch_norm_params = {'is_training': is_training, 'decay': 0.8, 'epsilon': 1e-3, 'scale': True}
    with slim.arg_scope([slim.conv2d, slim.fully_connected],
                        weights_regularizer=slim.l2_regularizer(weight_decay),
                        weights_initializer=tf.truncated_normal_initializer(stddev=0.2, seed=3)):
        with slim.arg_scope([slim.conv2d], normalizer_fn=slim.batch_norm, normalizer_params=batch_norm_params):
            with slim.arg_scope([slim.batch_norm], **batch_norm_params) as arg_sc:
                return arg_sc


def resnet(inputs, num_classes, is_training):
    with slim.arg_scope(resnet_arg_scope(is_training)):
        net = slim.conv2d(inputs, 4, [3, 3], scope='conv1', activation_fn=None, normalizer_fn=None)
        net = unit(net, 4, 1, 'unit1')
        net = unit(net, 8, 2, 'unit2')
        net = slim.batch_norm(net, activation_fn=tf.nn.relu, scope='postnorm')
        net = tf.reduce_mean(net, [1, 2], name='pool')
        return slim.fully_connected(net, num_classes, activation_fn=None, scope='logits')


def main(steps):
    rng = np.random.RandomState(240)
    prototypes = rng.randn(3, 6, 6, 2)
    images = tf.placeholder(tf.float32, [None, 6, 6, 2])
    labels = tf.placeholder(tf.int64, [None])
    logits = resnet(images, 3, True)
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        test_logits = resnet(images, 3, False)

    slim.losses.softmax_cross_entropy(logits, slim.one_hot_encoding(labels, 3))
    total_loss = slim.losses.get_total_loss()
    optimizer = tf.train.MomentumOptimizer(0.05, 0.9)
    train_op = slim.learning.create_train_op(total_loss, optimizer)
    accuracy = tf.reduce_mean(tf.to_float(tf.equal(tf.argmax(test_logits, 1), labels)))

    results = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(steps):
            kinds = rng.randint(0, 3, 9)
            feed = {images: prototypes[kinds] + 0.5 * rng.randn(9, 6, 6, 2), labels: kinds}
            results.append(sess.run(train_op, feed_dict=feed))
        results.append(sess.run(accuracy, {images: prototypes, labels: [0, 1, 2]}))
        results.append(np.abs(sess.run(test_logits, {images: prototypes})).mean())
        results.append(len(slim.get_model_variables()))
    return results


if __name__ == '__main__':
    main(100)
