"""`tensorflow.serving.ModelService`: the state of versions, and which models are served."""

from __future__ import annotations

from typing import Final

from aioexec.distributed.transport.grpc.services import Services
from aioexec.distributed.transport.transport import Call
from aioexec.errors import InvalidArgumentError, PermissionDeniedError
from aioexec.formats.protos import Code
from aioexec.serving.models.model_config import ModelConfig
from aioexec.serving.models.version_policy import All, Latest, Specific, VersionPolicy
from aioexec.serving.models.version_status import VersionStatus
from aioexec.serving.prediction_service.model_specs import label_of, name_of, parsed, version_of
from aioexec.serving.protos import prediction_pb2 as pb
from aioexec.serving.repository import Repository

SERVICE: Final = "tensorflow.serving.ModelService"


def services(repository: Repository, *, may_reload: bool) -> Services:
    """Return the methods of the service over a repository.

    Args:
        may_reload: whether callers may choose the folders to load models from; a loaded graph may read and write files, so
            only callers with a token or a certificate may.
    """
    service = _Service(repository, may_reload)
    return Services(
        {
            f"/{SERVICE}/GetModelStatus": service.get_model_status,
            f"/{SERVICE}/HandleReloadConfigRequest": service.handle_reload_config_request,
        }
    )


class _Service:
    """The methods over one repository."""

    def __init__(self, repository: Repository, may_reload: bool) -> None:
        self._repository = repository
        self._may_reload = may_reload

    async def get_model_status(self, data: bytes, call: Call) -> bytes:
        spec = parsed(pb.GetModelStatusRequest, data).model_spec
        statuses = self._repository.status(name_of(spec), version_of(spec), label_of(spec))
        return pb.GetModelStatusResponse(model_version_status=map(_status, statuses)).SerializeToString()

    async def handle_reload_config_request(self, data: bytes, call: Call) -> bytes:
        if not self._may_reload:
            raise PermissionDeniedError(
                "HandleReloadConfigRequest: expected a server with a token or a client CA, got one that admits every local user"
            )
        configs = configs_of(parsed(pb.ReloadConfigRequest, data).config)
        await self._repository.reload(configs)
        return pb.ReloadConfigResponse(status=pb.StatusProto()).SerializeToString()


def _status(status: VersionStatus) -> pb.ModelVersionStatus:
    error = status.error
    reported = pb.StatusProto()
    if error is not None:
        reported = pb.StatusProto(error_code=Code.Name(error.error_code), error_message=error.message)
    return pb.ModelVersionStatus(version=status.version, state=status.state.name, status=reported)


def configs_of(config: pb.ModelServerConfig) -> list[ModelConfig]:
    """Return the models that a configuration lists.

    Raises:
        InvalidArgumentError: it lists none, or one that cannot be served.
    """
    if config.WhichOneof("config") != "model_config_list":
        raise InvalidArgumentError("config: expected a model_config_list")
    return [_config(each) for each in config.model_config_list.config]


def _config(config: pb.ModelConfig) -> ModelConfig:
    if config.model_platform not in ("", "tensorflow"):
        raise InvalidArgumentError(
            f"model {config.name!r}: expected the platform 'tensorflow', got {config.model_platform!r}"
        )
    if not config.base_path:
        raise InvalidArgumentError(f"model {config.name!r}: expected a base_path, got none")
    return ModelConfig(
        config.name, config.base_path, _policy(config.model_version_policy), dict(config.version_labels)
    )


def _policy(policy: pb.FileSystemStoragePathSourceConfig.ServableVersionPolicy) -> VersionPolicy:
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        return All()
    if choice == "specific":
        return Specific(frozenset(policy.specific.versions))
    return Latest(policy.latest.num_versions or 1)
