"""Flags of the process: options of devices that are created afterwards."""

from __future__ import annotations

import os
import shlex

from ._binding import parse_flags

__all__ = ["parse_flags"]

_VARIABLE = "IREE_PY_RUNTIME_FLAGS"


def _load_default_flags_from_env() -> None:
    """Parses the flags of the environment."""
    text = os.environ.get(_VARIABLE, "")
    flags = shlex.split(text)
    if not flags:
        return
    try:
        parse_flags(*flags)
    except ValueError as error:
        raise RuntimeError(f"Error parsing flags from {_VARIABLE}={text!r}: {error}") from error


_load_default_flags_from_env()
