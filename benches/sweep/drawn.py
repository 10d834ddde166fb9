"""Kernels that nobody chose: `drawn(seed, count, work)` draws families, layouts, element types and extents.

Extents are log-uniform from 1, half of them odd; an innermost one is from 1 to 7 as often as larger. `work` bounds the operations of a
kernel, so that what runs them slowly ends; extents shrink until it holds. The same seed draws the same kernels everywhere.
"""

from __future__ import annotations

import math
import random

import kernels as k
from kernels import Kernel
from mlir import Shape

FLOATS = ("f32", "f32", "f32", "f64")
INTEGERS = ("i32", "i32", "i64", "i8")
# What has a value everywhere between -1 and 1, and what has one above 0.
UNARY = ("absf", "cos", "erf", "exp", "exp2", "expm1", "negf", "sin", "tanh")
# These make a whole difference of a small one, so they take what is exact.
ROUNDING = ("ceil", "floor", "roundeven")
POSITIVE = ("log", "log2", "log1p", "rsqrt", "sqrt")
# The compiler has none of f64 for the host.
NOT_F64 = ("cos", "erf", "log2", "sin", "tanh")
BINARY = ("addf", "subf", "mulf", "maximumf", "minimumf")
INTEGER = ("addi", "subi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui", "minui")
# With a constant: other operands would divide by zero or shift by more than the width.
BY_CONSTANT = ("divsi", "remsi", "divui", "remui", "shli", "shrsi", "shrui")


class Draw:
    """What a kernel is drawn from."""

    def __init__(self, generator: random.Random, work: int) -> None:
        self.generator, self.work = generator, work

    def one(self, *choices):
        return self.generator.choice(choices)

    def often(self, share: float) -> bool:
        return self.generator.random() < share

    def extent(self, high: int) -> int:
        """Log-uniform from 1 to `high`, half of them odd."""
        parity = self.generator.randrange(2) if high > 1 else 1
        while True:
            value = min(high, int(math.exp(self.generator.random() * math.log(high + 1))))
            if value % 2 == parity:
                return value

    def innermost(self, high: int) -> int:
        """From 1 to 7 as often as larger."""
        if self.often(0.5):
            return self.generator.randint(1, 7)
        while True:
            value = self.extent(high)
            if value > 7:
                return value

    def shape(self, low: int, high: int, times: int = 1) -> Shape:
        """Between `low` and `high` axes, with room for `times` operations on each element."""
        extents = [self.extent(4096) for _ in range(self.generator.randint(low, high) - 1)]
        return tuple(self.fit([*extents, self.innermost(4096)], times))

    def fit(self, extents: list[int], times: int = 1) -> list[int]:
        """Halves the largest extent until the work holds."""
        while math.prod(extents) * times > self.work and max(extents) > 1:
            largest = extents.index(max(extents))
            extents[largest] //= 2
        return extents


def product(d: Draw) -> Kernel:
    m, n, inner, batch = d.fit([d.extent(512), d.innermost(512), d.extent(1024), d.extent(8)])
    element = d.one("f32", "f32", "f64", "i8", "i32")
    weights = element == "f32" and d.often(0.3)
    return k.product(d.one("nn", "nt", "tn", "tt"), m, n, inner, 0 if batch == 1 or weights else batch, weights, element, relu=weights and d.often(0.5))


def convolution(d: Draw) -> Kernel:
    layout, axes = d.one("nchw", "nhwc"), d.one(1, 2, 2, 2)
    size, stride, dilation = d.generator.randint(1, 5), d.one(1, 1, 2, 3), d.one(1, 1, 1, 2)
    depthwise = axes == 2 and d.often(0.25)
    # Rows are innermost, or channels.
    first = layout == "nchw"
    sides = [*(d.extent(64) for _ in range(axes - 1)), d.innermost(64) if first else d.extent(64)]
    depth, channels = (d.extent(128) if first or not depthwise else d.innermost(128)), (d.extent(128) if first else d.innermost(128))
    *sides, depth, channels, batch = d.fit([*sides, depth, 1 if depthwise else channels, d.extent(4)], size**axes)
    pad = None if size % 2 and d.often(0.5) else 0
    border = (dilation * (size - 1)) // 2 if pad is None else 0
    # The filter fits at least once.
    space = [max(side, dilation * (size - 1) + 1 - 2 * border) for side in sides]
    element = "f32" if depthwise or d.often(0.8) else "i8"
    return k.convolution(layout, batch, (*space, depth), depth if depthwise else channels, size, stride, pad, dilation, depthwise, element=element, relu=element == "f32" and d.often(0.3))


def pooling(d: Draw) -> Kernel:
    layout, size, kind = d.one("nchw", "nhwc"), d.generator.randint(1, 5), d.one("max", "mean")
    width, depth = (d.innermost(96), d.extent(256)) if layout == "nchw" else (d.extent(96), d.innermost(256))
    height, width, depth, batch = d.fit([d.extent(96), width, depth, d.extent(4)], size * size)
    image = (max(height, size), max(width, size), depth)
    return k.pooling(layout, kind, batch, image, size, d.generator.randint(1, 3), element="f32" if kind == "mean" or d.often(0.7) else "i8")


def reduction(d: Draw) -> Kernel:
    kind = d.one("sum", "max", "product", "squares", "mean")
    shape = d.shape(1, 4)
    axes = sorted(d.generator.sample(range(len(shape)), d.generator.randint(1, len(shape))))
    elements = ("f32",) if kind == "mean" else FLOATS if kind == "product" else (*FLOATS, "i32", *(["i8"] if kind == "max" else []))
    return k.reduction(kind, shape, axes, d.one(*elements))


def argmax(d: Draw) -> Kernel:
    shape = d.shape(1, 3)
    return k.argmax(shape, d.generator.randrange(len(shape)))


def softmax(d: Draw) -> Kernel:
    shape = d.shape(2, 4, 4)
    return k.softmax(shape, len(shape) - 1, masked=True) if d.often(0.3) else k.softmax(shape, d.generator.randrange(len(shape)))


def norm(d: Draw) -> Kernel:
    kind = d.one("layer", "rms", "batch", "instance")
    if kind == "layer":
        return k.layer_norm(d.shape(2, 2, 4))
    if kind == "rms":
        return k.rms_norm(d.shape(2, 2, 4))
    shape = d.shape(4, 4, 4)
    return k.batch_norm(shape) if kind == "batch" else k.instance_norm(shape)


def gather(d: Draw) -> Kernel:
    shape = d.shape(1, 3)
    axis = d.generator.randrange(len(shape))
    count = d.fit([d.extent(1024), *(extent for one, extent in enumerate(shape) if one != axis)])[0]
    if d.often(0.3):
        return k.gather_elements(shape, axis, count)
    return k.gather(shape, axis, count, d.one("f32", "f64", "i8", "i32"), d.one("i32", "i64"))


def formula(d: Draw, operands: str, element: str) -> str:
    """One to five steps on the operands, constants and what steps before made."""
    parts: list[str] = []

    def step(text: str) -> str:
        parts.append(text)
        return str(len(parts))

    def known(names: tuple[str, ...]) -> list[str]:
        return [one for one in names if element != "f64" or one not in NOT_F64]

    value = "a"
    for other in [*operands[1:], *[""] * d.generator.randint(0 if len(operands) > 1 else 1, 3)]:
        if element.startswith("f"):
            if other:
                value = step(f"{d.one(*BINARY)} {value}, {other}")
            elif d.often(0.3):
                value = step(f"absf {value}")
                value = step(f"addf {value}, {step('constant 0.25')}")
                value = step(f"{d.one(*known(POSITIVE))} {value}")
            else:
                # Without a bound, powers of powers pass what the type holds.
                value = step(f"minimumf {value}, {step('constant 2.0')}")
                is_exact = not any(one.split()[0] in UNARY + POSITIVE for one in parts)
                value = step(f"{d.one(*known(UNARY), *(ROUNDING if is_exact else ()))} {value}")
        elif other:
            value = step(f"{d.one(*INTEGER)} {value}, {other}")
        elif element == "i8":
            # Portable bytecode for shifts and divisions of narrow integers, as the compiler writes it, gives other numbers than its machine code.
            value = step(f"{d.one(*INTEGER)} {value}, {step(f'constant {d.generator.randint(1, 7)}')}")
        else:
            value = step(f"{d.one(*BY_CONSTANT)} {value}, {step(f'constant {d.generator.randint(1, 7)}')}")
    return "; ".join(parts)


def elementwise(d: Draw) -> Kernel:
    count, element = d.generator.randint(1, 3), d.one(*FLOATS, *INTEGERS)
    shape = d.shape(1, 4, 8)
    others = [shape[d.generator.randrange(len(shape)) :] if d.often(0.3) else shape for _ in range(count - 1)]
    text = formula(d, "abc"[:count], element)
    return k.elementwise("drawn", text, shape, *others, element=element)


def change(d: Draw) -> Kernel:
    kind = d.one("quantize", "dequantize", "rows")
    if kind == "rows":
        return k.by_rows("drawn", d.one("mulf a, b", "subf a, b; exp 1", "addf a, b; tanh 1"), d.shape(2, 3))
    return (k.quantize if kind == "quantize" else k.dequantize)(d.shape(1, 4))


def layout(d: Draw) -> Kernel:
    kind = d.one("transpose", "transpose", "border", "concatenate")
    if kind == "transpose":
        shape = d.shape(2, 4)
        order = list(range(len(shape)))
        d.generator.shuffle(order)
        return k.transpose(shape, order, d.one("f32", "f64", "i8", "i32"))
    shape = d.shape(1, 4)
    if kind == "border":
        return k.border(shape, [d.generator.randint(0, 3) for _ in shape])
    axis = d.generator.randrange(len(shape))
    parts = [shape, *(tuple(d.extent(32) if one == axis else extent for one, extent in enumerate(shape)) for _ in range(d.generator.randint(1, 3)))]
    return k.concatenate(parts, axis)


FAMILIES = (product, convolution, pooling, reduction, argmax, softmax, norm, gather, elementwise, elementwise, change, layout)


def drawn(seed: int, count: int, work: int) -> list[Kernel]:
    """`count` kernels with names of their own, of at most about `work` operations each."""
    listed: dict[str, Kernel] = {}
    generator = random.Random(seed)
    while len(listed) < count:
        kernel = generator.choice(FAMILIES)(Draw(generator, work))
        name = f"{kernel.name}_{len(listed)}"
        listed[name] = Kernel(kernel.family, name, kernel.inputs, kernel.text, kernel.element)
    return list(listed.values())
