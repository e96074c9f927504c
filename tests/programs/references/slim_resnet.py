"""slim_resnet.py by tf.layers."""

import numpy as np
import tensorflow as tf

INIT = tf.truncated_normal_initializer(stddev=0.2, seed=3)


def norm(net, training, name):
    net = tf.layers.batch_normalization(net, momentum=0.8, epsilon=1e-3, training=training, name=name)
    return tf.nn.relu(net)


def conv(net, depth, size, stride, name, use_bias):
    return tf.layers.conv2d(net, depth, size, stride, 'same', use_bias=use_bias, kernel_initializer=INIT, name=name)


def unit(net, depth, stride, training, scope):
    with tf.variable_scope(scope):
        preact = norm(net, training, 'preact')
        shortcut = net if stride == 1 else conv(preact, depth, 1, stride, 'shortcut', True)
        residual = norm(conv(preact, depth, 3, stride, 'conv1', False), training, 'norm1')
        return shortcut + conv(residual, depth, 3, 1, 'conv2', True)


def resnet(images, training):
    net = conv(images, 4, 3, 1, 'conv1', True)
    net = unit(net, 4, 1, training, 'unit1')
    net = unit(net, 8, 2, training, 'unit2')
    net = tf.reduce_mean(norm(net, training, 'postnorm'), [1, 2])
    return tf.layers.dense(net, 3, kernel_initializer=INIT, name='logits')


def main(steps):
    rng = np.random.RandomState(240)
    prototypes = rng.randn(3, 6, 6, 2)
    images = tf.placeholder(tf.float32, [None, 6, 6, 2])
    labels = tf.placeholder(tf.int64, [None])
    logits = resnet(images, True)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        test_logits = resnet(images, False)
    decay = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if 'kernel' in v.name])
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits) + 0.01 * decay
    with tf.control_dependencies(updates):
        loss = tf.identity(loss)
    train_op = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss)
    accuracy = tf.reduce_mean(tf.to_float(tf.equal(tf.argmax(test_logits, 1), labels)))
    results = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(steps):
            kinds = rng.randint(0, 3, 9)
            feed = {images: prototypes[kinds] + 0.5 * rng.randn(9, 6, 6, 2), labels: kinds}
            results.append(sess.run([loss, train_op], feed)[0])
        results.append(sess.run(accuracy, {images: prototypes, labels: [0, 1, 2]}))
        results.append(np.abs(sess.run(test_logits, {images: prototypes})).mean())
    return results + [len(tf.global_variables()) - len(tf.trainable_variables())]
