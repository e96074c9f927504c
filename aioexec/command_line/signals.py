"""The end of a server process: the first SIGTERM or SIGINT lets it finish, the second one ends it at once."""

import asyncio
import signal


class EndSignal:
    """Waits for a signal; made when the server starts, so that a signal during its start counts.

    Belongs to the running loop, whose handlers it keeps until the process ends.
    """

    def __init__(self) -> None:
        self._arrived = asyncio.Event()
        for each in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(each, self._stop, each)

    async def wait(self) -> None:
        """Return when the first signal has arrived."""
        await self._arrived.wait()

    def _stop(self, number: int) -> None:
        if self._arrived.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self._arrived.set()
