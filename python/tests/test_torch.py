"""PyTorch's tensors as arguments, and results as its tensors; skipped without it, as it takes gigabytes to install."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vireo

torch: Any = pytest.importorskip("torch", reason="skipped: torch is not installed")

X = np.linspace(-1, 1, 512, dtype=np.float32).reshape(8, 64)


def test_tensors_are_arguments_in_any_layout(mlp: vireo.Function) -> None:
    expected = np.array(mlp(X))
    x = torch.from_numpy(X.copy())
    wide = torch.zeros(8, 128)
    wide[:, ::2] = x
    layouts = [x, x.t().contiguous().t(), wide[:, ::2], x.flip(0).flip(0), x.expand(8, 64), torch.stack([x, x])[1], x.reshape(8, 8, 8).view(8, 64)]
    for layout in layouts:
        assert np.array_equal(np.asarray(mlp(layout)), expected), layout.stride()
    assert np.array_equal(np.asarray(mlp(input0=torch.nn.Parameter(x, requires_grad=False))), expected)


def test_tensors_that_have_a_gradient_are_refused_as_torch_does(mlp: vireo.Function) -> None:
    x = torch.from_numpy(X.copy()).requires_grad_()
    with pytest.raises((TypeError, ValueError, BufferError, RuntimeError), match="grad"):
        mlp(x)
    assert np.array_equal(np.asarray(mlp(x.detach())), np.asarray(mlp(X)))


def test_types_that_are_wrong_are_named(mlp: vireo.Function) -> None:
    x = torch.from_numpy(X.copy())
    for kind, name in [(torch.float64, "f64"), (torch.float16, "f16"), (torch.bfloat16, "bf16"), (torch.int32, "i32"), (torch.bool, "i1|bool")]:
        with pytest.raises((TypeError, ValueError), match=name):
            mlp(x.to(kind))


def test_results_are_tensors_without_a_copy(mlp: vireo.Function) -> None:
    y = mlp(X)
    where = np.asarray(y).__array_interface__["data"][0]
    t = torch.from_dlpack(y)
    assert (t.data_ptr(), tuple(t.shape), t.dtype) == (where, (8, 16), torch.float32)
    assert np.array_equal(t.numpy(), np.asarray(y))
    # The tensor keeps the memory.
    expected = np.array(y)
    del y
    gc.collect()
    for _ in range(100):
        mlp(-X)
    assert np.array_equal(t.numpy(), expected)
    # It is an argument again.
    abs_of = torch.relu(t)
    assert torch.equal(abs_of, torch.clamp(t, min=0))


def test_numbers_and_prepared_calls(models: Path) -> None:
    abs_ = vireo.Session(models / "abs.vmfb", device="local-sync")["abs"]
    assert abs_(torch.tensor(-2.5)).item() == 2.5
    assert torch.from_dlpack(abs_(torch.tensor(-7.0))).item() == 7.0
    mlp = vireo.Session(models / "mlp.vmfb", device="local-sync")["mlp"]
    call = mlp.prepare(torch.from_numpy(X.copy()))
    first = np.array(call.run())
    call.set(0, torch.from_numpy(-X))
    assert np.array_equal(np.array(call.run()), np.array(mlp(-X)))
    assert np.array_equal(first, np.array(mlp(X)))


def test_asynchronous_calls(mlp: vireo.Function) -> None:
    async def main() -> None:
        x = torch.from_numpy(X.copy())
        results = await asyncio.gather(*(mlp.start(x * scale) for scale in (1, -1, 0.5)))
        for result, scale in zip(results, (1, -1, 0.5), strict=True):
            assert np.array_equal(np.asarray(result), np.asarray(mlp(X * np.float32(scale))))

    asyncio.run(main())


def test_tensors_of_this_package_are_tensors_of_torch() -> None:
    x = vireo.empty((4, 3))
    t = torch.from_dlpack(x)
    np.asarray(x)[...] = 2
    assert t.sum().item() == 24
    t[1, 1] = 5
    assert np.asarray(x)[1, 1] == 5
    for kind in ("float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "float64", "bool", "complex64"):
        made = vireo.empty((2, 2), dtype=kind)
        assert torch.from_dlpack(made).dtype == getattr(torch, kind), kind
