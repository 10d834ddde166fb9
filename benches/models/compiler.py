"""What the build scripts of the networks and of the sweep share: flags of `iree-compile`, and arrays in files."""

import pathlib
import struct
from collections.abc import Sequence

FLAGS = ["--iree-hal-target-device=local"]
# Kernels in bytecode: plain, with calls of microkernels, and with matrices in tiles.
MICROKERNELS = ["--iree-vmvx-enable-microkernels"]
BYTECODE = {"vmvx": [], "vmvx_microkernels": MICROKERNELS, "vmvx_tiles": [*MICROKERNELS, "--iree-opt-data-tiling"]}
# What a module is compiled for: `host` uses everything that this processor has.
PROCESSORS = ["host", "generic", *BYTECODE]
# The letter of Python's `struct`, and the type in the header of the file.
ELEMENTS = {"f32": ("f", "<f4"), "f64": ("d", "<f8"), "i8": ("b", "|i1"), "i32": ("i", "<i4"), "i64": ("q", "<i8")}


def target(processor: str) -> list[str]:
    """The flags to compile for a processor."""
    if processor in BYTECODE:
        return [*FLAGS, "--iree-hal-local-target-device-backends=vmvx", *BYTECODE[processor]]
    return [*FLAGS, "--iree-hal-local-target-device-backends=llvm-cpu", f"--iree-llvmcpu-target-cpu={processor}"]


def write_npy(path: pathlib.Path, shape: Sequence[int], element: str, below: int | None = None) -> None:
    """An array of numbers that look random: floats between -1 and 1, bytes between -128 and 127, other integers from 0 to 1023 or below
    a bound."""
    count, state, values = 1, 12345, []
    for extent in shape:
        count *= extent
    for _ in range(count):
        state = (state * 1103515245 + 12345) % (1 << 31)
        if element.startswith("f"):
            values.append((state >> 8) % 2048 / 1024 - 1)
        elif element == "i8":
            values.append((state >> 8) % 256 - 128)
        else:
            values.append((state >> 8) % (below or 1024))
    letter, descriptor = ELEMENTS[element]
    extents = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    header = f"{{'descr': '{descriptor}', 'fortran_order': False, 'shape': ({extents}), }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    data = struct.pack(f"<{count}{letter}", *values)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)
