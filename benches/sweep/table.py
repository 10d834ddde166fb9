"""The table of the sweep: two hundred kernels. Each family has shapes of well-known networks, and odd ones from a seeded generator.

Extents are such that machine code of LLVM takes between 5 us and 3 ms on a processor of 2024. Changing a line changes the kernels that the
generator draws after it in that family, and no others.
"""

from __future__ import annotations

import kernels as k
from kernels import Kernel

GELU = "constant 0.70710678; mulf a, 1; erf 2; constant 1.0; addf 3, 4; constant 0.5; mulf a, 6; mulf 7, 5"
SIGMOID = "negf a; exp 1; constant 1.0; addf 2, 3; divf 3, 4"


class Draw:
    """Numbers that look random, the same everywhere: splitmix64 from the name of a family."""

    def __init__(self, family: str) -> None:
        self.state = sum(ord(letter) << (7 * index % 56) for index, letter in enumerate(family)) & (1 << 64) - 1

    def below(self, count: int) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & (1 << 64) - 1
        mixed = (self.state ^ (self.state >> 30)) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & (1 << 64) - 1
        return (mixed ^ (mixed >> 31)) % count

    def odd(self, low: int, high: int) -> int:
        """An odd number in the range, both ends included; small ones are as likely as large ones are per octave."""
        octaves = (high // low).bit_length()
        start = low << self.below(octaves)
        stop = min(high, 2 * start)
        return min(start, high) + self.below(max(1, stop - start)) | 1

    def one(self, *choices):
        return choices[self.below(len(choices))]


def products() -> list[Kernel]:
    table = []
    for layout in ("nn", "nt", "tn", "tt"):
        draw = Draw(f"product_{layout}")
        # Attention, dense layers with constant weights, a row, a column, narrow results, integers.
        table += [
            k.product(layout, 128, 128, 64, batch=4),
            k.product(layout, 8, 256, 256, weights=True),
            k.product(layout, 1, 512, 1024),
            k.product(layout, 512, 1, 300),
            k.product(layout, 197, 10, 384, weights=True, relu=True),
            k.product(layout, 64, 96, 128, element="i8"),
            k.product(layout, 49, 63, 65, element="f64"),
        ]
        for _ in range(4):
            m, n = draw.odd(3, 200), draw.odd(9, 300)
            # The number of multiplications is between a quarter of a million and two millions.
            work = 250_000 << draw.below(4)
            table.append(k.product(layout, m, n, max(5, min(999, work // (m * n))) | 1))
        m, n, inner = draw.odd(17, 60), draw.odd(17, 60), draw.odd(33, 100)
        table.append(k.product(layout, m, n, inner, batch=draw.one(3, 7), element=draw.one("f32", "f32", "i32")))
    table.append(k.product("nn", 7, 255, 129, weights=True, dynamic=True))
    table.append(k.product("nt", 9, 257, 130, weights=True, dynamic=True))
    return table


def convolutions() -> list[Kernel]:
    table = []
    for layout in ("nchw", "nhwc"):
        draw = Draw(f"conv_{layout}")
        conv = lambda *arguments, **options: k.convolution(layout, *arguments, **options)
        table += [
            conv(1, (64, 64, 3), 16, 3, stride=2, relu=True),
            conv(1, (56, 56, 3), 16, 7, stride=2),
            conv(1, (28, 28, 32), 32, 3, relu=True),
            conv(1, (14, 14, 64), 64, 3),
            conv(1, (14, 14, 96), 64, 1, relu=True),
            conv(8, (7, 7, 64), 96, 1),
            conv(1, (28, 28, 64), 128, 1, stride=2),
            conv(1, (56, 56, 32), 32, 3, depthwise=True, relu=True),
            conv(1, (28, 28, 96), 96, 3, stride=2, depthwise=True),
            conv(8, (14, 14, 64), 64, 5, depthwise=True),
            conv(8, (12, 12, 16), 32, 3),
            conv(1, (31, 29, 8), 12, 3, dilation=2),
            conv(1, (20, 20, 16), 16, 3, pad=0, element="i8"),
            conv(1, (500, 24), 32, 5),
            conv(3, (15, 17, 24), 36, 3, dynamic=True),
        ]
        for _ in range(6):
            size = draw.one(1, 3, 3, 5)
            height, width = draw.odd(9, 45), draw.odd(9, 45)
            depth, channels = draw.odd(3, 60), draw.odd(5, 60)
            work = height * width * depth * channels * size * size
            depthwise = work > 10_000_000
            channels = depth if depthwise else channels
            table.append(conv(draw.one(1, 1, 2), (height, width, depth), channels, size, draw.one(1, 1, 2), draw.one(None, 0), depthwise=depthwise))
    table.append(k.convolution("nchw", 1, (28, 28, 64), 64, 3, groups=4))
    table.append(k.convolution("nchw", 1, (14, 14, 96), 96, 3, groups=32))
    return table


def pooling() -> list[Kernel]:
    table = []
    for layout in ("nchw", "nhwc"):
        table += [
            k.pooling(layout, "max", 1, (56, 56, 32), 3, 2, 1),
            k.pooling(layout, "max", 1, (64, 64, 24), 2, 2),
            k.pooling(layout, "mean", 8, (7, 7, 256), 7, 1),
            k.pooling(layout, "mean", 1, (35, 35, 48), 3, 1, 1),
            k.pooling(layout, "max", 2, (29, 31, 33), 3, 1),
            k.pooling(layout, "max", 1, (51, 47, 19), 5, 3, 2),
            k.pooling(layout, "mean", 1, (62, 58, 21), 2, 2),
            k.pooling(layout, "max", 1, (88, 92, 48), 2, 2, element="i8"),
        ]
    return table


def reductions() -> list[Kernel]:
    draw = Draw("reduction")
    table = []
    for axis in (0, 1):
        table += [k.reduction("sum", (384, 512), [axis]), k.reduction("max", (1023, 129), [axis]), k.argmax((255, 301), axis)]
        table += [k.reduction("sum", (200, 333), [axis], "i32"), k.reduction("mean", (77, 1999), [axis])]
    for axis in (0, 1, 2):
        shape = (draw.odd(9, 40), draw.odd(17, 80), draw.odd(33, 150))
        table += [k.reduction(draw.one("sum", "max", "squares"), shape, [axis]), k.reduction("mean", (16, 128, 64), [axis])]
    table += [
        k.reduction("mean", (1, 96, 28, 28), [2, 3]),
        k.reduction("mean", (8, 14, 14, 64), [1, 2]),
        k.reduction("sum", (511, 257), [0, 1]),
        k.reduction("max", (64, 65, 33), [0, 2]),
        k.reduction("sum", (12, 13, 14, 45), [1]),
        k.reduction("squares", (130, 700), [1], "f64"),
        k.reduction("max", (300, 401), [1], "i8"),
        k.reduction("product", (65, 1025), [1]),
        k.reduction("mean", (31, 2047), [1], dynamic=True),
    ]
    return table


def normalisations() -> list[Kernel]:
    draw = Draw("normalisation")
    table = [
        k.softmax((4, 64, 64), 2),
        k.softmax((4, 96, 96), 2, masked=True),
        k.softmax((128, 1000), 1),
        k.softmax((512, 10), 1),
        k.softmax((2, 3, 65, 65), 3),
        k.softmax((1, 32000), 1),
        k.softmax((65, 257), 0),
        k.softmax((3, 129, 77), 1),
        k.softmax((1, 21, 33, 35), 1),
        k.softmax((13, 511), 1, dynamic=True),
    ]
    table += [k.softmax((draw.odd(5, 100), draw.odd(33, 500)), 1) for _ in range(3)]
    table += [
        k.layer_norm((128, 384)),
        k.layer_norm((197, 192)),
        k.layer_norm((8, 1024)),
        k.layer_norm((65, 77)),
        k.layer_norm((17, 300), dynamic=True),
        k.rms_norm((64, 512)),
        k.rms_norm((31, 1001)),
        k.batch_norm((1, 64, 28, 28)),
        k.batch_norm((4, 33, 15, 17)),
        k.instance_norm((1, 32, 28, 28)),
        k.instance_norm((2, 15, 37, 41)),
    ]
    return table


def gathers() -> list[Kernel]:
    return [
        k.gather((2000, 384), 0, 128),
        k.gather((999, 77), 0, 301, index="i64"),
        k.gather((5000, 16), 0, 999),
        k.gather((20000, 1), 0, 20001),
        k.gather((64, 1000), 1, 333),
        k.gather((48, 77, 65), 1, 31),
        k.gather((21, 33, 129), 2, 64),
        k.gather((3000, 64), 0, 500, element="i8"),
        k.gather((700, 65), 0, 401, element="i32"),
        k.gather((800, 33), 0, 505, element="f64"),
        k.gather_elements((128, 500), 1, 100),
        k.gather_elements((301, 99), 0, 200),
        k.gather_elements((9, 65, 63), 1, 40),
    ]


def elementwise() -> list[Kernel]:
    return [
        k.elementwise("gelu", GELU, (64, 384)),
        k.elementwise("sigmoid", SIGMOID, (99, 255)),
        k.elementwise("tanh", "tanh a", (50, 333)),
        k.elementwise("silu", f"{SIGMOID}; mulf a, 5", (31, 1001)),
        k.elementwise("log_exp", "absf a; constant 1.0; addf 1, 2; log 3; exp 4", (64, 257)),
        k.elementwise("residual", "addf a, b" + k.RELU, (197, 768), (197, 768)),
        k.elementwise("bias", "addf a, b; mulf 1, c", (129, 515), (515,), (515,), dynamic=True),
        k.elementwise("normal", "absf a; sqrt 1; constant 0.5; addf 2, 3; divf a, 4", (99, 700)),
        k.elementwise("add", "addf a, b", (63, 999), (63, 999), element="f64"),
        k.elementwise("scale", "muli a, b; constant 7; addi 1, 2; constant 3; shrsi 3, 4", (128, 511), (511,), element="i32"),
        k.elementwise("divide", "constant 7; divsi a, 1; remsi a, 1; addi 2, 3", (127, 333), element="i32"),
        k.elementwise("xor", "xori a, b; addi 1, a", (256, 513), (256, 513), element="i8"),
        k.quantize((128, 385)),
        k.dequantize((99, 1023)),
        k.by_rows("scale", "mulf a, b", (300, 333)),
    ]


def layouts() -> list[Kernel]:
    nearest = "%two = arith.constant 2 : index; %w2 = arith.divui %i2, %two : index; %w3 = arith.divui %i3, %two : index"
    depth = "%two = arith.constant 2 : index; %h = arith.divui %i2, %two : index; %w = arith.divui %i3, %two : index; "
    depth += "%y = arith.remui %i2, %two : index; %x = arith.remui %i3, %two : index; %four = arith.constant 4 : index; "
    depth += "%c = arith.muli %i1, %four : index; %r = arith.muli %y, %two : index; %d = arith.addi %c, %r : index; %e = arith.addi %d, %x : index"
    mirror = "%last = arith.constant 332 : index; %m = arith.subi %last, %i1 : index"
    strided = "%three = arith.constant 3 : index; %j = arith.muli %i1, %three : index"
    return [
        k.transpose((384, 257), (1, 0)),
        k.transpose((1, 32, 56, 56), (0, 2, 3, 1)),
        k.transpose((1, 45, 47, 33), (0, 3, 1, 2)),
        k.transpose((128, 6, 64), (1, 0, 2)),
        k.transpose((333, 301), (1, 0), "i8"),
        k.border((1, 24, 55, 53), (0, 0, 1, 1)),
        k.border((63, 301), (3, 5)),
        k.indexed("nearest", (1, 16, 33, 35), (1, 16, 66, 70), ("%i0", "%i1", "%w2", "%w3"), nearest),
        k.indexed("depth_to_space", (1, 64, 28, 28), (1, 16, 56, 56), ("%i0", "%e", "%h", "%w"), depth),
        k.indexed("mirror", (201, 333), (201, 333), ("%i0", "%m"), mirror),
        k.indexed("strided", (128, 999), (128, 333), ("%i0", "%j"), strided),
        k.concatenate([(155, 130), (155, 77), (155, 33)], 1),
        k.concatenate([(8, 16, 28, 28), (8, 8, 28, 28)], 1),
    ]


def table() -> list[Kernel]:
    """All kernels, in the order of their families."""
    listed = [*products(), *convolutions(), *pooling(), *reductions(), *normalisations(), *gathers(), *elementwise(), *layouts()]
    names = [kernel.name for kernel in listed]
    assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)
    return listed
