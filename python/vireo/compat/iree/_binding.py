"""The native classes, with the enumerations that they take."""

from __future__ import annotations

from ..._vireo import _compat
from ._enums import (
    BufferCompatibility,
    BufferUsage,
    ExternalTimepointFlags,
    ExternalTimepointType,
    HalElementType,
    Linkage,
    MemoryAccess,
    MemoryType,
    SemaphoreCompatibility,
)

globals().update({name: value for name, value in vars(_compat()).items() if not name.startswith("__")})

# The name of the module that has them in `iree.runtime`.
__all__ = [name for name in globals() if name[:1].isalpha() and name != "annotations"]
