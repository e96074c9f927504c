"""A breakdown of the time of a step of one node: `python -m bench.step_parts`

The path from `Session.run` to the walker consists of nested calls. Each is timed alone, on the objects of a live session; the
own time of a call is the difference between its time and that of its callees, so all parts add up to the whole. "the rest" is
the time that no statement accounts for.
"""

import asyncio
import timeit
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.sessions.session import Session
from bench import step_overhead
from bench.workload import Case

REPEATS, STEPS = 40, 80  # so many steps fit into a tick of the loop


BODY = "session._find(fetches, feeds); prepared.build(session.begin(prepared, feeds.values()))"
"""The body of `Session.run`."""
LEVELS = [
    (
        "session.begin(prepared, feeds.values())",
        "may it run now: loop and session; counting it",
        [],
    ),
    (
        "executor.run_nowait(feeds.values())",
        "the budget is looked at, the feeds are: arrays, of their dtype",
        [],
    ),
    (
        "runner.run_now(inputs)",
        "can that program run here and now",
        [("the program for these shapes", "runner._lookup(inputs)")],
    ),
    (
        "runner._walk_stateless(program, inputs)",
        "the rest of the walk",
        [
            (
                "arrays for the results",
                "made = []\nfor shape, dtype in program.specs: made.append(np.empty(shape, dtype))",
            ),
            ("an idle frame is found", "program.at_hand[-1]"),
            ("binding, and the kernel", "program.walker.start_inline(frame.words, *inputs, *outputs)"),
            ("the clock is read, twice", "perf_counter_ns(); perf_counter_ns()"),
            ("the tick's budget is charged", "budget.charge(1, 2)"),
            ("the program's cost is noted", "program.record_duration(1000)"),
        ],
    ),
]
"""Each call, the outer ones first: the statement, what it does by itself, and parts of that with statements of their own."""


def _names(session: Session, fetches: Any, feeds: Any) -> dict[str, Any]:
    """The names that the statements use."""
    prepared: Any = session.prepared[(len(fetches), *fetches, *feeds)]
    (runner,) = prepared.executor.runners
    (program,) = runner.cache.programs.values()
    return {
        "np": np, "perf_counter_ns": perf_counter_ns, "session": session, "fetches": fetches, "feeds": feeds,
        "prepared": prepared, "executor": prepared.executor, "budget": prepared.executor.engine.budget, "runner": runner,
        "program": program, "inputs": list(feeds.values()), "frame": program.at_hand[-1],
        "outputs": [np.empty(shape, dtype) for shape, dtype in program.specs],
    }  # fmt: skip


async def _whole(step: Any) -> float:
    """Nanoseconds of an awaited call, the least of many ticks."""
    best = float("inf")
    for _ in range(REPEATS):
        await asyncio.sleep(0)  # a tick of its own
        before = perf_counter()
        for _ in range(STEPS):
            await step()
        best = min(best, perf_counter() - before)
    return best / STEPS * 1e9


def _time(statement: str, names: dict[str, Any]) -> float:
    """Nanoseconds of a statement, in a tick whose budget is never spent."""

    def least(text: str) -> float:
        setup = "import gc; gc.enable()"
        spent = timeit.repeat(
            f"budget.spent = 0\n{text}", setup, globals=names, number=STEPS, repeat=20 * REPEATS
        )
        return min(spent) / STEPS * 1e9

    return least(statement) - least("pass")


def rows_of(whole: float, names: dict[str, Any]) -> list[tuple[str, float]]:
    """Every part with its nanoseconds."""
    spent = [_time(statement, names) for statement, _, _ in LEVELS]
    body = _time(BODY, names)
    found, built = _time("session._find(fetches, feeds)", names), _time("prepared.build(outputs)", names)
    rows = [
        ("a coroutine is made, awaited and freed", whole - body),
        ("the structure of fetches and feeds is found", found),
        ("results in the nesting of the fetches", built),
        ("the rest of session.run", body - spent[0] - found - built),
    ]
    for (_, itself, parts), total, inner in zip(LEVELS, spent, [*spent[1:], 0.0], strict=True):
        measured = [(what, _time(statement, names)) for what, statement in parts]
        rows += [*measured, (itself, total - inner - sum(part for _, part in measured))]
    return rows


async def main() -> None:
    """Print the table."""
    config = ax.ConfigProto()
    config.aioexec.jit = "eager"
    with ax.Graph().as_default() as graph:
        built = step_overhead.build(ax, Case("", size=1))
    fetches, feeds = [*built.outputs], dict(built.feeds)
    async with ax.Session(graph=graph, config=config) as session:
        for _ in range(50):
            await session.run(fetches, feeds)
        whole = await _whole(lambda: session.run(fetches, feeds))
        function, values = session.make_callable(fetches, [*feeds]), [*feeds.values()]
        called = await _whole(lambda: function(*values))
        rows = rows_of(whole, _names(session, fetches, feeds))
    for what, spent in rows:
        print(f"{what:65}{spent:8.0f} ns {spent / whole:7.1%}")
    measured = sum(spent for what, spent in rows if not what.startswith("the rest"))
    print(f"{'session.run':65}{whole:8.0f} ns; attributed: {measured / whole:.1%}")
    print(f"{'a callable':65}{called:8.0f} ns {called / whole:7.1%}")


if __name__ == "__main__":
    asyncio.run(main())
