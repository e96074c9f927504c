"""Options of datasets under the names of `tf.data`: they are kept, and change no elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar


class _OptionSet:
    """Options with defaults, of which only those that exist can be set."""

    _defaults: ClassVar[dict[str, Any]]

    def __init__(self) -> None:
        for name, value in self._defaults.items():
            object.__setattr__(self, name, value() if isinstance(value, type) else value)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._defaults:
            raise AttributeError(f"Cannot set the property {name} on {type(self).__name__}.")
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return id(self)


class OptimizationOptions(_OptionSet):
    """Options of TensorFlow's optimizer of pipelines, which this runtime does not have."""

    _defaults: ClassVar[dict[str, Any]] = dict.fromkeys(
        (
            "apply_default_optimizations",
            "autotune",
            "autotune_algorithm",
            "autotune_buffers",
            "autotune_cpu_budget",
            "filter_fusion",
            "filter_with_random_uniform_fusion",
            "hoist_random_uniform",
            "map_and_batch_fusion",
            "map_and_filter_fusion",
            "map_fusion",
            "map_parallelization",
            "map_vectorization",
            "noop_elimination",
            "parallel_batch",
            "shuffle_and_repeat_fusion",
        )
    )


class StatsOptions(_OptionSet):
    """Options of TensorFlow's statistics of pipelines, which this runtime does not gather."""

    _defaults: ClassVar[dict[str, Any]] = {
        "aggregator": None,
        "counter_prefix": None,
        "latency_all_edges": None,
        "prefix": None,
    }


class ThreadingOptions(_OptionSet):
    """Options of TensorFlow's threads of pipelines; here those of the session are used."""

    _defaults: ClassVar[dict[str, Any]] = {"max_intra_op_parallelism": None, "private_threadpool_size": None}


class Options(_OptionSet):
    """Options of a dataset; `Dataset.with_options` sets those that are not None."""

    _defaults: ClassVar[dict[str, Any]] = {
        "experimental_allow_stateful": None,
        "experimental_auto_shard": None,
        "experimental_deterministic": None,
        "experimental_distribute": None,
        "experimental_external_state_policy": None,
        "experimental_numa_aware": None,
        "experimental_optimization": OptimizationOptions,
        "experimental_slack": None,
        "experimental_stateful_whitelist": None,
        "experimental_stats": StatsOptions,
        "experimental_threading": ThreadingOptions,
    }

    def merge(self, options: Options) -> Options:
        """Return these options with those of others that are set.

        Raises:
            ValueError: both set one to different values.
        """
        found = Options()
        for name in self._defaults:
            ours, theirs = getattr(self, name), getattr(options, name)
            if isinstance(ours, _OptionSet):
                setattr(found, name, theirs if theirs != type(theirs)() else ours)
            elif None not in (ours, theirs) and ours != theirs:
                raise ValueError(f"Cannot merge incompatible values of option: {name}")
            else:
                setattr(found, name, ours if theirs is None else theirs)
        return found
