"""Detects repeated requests by their ids: a request that a network or a caller repeats must not be executed twice."""

from __future__ import annotations

from collections import OrderedDict

from aioexec.errors import AbortedError

MOST_IDS = 1 << 16
"""The number of requests that are remembered."""


class RecentRequestIds:
    """The ids of the last requests, oldest first."""

    def __init__(self, most: int = MOST_IDS) -> None:
        self._most = most  # the number of ids that are kept
        self._ids: OrderedDict[int, None] = OrderedDict()

    def check(self, request_id: int, method: str) -> None:
        """Record a request; id 0 means no id.

        Raises:
            AbortedError: the id was recorded before.
        """
        if not request_id:
            return
        if request_id in self._ids:
            raise AbortedError(
                f"The same {method} request was received twice (request id {request_id}). "
                "The network or the caller has sent it again; it is run at most once."
            )
        self._ids[request_id] = None
        if len(self._ids) > self._most:
            self._ids.popitem(last=False)
