"""The configuration of TensorBoard's projector is written as text."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import aioexec as ax
from aioexec.errors import GraphValueError

projector = ax.contrib.tensorboard.plugins.projector


def test_a_configuration_is_written_into_the_directory_of_the_writer(tmp_path: Path):
    config = projector.ProjectorConfig(model_checkpoint_path="model.ckpt")
    embedding = config.embeddings.add()
    embedding.tensor_name = "embedding"
    embedding.metadata_path = "metadata.tsv"
    embedding.sprite.image_path = "sprite.png"
    embedding.sprite.single_image_dim.extend([28, 28])
    projector.visualize_embeddings(SimpleNamespace(get_logdir=lambda: str(tmp_path)), config)

    assert (tmp_path / "projector_config.pbtxt").read_text("utf-8").split() == [
        *["model_checkpoint_path:", '"model.ckpt"', "embeddings", "{", "tensor_name:", '"embedding"'],
        *["metadata_path:", '"metadata.tsv"', "sprite", "{", "image_path:", '"sprite.png"'],
        *["single_image_dim:", "28", "single_image_dim:", "28", "}", "}"],
    ]


async def test_a_file_writer_has_a_directory(tmp_path: Path):
    writer = ax.summary.FileWriter(str(tmp_path))
    assert str(writer.get_logdir()) == str(tmp_path)
    await writer.close()


def test_a_writer_needs_a_directory():
    with pytest.raises(GraphValueError, match="logdir"):
        projector.visualize_embeddings(SimpleNamespace(get_logdir=lambda: None), projector.ProjectorConfig())
