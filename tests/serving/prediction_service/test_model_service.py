"""The methods of ModelService: the state of versions, and configurations from clients."""

from typing import Any

import pytest

from aioexec.distributed.transport.transport import Call
from aioexec.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
)
from aioexec.serving.models.model_config import ModelConfig
from aioexec.serving.models.version_policy import All, Latest, Specific
from aioexec.serving.models.version_status import VersionState, VersionStatus
from aioexec.serving.prediction_service.model_service import SERVICE, configs_of, services
from aioexec.serving.protos import prediction_pb2 as pb
from tests.serving.echo_models import Served


async def ask(repository, method, request, kind, may_reload=True):
    answer = services(repository, may_reload=may_reload).unary[f"/{SERVICE}/{method}"]
    return kind.FromString(await answer(request.SerializeToString(), Call("peer")))


class Reporting:
    """A repository of one model with two versions, which records reloads."""

    def __init__(self):
        self.configs = []

    def status(self, name, version=None, label=None):
        every = [
            VersionStatus(2, VersionState.END, DataLossError("damaged")),
            VersionStatus(1, VersionState.AVAILABLE),
        ]
        return [each for each in every if version in (None, each.version)]

    async def reload(self, configs):
        self.configs.append(configs)


async def test_the_status_lists_versions_with_their_errors():
    request = pb.GetModelStatusRequest(model_spec={"name": "m"})

    every = await ask(Reporting(), "GetModelStatus", request, pb.GetModelStatusResponse)
    request.model_spec.version.value = 1
    one = await ask(Reporting(), "GetModelStatus", request, pb.GetModelStatusResponse)

    State = pb.ModelVersionStatus
    described = [
        (each.version, each.state, each.status.error_code, each.status.error_message)
        for each in every.model_version_status
    ]
    assert described == [(2, State.END, 15, "damaged"), (1, State.AVAILABLE, 0, "")]
    assert [each.version for each in one.model_version_status] == [1]


async def test_an_unknown_model_has_no_status():
    request = pb.GetModelStatusRequest(model_spec={"name": "none"})

    with pytest.raises(NotFoundError, match="no model 'none'"):
        await ask(Served().repository, "GetModelStatus", request, pb.GetModelStatusResponse)


def config(*models):
    return pb.ModelServerConfig(model_config_list={"config": models})


def test_a_configuration_lists_models_with_policies_and_labels():
    policies: list[dict[str, Any]] = [
        {},
        {"model_version_policy": {"latest": {"num_versions": 3}}},
        {"model_version_policy": {"all": {}}},
        {"model_version_policy": {"specific": {"versions": [4, 5]}}, "version_labels": {"stable": 4}},
    ]
    models = [
        pb.ModelConfig(name=f"m{index}", base_path="/p", model_platform="tensorflow", **policy)
        for index, policy in enumerate(policies)
    ]

    assert configs_of(config(*models)) == [
        ModelConfig("m0", "/p", Latest(1)),
        ModelConfig("m1", "/p", Latest(3)),
        ModelConfig("m2", "/p", All()),
        ModelConfig("m3", "/p", Specific(frozenset({4, 5})), {"stable": 4}),
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (pb.ModelServerConfig(), "config: expected a model_config_list"),
        (config({"name": "m"}), "model 'm': expected a base_path, got none"),
        (
            config({"name": "m", "base_path": "p", "model_platform": "onnx"}),
            "model 'm': expected the platform",
        ),
        (config({"name": "a/b", "base_path": "p"}), "a model's name must be printable"),
    ],
)
def test_a_configuration_that_cannot_be_served_is_refused(wrong, message):
    with pytest.raises(InvalidArgumentError, match=message):
        configs_of(wrong)


async def test_a_configuration_is_passed_on():
    repository = Reporting()
    request = pb.ReloadConfigRequest(config=config({"name": "m", "base_path": "p"}))

    response = await ask(repository, "HandleReloadConfigRequest", request, pb.ReloadConfigResponse)

    assert repository.configs == [[ModelConfig("m", "p")]]
    assert response.status.error_code == 0


async def test_only_known_callers_choose_folders():
    request = pb.ReloadConfigRequest(config=config({"name": "m", "base_path": "p"}))

    with pytest.raises(PermissionDeniedError, match="expected a server with a token or a client CA"):
        await ask(
            Reporting(), "HandleReloadConfigRequest", request, pb.ReloadConfigResponse, may_reload=False
        )
    with pytest.raises(FailedPreconditionError, match="are given, and cannot be configured"):
        await ask(Served().repository, "HandleReloadConfigRequest", request, pb.ReloadConfigResponse)
