"""A repository of given models: names, statuses, leases."""

from types import SimpleNamespace

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError, NotFoundError
from aioexec.serving.models.version_status import VersionState, VersionStatus
from aioexec.serving.repository import Repository

with ax.Graph().as_default():
    X = ax.placeholder(ax.float32, [None], name="x")


class Doubling:
    """A signature that doubles x."""

    name = "serving_default"
    method_name = "tensorflow/serving/predict"

    def __init__(self):
        self.inputs = {"x": X}
        self.outputs = {"y": X}

    async def run(self, inputs, outputs=None):
        return {"y": 2 * np.asarray(inputs["x"])}


@pytest.fixture
def repository():
    model = SimpleNamespace(signatures={"double": Doubling()})
    return Repository({"whole": model, "single": Doubling()})


async def test_a_leased_version_runs_its_signatures(repository):
    with repository.lease("whole") as served:
        assert (served.name, served.version, [*served.signatures]) == ("whole", 1, ["double"])
        assert (await served.run("double", {"x": [3.0]}))["y"].tolist() == [6]
    with repository.lease("single", version=1) as served:
        assert (await served.run("serving_default", {"x": [4.0]}))["y"].tolist() == [8]


def test_a_given_model_is_available_as_version_1(repository):
    assert repository.names() == ["single", "whole"]
    assert repository.status("whole") == [VersionStatus(1, VersionState.AVAILABLE)]
    assert repository.status("whole", 1) == repository.status("whole")


@pytest.mark.parametrize(
    ("name", "asked", "message"),
    [
        ("other", {}, r"no model 'other' here, only \['single', 'whole'\]"),
        ("whole", {"version": 2}, "model 'whole': version 2 is not served"),
        ("whole", {"label": "stable"}, r"model 'whole': no label 'stable', only \[\]"),
    ],
)
def test_what_is_not_there_is_not_found(repository, name, asked, message):
    with pytest.raises(NotFoundError, match=message), repository.lease(name, **asked):
        pass


async def test_an_unknown_signature_is_an_invalid_argument(repository):
    with (
        repository.lease("whole") as served,
        pytest.raises(InvalidArgumentError, match="no signature 'train'"),
    ):
        await served.run("train", {"x": [1.0]})
