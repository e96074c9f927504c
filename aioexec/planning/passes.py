"""The registry of graph optimization passes, by group and phase; users may add passes.

A pass is a named function that changes a subgraph. Groups are run in the order of `Grouping`, a group's passes in the order of
their phases, and within a phase in the order of registration. No pass calls another. `BUILT_IN` lists the passes of aioexec.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from aioexec.data_classes import dataclass
from aioexec.errors import AlreadyExistsError
from aioexec.planning.late_reads import read_late
from aioexec.planning.recognition.attention import recognize_attention
from aioexec.planning.recognition.input_products import move_input_products
from aioexec.planning.recognition.layer_norm import recognize_layer_norm
from aioexec.planning.recognition.softmax import recognize_softmax
from aioexec.planning.rewriting.channel_scales import fold_channel_scales
from aioexec.planning.rewriting.dilations import fold_dilations
from aioexec.planning.rewriting.early_reads import read_before_loops
from aioexec.planning.rewriting.pads import fold_pads
from aioexec.planning.rewriting.saved_invariants import save_no_invariants
from aioexec.planning.rewriting.winograd import use_winograd
from aioexec.planning.simplify import (
    drop_identities,
    drop_unused,
    fold_constants,
    merge_common_subexpressions,
)
from aioexec.planning.subgraph import Bind, Subgraph

L0: Final = -1
L1: Final = 0


class Grouping(enum.Enum):
    """When a pass runs."""

    PRE_PLACEMENT = "pre_placement"  # on the pruned subgraph, nodes without a device
    POST_PLACEMENT = "post_placement"  # every node has a device
    POST_REWRITE_FOR_EXEC = "post_rewrite_for_exec"  # the last group on the whole step
    POST_PARTITIONING = "post_partitioning"  # on the subgraph of each device


class OptimizerOptions(Protocol):
    """A session's options for passes, with TensorFlow's fields. L1 optimises; at L0 only passes enabled by a flag run.

    Passes that change the rounding of results run at L1 unless `remapping`, the toggle in `RewriterConfig`, is off. Those after
    which errors are relative to other values than before run only if it is aggressive.
    """

    @property
    def opt_level(self) -> int: ...
    @property
    def do_common_subexpression_elimination(self) -> bool: ...
    @property
    def do_constant_folding(self) -> bool: ...
    @property
    def remapping(self) -> bool: ...
    @property
    def aggressive_remapping(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class DefaultOptions:
    """The default options."""

    opt_level: int = L1
    do_common_subexpression_elimination: bool = False
    do_constant_folding: bool = False
    remapping: bool = True
    aggressive_remapping: bool = False


DEFAULTS: Final = DefaultOptions()

Pass = Callable[[Subgraph, Bind], None]
Condition = Callable[[OptimizerOptions], bool]
Dump = Callable[[str, str], None]
"""Called after each pass with its name ("post_placement/1/fold_constants") and the subgraph as text."""


def always(options: OptimizerOptions) -> bool:
    return True


def optimises(options: OptimizerOptions) -> bool:
    return options.opt_level >= L1


def folds_constants(options: OptimizerOptions) -> bool:
    return optimises(options) or options.do_constant_folding


def merges_subexpressions(options: OptimizerOptions) -> bool:
    return optimises(options) or options.do_common_subexpression_elimination


def remaps(options: OptimizerOptions) -> bool:
    return optimises(options) and options.remapping


def remaps_aggressively(options: OptimizerOptions) -> bool:
    return remaps(options) and options.aggressive_remapping


@dataclass(frozen=True, slots=True)
class RegisteredPass:
    """A pass, its group and phase, and the condition on the options under which it runs."""

    grouping: Grouping
    phase: int
    run: Pass
    condition: Condition = always

    @property
    def name(self) -> str:
        return f"{self.grouping.value}/{self.phase}/{getattr(self.run, '__name__', type(self.run).__name__)}"


BUILT_IN: Final = (
    RegisteredPass(Grouping.POST_PLACEMENT, 0, read_late),
    RegisteredPass(Grouping.POST_REWRITE_FOR_EXEC, 0, fold_constants, folds_constants),
    RegisteredPass(Grouping.POST_REWRITE_FOR_EXEC, 1, merge_common_subexpressions, merges_subexpressions),
    RegisteredPass(Grouping.POST_REWRITE_FOR_EXEC, 2, drop_identities, optimises),
    RegisteredPass(Grouping.POST_REWRITE_FOR_EXEC, 3, read_before_loops, optimises),
    RegisteredPass(Grouping.POST_REWRITE_FOR_EXEC, 3, fold_dilations, remaps),
    RegisteredPass(Grouping.POST_REWRITE_FOR_EXEC, 3, fold_channel_scales, remaps),
    RegisteredPass(Grouping.POST_REWRITE_FOR_EXEC, 4, use_winograd, remaps_aggressively),
    RegisteredPass(Grouping.POST_REWRITE_FOR_EXEC, 4, fold_pads, remaps),
    RegisteredPass(Grouping.POST_REWRITE_FOR_EXEC, 4, save_no_invariants, optimises),
    RegisteredPass(Grouping.POST_REWRITE_FOR_EXEC, 5, drop_unused, optimises),
    RegisteredPass(Grouping.POST_PARTITIONING, 0, recognize_softmax, remaps),
    RegisteredPass(Grouping.POST_PARTITIONING, 1, recognize_attention, remaps),
    RegisteredPass(Grouping.POST_PARTITIONING, 2, recognize_layer_norm, remaps),
    RegisteredPass(Grouping.POST_PARTITIONING, 3, move_input_products, remaps),
)


class OptimizationPassRegistry:
    """Passes by group; `_passes` is in execution order."""

    def __init__(self, passes: Iterable[RegisteredPass] = ()) -> None:
        self._passes: list[RegisteredPass] = []
        for each in passes:
            self._add(each)

    def register(self, grouping: Grouping, phase: int, run: Pass, condition: Condition = always) -> None:
        """Register a pass for a phase of a group; it runs if the options meet the condition.

        Raises:
            AlreadyExistsError: it is registered there already.
        """
        self._add(RegisteredPass(grouping, phase, run, condition))

    def unregister(self, run: Pass) -> None:
        """Remove a pass from every group."""
        self._passes = [each for each in self._passes if each.run is not run]

    def _add(self, added: RegisteredPass) -> None:
        if any(
            (each.grouping, each.phase, each.run) == (added.grouping, added.phase, added.run)
            for each in self._passes
        ):
            raise AlreadyExistsError(f"pass {added.name} is registered already")
        order = list(Grouping)
        self._passes = sorted(
            [*self._passes, added], key=lambda each: (order.index(each.grouping), each.phase)
        )

    def passes(self, grouping: Grouping) -> list[RegisteredPass]:
        """The passes of a group, in execution order."""
        return [each for each in self._passes if each.grouping is grouping]

    def run_grouping(
        self,
        grouping: Grouping,
        subgraph: Subgraph,
        bind: Bind,
        options: OptimizerOptions = DEFAULTS,
        dump: Dump | None = None,
    ) -> None:
        """Run the passes of a group that the options enable."""
        for each in self.passes(grouping):
            if each.condition(options):
                each.run(subgraph, bind)
                if dump is not None:
                    dump(each.name, subgraph.dump())

    def describe(self) -> str:
        """Every pass in execution order, one per line."""
        return "\n".join(each.name for each in self._passes)


optimization_passes: Final = OptimizationPassRegistry(BUILT_IN)
"""The passes of every session of this process."""
