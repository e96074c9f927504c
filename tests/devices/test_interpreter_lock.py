"""The interpreter lock is released now and then, so that a busy event loop does not starve other threads."""

from __future__ import annotations

import numpy as np

from aioexec.devices.threads import interpreter_lock
from aioexec.devices.threads.interpreter_lock import INTERVAL, LockRelease


def test_the_lock_is_released_at_most_once_an_interval(monkeypatch):
    now, computed = [0.0], []
    monkeypatch.setattr(interpreter_lock, "perf_counter", lambda: now[0])
    monkeypatch.setattr(np, "sqrt", lambda array, out: computed.append(now[0]))
    release = LockRelease()

    for number in range(5):
        now[0] = number * INTERVAL * 0.75
        release.release_if_due()
        release.release_if_due()

    assert computed == [0.0, 2 * INTERVAL * 0.75, 4 * INTERVAL * 0.75]
