"""Types of `numpy`, and the element types that programs have for them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ._binding import HalElementType

_ml_dtypes: Any = None
try:
    # It adds its types to `numpy`.
    import ml_dtypes

    _ml_dtypes = ml_dtypes
except ImportError:
    pass


@dataclasses.dataclass(frozen=True)
class DTypeInfo:
    """A type of `numpy`, with its names."""

    dtype: np.dtype[Any]
    name: str
    abi_type: str
    hal_type: HalElementType

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer; truth values are none."""
        return self.dtype.kind in "iu"

    @property
    def is_signed(self) -> bool:
        """Whether it is an integer with a sign."""
        return self.dtype.kind == "i"

    @property
    def is_floating_point(self) -> bool:
        """Whether it is a float."""
        return self.dtype.kind == "f"

    @property
    def is_complex(self) -> bool:
        """Whether it is a complex number."""
        return self.dtype.kind == "c"


# Of two with the same name in programs, the first is the one that results get.
_INFOS = [
    DTypeInfo(np.dtype(name), name, abi_type, hal_type)
    for name, abi_type, hal_type in (
        ("float16", "f16", HalElementType.FLOAT_16),
        ("float32", "f32", HalElementType.FLOAT_32),
        ("float64", "f64", HalElementType.FLOAT_64),
        ("int8", "i8", HalElementType.SINT_8),
        ("uint8", "i8", HalElementType.UINT_8),
        ("int16", "i16", HalElementType.SINT_16),
        ("uint16", "i16", HalElementType.UINT_16),
        ("int32", "i32", HalElementType.SINT_32),
        ("uint32", "i32", HalElementType.UINT_32),
        ("int64", "i64", HalElementType.SINT_64),
        ("uint64", "i64", HalElementType.UINT_64),
        ("bool", "i1", HalElementType.BOOL_8),
        ("complex64", "complex<f32>", HalElementType.COMPLEX_64),
        ("complex128", "complex<f64>", HalElementType.COMPLEX_128),
    )
]
_BY_DTYPE = {info.dtype: info for info in _INFOS}
_BY_NAME = {info.name: info for info in _INFOS}
_BY_ABI_TYPE = {info.abi_type: info for info in reversed(_INFOS)}

DTYPE_TO_ABI_TYPE = {info.dtype: info.abi_type for info in _INFOS}

_ML_DTYPES = {
    "bfloat16": HalElementType.BFLOAT_16,
    "float8_e4m3fn": HalElementType.FLOAT_8_E4M3_FN,
    "float8_e4m3fnuz": HalElementType.FLOAT_8_E4M3_FNUZ,
    "float8_e5m2": HalElementType.FLOAT_8_E5M2,
    "float8_e5m2fnuz": HalElementType.FLOAT_8_E5M2_FNUZ,
    "float8_e8m0fnu": HalElementType.FLOAT_8_E8M0_FNU,
}

_TO_DTYPE: dict[HalElementType, np.dtype[Any]] = {info.hal_type: info.dtype for info in _INFOS}
for _name, _signless in (("int8", "INT_8"), ("int16", "INT_16"), ("int32", "INT_32"), ("int64", "INT_64")):
    _TO_DTYPE[HalElementType[_signless]] = np.dtype(_name)
for _name, _opaque in (("uint8", "OPAQUE_8"), ("uint16", "OPAQUE_16"), ("uint32", "OPAQUE_32"), ("uint64", "OPAQUE_64")):
    _TO_DTYPE[HalElementType[_opaque]] = np.dtype(_name)
for _name, _hal_type in _ML_DTYPES.items():
    # Older releases lack some.
    if hasattr(_ml_dtypes, _name):
        _TO_DTYPE[_hal_type] = np.dtype(getattr(_ml_dtypes, _name))


def map_dtype_to_dtype_info(dtype: Any) -> DTypeInfo:
    """What is known of a type of `numpy`."""
    return _BY_DTYPE[np.dtype(dtype)]


def map_name_to_dtype_info(name: str) -> DTypeInfo:
    """What is known of the type with this name in `numpy`."""
    return _BY_NAME[name]


def map_abi_type_to_dtype_info(abi_type: str) -> DTypeInfo:
    """What is known of the type with this name in the reflection of functions."""
    return _BY_ABI_TYPE[abi_type]


def map_dtype_to_hal_element_type(dtype: Any) -> HalElementType | None:
    """The element type of arrays of a type of `numpy` or `ml_dtypes`, if there is one."""
    dtype = np.dtype(dtype)
    info = _BY_DTYPE.get(dtype)
    return info.hal_type if info is not None else _ML_DTYPES.get(dtype.name)


def map_hal_element_type_to_dtype(element_type: HalElementType | int) -> np.dtype[Any]:
    """The type of `numpy` or `ml_dtypes` with such elements."""
    try:
        return _TO_DTYPE[HalElementType(int(element_type))]
    except (KeyError, ValueError):
        message = f"numpy has no type for elements of type {int(element_type):#x}"
        raise ValueError(message) from None
