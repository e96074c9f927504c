"""Errors of SavedModels that TensorFlow raises as builtin exceptions too.

NotFoundError
├── NoSavedModelError       also OSError: there is no SavedModel at a path
└── UnknownTagsError        also RuntimeError: the SavedModel has no graph with these tags
AlreadyExistsError
└── SavedModelStateError    also AssertionError: the builder is in the wrong state for the call, or its folder is not empty
"""

from aioexec.errors import AlreadyExistsError, NotFoundError


class NoSavedModelError(NotFoundError, OSError):
    """There is no SavedModel at a path."""


class UnknownTagsError(NotFoundError, RuntimeError):
    """The SavedModel has no graph with the given tags."""


class SavedModelStateError(AlreadyExistsError, AssertionError):
    """The builder is in the wrong state for the call, or its folder is not empty."""
