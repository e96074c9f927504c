"""The classifier; a context manager that owns its session."""

import tensorflow as tf

import data
from layers import flatten_layer, new_conv_layer, new_fc_layer


class Classifier(object):
    instances = 0

    def __init__(self, learning_rate):
        Classifier.instances += 1
        size = data.IMAGE_SIZE
        self.x = tf.placeholder(tf.float32, shape=[None, size, size, 1], name='x')
        self.y_true = tf.placeholder(tf.int64, shape=[None], name='y_true')
        conv, self.conv_weights = new_conv_layer(self.x, 1, 3, 4)
        flat, num_features = flatten_layer(conv)
        logits = new_fc_layer(flat, num_features, data.NUM_CLASSES, use_relu=False)
        self.y_pred = tf.nn.softmax(logits)
        self.cost = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=self.y_true))
        self.optimizer = tf.train.AdamOptimizer(learning_rate).minimize(self.cost)
        self.accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(self.y_pred, 1), self.y_true), tf.float32))

    def __enter__(self):
        self.session = tf.Session()
        self.session.run(tf.global_variables_initializer())
        return self

    def __exit__(self, *args):
        self.session.close()

    def feed(self, batch):
        images, labels = batch
        return {self.x: images, self.y_true: labels}

    def step(self, batch):
        return self.session.run((self.cost, self.optimizer), self.feed(batch))[0]

    def __call__(self, images):
        return self.session.run(self.y_pred, {self.x: images})

    @property
    def weights(self):
        return self.session.run(self.conv_weights)

    @classmethod
    def create(cls, **kwargs):
        return cls(**kwargs)
