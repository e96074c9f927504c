"""RunConfig: the settings of an estimator's sessions, checkpoints and summaries."""

from __future__ import annotations

import copy
import logging
import os
import tempfile
from collections.abc import Callable
from typing import Any, Final, Generic, Self, TypeVar

from aioexec.distributed.cluster.cluster import ClusterSpec
from aioexec.errors import GraphTypeError, GraphValueError, UnimplementedError
from aioexec.estimator.arguments import argument_names
from aioexec.estimator.cluster_settings import read_environment, settings_from
from aioexec.formats.protos import ConfigProto, RewriterConfig

logger = logging.getLogger(__name__)

USE_DEFAULT: Final[Any] = object()
"""The default of an argument for which None means "disabled"."""

Value = TypeVar("Value")

_BOTH: Final = "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set."


class Setting(Generic[Value]):
    """A read-only attribute with a value that the constructor was given."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, config: Any, owner: type) -> Value:
        value: Value = config._values[self._name]
        return value


class RunConfig:
    """The settings of an estimator; those of the cluster come from the environment variable TF_CONFIG.

    Args:
        model_dir: folder of checkpoints and event files.
        tf_random_seed: the seed of the graphs.
        save_summary_steps: interval of summaries, in steps; None or 0: never.
        save_checkpoints_steps, save_checkpoints_secs: interval of checkpoints, 600 seconds by default; both None: never.
        session_config: a ConfigProto.
        keep_checkpoint_max: the most checkpoints that are kept; None or 0: all.
        keep_checkpoint_every_n_hours: the interval at which checkpoints are kept beyond that.
        log_step_count_steps: interval of logging the loss and the steps per second.
        train_distribute, eval_distribute, experimental_distribute: None: distribution strategies are not supported.
        device_fn: device function of training graphs; by default it places variables on the parameter servers.
        protocol: of the servers of a cluster: "grpc".
        experimental_max_worker_delay_secs: the most seconds that workers start later than the chief; None for 60.
        session_creation_timeout_secs: the most seconds that workers wait for the chief.
        checkpoint_save_graph_def: write `graph.pbtxt`, and a meta graph beside each checkpoint.

    Raises:
        GraphValueError: a value out of range, both intervals of checkpoints, or an inconsistent TF_CONFIG.
        UnimplementedError: a distribution strategy is given.
    """

    model_dir: Setting[str | None] = Setting()
    tf_random_seed: Setting[int | None] = Setting()
    save_summary_steps: Setting[int | None] = Setting()
    save_checkpoints_steps: Setting[int | None] = Setting()
    save_checkpoints_secs: Setting[float | None] = Setting()
    session_config: Setting[Any] = Setting()
    keep_checkpoint_max: Setting[int | None] = Setting()
    keep_checkpoint_every_n_hours: Setting[float | None] = Setting()
    log_step_count_steps: Setting[int | None] = Setting()
    train_distribute: Setting[Any] = Setting()
    device_fn: Setting[Any] = Setting()
    protocol: Setting[str | None] = Setting()
    eval_distribute: Setting[Any] = Setting()
    experimental_max_worker_delay_secs: Setting[int | None] = Setting()
    session_creation_timeout_secs: Setting[float] = Setting()
    checkpoint_save_graph_def: Setting[bool] = Setting()

    def __init__(
        self,
        model_dir: Any = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: Any = USE_DEFAULT,
        save_checkpoints_secs: Any = USE_DEFAULT,
        session_config: Any = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float | None = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: Any = None,
        device_fn: Callable[[Any], Any] | None = None,
        protocol: str | None = None,
        eval_distribute: Any = None,
        experimental_distribute: Any = None,
        experimental_max_worker_delay_secs: int | None = None,
        session_creation_timeout_secs: float = 7200,
        checkpoint_save_graph_def: bool = True,
    ) -> None:
        tf_config = read_environment()
        self._cluster = settings_from(tf_config)
        self._values: dict[str, Any] = {
            "model_dir": _model_dir(tf_config, path_text(model_dir)),
            "tf_random_seed": tf_random_seed,
            "save_summary_steps": save_summary_steps,
            **_intervals(save_checkpoints_steps, save_checkpoints_secs),
            "session_config": session_config,
            "keep_checkpoint_max": keep_checkpoint_max,
            "keep_checkpoint_every_n_hours": keep_checkpoint_every_n_hours,
            "log_step_count_steps": log_step_count_steps,
            "train_distribute": train_distribute,
            "device_fn": device_fn,
            "protocol": protocol,
            "eval_distribute": eval_distribute,
            "experimental_distribute": experimental_distribute,
            "experimental_max_worker_delay_secs": experimental_max_worker_delay_secs,
            "session_creation_timeout_secs": session_creation_timeout_secs,
            "checkpoint_save_graph_def": checkpoint_save_graph_def,
        }
        self._check()
        if session_config is None and self._cluster.cluster_spec:
            self._values["session_config"] = _config_of_task(self._cluster.task_type, self._cluster.task_id)

    def _check(self) -> None:
        for name, is_valid, message in _RULES:
            value = self._values[name]
            if value is not None and not is_valid(value):
                raise GraphValueError(message)
        for name in ("train_distribute", "eval_distribute", "experimental_distribute"):
            if self._values[name] is not None:
                raise UnimplementedError(
                    f"RunConfig: {name}={self._values[name]!r}: distribution strategies are not supported; "
                    "use parameter servers, described in TF_CONFIG"
                )

    def replace(self, **kwargs: Any) -> Self:
        """Return a copy with other values; setting one interval of checkpoints unsets the other.

        Raises:
            GraphValueError: an unknown name, or a value that the constructor refuses.
        """
        copied = copy.deepcopy(self)
        for name, value in kwargs.items():
            if name not in copied._values:
                raise GraphValueError(
                    f"Replacing {name} is not supported. Allowed properties are {list(copied._values)}."
                )
            copied._values[name] = value
        steps, seconds = kwargs.get("save_checkpoints_steps"), kwargs.get("save_checkpoints_secs")
        if steps is not None and seconds is not None:
            raise GraphValueError(_BOTH)
        if steps is not None:
            copied._values["save_checkpoints_secs"] = None
        elif seconds is not None:
            copied._values["save_checkpoints_steps"] = None
        copied._check()
        return copied

    # The cluster

    @property
    def cluster_spec(self) -> ClusterSpec:
        return self._cluster.cluster_spec

    @property
    def task_type(self) -> str:
        return self._cluster.task_type

    @property
    def task_id(self) -> int:
        """The index of this task in its job."""
        return self._cluster.task_id

    @property
    def global_id_in_cluster(self) -> int | None:
        """The number of this task among all of the cluster, 0 for the chief; None for an evaluator."""
        return self._cluster.global_id_in_cluster

    @property
    def master(self) -> str:
        """The target of training sessions."""
        return self._cluster.master

    @property
    def evaluation_master(self) -> str:
        """The target of evaluation sessions."""
        return self._cluster.evaluation_master

    @property
    def is_chief(self) -> bool:
        return self._cluster.is_chief

    @property
    def num_ps_replicas(self) -> int:
        return self._cluster.num_ps_replicas

    @property
    def num_worker_replicas(self) -> int:
        """The number of workers, the chief included."""
        return self._cluster.num_worker_replicas

    @property
    def service(self) -> Any:
        """The value of "service" in TF_CONFIG."""
        return self._cluster.service


def default_session_config() -> ConfigProto:
    """The session config of an estimator that is given none."""
    config = ConfigProto(allow_soft_placement=True)
    config.graph_options.rewrite_options.meta_optimizer_iterations = RewriterConfig.ONE
    return config


def with_defaults(config: RunConfig | None, model_dir: str | None) -> RunConfig:
    """The settings of an estimator, with a session config and a folder: the given one, or a new temporary one.

    Raises:
        GraphTypeError: `config` is no RunConfig.
        GraphValueError: it has another folder than the given one.
    """
    config = RunConfig() if config is None else config
    if not isinstance(config, RunConfig):
        raise GraphTypeError(f"config must be an instance of `RunConfig`, but provided {config!r}.")
    if config.session_config is None:
        config = config.replace(session_config=default_session_config())
    if model_dir is not None and config.model_dir not in (None, model_dir):
        raise GraphValueError(
            "`model_dir` are set both in constructor and `RunConfig`, but with different values. "
            f"In constructor: '{model_dir}', in `RunConfig`: '{config.model_dir}'"
        )
    folder = model_dir or config.model_dir
    if not folder:
        folder = tempfile.mkdtemp()
        logger.warning("Using temporary folder as model directory: %s", folder)
    return config.replace(model_dir=folder)


def path_text(path: Any) -> Any:
    """A path as a string; None stays None."""
    return os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else path


def _config_of_task(task_type: str, task_id: int) -> ConfigProto | None:
    """The session config of a task of a cluster: it sees itself and the parameter servers."""
    filters = {
        "master": ["/job:ps", "/job:master"],
        "chief": ["/job:ps", "/job:chief"],
        "worker": ["/job:ps", f"/job:worker/task:{task_id}"],
        "ps": ["/job:ps", "/job:worker", "/job:chief", "/job:master"],
    }
    if task_type not in filters:
        return None
    config = default_session_config()
    config.device_filters.extend(filters[task_type])
    return config


def _intervals(steps: Any, seconds: Any) -> dict[str, Any]:
    if steps is USE_DEFAULT and seconds is USE_DEFAULT:
        steps, seconds = None, 600
    steps = None if steps is USE_DEFAULT else steps
    seconds = None if seconds is USE_DEFAULT else seconds
    if steps is not None and seconds is not None:
        raise GraphValueError(_BOTH)
    return {"save_checkpoints_steps": steps, "save_checkpoints_secs": seconds}


def _model_dir(tf_config: dict[str, Any], model_dir: Any) -> Any:
    """The folder that is given, or that of TF_CONFIG; both must agree."""
    named = tf_config.get("model_dir")
    if model_dir == "":
        raise GraphValueError("model_dir should be non-empty.")
    if named == "":
        raise GraphValueError("model_dir in TF_CONFIG should be non-empty.")
    if named and model_dir and named != model_dir:
        raise GraphValueError(
            "`model_dir` provided in RunConfig construct, if set, must have the same value as the model_dir in TF_CONFIG. "
            f'model_dir: {model_dir}, TF_CONFIG["model_dir"]: {named}'
        )
    return model_dir or named


_RULES: Final[tuple[tuple[str, Callable[[Any], bool], str], ...]] = (
    ("model_dir", bool, "model_dir should be non-empty"),
    ("save_summary_steps", lambda steps: steps >= 0, "save_summary_steps should be >= 0"),
    ("save_checkpoints_steps", lambda steps: steps >= 0, "save_checkpoints_steps should be >= 0"),
    ("save_checkpoints_secs", lambda seconds: seconds >= 0, "save_checkpoints_secs should be >= 0"),
    (
        "session_config",
        lambda config: isinstance(config, ConfigProto),
        "session_config must be instance of ConfigProto",
    ),
    ("keep_checkpoint_max", lambda most: most >= 0, "keep_checkpoint_max should be >= 0"),
    (
        "keep_checkpoint_every_n_hours",
        lambda hours: hours > 0,
        "keep_checkpoint_every_n_hours should be > 0",
    ),
    ("log_step_count_steps", lambda steps: steps > 0, "log_step_count_steps should be > 0"),
    ("tf_random_seed", lambda seed: isinstance(seed, int), "tf_random_seed must be integer."),
    (
        "experimental_max_worker_delay_secs",
        lambda seconds: isinstance(seconds, int),
        "experimental_max_worker_delay_secs must be an integer if set.",
    ),
    (
        "session_creation_timeout_secs",
        lambda seconds: seconds > 0,
        "session_creation_timeout_secs should be > 0",
    ),
    (
        "device_fn",
        lambda function: callable(function) and argument_names(function) == ("op",),
        'device_fn must be callable with exactly one argument "op".',
    ),
    (
        "protocol",
        lambda protocol: protocol in ("grpc", "grpc+verbs"),
        "protocol should be grpc or grpc+verbs",
    ),
)
"""Name, what a value other than None must satisfy, the message if it does not."""
