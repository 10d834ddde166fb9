"""The networks of the figures. Each function writes one into a module and returns its inputs: (shape, element type) each."""

from __future__ import annotations

import math

from mlir import BATCH, Function, Module, Shape, Value

Inputs = list[tuple[Shape, str]]

RELU = "; constant 0.0; maximumf 1, 2"
GELU = "; constant 0.70710678; mulf 1, 2; erf 3; constant 1.0; addf 4, 5; constant 0.5; mulf 1, 7; mulf 8, 6"


def sigmoid(operand: str, first: int) -> str:
    """Steps of a formula, the first of which has the number `first`; the result has the number `first + 4`."""
    n = first
    return f"negf {operand}; exp {n}; constant 1.0; addf {n + 1}, {n + 2}; divf {n + 2}, {n + 3}"


def abs_(module: Module) -> Inputs:
    """The smallest model: one number in, one out, one kernel."""
    inputs: Inputs = [((), "f32")]
    function = Function(module, "main", inputs)
    function.finish(function.op("math.absf %input0 : tensor<f32>", ()))
    return inputs


def mlp(module: Module) -> Inputs:
    """Dense layers of 256 and 64 over 8 rows of 256."""
    inputs: Inputs = [((8, 256), "f32")]
    function = Function(module, "main", inputs)
    function.finish(function.dense(function.dense(function.inputs[0], 256, RELU), 64))
    return inputs


def small_kernels(module: Module) -> Inputs:
    """Seven rounds of a small dense layer, a softmax and a normalisation: about 28 kernels that take about a microsecond each."""
    inputs: Inputs = [((8, 64), "f32")]
    function = Function(module, "main", inputs)
    x = function.inputs[0]
    for _ in range(7):
        x = function.dense(x, 64, RELU)
        y = function.softmax(x)
        x = function.layer_norm(function.map("addf a, b", x, y))
    function.finish(x)
    return inputs


def attention(f: Function, x: Value, heads: int) -> Value:
    """Every row looks at every row."""
    length, width = x.shape
    depth = width // heads
    query, key, value = (f.transpose(f.split(f.dense(x, width), 1, heads), order) for order in [(1, 0, 2), (1, 2, 0), (1, 0, 2)])
    scores = f.map(f"constant {1 / math.sqrt(depth):.9e}; mulf a, 1", f.batch_matmul(query, key))
    seen = f.batch_matmul(f.softmax(scores), value)
    return f.dense(f.join(f.transpose(seen, (1, 0, 2)), 1), width)


def encoder_layer(f: Function, x: Value, heads: int, inner: int) -> Value:
    x = f.layer_norm(f.map("addf a, b", x, attention(f, x, heads)))
    return f.layer_norm(f.map("addf a, b", x, f.dense(f.dense(x, inner, GELU), x.shape[1])))


def transformer(module: Module) -> Inputs:
    """Two layers of a transformer encoder: 96 rows of 256, 4 heads, 1024 inside."""
    inputs: Inputs = [((96, 256), "f32")]
    function = Function(module, "main", inputs)
    x = function.inputs[0]
    for _ in range(2):
        x = encoder_layer(function, x, 4, 1024)
    function.finish(x)
    return inputs


def sentence(module: Module) -> Inputs:
    """A sentence encoder with the extents of MiniLM-L6: six layers, 384 wide, 12 heads, 1536 inside, 128 tokens, mean of the rows.
    Its vocabulary is smaller."""
    inputs: Inputs = [((128,), "i32")]
    function = Function(module, "main", inputs)
    x = function.lookup(module.weight(1024, 384, scale=1.0), function.inputs[0])
    x = function.layer_norm(function.map("addf a, b", x, module.weight(128, 384, scale=1.0)))
    for _ in range(6):
        x = encoder_layer(function, x, 12, 1536)
    mean = function.reduce("addf a, o", 0.0, function.transpose(x, (1, 0)))
    function.finish(function.map(f"constant {1 / 128:.9e}; mulf a, 1", mean))
    return inputs


def residual_block(f: Function, x: Value, channels: int, stride: int) -> Value:
    y = biased(f, f.convolution(x, channels, 3, stride), RELU)
    y = biased(f, f.convolution(y, channels, 3))
    if stride != 1:
        x = biased(f, f.convolution(x, channels, 1, stride))
    return f.map("addf a, b" + RELU, x, y)


def biased(f: Function, x: Value, activation: str = "") -> Value:
    return f.map("addf a, b" + activation, x, f.module.weight(x.shape[-1], scale=0.1))


def resnet(module: Module) -> Inputs:
    """ResNet-8 for images of 32x32: blocks of 16, 32 and 64 channels, ten classes."""
    inputs: Inputs = [((1, 32, 32, 3), "f32")]
    f = Function(module, "main", inputs)
    x = biased(f, f.convolution(f.inputs[0], 16, 3), RELU)
    for channels, stride in [(16, 1), (32, 2), (64, 2)]:
        x = residual_block(f, x, channels, stride)
    pixels = x.shape[1] * x.shape[2]
    x = f.transpose(f.join(f.join(x, 1), 0), (1, 0))
    mean = f.map(f"constant {1 / pixels:.9e}; mulf a, 1", f.reduce("addf a, o", 0.0, x))
    mean = f.op(f"tensor.expand_shape {mean} [[0, 1]] output_shape [1, 64] : {mean.type} into tensor<1x64xf32>", (1, 64))
    f.finish(f.softmax(f.dense(mean, 10)))
    return inputs


def mlp_exported(module: Module) -> Inputs:
    """The dense layers of `mlp` with matrices as exporters keep them."""
    inputs: Inputs = [((8, 256), "f32")]
    function = Function(module, "main", inputs)
    function.finish(function.linear(function.linear(function.linear(function.inputs[0], 256, RELU), 256, RELU), 64))
    return inputs


def mlp_dynamic(module: Module) -> Inputs:
    """The same with odd widths and a batch of any size; eleven rows at the call."""
    f = Function(module, "main", [((BATCH, 255), "f32")])
    f.finish(f.softmax(f.linear(f.linear(f.linear(f.inputs[0], 301, RELU), 257, RELU), 63)))
    return [((11, 255), "f32")]


def mean_of_channels(f: Function, x: Value) -> Value:
    """The mean of each channel of images, a row for each image."""
    pixels = x.shape[2] * x.shape[3]
    return f.map(f"constant {1 / pixels:.9e}; mulf a, 1", f.reduce("addf a, o", 0.0, f.join(x, 2)))


def convolution_nchw(f: Function, x: Value, channels: int, size: int, stride: int = 1, activation: str = "", depthwise: bool = False) -> Value:
    y = f.convolution_nchw(x, channels, size, stride, depthwise)
    return f.map_channels("addf a, b" + activation, y, channels=f.module.weight(channels, scale=0.1))


def resnet_nchw(f: Function, x: Value) -> None:
    """ResNet-8 with images as exporters keep them: channels first, padded on both sides."""
    x = convolution_nchw(f, x, 16, 3, activation=RELU)
    for channels, stride in [(16, 1), (32, 2), (64, 2)]:
        y = convolution_nchw(f, x, channels, 3, stride, RELU)
        y = convolution_nchw(f, y, channels, 3)
        if stride != 1:
            x = convolution_nchw(f, x, channels, 1, stride)
        x = f.map("addf a, b" + RELU, x, y)
    f.finish(f.softmax(f.linear(mean_of_channels(f, x), 10)))


def resnet_exported(module: Module) -> Inputs:
    """One image of 32x32."""
    inputs: Inputs = [((1, 3, 32, 32), "f32")]
    f = Function(module, "main", inputs)
    resnet_nchw(f, f.inputs[0])
    return inputs


def resnet_batch(module: Module) -> Inputs:
    """Eight images at a time."""
    inputs: Inputs = [((8, 3, 32, 32), "f32")]
    f = Function(module, "main", inputs)
    resnet_nchw(f, f.inputs[0])
    return inputs


def resnet_odd(module: Module) -> Inputs:
    """Three images of 37x43, whose extents no number of lanes divides."""
    inputs: Inputs = [((3, 3, 37, 43), "f32")]
    f = Function(module, "main", inputs)
    resnet_nchw(f, f.inputs[0])
    return inputs


def depthwise_nchw(f: Function, x: Value) -> None:
    """Four blocks as in MobileNet, channels first: a filter for each channel, then a product over the channels."""
    x = convolution_nchw(f, x, 16, 3, 2, RELU)
    for channels, stride in [(32, 1), (64, 2), (64, 1), (96, 2)]:
        x = convolution_nchw(f, x, x.shape[1], 3, stride, RELU, depthwise=True)
        x = convolution_nchw(f, x, channels, 1, activation=RELU)
    f.finish(f.softmax(f.linear(mean_of_channels(f, x), 10)))


def depthwise_exported(module: Module) -> Inputs:
    """One image of 32x32."""
    inputs: Inputs = [((1, 3, 32, 32), "f32")]
    f = Function(module, "main", inputs)
    depthwise_nchw(f, f.inputs[0])
    return inputs


def depthwise_batch(module: Module) -> Inputs:
    """Eight images of 45x39 at a time."""
    inputs: Inputs = [((8, 3, 45, 39), "f32")]
    f = Function(module, "main", inputs)
    depthwise_nchw(f, f.inputs[0])
    return inputs


def lstm(module: Module) -> Inputs:
    """A layer of 64 cells over 16 steps of 32, in a counted loop."""
    steps, width, cells = 16, 32, 64
    inputs: Inputs = [((steps, width), "f32")]
    f = Function(module, "main", inputs)
    input_weight, hidden_weight = module.weight(width, 4 * cells), module.weight(cells, 4 * cells)
    bias = module.weight(4 * cells, scale=0.1)
    state = f.filled((1, cells), 0.0)
    with f.loop(steps, [state, state, f.filled((steps, cells), 0.0)]) as loop:
        hidden, cell, outputs = loop.values
        now = f.slice(f.inputs[0], [loop.index, 0], (1, width))
        gates = f.map("addf a, b; addf 1, c", f.matmul(now, input_weight), f.matmul(hidden, hidden_weight), bias)
        enter, forget, change, leave = (f.slice(gates, [0, index * cells], (1, cells)) for index in range(4))
        formula = f"{sigmoid('a', 1)}; {sigmoid('b', 6)}; tanh c; mulf 5, 11; mulf 10, d; addf 12, 13"
        cell = f.map(formula, enter, forget, change, cell)
        hidden = f.map(f"{sigmoid('a', 1)}; tanh b; mulf 5, 6", leave, cell)
        loop.next(hidden, cell, f.insert(hidden, outputs, [loop.index, 0]))
    hidden, cell, outputs = loop.last
    f.finish(outputs, hidden, cell)
    return inputs


def gru(module: Module) -> Inputs:
    """A layer of 64 cells over 16 steps of 32, in a loop with a condition."""
    steps, width, cells = 16, 32, 64
    inputs: Inputs = [((steps, width), "f32")]
    f = Function(module, "main", inputs)
    input_weight, hidden_weight = module.weight(width, 3 * cells), module.weight(cells, 3 * cells)
    input_bias, hidden_bias = module.weight(3 * cells, scale=0.1), module.weight(3 * cells, scale=0.1)
    with f.loop(steps, [f.filled((1, cells), 0.0), f.filled((steps, cells), 0.0)], test_after=True) as loop:
        hidden, outputs = loop.values
        now = f.slice(f.inputs[0], [loop.index, 0], (1, width))
        given = f.map("addf a, b", f.matmul(now, input_weight), input_bias)
        kept = f.map("addf a, b", f.matmul(hidden, hidden_weight), hidden_bias)
        parts = [f.slice(gates, [0, index * cells], (1, cells)) for index in range(3) for gates in (given, kept)]
        # Reset, update and candidate of both, and the state before.
        formula = f"addf a, b; addf c, d; {sigmoid('1', 3)}; {sigmoid('2', 8)}; mulf 7, f; addf e, 13; tanh 14; subf g, 15; mulf 12, 16; addf 15, 17"
        hidden = f.map(formula, *parts, hidden)
        loop.next(hidden, f.insert(hidden, outputs, [loop.index, 0]))
    hidden, outputs = loop.last
    f.finish(outputs, hidden)
    return inputs


def parameters(module: Module) -> Inputs:
    """Thirty products of a row with matrices of 2048x2048 that are in a file of their own: 503 MB of parameters, each used once."""
    inputs: Inputs = [((1, 2048), "f32")]
    f = Function(module, "main", inputs)
    x = f.inputs[0]
    for _ in range(30):
        x = f.map("tanh a", f.matmul(x, module.parameter(2048, 2048)))
    f.finish(x)
    return inputs


NETWORKS = {
    "abs": abs_,
    "mlp": mlp,
    "small_kernels": small_kernels,
    "transformer": transformer,
    "resnet": resnet,
    "sentence": sentence,
    "mlp_exported": mlp_exported,
    "mlp_dynamic": mlp_dynamic,
    "resnet_exported": resnet_exported,
    "resnet_batch": resnet_batch,
    "resnet_odd": resnet_odd,
    "depthwise_exported": depthwise_exported,
    "depthwise_batch": depthwise_batch,
    "lstm": lstm,
    "gru": gru,
    "parameters": parameters,
}
