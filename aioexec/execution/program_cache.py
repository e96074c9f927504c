"""The programs of one item, by the shapes of its inputs: lookup, builds in the background, eviction.

When a set of shapes occurs for the second time, its program is built in the background (see `program_build`); until it exists,
the reference tier runs the item, or a partial program does. All state is changed on the event loop only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from aioexec.errors import OpError
from aioexec.execution.engine import Engine, spec_of
from aioexec.execution.program_build import NoBuilderError, ProgramBuild
from aioexec.execution.programs.program import Program
from aioexec.execution.programs.run_memory import Array
from aioexec.execution.settled_variables import SettledVariables
from aioexec.graph.kernels.kernel import Spec
from aioexec.planning.plan import Item, Partition
from aioexec.resources.variable import Variable

if TYPE_CHECKING:
    from aioexec.observability.cost_model import CostModel

logger = logging.getLogger(__name__)

MOST_PROGRAMS = 16
"""Sets of shapes for which an item keeps programs; beyond that the least recently used is evicted."""
_MOST_MISSES = 1024
_LARGEST_CONTENT = 16  # elements of an input whose content may join the key

Key = tuple[Hashable, ...]


class ProgramCache:
    """The programs of one item.

    State: `programs` by key, at most `MOST_PROGRAMS`; `unfit`, keys that have no program, and why; `_misses`, how often a key
    without a program was met; `_building`, the builds under way, and `_packing`, those of programs that take variables packed;
    `_costs`, the measured costs of the nodes, if they are measured. `content` are the positions of the inputs whose content is
    part of the key.
    """

    def __init__(self, item: Item, partition: Partition, engine: Engine) -> None:
        self._item = item
        self._partition = partition
        self._engine = engine
        self.programs: dict[Key, Program] = {}
        self.unfit: dict[Key, str] = {}
        self._misses: dict[Key, int] = {}
        self._building: dict[Key, ProgramBuild] = {}
        self._packing: set[ProgramBuild] = set()
        self._costs: CostModel | None = None
        self.content = tuple(k for k, value in enumerate(item.inputs) if value in item.shape_inputs)

    def learn(self, costs: CostModel) -> None:
        """Let measured costs decide where new programs run."""
        self._costs = costs

    def key_of(self, inputs: Sequence[Array]) -> Key | None:
        """The key of the program for these inputs; None if it depends on the content of an input that is too large."""
        shapes = tuple(value.shape for value in inputs)
        content = []
        for k in self.content:
            if inputs[k].dtype.kind not in "iub":
                continue  # no shape follows from it
            if inputs[k].size > _LARGEST_CONTENT:
                return None
            content.append(inputs[k].tobytes())
        return (*shapes, *content)

    def record_miss(self, inputs: Sequence[Array]) -> bool:
        """Record a miss of inputs without a program; the second one for a key starts a build in the background.

        Returns whether the reference tier is to run them now; False: their program is there, or worth waiting for.
        """
        key = self.key_of(inputs)
        if key is None or key in self.unfit:
            return True
        if key in self.programs or self._engine.jit != "background":
            return False
        if len(self._misses) > _MOST_MISSES:
            self._misses.clear()
        self._misses[key] = self._misses.get(key, 0) + 1
        if key in self._building:
            self._building[key].note_run()
        elif self._misses[key] >= 2:
            self._start_build(key, inputs)
        return True

    def build(self, inputs: Sequence[Array]) -> ProgramBuild | None:
        """Have the program for these inputs built, and return the build; None: it exists, or is known not to exist."""
        key = self.key_of(inputs)
        if key is None or key in self.programs or key in self.unfit:
            return None
        if key not in self._building:
            self._start_build(key, inputs)
        return self._building.get(key)

    def _start_build(self, key: Key, inputs: Sequence[Array]) -> None:
        if self._engine.is_closing:
            return
        specs = {
            value: spec_of(inputs[k], with_content=k in self.content and inputs[k].dtype.kind in "iub")
            for k, value in enumerate(self._item.inputs)
        }

        def end(error: Exception | None) -> None:
            del self._building[key]
            self._settle(key, error)

        keep = partial(self._keep, key, specs)
        build = ProgramBuild(self._engine, self._item, self._partition, specs, keep, end, {})
        self._building[key] = build
        build.start()

    def _build_packed(
        self,
        specs: Mapping[int, Spec],
        settled: Mapping[Variable, Array],
        keep: Callable[[Program], None],
        end: Callable[[Exception | None], None],
    ) -> None:
        """Build the program that takes variables packed which keep these contents."""
        if self._engine.is_closing:
            end(None)
            return

        def end_build(error: Exception | None) -> None:
            self._packing.discard(build)
            end(error)

        build = ProgramBuild(self._engine, self._item, self._partition, specs, keep, end_build, settled)
        self._packing.add(build)
        build.start()

    def _settle(self, key: Key, error: Exception | None) -> None:
        """Store the reason why there is no program, if there is none."""
        if isinstance(error, NoBuilderError):
            return  # NumPy computes, and the next step tries again
        if isinstance(error, OpError):
            self._refuse(key, str(error))  # the reference tier raises the error, with the node
        elif error is not None:
            logger.warning(
                "item %d: no program for %s, NumPy computes instead", self._item.index, key, exc_info=error
            )
            self._refuse(key, f"{type(error).__name__}: {error}")
        elif key not in self.programs:
            self._refuse(key, "no native tier here")

    def _refuse(self, key: Key, reason: str) -> None:
        if len(self.unfit) >= _MOST_MISSES:
            self.unfit.clear()
        self.unfit[key] = reason

    async def wait_until_built(self) -> None:
        """Wait until no program is being built."""
        for build in [*self._building.values(), *self._packing]:
            await build.ended.wait()

    def _keep(self, key: Key, specs: Mapping[int, Spec], program: Program) -> None:
        if len(self.programs) >= MOST_PROGRAMS and key not in self.programs:
            del self.programs[min(self.programs, key=lambda k: self.programs[k].last_used)]
        self._misses.pop(key, None)
        if self._costs is not None:
            program.expect(self._costs)
        if program.parallel_regions:
            self._engine.devices[self._item.device].workers.start_all()
        if program.variant.uses and not self._item.writes:
            program.settled = SettledVariables(program, partial(self._build_packed, specs))
        self.programs[key] = program
