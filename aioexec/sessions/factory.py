"""Session factories: map the target of a session to a kind of session.

Exactly one registered factory must accept the options of a session. A new kind of session is added by a factory with a scheme
of its own:

    class EchoSessionFactory(SessionFactory):
        def accepts_options(self, options):
            return options.target.startswith("echo://")

        def new_session(self, options):
            return EchoSession(options)

    register("ECHO_SESSION", EchoSessionFactory())
"""

from __future__ import annotations

import abc
import logging
from collections.abc import Sequence

from aioexec.errors import InternalError, NotFoundError, UnimplementedError
from aioexec.sessions.options import SessionOptions
from aioexec.sessions.runtime import SessionRuntime

logger = logging.getLogger(__name__)


class SessionFactory(abc.ABC):
    """Makes sessions of one kind."""

    @abc.abstractmethod
    def accepts_options(self, options: SessionOptions) -> bool:
        """Whether a session with these options is of this kind; usually by the scheme of the target."""

    async def load(self, options: SessionOptions) -> None:  # noqa: B027  # most kinds hold it nowhere
        """Do in a thread, before `new_session`, what would hold the event loop; nothing by default."""

    @abc.abstractmethod
    def new_session(self, options: SessionOptions) -> SessionRuntime:
        """Make a session; called in the event loop to which it will belong.

        Raises:
            OpError: there can be no session with these options.
        """

    async def reset(self, options: SessionOptions, containers: Sequence[str]) -> None:
        """Abort all existing sessions, without waiting for their steps, and drop the resources of these containers.

        Sessions made afterwards are isolated from operations of the old ones on resources in these containers. An empty list
        means the default container.

        Raises:
            UnimplementedError: sessions of this kind have no containers.
        """
        raise UnimplementedError("Reset()")


_factories: dict[str, SessionFactory] = {}
"""By runtime type."""


def register(runtime_type: str, factory: SessionFactory) -> None:
    """Register a factory; a second one of the same runtime type is logged as an error and ignored."""
    if runtime_type in _factories:
        logger.error("Two session factories are being registered under %s", runtime_type)
        return
    _factories[runtime_type] = factory


def is_registered(runtime_type: str) -> bool:
    return runtime_type in _factories


def deregister(runtime_type: str) -> None:
    """Remove a factory; its sessions stay usable."""
    _factories.pop(runtime_type, None)


def get_factory(options: SessionOptions) -> SessionFactory:
    """The one factory that accepts the options.

    Raises:
        InternalError: several do.
        NotFoundError: none does.
    """
    candidates = {
        runtime_type: factory
        for runtime_type, factory in _factories.items()
        if factory.accepts_options(options)
    }
    registered = f"Registered factories are {{{', '.join(_factories)}}}."
    if len(candidates) > 1:
        raise InternalError(
            f"Multiple session factories registered for the given session options: {{{options.describe()}}} "
            f"Candidate factories are {{{', '.join(candidates)}}}. {registered}"
        )
    if not candidates:
        raise NotFoundError(
            f"No session factory registered for the given session options: {{{options.describe()}}} {registered}"
        )
    return next(iter(candidates.values()))


def new_session(options: SessionOptions) -> SessionRuntime:
    """Make a session by the factory that accepts the options; see `get_factory` and `SessionFactory.new_session`."""
    return get_factory(options).new_session(options)


async def reset(options: SessionOptions, containers: Sequence[str] = ()) -> None:
    """Abort the sessions of the factory that accepts the options; see `SessionFactory.reset`."""
    await get_factory(options).reset(options, containers)
