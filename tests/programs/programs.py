"""The programs, with the steps for which they are run, and what they return with TensorFlow."""

import json
from pathlib import Path

from tests.programs.running import Program

EXPECTED: dict[str, list[float]] = json.loads(
    Path(__file__).with_name("expected.json").read_text(encoding="utf-8")
)
"""What `main` of each program returns; written by `python -m tests.programs.record`."""

PROGRAMS = [
    Program("linear_regression", 4),
    Program("logistic_regression", 12),
    Program("mlp", 12),
    Program("convnet", 8),
    Program("dqn", 8),
    Program("autoencoder", 6),
    Program("vae", 6),
    Program("gan", 10),
    Program("dcgan", 4),
    Program("dynamic_rnn", 10),
    Program("bidirectional_rnn", 8),
    Program("language_model", 3),
    Program("policy_gradient", 4),
    Program("actor_critic", 12),
    Program("word2vec", 8),
    Program("sampled_softmax", 6),
    Program("text_cnn", 6),
    Program("transformer", 5),
    Program("bert", 4),
    Program("resnet", 4),
    Program("mnist_replica", 4),
    Program("queue_pipeline", 2),
    Program("shuffle_queue", 6),
    Program("multi_tower", 4),
    Program("style_transfer", 5),
    Program("matrix_factorization", 8),
    Program("kmeans", 10),
    Program("siamese", 8),
    Program("batchnorm_cond", 8),
    Program("monitored_hooks", 8),
    Program("supervisor", 5),
    Program("estimator_model", 10),
    Program("while_loops", 10),
    Program("image_classifier", 6),
    Program("char_rnn", 2),
    Program("seq2seq_attention", 5),
    Program("tensorboard_summaries", 8),
    Program("early_names", 6),
    Program("slim_resnet", 4),
    Program("lstm_contrib", 5),
    Program("contrib_seq2seq", 3),
    Program("wide_and_deep", 6),
    Program("dataset_iterator", 3),
    Program("generator_dataset", 6),
    Program("a3c", 5),
    Program("crf_tagger", 6),
    Program("absl_app", 8),
]
