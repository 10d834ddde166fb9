"""Writes MLIR of the linalg dialect: a module with weights, and functions made of the operations that networks need.

Shapes are static, but for a batch of any size: its extent is `?` wherever it occurs. A value knows its shape and its element type, so that
calls read like those of an array library; each call appends text. Only what `networks.py` and the sweep use is here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

Shape = tuple[int, ...]
# An extent that is known at the call: that of the first axis of the first argument.
BATCH = "?"


def tensor_type(shape: Shape, element: str) -> str:
    return f"tensor<{''.join(f'{extent}x' for extent in shape)}{element}>"


@dataclass(frozen=True)
class Value:
    """A tensor, or a scalar that the text of an operation may name."""

    name: str
    shape: Shape
    element: str = "f32"

    @property
    def type(self) -> str:
        return tensor_type(self.shape, self.element)

    def __str__(self) -> str:
        return self.name


def projection(rank: int, kept: Sequence[int]) -> str:
    """The affine map that keeps some of the loops."""
    loops = [f"d{index}" for index in range(rank)]
    return f"affine_map<({', '.join(loops)}) -> ({', '.join(loops[index] for index in kept)})>"


class Module:
    """The module: weights and functions."""

    def __init__(self) -> None:
        self.globals: list[str] = []
        self.functions: list[str] = []
        self.parameters: list[Value] = []
        self.bytes = 0

    def weight(self, *shape: int, scale: float | None = None, offset: float = 0.0) -> Value:
        """A tensor of numbers that look random: evenly spread over `offset` plus or minus `scale`.

        By default the scale keeps the variance of what goes through a matrix or a filter. The numbers are hashes of their indices. The
        compiler evaluates the initializer, so they become data of the module, packed as the kernels want them.
        """
        name = f"@weight{len(self.globals)}"
        if scale is None:
            scale = math.sqrt(3.0 / max(1, math.prod(shape[:-1])))
        kind, rank = tensor_type(shape, "f32"), len(shape)
        lines = [f"util.global private {name} : {kind}", "util.initializer {"]
        lines += [f"  %empty = tensor.empty() : {kind}", f"  %scale = arith.constant {scale / 32768.0:.9e} : f32"]
        lines += [f"  %offset = arith.constant {offset:.9e} : f32", f"  %seed = arith.constant {hash32(len(self.globals))} : i32"]
        lines += [f"  %{label} = arith.constant {value} : i32" for label, value in HASH.items()]
        loops = ", ".join(['"parallel"'] * rank)
        maps = projection(rank, range(rank))
        lines.append(f"  %value = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{loops}]}} outs(%empty : {kind}) {{")
        lines += ["  ^bb0(%out: f32):", "    %n0 = arith.constant 0 : index"]
        for axis, extent in enumerate(shape):
            lines += [f"    %i{axis} = linalg.index {axis} : index", f"    %e{axis} = arith.constant {extent} : index"]
            lines += [f"    %m{axis} = arith.muli %n{axis}, %e{axis} : index", f"    %n{axis + 1} = arith.addi %m{axis}, %i{axis} : index"]
        lines += [f"    %n = arith.index_cast %n{rank} : index to i32", "    %h0 = arith.muli %n, %first : i32"]
        lines += ["    %h1 = arith.addi %h0, %seed : i32", "    %h2 = arith.shrui %h1, %shift : i32"]
        lines += ["    %h3 = arith.xori %h1, %h2 : i32", "    %h4 = arith.muli %h3, %second : i32"]
        lines += ["    %h5 = arith.shrsi %h4, %half : i32", "    %f = arith.sitofp %h5 : i32 to f32"]
        lines += ["    %g = arith.mulf %f, %scale : f32", "    %v = arith.addf %g, %offset : f32", "    linalg.yield %v : f32"]
        lines += [f"  }} -> {kind}", f"  util.global.store %value, {name} : {kind}", "  util.return", "}"]
        self.globals.append("\n".join(lines))
        self.bytes += 4 * math.prod(shape)
        return Value(name, shape)

    def parameter(self, *shape: int) -> Value:
        """A tensor that is in a file of its own, in the scope `model` by the name of its global."""
        name = f"@weight{len(self.globals)}"
        kind = tensor_type(shape, "f32")
        self.globals.append(f'util.global private {name} = #flow.parameter.named<"model"::"{name[1:]}"> : {kind}')
        self.parameters.append(Value(name, shape))
        self.bytes += 4 * math.prod(shape)
        return self.parameters[-1]

    def text(self) -> str:
        return "\n\n".join([*self.globals, *self.functions]) + "\n"


HASH = {"first": -1640531535, "shift": 15, "second": 739982445, "half": 16}


def hash32(number: int) -> int:
    """A seed for a number, as a signed 32-bit integer."""
    mixed = (number + 1) * 2246822519 & 0xFFFFFFFF
    return mixed - (1 << 32) if mixed >= 1 << 31 else mixed


class Function:
    """A function that is being written."""

    def __init__(self, module: Module, name: str, inputs: Sequence[tuple[Shape, str]]) -> None:
        self.module, self.name = module, name
        self.lines: list[str] = []
        self.count = 0
        self.inputs = [Value(f"%input{index}", shape, element) for index, (shape, element) in enumerate(inputs)]
        self.indent = "  "
        # Whether the extent of the batch has a name already.
        self.sized = False

    # Text.

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def op(self, text: str, shape: Shape, element: str = "f32") -> Value:
        value = Value(self.fresh(), shape, element)
        self.line(f"{value} = {text}")
        return value

    def finish(self, *results: Value) -> None:
        inputs = ", ".join(f"{value}: {value.type}" for value in self.inputs)
        kinds = ", ".join(value.type for value in results)
        self.line(f"return {', '.join(map(str, results))} : {kinds}")
        body = "\n".join(self.lines)
        self.module.functions.append(f"func.func @{self.name}({inputs}) -> ({kinds}) {{\n{body}\n}}")

    # Values.

    def constant(self, value: float | int, element: str = "f32") -> Value:
        text = f"{value:.9e}" if element.startswith("f") else str(value)
        return self.op(f"arith.constant {text} : {element}", (), element)

    def load(self, weight: Value) -> Value:
        """Weights are used like other values: those with an `@` are loaded first."""
        if not weight.name.startswith("@"):
            return weight
        return self.op(f"util.global.load {weight} : {weight.type}", weight.shape)

    def empty(self, shape: Shape, element: str = "f32") -> Value:
        if BATCH in shape and not self.sized:
            # Before everything else, so that it is known in loops and after them.
            self.sized = True
            first = self.inputs[0]
            self.lines[:0] = ["  %first = arith.constant 0 : index", f"  %batch = tensor.dim {first}, %first : {first.type}"]
        sizes = ", ".join("%batch" for extent in shape if extent == BATCH)
        return self.op(f"tensor.empty({sizes}) : {tensor_type(shape, element)}", shape, element)

    def filled(self, shape: Shape, value: float | int | str, element: str = "f32") -> Value:
        """A value given as text is written as it is."""
        scalar = self.op(f"arith.constant {value} : {element}", (), element) if isinstance(value, str) else self.constant(value, element)
        empty = self.empty(shape, element)
        return self.op(f"linalg.fill ins({scalar} : {element}) outs({empty} : {empty.type}) -> {empty.type}", shape, element)

    def generic(
        self,
        inputs: Sequence[tuple[Value, Sequence[int]]],
        out: Value,
        kept: Sequence[int],
        rank: int,
        body: Callable[[list[str], str], tuple[list[str], str]],
    ) -> Value:
        """`linalg.generic`: each input with the loops that index it, the output with the loops that it keeps."""
        maps = ", ".join([*(projection(rank, loops) for _, loops in inputs), projection(rank, kept)])
        kinds = ", ".join('"parallel"' if loop in kept else '"reduction"' for loop in range(rank))
        arguments = [f"%a{index}" for index in range(len(inputs))]
        ins = f"ins({', '.join(str(v) for v, _ in inputs)} : {', '.join(v.type for v, _ in inputs)}) " if inputs else ""
        value = Value(self.fresh(), out.shape, out.element)
        head = f"{value} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} {ins}outs({out} : {out.type}) {{"
        self.line(head)
        typed = [f"{argument}: {operand.element}" for argument, (operand, _) in zip(arguments, inputs)]
        self.line(f"^bb0({', '.join([*typed, f'%out: {out.element}'])}):")
        lines, result = body(arguments, "%out")
        for line in lines:
            self.line("  " + line)
        self.line(f"  linalg.yield {result} : {out.element}")
        self.line(f"}} -> {out.type}")
        return value

    # Elementwise and reductions.

    def map(self, formula: str, *operands: Value, shape: Shape | None = None, element: str = "f32") -> Value:
        """Computes a formula for each element: steps separated by semicolons, where `a`, `b`, ... are the operands and `1`, `2`, ... the
        results of earlier steps, as in `mulf a, b; addf 1, c`. Operands of lower rank are repeated along the leading axes."""
        operands = tuple(self.load(operand) for operand in operands)
        shape = shape or max((operand.shape for operand in operands), key=len)
        rank = len(shape)
        inputs = [(operand, range(rank - len(operand.shape), rank)) for operand in operands]
        body = lambda arguments, out: steps(formula, arguments, out, element)
        return self.generic(inputs, self.empty(shape, element), range(rank), rank, body)

    def map_rows(self, formula: str, operand: Value, *columns: Value, rows: Sequence[Value] = ()) -> Value:
        """The same over a matrix, with operands that hold a number for each row (`rows`, named first after the matrix) or column."""
        columns = tuple(self.load(column) for column in columns)
        rank = len(operand.shape)
        empty = self.empty(operand.shape)
        inputs = [(operand, range(rank)), *((row, range(rank - 1)) for row in rows), *((column, [rank - 1]) for column in columns)]
        return self.generic(inputs, empty, range(rank), rank, lambda arguments, _: steps(formula, arguments))

    def reduce(self, formula: str, start: float, *operands: Value, axes: int = 1) -> Value:
        """Folds the last axes, where `o` is what was folded so far. Operands of the folded rank hold a number for each result."""
        shape, rank = operands[0].shape, len(operands[0].shape)
        kept = range(rank - axes)
        out = self.filled(shape[: rank - axes], start)
        inputs = [(operand, range(len(operand.shape))) for operand in operands]
        return self.generic(inputs, out, kept, rank, lambda arguments, out: steps(formula, arguments, out))

    def layer_norm(self, x: Value) -> Value:
        """Normalises rows, then scales and shifts them with new weights."""
        width = x.shape[-1]
        gain, bias = self.module.weight(width, scale=0.1, offset=1.0), self.module.weight(width, scale=0.1)
        mean = self.reduce("addf a, o", 0.0, x)
        mean = self.map(f"constant {1 / width:.9e}; mulf a, 1", mean)
        variance = self.reduce("subf a, b; mulf 1, 1; addf 2, o", 0.0, x, mean)
        formula = f"constant {1 / width:.9e}; mulf c, 1; constant 1e-5; addf 2, 3; rsqrt 4; subf a, b; mulf 6, 5; mulf 7, d; addf 8, e"
        return self.map_rows(formula, x, gain, bias, rows=[mean, variance])

    def softmax(self, x: Value) -> Value:
        """Over the last axis."""
        empty = self.empty(x.shape)
        return self.op(f"linalg.softmax dimension({len(x.shape) - 1}) ins({x} : {x.type}) outs({empty} : {x.type}) -> {x.type}", x.shape)

    # Products.

    def contraction(self, name: str, a: Value, b: Value, shape: Shape) -> Value:
        a, b = self.load(a), self.load(b)
        out = self.filled(shape, 0.0)
        return self.op(f"linalg.{name} ins({a}, {b} : {a.type}, {b.type}) outs({out} : {out.type}) -> {out.type}", shape)

    def matmul(self, a: Value, b: Value) -> Value:
        return self.contraction("matmul", a, b, (a.shape[0], b.shape[1]))

    def batch_matmul(self, a: Value, b: Value) -> Value:
        return self.contraction("batch_matmul", a, b, (a.shape[0], a.shape[1], b.shape[2]))

    def dense(self, x: Value, width: int, activation: str = "") -> Value:
        """A matrix and a bias, both new, and steps that continue with `1`."""
        product = self.matmul(x, self.module.weight(x.shape[1], width))
        return self.map("addf a, b" + activation, product, self.module.weight(width, scale=0.1))

    def linear(self, x: Value, width: int, activation: str = "") -> Value:
        """The same with the matrix as PyTorch and ONNX (`transB`) keep it: a row of weights for each output."""
        weight = self.load(self.module.weight(width, x.shape[1], scale=math.sqrt(3.0 / x.shape[1])))
        out = self.filled((x.shape[0], width), 0.0)
        body = lambda arguments, out: steps("mulf a, b; addf o, 1", arguments, out)
        product = self.generic([(x, [0, 2]), (weight, [1, 2])], out, [0, 1], 3, body)
        return self.map("addf a, b" + activation, product, self.module.weight(width, scale=0.1))

    def convolution_nchw(self, x: Value, channels: int, size: int, stride: int = 1, depthwise: bool = False) -> Value:
        """Over an image of channels, rows and columns, padded by half a filter on each side as PyTorch does."""
        batch, depth, height, width = x.shape
        pad = size // 2
        if pad:
            zero = self.constant(0.0)
            padded = Value(self.fresh(), (batch, depth, height + 2 * pad, width + 2 * pad))
            self.line(f"{padded} = tensor.pad {x} low[0, 0, {pad}, {pad}] high[0, 0, {pad}, {pad}] {{")
            self.line("^bb0(%p0: index, %p1: index, %p2: index, %p3: index):")
            self.line(f"  tensor.yield {zero} : f32")
            self.line(f"}} : {x.type} to {padded.type}")
            x = padded
        fan_in = size * size * (1 if depthwise else depth)
        shape = (depth, size, size) if depthwise else (channels, depth, size, size)
        filters = self.load(self.module.weight(*shape, scale=math.sqrt(3.0 / fan_in)))
        out = self.filled((batch, channels, (height - 1) // stride + 1, (width - 1) // stride + 1), 0.0)
        attributes = f"{{dilations = dense<1> : tensor<2xi64>, strides = dense<{stride}> : tensor<2xi64>}}"
        operands = f"ins({x}, {filters} : {x.type}, {filters.type}) outs({out} : {out.type}) -> {out.type}"
        name = "depthwise_conv_2d_nchw_chw" if depthwise else "conv_2d_nchw_fchw"
        return self.op(f"linalg.{name} {attributes} {operands}", out.shape)

    def map_channels(self, formula: str, *images: Value, channels: Value, axis: int = 1) -> Value:
        """Computes a formula for each element of images, with a number for each channel as the last operand."""
        channels, shape = self.load(channels), images[0].shape
        rank = len(shape)
        inputs = [*((image, range(rank)) for image in images), (channels, [axis])]
        return self.generic(inputs, self.empty(shape), range(rank), rank, lambda arguments, _: steps(formula, arguments))

    def convolution(self, x: Value, channels: int, size: int, stride: int = 1) -> Value:
        """Over an image of rows, columns and channels that keeps its extents (divided by the stride), with new filters and bias."""
        _, height, width, depth = x.shape
        pads = [max(0, (extent - 1) // stride * stride + size - extent) for extent in (height, width)]
        if any(pads):
            low, high = [pad // 2 for pad in pads], [pad - pad // 2 for pad in pads]
            shape = (1, height + pads[0], width + pads[1], depth)
            zero = self.constant(0.0)
            padded = Value(self.fresh(), shape)
            self.line(f"{padded} = tensor.pad {x} low[0, {low[0]}, {low[1]}, 0] high[0, {high[0]}, {high[1]}, 0] {{")
            self.line("^bb0(%p0: index, %p1: index, %p2: index, %p3: index):")
            self.line(f"  tensor.yield {zero} : f32")
            self.line(f"}} : {x.type} to {padded.type}")
            x = padded
        filters = self.load(self.module.weight(size, size, depth, channels))
        out = self.filled((1, -(-height // stride), -(-width // stride), channels), 0.0)
        attributes = f"{{dilations = dense<1> : tensor<2xi64>, strides = dense<{stride}> : tensor<2xi64>}}"
        operands = f"ins({x}, {filters} : {x.type}, {filters.type}) outs({out} : {out.type}) -> {out.type}"
        return self.op(f"linalg.conv_2d_nhwc_hwcf {attributes} {operands}", out.shape)

    # Shapes.

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        shape = tuple(x.shape[axis] for axis in order)
        empty = self.empty(shape, x.element)
        text = f"linalg.transpose ins({x} : {x.type}) outs({empty} : {empty.type}) permutation = [{', '.join(map(str, order))}]"
        return self.op(text, shape, x.element)

    def split(self, x: Value, axis: int, parts: int) -> Value:
        """Splits an axis into two, the first of `parts`."""
        shape = (*x.shape[:axis], parts, x.shape[axis] // parts, *x.shape[axis + 1 :])
        groups = self.groups(len(x.shape), axis)
        return self.op(f"tensor.expand_shape {x} {groups} output_shape {list(shape)} : {x.type} into {tensor_type(shape, x.element)}", shape)

    def join(self, x: Value, axis: int) -> Value:
        """Joins an axis and the next one."""
        shape = (*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :])
        groups = self.groups(len(shape), axis)
        return self.op(f"tensor.collapse_shape {x} {groups} : {x.type} into {tensor_type(shape, x.element)}", shape)

    @staticmethod
    def groups(rank: int, axis: int) -> str:
        """Which axes of the larger shape belong to each of the smaller one, where `axis` stands for two."""
        groups, next_axis = [], 0
        for index in range(rank):
            count = 2 if index == axis else 1
            groups.append(list(range(next_axis, next_axis + count)))
            next_axis += count
        return str(groups)

    def slice(self, x: Value, offsets: Sequence[object], sizes: Shape) -> Value:
        ones = ", ".join("1" for _ in sizes)
        where = ", ".join(map(str, offsets))
        extents = ", ".join(map(str, sizes))
        return self.op(f"tensor.extract_slice {x}[{where}] [{extents}] [{ones}] : {x.type} to {tensor_type(sizes, x.element)}", sizes)

    def insert(self, x: Value, into: Value, offsets: Sequence[object]) -> Value:
        ones = ", ".join("1" for _ in x.shape)
        where = ", ".join(map(str, offsets))
        extents = ", ".join(map(str, x.shape))
        return self.op(f"tensor.insert_slice {x} into {into}[{where}] [{extents}] [{ones}] : {x.type} into {into.type}", into.shape)

    def lookup(self, table: Value, rows: Value) -> Value:
        """The rows of a table that a vector of numbers names."""
        table = self.load(table)
        shape = (*rows.shape, table.shape[1])
        empty = self.empty(shape)
        body = ["%row = arith.index_cast %a0 : i32 to index", "%column = linalg.index 1 : index"]
        body.append(f"%element = tensor.extract {table}[%row, %column] : {table.type}")
        return self.generic([(rows, [0])], empty, [0, 1], 2, lambda *_: (body, "%element"))

    # Loops.

    @contextmanager
    def loop(self, count: int, carried: Sequence[Value], test_after: bool = False) -> Iterator[Loop]:
        """A loop that hands values from one round to the next. `test_after` writes it with a condition (`scf.while`) in place of a range."""
        loop = Loop(self, count, carried, test_after)
        self.indent += "  "
        yield loop
        self.indent = self.indent[:-2]
        loop.close()


class Loop:
    """A loop whose body is being written."""

    def __init__(self, function: Function, count: int, carried: Sequence[Value], conditional: bool) -> None:
        self.function, self.carried, self.conditional = function, carried, conditional
        zero, one = function.constant(0, "index"), function.constant(1, "index")
        end = function.constant(count, "index")
        self.one = one
        self.index = Value(function.fresh(), (), "index")
        self.values = [Value(function.fresh(), value.shape, value.element) for value in carried]
        self.results = Value(function.fresh(), ())
        kinds = ", ".join(value.type for value in carried)
        starts = ", ".join(f"{value} = {start}" for value, start in zip(self.values, carried))
        if not conditional:
            function.line(f"{self.results}:{len(carried)} = scf.for {self.index} = {zero} to {end} step {one} iter_args({starts}) -> ({kinds}) {{")
            return
        names = [function.fresh() for _ in [None, *carried]]
        starts = ", ".join(f"{name} = {start}" for name, start in zip(names, [zero, *carried]))
        function.line(f"{self.results}:{len(carried) + 1} = scf.while ({starts}) : (index, {kinds}) -> (index, {kinds}) {{")
        function.line(f"  %more = arith.cmpi slt, {names[0]}, {end} : index")
        function.line(f"  scf.condition(%more) {', '.join(names)} : index, {kinds}")
        function.line("} do {")
        function.line(f"^bb0({self.index}: index, {', '.join(f'{value}: {value.type}' for value in self.values)}):")

    def next(self, *values: Value) -> None:
        """Ends the body with what the next round starts with."""
        kinds = ", ".join(value.type for value in values)
        names = ", ".join(map(str, values))
        if self.conditional:
            following = self.function.op(f"arith.addi {self.index}, {self.one} : index", (), "index")
            self.function.line(f"scf.yield {following}, {names} : index, {kinds}")
        else:
            self.function.line(f"scf.yield {names} : {kinds}")

    def close(self) -> None:
        self.function.line("}")
        skipped = 1 if self.conditional else 0
        self.last = [Value(f"{self.results}#{index + skipped}", value.shape, value.element) for index, value in enumerate(self.carried)]


# Steps of formulas that are not of the arith dialect.
MATH = {
    *("absf", "ceil", "cos", "erf", "exp", "exp2", "expm1", "floor", "log", "log1p", "log2"),
    *("roundeven", "rsqrt", "sin", "sqrt", "tanh"),
}


def steps(formula: str, arguments: Sequence[str], out: str = "%out", element: str = "f32") -> tuple[list[str], str]:
    """The text of a formula, and the name of its result."""
    names = {chr(ord("a") + index): argument for index, argument in enumerate(arguments)}
    names["o"] = out
    lines = []
    for number, step in enumerate(filter(None, (step.strip() for step in formula.split(";"))), start=1):
        name, _, operands = step.partition(" ")
        if name == "constant":
            value = f"{float(operands):.9e}" if element.startswith("f") else operands
            text = f"arith.constant {value} : {element}"
        else:
            dialect = "math" if name in MATH else "arith"
            text = f"{dialect}.{name} {', '.join(names[operand.strip()] for operand in operands.split(','))} : {element}"
        names[str(number)] = f"%s{number}"
        lines.append(f"%s{number} = {text}")
    return lines, f"%s{len(lines)}"
