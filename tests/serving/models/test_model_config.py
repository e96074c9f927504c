"""The configuration of models."""

import pytest

from aioexec.errors import InvalidArgumentError
from aioexec.serving.models.model_config import Batching, ModelConfig


@pytest.mark.parametrize("name", ["", "a/b", "a:predict", "a\n"])
def test_a_name_that_no_url_can_have_is_refused(name):
    with pytest.raises(InvalidArgumentError, match="a model's name must be printable"):
        ModelConfig(name, "path")


@pytest.mark.parametrize("options", [(0, 1.0, 1), (4, -1.0, 1), (4, 1.0, 0), (4, 1.0, 1, (2,))])
def test_batching_that_a_batcher_refuses_is_refused_at_once(options):
    with pytest.raises(InvalidArgumentError, match="Batcher: "):
        Batching(*options)
