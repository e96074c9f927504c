"""A convolutional network for sentences: flags, an input class, filters of several sizes, summaries in folders."""

import os
import tempfile

import numpy as np
import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_integer("text_cnn_embedding_dim", 6, "Dimensionality of the embedding (default: 6)")
flags.DEFINE_string("text_cnn_filter_sizes", "2,3", "Comma-separated filter sizes")
flags.DEFINE_float("text_cnn_l2_reg_lambda", 0.01, "L2 regularization lambda")
flags.DEFINE_boolean("text_cnn_log_device_placement", False, "Log placement of ops on devices")
FLAGS = flags.FLAGS


class TextCNN(object):
    """An embedding layer, followed by a convolutional, max-pooling and softmax layer."""

    def __init__(self, sequence_length, num_classes, vocab_size, embedding_size, filter_sizes, num_filters,
                 l2_reg_lambda=0.0):
        self.input_x = tf.placeholder(tf.int32, [None, sequence_length], name="input_x")
        self.input_y = tf.placeholder(tf.float32, [None, num_classes], name="input_y")
        self.dropout_keep_prob = tf.placeholder(tf.float32, name="dropout_keep_prob")
        l2_loss = tf.constant(0.0)

        with tf.device('/cpu:0'), tf.name_scope("embedding"):
            self.W = tf.Variable(tf.random_uniform([vocab_size, embedding_size], -1.0, 1.0), name="W")
            self.embedded_chars = tf.nn.embedding_lookup(self.W, self.input_x)
            self.embedded_chars_expanded = tf.expand_dims(self.embedded_chars, -1)

        pooled_outputs = []
        for i, filter_size in enumerate(filter_sizes):
            with tf.name_scope("conv-maxpool-%s" % filter_size):
                filter_shape = [filter_size, embedding_size, 1, num_filters]
                W = tf.Variable(tf.truncated_normal(filter_shape, stddev=0.1), name="W")
                b = tf.Variable(tf.constant(0.1, shape=[num_filters]), name="b")
                conv = tf.nn.conv2d(self.embedded_chars_expanded, W, strides=[1, 1, 1, 1], padding="VALID")
                h = tf.nn.relu(tf.nn.bias_add(conv, b), name="relu")
                pooled = tf.nn.max_pool(h, ksize=[1, sequence_length - filter_size + 1, 1, 1],
                                        strides=[1, 1, 1, 1], padding='VALID', name="pool")
                pooled_outputs.append(pooled)
        num_filters_total = num_filters * len(filter_sizes)
        self.h_pool_flat = tf.reshape(tf.concat(pooled_outputs, 3), [-1, num_filters_total])

        with tf.name_scope("dropout"):
            self.h_drop = tf.nn.dropout(self.h_pool_flat, self.dropout_keep_prob)

        with tf.name_scope("output"):
            W = tf.get_variable("W", shape=[num_filters_total, num_classes],
                                initializer=tf.glorot_uniform_initializer())
            b = tf.Variable(tf.constant(0.1, shape=[num_classes]), name="b")
            l2_loss += tf.nn.l2_loss(W)
            l2_loss += tf.nn.l2_loss(b)
            self.scores = tf.nn.xw_plus_b(self.h_drop, W, b, name="scores")
            self.predictions = tf.argmax(self.scores, 1, name="predictions")

        with tf.name_scope("loss"):
            losses = tf.nn.softmax_cross_entropy_with_logits(logits=self.scores, labels=self.input_y)
            self.loss = tf.reduce_mean(losses) + l2_reg_lambda * l2_loss
        with tf.name_scope("accuracy"):
            correct_predictions = tf.equal(self.predictions, tf.argmax(self.input_y, 1))
            self.accuracy = tf.reduce_mean(tf.cast(correct_predictions, "float"), name="accuracy")


def main(steps):
    rng = np.random.RandomState(10)
    x = rng.randint(0, 10, (30, 8))
    y = np.eye(2)[(x == 3).any(1).astype(int)]
    out_dir = tempfile.mkdtemp()
    values = []

    with tf.Graph().as_default():
        tf.set_random_seed(10)
        session_conf = tf.ConfigProto(allow_soft_placement=True,
                                      log_device_placement=FLAGS.text_cnn_log_device_placement)
        sess = tf.Session(config=session_conf)
        with sess.as_default():
            cnn = TextCNN(8, 2, 10, FLAGS.text_cnn_embedding_dim,
                          list(map(int, FLAGS.text_cnn_filter_sizes.split(","))), 3,
                          l2_reg_lambda=FLAGS.text_cnn_l2_reg_lambda)

            global_step = tf.Variable(0, name="global_step", trainable=False)
            optimizer = tf.train.AdamOptimizer(1e-2)
            grads_and_vars = optimizer.compute_gradients(cnn.loss)
            train_op = optimizer.apply_gradients(grads_and_vars, global_step=global_step)

            # Keep track of gradient values and sparsity
            grad_summaries = []
            for g, v in grads_and_vars:
                if g is not None:
                    name = v.name.replace(":", "_")
                    grad_summaries.append(tf.summary.histogram("{}/grad/hist".format(name), g))
                    grad_summaries.append(tf.summary.scalar("{}/grad/sparsity".format(name), tf.nn.zero_fraction(g)))
            loss_summary = tf.summary.scalar("loss", cnn.loss)
            acc_summary = tf.summary.scalar("accuracy", cnn.accuracy)
            train_summary_op = tf.summary.merge([loss_summary, acc_summary, tf.summary.merge(grad_summaries)])
            dev_summary_op = tf.summary.merge([loss_summary, acc_summary])
            train_summary_writer = tf.summary.FileWriter(os.path.join(out_dir, "train"), sess.graph)
            dev_summary_writer = tf.summary.FileWriter(os.path.join(out_dir, "dev"), sess.graph)
            sess.run(tf.global_variables_initializer())

            def train_step(x_batch, y_batch):
                feed_dict = {cnn.input_x: x_batch, cnn.input_y: y_batch, cnn.dropout_keep_prob: 0.5}
                _, step, summaries, loss, accuracy = sess.run(
                    [train_op, global_step, train_summary_op, cnn.loss, cnn.accuracy], feed_dict)
                values.append(loss)
                train_summary_writer.add_summary(summaries, step)

            def dev_step(x_batch, y_batch, writer=None):
                feed_dict = {cnn.input_x: x_batch, cnn.input_y: y_batch, cnn.dropout_keep_prob: 1.0}
                step, summaries, loss, accuracy = sess.run(
                    [global_step, dev_summary_op, cnn.loss, cnn.accuracy], feed_dict)
                values.append(loss)
                if writer:
                    writer.add_summary(summaries, step)

            for i in range(steps):
                train_step(x[:20], y[:20])
                current_step = tf.train.global_step(sess, global_step)
                if current_step % 3 == 0:
                    dev_step(x[20:], y[20:], writer=dev_summary_writer)
        train_summary_writer.close()
        dev_summary_writer.close()
        sess.close()
    written = [os.path.getsize(os.path.join(out_dir, each, name)) > 0
               for each in ("train", "dev") for name in os.listdir(os.path.join(out_dir, each))]
    return values + [sum(written)]


if __name__ == "__main__":
    main(100)
