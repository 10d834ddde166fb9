"""Models in other processes: pickled by the path of their file and its digest, which has to be the same there."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from . import _vireo


def digest(path: str | os.PathLike[str]) -> str:
    """The digest of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(path: str | os.PathLike[str], expected: str) -> None:
    """Refuses a file that is not the one of a pickle."""
    try:
        found = digest(path)
    except FileNotFoundError:
        raise _vireo.NotFound(f"the file of the pickled model is not here: {os.fspath(path)}") from None
    if found != expected:
        raise _vireo.FailedPrecondition(
            f"{os.fspath(path)} is not the file of the pickled model: its digest is {found[:12]}, not {expected[:12]}"
        )


def rebuild(source: Any, expected: str | None, version: str, keywords: dict[str, Any]) -> _vireo.Model:
    """The model of a pickle."""
    if version != _vireo.__version__:
        raise _vireo.Incompatible(
            f"the model was pickled by version {version} of this package, and this is {_vireo.__version__}"
        )
    if expected is not None:
        verify(source, expected)
    return _vireo.Model(source, **keywords)
