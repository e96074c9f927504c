"""Many mutants of the operands of one call, fed to one graph.

The expensive parts are made once: the graph, and a session for each tier. The shapes of most operands are unknown when the
graph is built, so mutants may have any shape. Each mutant runs on the reference tier and on a native one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from random import Random

from tests.campaigns.hostile_values import Array, mutated, with_hostile_elements
from tests.campaigns.operand_calls import CONSTANT, KNOWN, PARTLY, UNKNOWN, Call, Leaf, all_calls, described
from tests.campaigns.operand_runs import (
    Builder,
    Built,
    ForeignExceptionError,
    Outcome,
    Runs,
    built_of,
    difference,
)
from tests.tiers import Tier

MUTANTS = 50
"""Mutants of one graph."""
UNEXPECTED = ("UnknownError", "InternalError")
"""Errors of which operands are no cause."""
INTERNAL = frozenset(
    {
        "EditDistance",
        "ParameterizedTruncatedNormal",
        "SparseSliceGrad",
        "StatelessParameterizedTruncatedNormal",
    }
)
"""Ops that report indices outside, or samples never accepted, with an InternalError, as TensorFlow's do."""

Run = Callable[[], Outcome]
Place = Leaf | Call
"""An operand, or a call that makes a variable with an initial value."""


class Fed:
    """A call whose operands and initial values are fed; only those that are constants stay what they are."""

    def __init__(self, call: Call, random: Random) -> None:
        self.call = call
        calls = all_calls(call)
        leaves = {operand: None for each in calls for operand in each.operands() if isinstance(operand, Leaf)}
        unknown = random.random() < 0.7
        for leaf in leaves:
            leaf.static = UNKNOWN if unknown else random.choice((UNKNOWN, KNOWN, PARTLY, CONSTANT))
        variables = [each for each in calls if each.initial is not None]
        for each in variables:
            if unknown:
                each.attrs["shape"] = None
        places: list[Place] = [leaf for leaf in leaves if leaf.static != CONSTANT]
        self._usual = {place: _content(place) for place in [*places, *variables]}

    def built(self) -> Built | Outcome:
        return built_of(lambda: Builder(self.call, None, "plain", taken=True, fed=True).build())

    def mutate(self, random: Random) -> None:
        """Change the usual operands in a few places."""
        for place, value in self._usual.items():
            _set_content(place, value)
        if self._usual:
            for _ in range(random.choice((0, 1, 1, 1, 1, 2, 2, 3, 5))):
                place = random.choice([*self._usual])
                _set_content(place, _mutant(random, place))


def _content(place: Place) -> Array:
    value = place.value if isinstance(place, Leaf) else place.initial
    assert value is not None
    return value


def _set_content(place: Place, value: Array) -> None:
    if isinstance(place, Leaf):
        place.value = value
    else:
        place.initial = value


def _mutant(random: Random, place: Place) -> Array:
    value = _content(place)
    if isinstance(place, Leaf) and place.static != UNKNOWN:
        return with_hostile_elements(random, value) if value.size else value
    return mutated(random, value)


def fed_cases(runs: Runs, call: Call, random: Random, native: bool) -> Iterator[str | None]:
    """The failures of mutants of a call's operands; ends at the first one."""
    fed = Fed(call, random)
    built = fed.built()
    if isinstance(built, Outcome):
        yield None
        return
    with contextlib.ExitStack() as stack:
        reference = stack.enter_context(runs.session(built, "off"))
        others = [stack.enter_context(each) for each in _native_runs(runs, built, random)] if native else []
        for _ in range(MUTANTS):
            fed.mutate(random)
            built.feed_again()
            wrong = _wrong(fed.call, reference, others)
            yield None if wrong is None else f"fed {described(fed.call)}: {wrong}"
            if wrong is not None:
                return


def is_unexpected(call: Call, outcome: Outcome) -> bool:
    return outcome.error in UNEXPECTED and call.op_type not in INTERNAL


def _wrong(call: Call, reference: Run, others: list[Run]) -> str | None:
    try:
        expected = reference()
        if is_unexpected(call, expected):
            return str(expected)
        for run in others:
            reported = difference(call, expected, run())
            if reported is not None:
                return reported
    except ForeignExceptionError as error:
        return str(error)
    return None


@contextlib.contextmanager
def _worker_run(runs: Runs, built: Built) -> Iterator[Run]:
    """Programs run on workers."""
    with runs.session(built, "eager") as run:

        def run_on_worker() -> Outcome:
            with Tier("worker").chosen():
                return run()

        yield run_on_worker


def _native_runs(
    runs: Runs, built: Built, random: Random
) -> Iterator[contextlib.AbstractContextManager[Run]]:
    drawn = random.random()
    if drawn < 0.15:
        yield _worker_run(runs, built)
    elif drawn < 0.25:
        yield runs.session(built, "background")
    else:
        yield runs.session(built, "eager")
