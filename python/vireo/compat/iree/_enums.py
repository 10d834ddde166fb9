"""Bits and numbers of devices by name, as `iree.runtime` names them."""

from __future__ import annotations

import enum
from typing import Any


class _Number(enum.Enum):
    """A number that native functions take; `int` of it is the number."""

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return int(self.value)

    def __repr__(self) -> str:
        return str(self)


class _Bits(_Number):
    """Bits. Those of several together are a plain number."""

    def __or__(self, other: object) -> int:
        return int(self) | _bits(other)

    __ror__ = __or__

    def __and__(self, other: object) -> int:
        return int(self) & _bits(other)

    __rand__ = __and__


def _bits(value: object) -> int:
    if not isinstance(value, (_Bits, int)):
        raise TypeError(f"expected bits, got {type(value).__name__}")
    return int(value)


class MemoryType(_Bits):
    """Kinds of memory."""

    NONE = 0
    OPTIMAL = 1
    HOST_VISIBLE = 2
    HOST_COHERENT = 4
    HOST_CACHED = 8
    HOST_LOCAL = 70
    DEVICE_VISIBLE = 16
    DEVICE_LOCAL = 48


class BufferUsage(_Bits):
    """What buffers are used for."""

    NONE = 0
    TRANSFER_SOURCE = 1
    TRANSFER_TARGET = 2
    TRANSFER = 3
    DISPATCH_INDIRECT_PARAMETERS = 0x100
    DISPATCH_UNIFORM_READ = 0x200
    DISPATCH_STORAGE_READ = 0x400
    DISPATCH_STORAGE_WRITE = 0x800
    DISPATCH_STORAGE = 0xC00
    DISPATCH_IMAGE_READ = 0x1000
    DISPATCH_IMAGE_WRITE = 0x2000
    DISPATCH_IMAGE = 0x3000
    SHARING_EXPORT = 0x10000
    SHARING_REPLICATE = 0x20000
    SHARING_CONCURRENT = 0x40000
    SHARING_IMMUTABLE = 0x80000
    MAPPING_SCOPED = 0x1000000
    MAPPING_PERSISTENT = 0x2000000
    MAPPING_OPTIONAL = 0x4000000
    MAPPING_ACCESS_RANDOM = 0x8000000
    MAPPING_ACCESS_SEQUENTIAL_WRITE = 0x10000000
    MAPPING = 0x9000000
    DEFAULT = 0xC03


class MemoryAccess(_Bits):
    """How memory is accessed."""

    NONE = 0
    READ = 1
    WRITE = 2
    DISCARD = 4
    DISCARD_WRITE = 6
    ALL = 7


class BufferCompatibility(_Bits):
    """What can be done with buffers of a kind."""

    NONE = 0
    ALLOCATABLE = 1
    IMPORTABLE = 2
    EXPORTABLE = 4
    QUEUE_TRANSFER = 0x400
    QUEUE_DISPATCH = 0x800


class SemaphoreCompatibility(_Bits):
    """Who waits for a semaphore, and who signals it."""

    NONE = 0
    HOST_WAIT = 1
    DEVICE_WAIT = 2
    HOST_SIGNAL = 4
    DEVICE_SIGNAL = 8
    HOST_ONLY = 5
    DEVICE_ONLY = 10
    ALL = 15


class ExternalTimepointFlags(_Bits):
    """None is defined."""

    NONE = 0


class ExternalTimepointType(_Number):
    """Events of other APIs."""

    NONE = 0
    ASYNC_PRIMITIVE = 1
    CUDA_EVENT = 2
    HIP_EVENT = 3


class Linkage(_Number):
    """Which functions of a module are meant."""

    INTERNAL = 0
    IMPORT = 1
    IMPORT_OPTIONAL = 3
    EXPORT = 2
    EXPORT_OPTIONAL = 4


class HalElementType(_Number):
    """Element types of buffer views. The lowest 8 bits are the number of bits of an element."""

    NONE = 0
    OPAQUE_8 = 8
    OPAQUE_16 = 16
    OPAQUE_32 = 32
    OPAQUE_64 = 64
    BOOL_8 = 0x13000008
    INT_4 = 0x10000004
    INT_8 = 0x10000008
    INT_16 = 0x10000010
    INT_32 = 0x10000020
    INT_64 = 0x10000040
    SINT_4 = 0x11000004
    SINT_8 = 0x11000008
    SINT_16 = 0x11000010
    SINT_32 = 0x11000020
    SINT_64 = 0x11000040
    UINT_4 = 0x12000004
    UINT_8 = 0x12000008
    UINT_16 = 0x12000010
    UINT_32 = 0x12000020
    UINT_64 = 0x12000040
    FLOAT_16 = 0x21000010
    FLOAT_32 = 0x21000020
    FLOAT_64 = 0x21000040
    BFLOAT_16 = 0x22000010
    COMPLEX_64 = 0x23000040
    COMPLEX_128 = 0x23000080
    FLOAT_8_E5M2 = 0x24000008
    FLOAT_8_E4M3_FN = 0x25000008
    FLOAT_8_E5M2_FNUZ = 0x26000008
    FLOAT_8_E4M3_FNUZ = 0x27000008
    FLOAT_8_E8M0_FNU = 0x28000008

    @staticmethod
    def map_to_dtype(element_type: HalElementType | int) -> Any:
        """The type of `numpy`, or of `ml_dtypes`, with such elements."""
        from .dtypes import map_hal_element_type_to_dtype

        return map_hal_element_type_to_dtype(element_type)

    @staticmethod
    def is_byte_aligned(element_type: HalElementType | int) -> bool:
        """Whether elements have whole bytes."""
        return (int(element_type) & 0xFF) % 8 == 0

    @staticmethod
    def dense_byte_count(element_type: HalElementType | int) -> int:
        """The bytes of an element, rounded up."""
        return ((int(element_type) & 0xFF) + 7) // 8
