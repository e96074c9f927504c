"""Wide and deep: feature columns, a linear model of crossed columns beside a network of embeddings and numbers."""

import numpy as np
import tensorflow as tf


def build_model_columns():
    fc = tf.feature_column
    age = fc.numeric_column('age')
    age_buckets = fc.bucketized_column(age, boundaries=[25, 40, 60])
    work = fc.categorical_column_with_vocabulary_list('work', ['private', 'public', 'none'])
    city = fc.categorical_column_with_hash_bucket('city', hash_bucket_size=8)
    crossed = fc.crossed_column([age_buckets, 'work'], hash_bucket_size=16)
    base_columns = [age_buckets, work, city, crossed]
    deep_columns = [age, fc.indicator_column(work),
                    fc.embedding_column(city, dimension=3, initializer=tf.truncated_normal_initializer(stddev=0.3, seed=5))]
    return base_columns, deep_columns


def people(n):
    rng = np.random.RandomState(270)
    age = rng.randint(18, 80, n).astype(np.float32)
    work = rng.choice(['private', 'public', 'none'], n)
    city = rng.choice(['a', 'b', 'c', 'd', 'e'], n)
    label = ((age > 40) ^ (work == 'public')).astype(np.float32)
    return {'age': age / 1.0, 'work': work, 'city': city}, label[:, None]


def main(steps):
    features, label = people(40)
    placeholders = {'age': tf.placeholder(tf.float32, [None]), 'work': tf.placeholder(tf.string, [None]),
                    'city': tf.placeholder(tf.string, [None])}
    labels = tf.placeholder(tf.float32, [None, 1])
    wide_columns, deep_columns = build_model_columns()

    wide_logits = tf.feature_column.linear_model(placeholders, wide_columns)
    net = tf.feature_column.input_layer(placeholders, deep_columns) * 0.05
    for i, units in enumerate([8, 4]):
        net = tf.layers.dense(net, units, tf.nn.relu, kernel_initializer=tf.random_normal_initializer(stddev=0.4, seed=i))
    deep_logits = tf.layers.dense(net, 1, kernel_initializer=tf.random_normal_initializer(stddev=0.4, seed=9))

    logits = wide_logits + deep_logits
    loss = tf.losses.sigmoid_cross_entropy(labels, logits)
    wide_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope='linear_model')
    deep_vars = [v for v in tf.trainable_variables() if v not in wide_vars]
    train_op = tf.group(tf.train.FtrlOptimizer(0.3).minimize(loss, var_list=wide_vars),
                        tf.train.AdagradOptimizer(0.1).minimize(loss, var_list=deep_vars))
    auc, update_auc = tf.metrics.auc(labels, tf.sigmoid(logits), num_thresholds=50)

    feed = {placeholders[k]: v for k, v in features.items()}
    feed[labels] = label
    results = []
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer(), tf.tables_initializer()])
        for _ in range(steps):
            results.append(sess.run([loss, train_op], feed)[0])
        sess.run(update_auc, feed)
        results.append(sess.run(auc))
    return results


if __name__ == '__main__':
    main(100)
