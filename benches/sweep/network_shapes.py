"""The kernels of well-known networks, whole: `networks()` gives each kernel with how often a network runs it.

Shapes are those of one image, sentence or step, as the networks are exported: convolutions with channels before rows, with what follows a
product or a convolution left out, since compilers fuse it. The sum over a network is the time of its kernels, not of the network.
"""

from __future__ import annotations

from collections import Counter

import kernels as k
from kernels import Kernel
from table import GELU

Listed = list[tuple[int, Kernel]]


def convolution(side: int, depth: int, channels: int, size: int, stride: int = 1, depthwise: bool = False) -> Kernel:
    return k.convolution("nchw", 1, (side, side, depth), channels, size, stride, depthwise=depthwise)


def added(*shape: int, formula: str = "addf a, b") -> Kernel:
    return k.elementwise("add", formula, shape, shape)


def classifier(depth: int, side: int) -> Listed:
    """The mean of each channel, and a dense layer."""
    return [(1, k.reduction("mean", (1, depth, side, side), [2, 3])), (1, k.product("nn", 1, 1000, depth, weights=True))]


def resnet(blocks: tuple[int, ...], bottleneck: bool) -> Listed:
    listed = [(1, convolution(224, 3, 64, 7, 2)), (1, k.pooling("nchw", "max", 1, (112, 112, 64), 3, 2, 1))]
    depth, side = 64, 56
    for stage, count in enumerate(blocks):
        inner, stride = 64 << stage, 1 if stage == 0 else 2
        outer = 4 * inner if bottleneck else inner
        for block in range(count):
            step = stride if block == 0 else 1
            after = side // step
            if bottleneck:
                listed += [(1, convolution(side, depth, inner, 1)), (1, convolution(side, inner, inner, 3, step)), (1, convolution(after, inner, outer, 1))]
            else:
                listed += [(1, convolution(side, depth, inner, 3, step)), (1, convolution(after, inner, inner, 3))]
            if step > 1 or depth != outer:
                listed.append((1, convolution(side, depth, outer, 1, step)))
            listed.append((1, added(1, outer, after, after, formula="addf a, b; constant 0.0; maximumf 1, 2")))
            depth, side = outer, after
    return listed + classifier(depth, side)


def mobilenet_v2() -> Listed:
    listed, depth, side = [(1, convolution(224, 3, 32, 3, 2))], 32, 112
    for expansion, channels, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
        for block in range(count):
            step, inner = stride if block == 0 else 1, depth * expansion
            if expansion > 1:
                listed.append((1, convolution(side, depth, inner, 1)))
            listed.append((1, convolution(side, inner, inner, 3, step, depthwise=True)))
            side //= step
            listed.append((1, convolution(side, inner, channels, 1)))
            if step == 1 and depth == channels:
                listed.append((1, added(1, channels, side, side)))
            depth = channels
    return [*listed, (1, convolution(side, depth, 1280, 1)), *classifier(1280, side)]


def encoder(layers: int, rows: int, width: int, heads: int, columns: int | None = None, inner: int | None = None) -> Listed:
    """Attention of all rows to all `columns`, and two dense layers."""
    columns, inner, depth = columns or rows, inner or 4 * width, width // heads
    return [
        (4 * layers, k.product("nn", rows, width, width, weights=True)),
        (layers, k.product("nt", rows, columns, depth, batch=heads)),
        (layers, k.softmax((heads, rows, columns), 2)),
        (layers, k.product("nn", rows, depth, columns, batch=heads)),
        (layers, k.product("nn", rows, inner, width, weights=True)),
        (layers, k.product("nn", rows, width, inner, weights=True)),
        (layers, k.elementwise("gelu", GELU, (rows, inner))),
        (2 * layers, added(rows, width)),
        (2 * layers + 1, k.layer_norm((rows, width))),
    ]


def bert() -> Listed:
    """BERT-base, 128 tokens."""
    return [(1, k.gather((30522, 768), 0, 128, index="i64")), *encoder(12, 128, 768, 12)]


def vit() -> Listed:
    """ViT-B/16, an image of 224 by 224."""
    patches = k.convolution("nchw", 1, (224, 224, 3), 768, 16, 16, pad=0)
    return [(1, patches), *encoder(12, 197, 768, 12), (1, k.product("nn", 1, 1000, 768, weights=True))]


def whisper() -> Listed:
    """The encoder of Whisper tiny, 30 seconds."""
    listen = [(1, k.convolution("nchw", 1, (3000, 80), 384, 3)), (1, k.convolution("nchw", 1, (3000, 384), 384, 3, 2))]
    return [*listen, *encoder(4, 1500, 384, 6)]


def gpt2() -> Listed:
    """A token of GPT-2 after 255 others."""
    return [
        (12, k.product("nn", 1, 2304, 768, weights=True)),
        (12, k.product("nt", 1, 256, 64, batch=12)),
        (12, k.softmax((12, 1, 256), 2)),
        (12, k.product("nn", 1, 64, 256, batch=12)),
        (12, k.product("nn", 1, 768, 768, weights=True)),
        (12, k.product("nn", 1, 3072, 768, weights=True)),
        (12, k.product("nn", 1, 768, 3072, weights=True)),
        (12, k.elementwise("gelu", GELU, (1, 3072))),
        (24, added(1, 768)),
        (25, k.layer_norm((1, 768))),
        (1, k.product("nt", 1, 50257, 768)),
    ]


NETWORKS = {
    "resnet18": lambda: resnet((2, 2, 2, 2), bottleneck=False),
    "resnet50": lambda: resnet((3, 4, 6, 3), bottleneck=True),
    "mobilenet_v2": mobilenet_v2,
    "bert": bert,
    "vit": vit,
    "whisper": whisper,
    "gpt2": gpt2,
}


def networks(wanted: list[str]) -> tuple[list[Kernel], dict[str, Counter[str]]]:
    """The kernels of some networks, each once, and how often each network runs which."""
    kernels: dict[str, Kernel] = {}
    runs: dict[str, Counter[str]] = {}
    for network in wanted:
        runs[network] = Counter()
        for count, kernel in NETWORKS[network]():
            kernels.setdefault(kernel.name, kernel)
            runs[network][kernel.name] += count
    return list(kernels.values()), runs
