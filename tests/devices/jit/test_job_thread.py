"""A job thread runs every job in order, with a thread or without one."""

from __future__ import annotations

import threading

from aioexec.devices.jit.job_thread import JobThread
from tests.thread_faults import no_threads


def test_jobs_are_done_in_order_in_another_thread():
    done: list[tuple[int, bool]] = []
    thread = JobThread[int](
        "jobs", lambda job: done.append((job, threading.current_thread() is threading.main_thread()))
    )

    for job in range(5):
        thread.put(job)
    thread.join()

    assert done == [(job, False) for job in range(5)]


def test_where_no_thread_can_be_started_the_caller_does_the_job():
    done: list[int] = []
    thread = JobThread[int]("jobs", done.append)

    with no_threads():
        thread.put(1)

    assert done == [1]
    thread.put(2)
    thread.join()
    assert done == [1, 2]


def test_a_job_that_is_queued_by_a_job_is_done_too():
    done: list[int] = []

    def work(job: int) -> None:
        done.append(job)
        if job < 3:
            thread.put(job + 1)

    thread = JobThread[int]("jobs", work)
    with no_threads():
        thread.put(1)

    assert done == [1, 2, 3]
    assert not thread.busy


def test_the_job_with_the_highest_priority_is_begun_next():
    """Priorities may change while jobs are queued; of equal ones the first is begun."""
    done: list[str] = []
    priorities = {"begin": 9, "a": 0, "b": 1, "c": 1, "d": 0}

    def work(job: str) -> None:
        done.append(job)
        if job == "begin":
            for other in "abcd":
                thread.put(other)
        if job == "b":
            priorities["d"] = 2
            thread.reorder()

    thread = JobThread[str]("jobs", work, priorities.__getitem__)
    with no_threads():
        thread.put("begin")

    assert done == ["begin", "b", "d", "c", "a"]
