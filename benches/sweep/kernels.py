"""Writers of the kernels of the sweep: each makes a function of one operation, as exporters write it, in MLIR.

A writer returns a `Kernel`; `table.py` calls them with shapes, `build.py` compiles what they wrote. Filters of convolutions, and matrices
that stand for weights, are constants of the module, which compilers may pack; everything else is an argument.
"""

from __future__ import annotations

import math
import pathlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
from mlir import Function, Module, Shape, Value, projection, steps, tensor_type  # noqa: E402

RELU = "; constant 0.0; maximumf 1, 2"
SMALLEST = {"f32": "0xFF800000", "f64": "0xFFF0000000000000", "i8": "-128", "i32": "-2147483648"}


@dataclass(frozen=True)
class Input:
    """An argument of a call. Integers are below `below`, and not negative if that is given."""

    shape: Shape
    element: str = "f32"
    below: int | None = None


@dataclass(frozen=True)
class Kernel:
    """A kernel of the sweep: `family` is what tables group by, `name` is unique."""

    family: str
    name: str
    inputs: tuple[Input, ...]
    text: str
    # Of the results.
    element: str = "f32"


def extents(*shape: object) -> str:
    return "x".join(map(str, shape))


def begin(*inputs: Input, dynamic: bool = False) -> Function:
    """A function whose first axis is only known at the call if it is `dynamic`."""
    shapes = [(("?", *one.shape[1:]) if dynamic and index == 0 else one.shape, one.element) for index, one in enumerate(inputs)]
    return Function(Module(), "main", shapes)


def end(f: Function, family: str, name: str, inputs: Sequence[Input], result: Value) -> Kernel:
    f.finish(result)
    suffix = "" if inputs[0].element == "f32" else f"_{inputs[0].element}"
    return Kernel(family, f"{family}_{name}{suffix}", tuple(inputs), f.module.text(), result.element)


def widened(element: str) -> str:
    """The type of sums of products."""
    return "i32" if element == "i8" else element


def multiply_add(element: str):
    """The body of a product: `o + a * b`."""
    if element == "i8":
        lines = ["%x = arith.extsi %a0 : i8 to i32", "%y = arith.extsi %a1 : i8 to i32"]
        lines += ["%p = arith.muli %x, %y : i32", "%s = arith.addi %out, %p : i32"]
        return lambda *_: (lines, "%s")
    kind = "f" if element.startswith("f") else "i"
    return lambda arguments, out: steps(f"mul{kind} a, b; add{kind} o, 1", arguments, out, element)


# Products.


def product(layout: str, m: int, n: int, k: int, batch: int = 0, weights: bool = False, element: str = "f32", dynamic: bool = False, relu: bool = False) -> Kernel:
    """A product of matrices, each as it is (`n`) or transposed (`t`): `nt` is `A * transpose(B)`. `weights`: the second one is constant."""
    lead = (batch,) if batch else ()
    a = Input((*lead, m, k) if layout[0] == "n" else (*lead, k, m), element)
    b = Input((*lead, k, n) if layout[1] == "n" else (*lead, n, k), element)
    inputs = (a,) if weights else (a, b)
    f = begin(*inputs, dynamic=dynamic)
    right = f.load(f.module.weight(*b.shape, scale=math.sqrt(3 / k))) if weights else f.inputs[1]
    loops = len(lead)
    row, column, inner = loops, loops + 1, loops + 2
    leading = list(range(loops))
    left_axes = [*leading, *((row, inner) if layout[0] == "n" else (inner, row))]
    right_axes = [*leading, *((inner, column) if layout[1] == "n" else (column, inner))]
    rows = f.inputs[0].shape[loops] if layout[0] == "n" else m
    out = f.filled((*f.inputs[0].shape[:loops], rows, n), 0, widened(element))
    x = f.generic([(f.inputs[0], left_axes), (right, right_axes)], out, [*leading, row, column], loops + 3, multiply_add(element))
    if relu:
        x = f.map("addf a, b" + RELU, x, f.module.weight(n, scale=0.1))
    marks = [f"b{batch}"] * bool(batch) + ["weights"] * weights + ["dynamic"] * dynamic + ["relu"] * relu
    return end(f, f"product_{layout}", "_".join([extents(m, n, k), *marks]), inputs, x)


# Convolutions and pooling.


def padded(f: Function, x: Value, sides: Sequence[int], value: str) -> Value:
    """With as much on both sides of each axis."""
    if not any(sides):
        return x
    scalar = f.op(f"arith.constant {value} : {x.element}", (), x.element)
    shape = tuple(extent if side == 0 else extent + 2 * side for extent, side in zip(x.shape, sides))
    result = Value(f.fresh(), shape, x.element)
    f.line(f"{result} = tensor.pad {x} low{list(sides)} high{list(sides)} {{")
    f.line(f"^bb0({', '.join(f'%p{axis}: index' for axis in range(len(sides)))}):")
    f.line(f"  tensor.yield {scalar} : {x.element}")
    f.line(f"}} : {x.type} to {result.type}")
    return result


def zero(element: str) -> str:
    return "0.0" if element.startswith("f") else "0"


def window(extent: int, size: int, stride: int, dilation: int = 1) -> int:
    """How many results there are along an axis."""
    return (extent - dilation * (size - 1) - 1) // stride + 1


def vectors(stride: int, dilation: int, axes: int = 2) -> str:
    return f"{{dilations = dense<{dilation}> : tensor<{axes}xi64>, strides = dense<{stride}> : tensor<{axes}xi64>}}"


def convolution(
    layout: str,
    batch: int,
    image: tuple[int, ...],
    channels: int,
    size: int,
    stride: int = 1,
    pad: int | None = None,
    dilation: int = 1,
    depthwise: bool = False,
    groups: int = 1,
    element: str = "f32",
    relu: bool = False,
    dynamic: bool = False,
) -> Kernel:
    """A convolution in `nchw` or `nhwc`; `image` is the extents without channels and then the channels. Padded by half a filter unless
    `pad` says otherwise. An image of one axis is a sequence."""
    *space, depth = image
    first = layout == "nchw"
    pad = (dilation * (size - 1)) // 2 if pad is None else pad
    inputs = (Input((batch, depth, *space) if first else (batch, *space, depth), element),)
    axes, sizes = len(space), (size,) * len(space)
    lead = (0, 0) if first else (0,)
    if depthwise:
        filters = (depth, *sizes) if first else (*sizes, depth)
        name = f"depthwise_conv_{axes}d_" + ("nchw_chw" if first else "nhwc_hwc")
    elif groups > 1:
        filters = (groups, channels // groups, depth // groups, *sizes)
        name = "conv_2d_ngchw_gfchw"
    elif axes == 1:
        filters = (channels, depth, size) if first else (size, depth, channels)
        name = "conv_1d_ncw_fcw" if first else "conv_1d_nwc_wcf"
    else:
        filters = (channels, depth, *sizes) if first else (*sizes, depth, channels)
        name = "conv_2d_nchw_fchw" if first else "conv_2d_nhwc_hwcf"
    if element != "f32":
        inputs += (Input(filters, element),)
    f = begin(*inputs, dynamic=dynamic)
    fan_in = size**axes * (1 if depthwise else depth // groups)
    weights = f.load(f.module.weight(*filters, scale=math.sqrt(3 / fan_in))) if element == "f32" else f.inputs[1]
    x = padded(f, f.inputs[0], [*lead, *[pad] * axes, *([] if first else [0])], zero(element))
    count = x.shape[0]
    spatial = [window(extent + 2 * pad, size, stride, dilation) for extent in space]
    shape = (count, channels, *spatial) if first else (count, *spatial, channels)
    if groups > 1:
        inside = (count, groups, depth // groups, *x.shape[2:])
        parts = [[0], [1, 2], [3], [4]]
        x = f.op(f"tensor.expand_shape {x} {parts} output_shape {list(inside)} : {x.type} into {tensor_type(inside, element)}", inside, element)
        shape = (count, groups, channels // groups, *spatial)
    out = f.filled(shape, 0, widened(element))
    operands = f"ins({x}, {weights} : {x.type}, {weights.type}) outs({out} : {out.type}) -> {out.type}"
    x = f.op(f"linalg.{name} {vectors(stride, dilation, axes)} {operands}", shape, out.element)
    if relu:
        x = f.map_channels("addf a, b" + RELU, x, channels=f.module.weight(channels, scale=0.1), axis=1 if first else len(shape) - 1)
    marks = [f"{size}" if axes == 1 else f"{size}x{size}"]
    marks += [f"stride{stride}"] * (stride > 1) + [f"dilation{dilation}"] * (dilation > 1) + ["depthwise"] * depthwise
    marks += [f"groups{groups}"] * (groups > 1) + ["border"] * bool(pad) + ["relu"] * relu + ["dynamic"] * dynamic
    label = extents(batch, depth, *space) if first else extents(batch, *space, depth)
    return end(f, f"conv_{layout}", "_".join([label, f"to{channels}", *marks]), inputs, x)


def pooling(layout: str, kind: str, batch: int, image: tuple[int, int, int], size: int, stride: int, pad: int = 0, element: str = "f32") -> Kernel:
    """The largest element of each window, or the mean (`kind` is `max` or `mean`)."""
    height, width, depth = image
    first = layout == "nchw"
    inputs = (Input((batch, depth, height, width) if first else (batch, height, width, depth), element),)
    f = begin(*inputs)
    start = SMALLEST[element] if kind == "max" else zero(element)
    x = padded(f, f.inputs[0], [0, 0, pad, pad] if first else [0, pad, pad, 0], start)
    spatial = [window(extent + 2 * pad, size, stride) for extent in (height, width)]
    shape = (batch, depth, *spatial) if first else (batch, *spatial, depth)
    out = f.filled(shape, start, element)
    frame = f.op(f"tensor.empty() : tensor<{size}x{size}x{element}>", (size, size), element)
    name = f"pooling_{layout}_{'max' if kind == 'max' else 'sum'}"
    operands = f"ins({x}, {frame} : {x.type}, {frame.type}) outs({out} : {out.type}) -> {out.type}"
    x = f.op(f"linalg.{name} {vectors(stride, 1)} {operands}", shape, element)
    if kind == "mean":
        x = f.map(f"constant {1 / size**2:.9e}; mulf a, 1", x)
    label = f"{kind}_{extents(*inputs[0].shape)}_{size}x{size}_stride{stride}{'_border' if pad else ''}"
    return end(f, f"pool_{layout}", label, inputs, x)


# Reductions and normalisations.

FOLDS = {
    "sum": ("addf a, o", "addi a, o"),
    "max": ("maximumf a, o", "maxsi a, o"),
    "product": ("mulf a, o", "muli a, o"),
    "squares": ("mulf a, a; addf 1, o", "muli a, a; addi 1, o"),
}


def reduction(kind: str, shape: Shape, axes: Sequence[int], element: str = "f32", dynamic: bool = False) -> Kernel:
    """Folds some axes: `sum`, `max`, `product`, `squares` or `mean`."""
    inputs = (Input(shape, element),)
    f = begin(*inputs, dynamic=dynamic)
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    fold = "sum" if kind == "mean" else kind
    start = {"max": SMALLEST.get(element), "product": 1}.get(fold, 0)
    x = f.inputs[0]
    out = f.filled(tuple(x.shape[axis] for axis in kept), start, element)
    formula = FOLDS[fold][0 if element.startswith("f") else 1]
    x = f.generic([(x, range(len(shape)))], out, kept, len(shape), lambda arguments, out: steps(formula, arguments, out, element))
    if kind == "mean":
        x = f.map(f"constant {1 / math.prod(shape[axis] for axis in axes):.9e}; mulf a, 1", x)
    label = f"{kind}_{extents(*shape)}_axis{''.join(map(str, axes))}{'_dynamic' if dynamic else ''}"
    return end(f, "reduction", label, inputs, x)


def argmax(shape: Shape, axis: int) -> Kernel:
    """The index of the largest element along an axis."""
    inputs = (Input(shape),)
    f = begin(*inputs)
    rank, kept = len(shape), [one for one in range(len(shape)) if one != axis]
    rest = tuple(shape[one] for one in kept)
    best, where = f.filled(rest, SMALLEST["f32"]), f.filled(rest, 0, "i32")
    maps = f"[{projection(rank, range(rank))}, {projection(rank, kept)}, {projection(rank, kept)}]"
    kinds = ", ".join('"parallel"' if one in kept else '"reduction"' for one in range(rank))
    both = f.fresh()
    f.line(f"{both}:2 = linalg.generic {{indexing_maps = {maps}, iterator_types = [{kinds}]}} ins({f.inputs[0]} : {f.inputs[0].type})")
    f.line(f"    outs({best}, {where} : {best.type}, {where.type}) {{")
    f.line("^bb0(%a: f32, %most: f32, %at: i32):")
    f.line(f"  %i = linalg.index {axis} : index")
    f.line("  %here = arith.index_cast %i : index to i32")
    f.line("  %more = arith.cmpf ogt, %a, %most : f32")
    f.line("  %next = arith.select %more, %a, %most : f32")
    f.line("  %index = arith.select %more, %here, %at : i32")
    f.line("  linalg.yield %next, %index : f32, i32")
    f.line(f"}} -> ({best.type}, {where.type})")
    return end(f, "reduction", f"argmax_{extents(*shape)}_axis{axis}", inputs, Value(f"{both}#1", rest, "i32"))


def softmax(shape: Shape, axis: int, dynamic: bool = False, masked: bool = False) -> Kernel:
    """Along an axis; `masked` adds a mask that all leading axes share first, as attention does."""
    inputs = (Input(shape), *([Input(shape[-2:])] if masked else []))
    f = begin(*inputs, dynamic=dynamic)
    x = f.map("constant 0.125; mulf a, 1; addf 2, b", *f.inputs) if masked else f.inputs[0]
    out = f.empty(x.shape)
    x = f.op(f"linalg.softmax dimension({axis}) ins({x} : {x.type}) outs({out} : {x.type}) -> {x.type}", x.shape)
    label = f"{extents(*shape)}_axis{axis}{'_masked' if masked else ''}{'_dynamic' if dynamic else ''}"
    return end(f, "softmax", label, inputs, x)


def layer_norm(shape: Shape, dynamic: bool = False) -> Kernel:
    inputs = (Input(shape),)
    f = begin(*inputs, dynamic=dynamic)
    return end(f, "norm", f"layer_{extents(*shape)}{'_dynamic' if dynamic else ''}", inputs, f.layer_norm(f.inputs[0]))


def rms_norm(shape: Shape) -> Kernel:
    inputs = (Input(shape),)
    f = begin(*inputs)
    squares = f.reduce("mulf a, a; addf 1, o", 0.0, f.inputs[0])
    formula = f"constant {1 / shape[-1]:.9e}; mulf b, 1; constant 1e-5; addf 2, 3; rsqrt 4; mulf a, 5; mulf 6, c"
    x = f.map_rows(formula, f.inputs[0], f.module.weight(shape[-1], scale=0.1, offset=1.0), rows=[squares])
    return end(f, "norm", f"rms_{extents(*shape)}", inputs, x)


def batch_norm(shape: Shape) -> Kernel:
    """With statistics that are known, over channels in the second axis, and a ReLU."""
    inputs = (Input(shape), *(Input((shape[1],)) for _ in range(2)))
    f = begin(*inputs)
    out = f.empty(shape)
    operands = [(f.inputs[0], range(len(shape))), *((one, [1]) for one in f.inputs[1:])]
    formula = "mulf a, b; addf 1, c; constant 0.0; maximumf 2, 3"
    x = f.generic(operands, out, range(len(shape)), len(shape), lambda arguments, _: steps(formula, arguments))
    return end(f, "norm", f"batch_{extents(*shape)}", inputs, x)


def instance_norm(shape: Shape) -> Kernel:
    """Of each channel of each image, over rows and columns."""
    inputs = (Input(shape),)
    f = begin(*inputs)
    x, count = f.inputs[0], shape[2] * shape[3]
    mean = f.map(f"constant {1 / count:.9e}; mulf a, 1", f.reduce("addf a, o", 0.0, x, axes=2))
    out = f.filled(shape[:2], 0.0)
    spread = lambda arguments, out: steps("subf a, b; mulf 1, 1; addf 2, o", arguments, out)
    squares = f.generic([(x, range(4)), (mean, range(2))], out, range(2), 4, spread)
    formula = f"constant {1 / count:.9e}; mulf c, 1; constant 1e-5; addf 2, 3; rsqrt 4; subf a, b; mulf 6, 5"
    operands = [(x, range(4)), (mean, range(2)), (squares, range(2))]
    x = f.generic(operands, f.empty(shape), range(4), 4, lambda arguments, _: steps(formula, arguments))
    return end(f, "norm", f"instance_{extents(*shape)}", inputs, x)


# Gathers.


def gather(shape: Shape, axis: int, count: int, element: str = "f32", index: str = "i32") -> Kernel:
    """Slices of a tensor along an axis, in the order of a list of indices: with axis 0 an embedding."""
    inputs = (Input(shape, element), Input((count,), index, shape[axis]))
    f = begin(*inputs)
    result = tuple(count if one == axis else extent for one, extent in enumerate(shape))
    lines = [f"%at = arith.index_cast %a0 : {index} to index"]
    lines += [f"%i{one} = linalg.index {one} : index" for one in range(len(shape)) if one != axis]
    where = ", ".join("%at" if one == axis else f"%i{one}" for one in range(len(shape)))
    lines.append(f"%element = tensor.extract {f.inputs[0]}[{where}] : {f.inputs[0].type}")
    out = f.empty(result, element)
    x = f.generic([(f.inputs[1], [axis])], out, range(len(shape)), len(shape), lambda *_: (lines, "%element"))
    label = f"{extents(*shape)}_axis{axis}_{count}{'' if index == 'i32' else f'_by_{index}'}"
    return end(f, "gather", label, inputs, x)


def gather_elements(shape: Shape, axis: int, count: int) -> Kernel:
    """An index of its own for each result."""
    result = tuple(count if one == axis else extent for one, extent in enumerate(shape))
    inputs = (Input(shape), Input(result, "i32", shape[axis]))
    f = begin(*inputs)
    lines = ["%at = arith.index_cast %a0 : i32 to index"]
    lines += [f"%i{one} = linalg.index {one} : index" for one in range(len(shape)) if one != axis]
    where = ", ".join("%at" if one == axis else f"%i{one}" for one in range(len(shape)))
    lines.append(f"%element = tensor.extract {f.inputs[0]}[{where}] : {f.inputs[0].type}")
    rank = len(shape)
    x = f.generic([(f.inputs[1], range(rank))], f.empty(result), range(rank), rank, lambda *_: (lines, "%element"))
    return end(f, "gather", f"elements_{extents(*shape)}_axis{axis}_{count}", inputs, x)


# What is done with each element, and what only moves elements.


def elementwise(name: str, formula: str, *shapes: Shape, element: str = "f32", dynamic: bool = False) -> Kernel:
    """A formula over operands, those of lower rank repeated along the leading axes."""
    inputs = tuple(Input(shape, element) for shape in shapes)
    f = begin(*inputs, dynamic=dynamic)
    x = f.map(formula, *f.inputs, element=element)
    label = "_".join([name, *(extents(*shape) for shape in shapes), *["dynamic"] * dynamic])
    return end(f, "elementwise", label, inputs, x)


def cast(name: str, shape: Shape, source: str, result: str, lines: Sequence[str]) -> Kernel:
    """One operand `%a0` of another type than the result `%r`."""
    inputs = (Input(shape, source),)
    f = begin(*inputs)
    rank = len(shape)
    x = f.generic([(f.inputs[0], range(rank))], f.empty(shape, result), range(rank), rank, lambda *_: (list(lines), "%r"))
    return end(f, "elementwise", f"{name}_{extents(*shape)}", inputs, x)


def quantize(shape: Shape) -> Kernel:
    lines = ["%s = arith.constant 127.0 : f32", "%h = arith.constant -128.0 : f32", "%m = arith.mulf %a0, %s : f32"]
    lines += ["%n = math.roundeven %m : f32", "%c = arith.maximumf %n, %h : f32", "%d = arith.minimumf %c, %s : f32"]
    return cast("quantize", shape, "f32", "i8", [*lines, "%r = arith.fptosi %d : f32 to i8"])


def dequantize(shape: Shape) -> Kernel:
    lines = ["%s = arith.constant 0.0078125 : f32", "%w = arith.extsi %a0 : i8 to i32", "%z = arith.constant 3 : i32"]
    lines += ["%o = arith.subi %w, %z : i32", "%f = arith.sitofp %o : i32 to f32", "%r = arith.mulf %f, %s : f32"]
    return cast("dequantize", shape, "i8", "f32", lines)


def by_rows(name: str, formula: str, shape: Shape) -> Kernel:
    """With a number for each row."""
    inputs = (Input(shape), Input(shape[:-1]))
    f = begin(*inputs)
    return end(f, "elementwise", f"{name}_{extents(*shape)}_by_row", inputs, f.map_rows(formula, f.inputs[0], rows=[f.inputs[1]]))


def transpose(shape: Shape, order: Sequence[int], element: str = "f32") -> Kernel:
    inputs = (Input(shape, element),)
    f = begin(*inputs)
    return end(f, "layout", f"transpose_{extents(*shape)}_to{''.join(map(str, order))}", inputs, f.transpose(f.inputs[0], order))


def border(shape: Shape, sides: Sequence[int]) -> Kernel:
    inputs = (Input(shape),)
    f = begin(*inputs)
    return end(f, "layout", f"pad_{extents(*shape)}_by{extents(*sides)}", inputs, padded(f, f.inputs[0], sides, "0.0"))


def indexed(name: str, shape: Shape, result: Shape, where: Sequence[str], text: str, element: str = "f32") -> Kernel:
    """Elements from where index arithmetic says: `text` computes `%w0`, `%w1`, ... from `%i0`, `%i1`, ..., in steps separated by
    semicolons, and `where` has an index for each axis."""
    inputs = (Input(shape, element),)
    f = begin(*inputs)
    lines = [f"%i{axis} = linalg.index {axis} : index" for axis in range(len(result))]
    lines += [line.strip() for line in text.split(";") if line.strip()]
    lines.append(f"%element = tensor.extract {f.inputs[0]}[{', '.join(where)}] : {f.inputs[0].type}")
    x = f.generic([], f.empty(result, element), range(len(result)), len(result), lambda *_: (lines, "%element"))
    return end(f, "layout", f"{name}_{extents(*shape)}", inputs, x)


def concatenate(shapes: Sequence[Shape], axis: int) -> Kernel:
    inputs = tuple(Input(shape) for shape in shapes)
    f = begin(*inputs)
    total = sum(shape[axis] for shape in shapes)
    result = tuple(total if one == axis else extent for one, extent in enumerate(shapes[0]))
    names, kinds = ", ".join(map(str, f.inputs)), ", ".join(one.type for one in f.inputs)
    x = f.op(f"tensor.concat dim({axis}) {names} : ({kinds}) -> {tensor_type(result, 'f32')}", result)
    return end(f, "layout", f"concat_{'_'.join(extents(*shape) for shape in shapes)}_axis{axis}", inputs, x)
