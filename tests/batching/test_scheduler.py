"""The scheduler of batches under random events: nothing is lost, answered twice or starved, and limits hold."""

from collections import Counter
from collections.abc import Hashable, Iterable

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aioexec.batching.requests import Batch, Request
from aioexec.batching.scheduler import CONCURRENT_STEPS, BatchScheduler
from aioexec.errors import InvalidArgumentError, ResourceExhaustedError, UnavailableError

SIZE, DELAY, QUEUE = 8, 2.0, 40
BUCKETS = [1, 2, 5, SIZE]


def scheduler(delay: float = 0.0, queue: int = QUEUE) -> BatchScheduler:
    return BatchScheduler(SIZE, delay, queue, BUCKETS)


def rows_of(batch: Batch) -> list[tuple[Request, int]]:
    """Each row of a batch as its request and its number there."""
    return [(request, start + i) for request, start, rows in batch.parts for i in range(rows)]


class Machine(RuleBasedStateMachine):
    """Any order of events; `rows` counts how often each row of a request was started."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Request] = []
        self.rows: Counter[tuple[Request, int]] = Counter()
        self.running: list[Batch] = []
        self.cancelled: list[Batch] = []
        self.answered: Counter[Request] = Counter()
        self.computed: Counter[Request] = Counter()
        self.gone: set[Request] = set()
        self.failed: Counter[Request] = Counter()
        self.now = 0.0

    @initialize(delay=st.sampled_from([0.0, DELAY]))
    def make(self, delay: float) -> None:
        self.scheduler = scheduler(delay)

    def started(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            assert {request.key for request, _, _ in batch.parts} == {batch.key}
            assert not any(request.is_over for request, _, _ in batch.parts)
            assert batch.size == min(bucket for bucket in BUCKETS if bucket >= batch.rows)
            self.rows.update(rows_of(batch))
            self.running.append(batch)

    def cancel(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            assert all(request.is_over for request, _, _ in batch.parts)
            assert batch in self.running
            self.cancelled.append(batch)

    @rule(
        key=st.sampled_from("ab"),
        caller=st.sampled_from([None, 1, 2]),
        rows=st.integers(1, QUEUE + 2) | st.integers(1, 3),
    )
    def admit(self, key: str, caller: int | None, rows: int) -> None:
        request = Request(key, caller, rows, self.now)
        waiting = self.scheduler.waiting
        if self.scheduler.is_closed:
            with pytest.raises(UnavailableError):
                self.scheduler.admit(request, self.now)
        elif rows > QUEUE:
            with pytest.raises(InvalidArgumentError):
                self.scheduler.admit(request, self.now)
        elif waiting + rows > QUEUE:
            with pytest.raises(ResourceExhaustedError, match=f"{waiting} of at most {QUEUE} rows wait"):
                self.scheduler.admit(request, self.now)
        else:
            self.started(self.scheduler.admit(request, self.now))
            self.requests.append(request)

    @rule(seconds=st.sampled_from([0.5, DELAY]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.started(self.scheduler.start(self.now))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), is_failure=st.booleans())
    def end(self, data: st.DataObject, is_failure: bool) -> None:
        batch = data.draw(st.sampled_from(self.running))
        self.running.remove(batch)
        if is_failure or batch in self.cancelled:
            wanted = {request for request, _, _ in batch.parts} - self.gone - self.failed.keys()
            failed, useless = self.scheduler.fail(batch)
            self.failed.update(failed)
            assert set(failed) == wanted
            self.cancel(useless)
        else:
            self.computed.update(request for request, _ in rows_of(batch))
            self.answered.update(self.scheduler.finish(batch))
        self.started(self.scheduler.start(self.now))

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.requests))
        if not request.is_over:
            self.gone.add(request)
        self.cancel(self.scheduler.withdraw(request))

    @rule()
    def close(self) -> None:
        self.scheduler.close()
        self.started(self.scheduler.start(self.now))

    @invariant()
    def is_consistent(self) -> None:
        self.scheduler.check_invariants()
        assert self.scheduler.running == self.running
        assert len(self.running) <= CONCURRENT_STEPS
        assert max(self.rows.values(), default=0) <= 1
        for request in self.requests:
            ends = (self.answered[request], self.failed[request], int(request in self.gone))
            assert sum(ends) == request.is_over
            assert self.answered[request] == (self.computed[request] == request.rows and not any(ends[1:]))
        unanswered = [request for request in self.requests if not request.is_over]
        assert set(self.scheduler.unanswered()) == set(unanswered)

    def teardown(self) -> None:
        """Run everything that is left: every request ends."""
        if not hasattr(self, "scheduler"):
            return
        self.close()
        while self.running:
            batch = self.running.pop(0)
            self.answered.update(self.scheduler.finish(batch))
            self.started(self.scheduler.start(self.now))
        assert self.scheduler.waiting == 0
        assert all(request.is_over for request in self.requests)
        assert all(
            self.rows[request, i] == 1
            for request in self.requests
            if request in self.answered
            for i in range(request.rows)
        )


TestRandomEvents = Machine.TestCase
TestRandomEvents.settings = settings(max_examples=200, stateful_step_count=40)


def run_all(machine: BatchScheduler, now: float = 0.0) -> list[Batch]:
    """Start and finish batches until no more are due; return them in their order."""
    found: list[Batch] = []
    waiting = [*machine.running, *machine.start(now)]
    while waiting:
        batch = waiting.pop(0)
        found.append(batch)
        machine.finish(batch)
        waiting += machine.start(now)
    return found


def test_a_full_batch_starts_at_once_and_the_rest_after_the_delay():
    machine = scheduler(DELAY)

    (full,) = machine.admit(Request("a", None, SIZE + 1, 0.0), 0.0)

    assert (full.rows, full.size) == (SIZE, SIZE)
    assert machine.start(1.9) == []
    assert machine.alarm == DELAY
    (rest,) = machine.start(DELAY)
    assert (rest.rows, rest.size) == (1, 1)
    assert machine.start(100.0) == []


def test_requests_that_arrive_while_no_step_can_start_join_the_next_batch():
    machine = scheduler(DELAY)
    running = [*machine.admit(Request("a", None, 2 * SIZE, 0.0), 0.0)]
    for second in range(1, 4):
        assert machine.admit(Request("a", None, 1, second), second) == ()
    assert machine.alarm is None

    machine.finish(running[0])
    (batch,) = machine.start(3.0)

    assert [request.admitted for request, _, _ in batch.parts] == [1, 2, 3]


def test_the_delay_counts_from_the_oldest_request_that_is_left():
    machine = scheduler(DELAY)
    first, second = Request("a", None, 1, 0.0), Request("a", None, 1, 1.0)
    machine.admit(first, 0.0)
    machine.admit(second, 1.0)

    machine.withdraw(first)

    assert machine.alarm == 1.0 + DELAY
    assert machine.start(DELAY) == []


def test_a_batch_whose_requests_have_all_gone_is_cancelled():
    machine = scheduler()
    first, second = Request("a", None, 1, 0.0), Request("a", None, SIZE, 0.0)
    machine.admit(first, 0.0)
    batches = [*machine.admit(second, 0.0), *machine.start(0.0)]

    assert machine.withdraw(first) == []
    assert machine.withdraw(second) == batches
    assert machine.withdraw(second) == []


def test_a_failure_of_one_part_ends_the_request_and_its_other_parts():
    machine = scheduler()
    request = Request("a", None, 3 * SIZE, 0.0)
    machine.admit(request, 0.0)
    first, second = machine.running

    assert machine.fail(first) == ([request], [second])
    assert machine.waiting == 0
    assert machine.fail(second) == ([], [])


def test_a_request_of_more_rows_than_may_wait_is_refused_as_wrong():
    with pytest.raises(InvalidArgumentError, match="request of 41 rows cannot be accepted, at most 40"):
        scheduler().admit(Request("a", None, 41, 0.0), 0.0)


def test_groups_take_turns():
    machine = scheduler()
    for key in "abc":
        machine.admit(Request(key, None, 12, 0.0), 0.0)

    keys = [batch.key for batch in run_all(machine)]

    assert keys == ["a", "a", "b", "c", "b", "c"]  # no other group waited when the first two started


@given(rows=st.lists(st.integers(1, 20), min_size=1, max_size=30))
def test_the_requests_of_one_caller_run_in_order_in_full_batches(rows):
    machine = scheduler(queue=10_000)
    block = [*machine.admit(Request("block", None, 2 * SIZE, 0.0), 0.0)]
    requests = [Request("a", None, count, 0.0) for count in rows]
    for request in requests:
        machine.admit(request, 0.0)

    batches = [batch for batch in run_all(machine) if batch not in block and batch.key == "a"]

    assert [row for batch in batches for row in rows_of(batch)] == [
        (request, i) for request in requests for i in range(request.rows)
    ]
    assert all(batch.rows == SIZE for batch in batches[:-1])


@given(
    queues=st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=20), min_size=2, max_size=5),
    size=st.sampled_from([1, 3, 8, 64]),
)
def test_callers_that_wait_all_the_time_get_equal_numbers_of_rows(queues, size):
    quantum = max(1, size // 8)
    machine = BatchScheduler(size, 0.0, 100_000, [size])
    block = machine.admit(Request("block", None, 2 * size, 0.0), 0.0)
    for rank in range(20):
        for caller, rows in enumerate(queues):
            if rank < len(rows):
                machine.admit(Request("a", caller, rows[rank], 0.0), 0.0)
    assert len(block) == CONCURRENT_STEPS
    left: dict[Hashable, int] = {caller: sum(rows) for caller, rows in enumerate(queues)}
    served: Counter[Hashable] = Counter()

    for batch in run_all(machine)[CONCURRENT_STEPS:]:
        for request, _, rows in batch.parts:
            served[request.caller] += rows
            left[request.caller] -= rows
        busy = [served[caller] for caller, rows in left.items() if rows]
        assert max(busy, default=0) - min(busy, default=0) <= 3 * quantum


def test_the_turn_passes_to_the_next_caller_when_one_has_no_more_requests():
    machine = scheduler()
    machine.admit(Request("block", None, 2 * SIZE, 0.0), 0.0)
    first, second, third = (Request("a", caller, rows, 0.0) for caller, rows in ((1, 1), (2, 5), (3, 5)))
    for request in (first, second, third):
        machine.admit(request, 0.0)

    batch = run_all(machine)[CONCURRENT_STEPS]

    assert batch.parts == [(first, 0, 1), (second, 0, 4), (third, 0, 3)]


@given(others=st.integers(1, 20))
def test_one_row_waits_for_at_most_two_quanta_of_each_other_caller(others):
    machine = scheduler(queue=10_000)
    block = [*machine.admit(Request("block", None, 2 * SIZE, 0.0), 0.0)]
    for caller in range(others):
        machine.admit(Request("a", caller, 100, 0.0), 0.0)
    single = Request("a", "single", 1, 0.0)
    machine.admit(single, 0.0)

    rows = [row for batch in run_all(machine) if batch not in block for row in rows_of(batch)]

    batch = rows.index((single, 0)) // SIZE
    assert batch <= 2 * others // SIZE + 1
