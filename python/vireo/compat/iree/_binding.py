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
