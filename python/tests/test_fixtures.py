"""Every case of `fixtures/models`, bit for bit what the reference runtime answered."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import vireo
from conftest import MODELS

MANIFEST = json.loads((MODELS / "manifest.json").read_text())
DTYPES = {"i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16", "f32": "float32", "f64": "float64"}


def runs_here(module: dict[str, Any]) -> bool:
    machine = platform.machine()
    if "vmvx" in str(module.get("cpu", "")) or module.get("vmvx"):
        return True
    if "aarch64" in module["file"]:
        return machine in ("aarch64", "arm64")
    if module.get("cpu") == "x86-64-v3":
        cpu = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
        return machine == "x86_64" and all(f" {feature} " in cpu for feature in ("avx2", "fma", "bmi2"))
    return machine == "x86_64"


def value(text: str) -> Any:
    """An input as the manifest writes it."""
    if text.startswith("@"):
        return np.load(MODELS / text[1:])
    shape_and_type, _, elements = text.partition("=")
    if not any(shape_and_type.endswith(name) for name in DTYPES):
        number = float(text)
        return int(text) if number.is_integer() and "." not in text and "e" not in text else number
    *sizes, element_type = shape_and_type.split("x")
    shape = tuple(int(size) for size in sizes)
    dtype = np.dtype(DTYPES[element_type])
    numbers = elements.replace(",", " ").replace("[", " ").replace("]", " ").split()
    if not numbers:
        return np.zeros(shape, dtype)
    parse = int if dtype.kind in "iu" else float
    if dtype.kind in "iu":
        data = np.array([parse(number) for number in numbers], np.int64).astype(dtype)
    else:
        data = np.array([parse(number) for number in numbers], np.float64).astype(dtype)
    return np.full(shape, data[0]) if data.size == 1 else data.reshape(shape)


def bits(result: Any) -> bytes:
    if isinstance(result, vireo.Tensor):
        return result.tobytes()
    raise TypeError(type(result))


CASES = [case for case in MANIFEST["cases"] if runs_here(MANIFEST["modules"][case["module"]])]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
@pytest.mark.parametrize("device", ["local-sync", "local-task"])
def test_case(case: dict[str, Any], device: str) -> None:
    module = MANIFEST["modules"][case["module"]]
    session = vireo.Session(MODELS / module["file"], device=device)
    for call in case["calls"]:
        function = session[call["function"]]
        inputs = [value(text) for text in call["inputs"]]
        if error := call.get("error"):
            with pytest.raises(vireo.Error) as raised:
                function(*inputs)
            assert raised.value.code == error["code"], raised.value
            continue
        results = function(*inputs)
        results = results if isinstance(results, tuple) else () if results is None else (results,)
        assert len(results) == len(call["outputs"])
        for result, name in zip(results, call["outputs"]):
            expected = MODELS / name
            units = case.get("units", module.get("units"))
            if not isinstance(result, vireo.Tensor):
                recorded = expected.read_bytes()
                kind = {int: {4: "<i4", 8: "<i8"}, float: {4: "<f4", 8: "<f8"}}[type(result)][len(recorded)]
                assert np.array(result, kind).tobytes() == recorded
            elif expected.suffix == ".npy":
                array = np.load(expected)
                assert result.shape == array.shape
                assert np.asarray(result).dtype == array.dtype or result.element_type.startswith("i")
                if units is None:
                    assert bits(result) == array.tobytes()
                else:
                    ours, theirs = (np.asarray(each).view(np.int32).astype(np.int64) for each in (result, array))
                    assert np.abs(ours - theirs).max(initial=0) <= units
            else:
                assert bits(result) == expected.read_bytes()
                assert result.dtype == "bfloat16" and np.asarray(result).dtype == ml_dtypes.bfloat16
