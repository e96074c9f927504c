"""What a client of the soak test may receive: right values of a right version, or an error with a reason."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aioexec.errors import InternalError, InvalidArgumentError, NotFoundError, OpError, UnavailableError
from tests.serving.soak.calls import Answer, Outcome, Request, StreamedError
from tests.serving.soak.folders import ModelFolder
from tests.serving.soak.loading import Loading
from tests.serving.soak.versions import LINEAR, expected, version_of

FAULTY, REFUSED, UNSERVED = "injected fault", "negative sum", "version not served"
"""The reasons of errors."""


@dataclass(frozen=True)
class Sent:
    """A request, and what the server had loaded of its model when it was sent."""

    asked: Request
    folder: ModelFolder
    newest: int
    loaded: frozenset[int]

    @classmethod
    def now(cls, asked: Request, folder: ModelFolder, loading: Loading) -> Sent:
        """A request that is sent now."""
        return cls(asked, folder, loading.newest(folder.name), frozenset(loading.loaded[folder.name]))

    @property
    def is_negative(self) -> bool:
        """Whether the model must refuse it."""
        return self.asked.signature != LINEAR and bool(self.asked.x.sum(axis=1).min() < 0)


def check(sent: Sent, outcome: Outcome, loading: Loading) -> None:
    """Raise AssertionError if an outcome, which has just come, is wrong."""
    if isinstance(outcome, Answer):
        _check_answer(sent, outcome, loading)
    else:
        assert _is_allowed(sent, outcome), f"{sent.asked}: {outcome!r}"


def _check_answer(sent: Sent, answer: Answer, loading: Loading) -> None:
    asked = sent.asked
    assert not sent.is_negative, f"{asked}: answered"
    assert answer.id in (None, asked.id)
    computed = _computed_by(asked, answer)
    version = computed if answer.version is None else answer.version
    assert asked.version in (None, version), f"{asked}: answered by version {version}"
    assert version in loading.loaded[asked.model], (
        f"{asked}: answered by version {version}, which is not loaded"
    )
    assert asked.version is not None or version >= sent.newest, f"{asked}: answered by the old {version}"
    np.testing.assert_allclose(answer.y, expected(version, asked.signature, asked.x), rtol=1e-12)


def _computed_by(asked: Request, answer: Answer) -> int:
    """The version whose function has the values of an answer."""
    if asked.signature == LINEAR:
        return version_of(answer.y)
    return round(float(answer.y[0] - np.sqrt(asked.x[0].sum())))


def _is_allowed(sent: Sent, error: OpError) -> bool:
    asked, reason = sent.asked, reason_of(error)
    if reason == FAULTY:
        return isinstance(error, InternalError | StreamedError)
    if reason == REFUSED:  # of this request, or another one of its batch
        return asked.signature != LINEAR and isinstance(error, InvalidArgumentError | StreamedError)
    if asked.version is None or sent.folder.must_serve(asked.version, sent.loaded):
        return False
    is_kind = isinstance(error, NotFoundError | UnavailableError | StreamedError)
    return is_kind and f"version {asked.version} " in error.message


def reason_of(error: OpError) -> str:
    """Why a request has received an error, by its message."""
    return next((reason for reason in (FAULTY, REFUSED) if reason in error.message), UNSERVED)
