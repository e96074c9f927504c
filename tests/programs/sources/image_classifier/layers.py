"""Layers as functions."""

import tensorflow as tf


def new_weights(shape):
    return tf.Variable(tf.truncated_normal(shape, stddev=0.1))


def new_biases(length):
    return tf.Variable(tf.constant(0.05, shape=[length]))


def new_conv_layer(input, num_input_channels, filter_size, num_filters, use_pooling=True):
    weights = new_weights([filter_size, filter_size, num_input_channels, num_filters])
    layer = tf.nn.conv2d(input=input, filter=weights, strides=[1, 1, 1, 1], padding='SAME')
    layer += new_biases(num_filters)
    if use_pooling:
        layer = tf.nn.max_pool(value=layer, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding='SAME')
    return tf.nn.relu(layer), weights


def flatten_layer(layer):
    num_features = layer.get_shape()[1:4].num_elements()
    return tf.reshape(layer, [-1, num_features]), num_features


def new_fc_layer(input, num_inputs, num_outputs, use_relu=True):
    layer = tf.matmul(input, new_weights([num_inputs, num_outputs])) + new_biases(num_outputs)
    return tf.nn.relu(layer) if use_relu else layer
