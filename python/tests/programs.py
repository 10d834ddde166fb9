"""Programs of any size for tests and benchmarks, in MLIR: dense layers with functions for several batch sizes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import vireo


def weights(sizes: Sequence[int], seed: int = 1) -> tuple[list[Any], list[Any]]:
    """The weights and biases of layers from each size to the next one."""
    generator = np.random.default_rng(seed)
    layers = [generator.normal(0, rows**-0.5, (rows, columns)).astype(np.float32) for rows, columns in zip(sizes, sizes[1:])]
    return layers, [generator.normal(0, 0.1, columns).astype(np.float32) for columns in sizes[1:]]


def layers(sizes: Sequence[int], batches: Sequence[int | None], seed: int = 1) -> str:
    """A program of dense layers with `relu` between them: a function `mlpN` for each batch of N rows, `mlp` for any."""
    text = []
    for index, (weight, bias) in enumerate(zip(*weights(sizes, seed))):
        for name, array in (("w", weight), ("b", bias)):
            kind = "x".join(map(str, array.shape)) + "xf32"
            text.append(f'util.global private @{name}{index} = dense<"0x{array.tobytes().hex().upper()}"> : tensor<{kind}>')
    for batch in batches:
        text.append(function(sizes, batch))
    return "\n".join(text) + "\n"


def function(sizes: Sequence[int], batch: int | None) -> str:
    """One function of the program."""

    def kind(columns: int) -> str:
        return f"tensor<{'?' if batch is None else batch}x{columns}xf32>"

    lines = [
        f"func.func @mlp{'' if batch is None else batch}(%x: {kind(sizes[0])}) -> {kind(sizes[-1])} {{",
        "  %zero = arith.constant 0.0 : f32",
        "  %first = arith.constant 0 : index",
        f"  %rows = tensor.dim %x, %first : {kind(sizes[0])}",
    ]
    last = "%x"
    for index, (rows, columns) in enumerate(zip(sizes, sizes[1:])):
        relu = ["    %v = arith.maximumf %u, %zero : f32", "    linalg.yield %v : f32"]
        of, to, layer = kind(rows), kind(columns), f"tensor<{rows}x{columns}xf32>"
        maps = "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>"
        lines += [
            f"  %w{index} = util.global.load @w{index} : {layer}",
            f"  %b{index} = util.global.load @b{index} : tensor<{columns}xf32>",
            f"  %e{index} = tensor.empty({'%rows' if batch is None else ''}) : {to}",
            f"  %f{index} = linalg.fill ins(%zero : f32) outs(%e{index} : {to}) -> {to}",
            f"  %m{index} = linalg.matmul ins({last}, %w{index} : {of}, {layer}) outs(%f{index} : {to}) -> {to}",
            f'  %r{index} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel"]}}'
            f" ins(%m{index}, %b{index} : {to}, tensor<{columns}xf32>) outs(%e{index} : {to}) {{",
            "  ^bb0(%s: f32, %t: f32, %o: f32):",
            "    %u = arith.addf %s, %t : f32",
            *(relu if index < len(sizes) - 2 else ["    linalg.yield %u : f32"]),
            f"  }} -> {to}",
        ]
        last = f"%r{index}"
    return "\n".join([*lines, f"  return {last} : {kind(sizes[-1])}", "}"])


def compiled(path: Path, sizes: Sequence[int], batches: Sequence[int | None], flags: Sequence[str] = ()) -> Path:
    """The module file of a program of layers, which is made if it is not there. Raises `vireo.NotFound` without a compiler."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        vireo.compile(layers(sizes, batches), cpu="host", flags=flags, output=path)
    return path
