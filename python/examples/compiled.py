"""Compiles a program and calls it, where the package `iree-base-compiler` is installed."""

from __future__ import annotations

import numpy as np

import vireo

PROGRAM = """
func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


def main() -> None:
    """Prints twice some numbers."""
    data: bytes = vireo.compile(PROGRAM, cpu="host")
    twice = vireo.Session(data)["twice"]
    result: vireo.Tensor = twice(np.arange(4, dtype=np.float32))
    print(*result.tolist())


if __name__ == "__main__":
    main()
