"""contrib.learn: vocabularies, settings, and MNIST from files."""

from __future__ import annotations

import gzip
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, NotFoundError

learn = ax.contrib.learn
text, mnist = learn.preprocessing, learn.datasets.mnist

DOCUMENTS = ["I'm so happy", "So so sad", "happy end"]


def test_words_are_numbered_in_the_order_of_their_first_use():
    processor = text.VocabularyProcessor(4)

    ids = np.array(list(processor.fit_transform(DOCUMENTS)))

    assert ids.tolist() == [[1, 2, 3, 0], [4, 2, 5, 0], [3, 6, 0, 0]]
    assert ids.dtype == np.int64
    assert len(processor.vocabulary_) == 7
    assert [each.tolist() for each in processor.transform(["new so happy so sad"])] == [[0, 2, 3, 2]]
    assert list(processor.reverse([[1, 2, 0]])) == ["I'm so <UNK>"]


def test_rare_words_are_left_out():
    processor = text.VocabularyProcessor(3, min_frequency=1).fit(DOCUMENTS)

    assert processor.vocabulary_._mapping == {"<UNK>": 0, "happy": 1, "so": 2}
    assert [each.tolist() for each in processor.transform(DOCUMENTS[:1])] == [[0, 2, 1]]


def test_a_processor_is_saved_and_restored(tmp_path):
    path = str(tmp_path / "vocabulary")
    text.VocabularyProcessor(2).fit(DOCUMENTS).save(path)

    restored = text.VocabularyProcessor.restore(path)

    assert [each.tolist() for each in restored.transform(["sad end"])] == [[5, 6]]


def test_another_tokenizer_may_be_used():
    processor = text.VocabularyProcessor(
        2, tokenizer_fn=lambda documents: (each.split("-") for each in documents)
    )

    assert [each.tolist() for each in processor.fit_transform(["a-b-c", "c-a"])] == [[1, 2], [3, 1]]


def test_words_written_together_are_parted():
    assert list(text.tokenizer(["TensorFlow isn't TF-like, HTTPServer"])) == [
        ["Tensor", "Flow", "isn't", "TF", "-like", "HTTP", "Server"]
    ]


def test_bytes_are_padded_and_cut():
    processor = text.ByteProcessor(3)

    found = list(processor.fit(None).fit_transform(["abcd", b"x"]))

    assert [each.tolist() for each in found] == [[97, 98, 99], [120, 0, 0]]
    assert list(processor.reverse(found)) == ["abc", "x"]


def test_a_vocabulary_counts_and_trims():
    vocabulary = text.CategoricalVocabulary(support_reverse=False)
    for word, count in (("b", 2), ("a", 2), ("c", 5), ("d", 1)):
        vocabulary.add(word, count)

    vocabulary.trim(1, max_frequency=5)
    vocabulary.freeze()

    assert vocabulary._mapping == {"<UNK>": 0, "a": 1, "b": 2}
    assert vocabulary.get("c") == 0
    with pytest.raises(GraphValueError, match="support_reverse"):
        vocabulary.reverse(1)


def test_settings_of_sessions_are_arguments():
    config = learn.RunConfig(
        num_cores=2, log_device_placement=True, gpu_memory_fraction=0.5, master="grpc://a:1"
    )

    assert (config.master, config.evaluation_master) == ("grpc://a:1", "")
    assert config.tf_config.intra_op_parallelism_threads == 2
    assert config.session_config.log_device_placement
    assert config.session_config.gpu_options.per_process_gpu_memory_fraction == 0.5
    assert config.save_checkpoints_secs == 600
    assert learn.RunConfig(save_checkpoints_steps=5).save_checkpoints_secs is None
    assert learn.RunConfig(evaluation_master="grpc://b:1").evaluation_master == "grpc://b:1"
    assert (learn.ModeKeys.TRAIN, learn.ModeKeys.EVAL, learn.ModeKeys.INFER) == ("train", "eval", "infer")


# MNIST


def write(folder: Path, prefix: str, count: int, magic: int = 2051) -> None:
    """Two files of images of 2 x 3 pixels and their labels; each pixel and label is the number of its image."""
    pixels = np.repeat(np.arange(count, dtype=np.uint8), 6)
    header = np.array([magic, count, 2, 3], ">u4")
    with gzip.open(folder / f"{prefix}-images-idx3-ubyte.gz", "wb") as file:
        file.write(header.tobytes() + pixels.tobytes())
    with gzip.open(folder / f"{prefix}-labels-idx1-ubyte.gz", "wb") as file:
        file.write(np.array([magic - 2, count], ">u4").tobytes() + np.arange(count, dtype=np.uint8).tobytes())


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, "train", 8)
    write(tmp_path, "t10k", 3)
    return str(tmp_path)


def test_digits_are_read_from_files(folder):
    sets = mnist.read_data_sets(folder, one_hot=True, validation_size=3)

    assert [each.num_examples for each in sets] == [5, 3, 3]
    assert sets.train.images.shape == (5, 6)
    np.testing.assert_allclose(sets.train.images[:, 0], np.arange(3, 8) / 255, rtol=1e-6)
    assert sets.test.labels.argmax(1).tolist() == [0, 1, 2]
    whole = mnist.read_data_sets(folder, dtype=ax.uint8, reshape=False, validation_size=0)
    assert whole.train.images.shape == (8, 2, 3, 1)
    assert whole.train.labels.tolist() == [*range(8)]


def test_batches_go_on_with_the_next_epoch(folder):
    data = mnist.read_data_sets(folder, validation_size=0, seed=1).train

    seen = np.concatenate([data.next_batch(3)[1] for _ in range(16)])
    ordered = mnist.read_data_sets(folder, validation_size=0).train
    plain = [ordered.next_batch(5, shuffle=False)[1].tolist() for _ in range(2)]

    assert data.epochs_completed == 5
    assert np.bincount(seen).tolist() == [6] * 8
    assert plain == [[0, 1, 2, 3, 4], [5, 6, 7, 0, 1]]
    again = mnist.read_data_sets(folder, validation_size=0, seed=1).train
    assert again.next_batch(3)[1].tolist() == seen[:3].tolist()


def test_fake_digits_need_no_files():
    data = mnist.read_data_sets("", fake_data=True, one_hot=True).train

    images, labels = data.next_batch(2, fake_data=True)

    assert (np.shape(images), labels[0][0], data.num_examples) == ((2, 784), 1, 10000)


def test_missing_or_other_files_are_refused(folder, tmp_path):
    with pytest.raises(
        NotFoundError, match=r"train-images-idx3-ubyte\.gz does not exist, and is not downloaded"
    ):
        mnist.read_data_sets(str(tmp_path / "missing"))
    with pytest.raises(NotFoundError, match="MNIST-data"):
        mnist.load_mnist()
    with pytest.raises(GraphValueError, match="between 0 and 8"):
        mnist.read_data_sets(folder)
    with pytest.raises(GraphTypeError, match="Invalid image dtype"):
        mnist.read_data_sets(folder, dtype=ax.int32, validation_size=0)
    with pytest.raises(GraphValueError, match=r"images\.shape"):
        mnist.DataSet(np.zeros((2, 1, 1, 1)), np.zeros(1))
    write(tmp_path, "train", 8, magic=7)
    with pytest.raises(GraphValueError, match="Invalid magic number 7"):
        mnist.read_data_sets(folder)


def test_labels_with_another_number_are_refused(tmp_path):
    write(tmp_path, "train", 2, magic=7)

    with (
        open(tmp_path / "train-labels-idx1-ubyte.gz", "rb") as file,
        pytest.raises(GraphValueError, match="Invalid magic number 5"),
    ):
        mnist.extract_labels(file)


def test_names_are_at_the_place_of_their_sources_too():
    module: Any = importlib.import_module("aioexec.contrib.learn.python.learn.datasets.mnist")

    assert module.read_data_sets is mnist.read_data_sets
    assert learn.python.learn.datasets.base is importlib.import_module("aioexec.contrib.learn.datasets.base")
    assert learn.python.learn.preprocessing.VocabularyProcessor is text.VocabularyProcessor
