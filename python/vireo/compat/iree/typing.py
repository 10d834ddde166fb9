"""Types of what callers pass."""

from __future__ import annotations

from typing import Callable, List

from ._binding import HalBufferView

HalModuleBufferViewTraceCallback = Callable[[str, List[HalBufferView]], None]
"""Called with the key of a program's trace, and the tensors that it traces."""
