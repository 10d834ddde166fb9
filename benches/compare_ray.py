#!/usr/bin/env python3
"""Compares `vireo.ray.Predictor` with `iree.runtime` and `onnxruntime` inside actors of Ray: `benches/compare_ray.py [--seed N]`.

Run it with an environment that has all of them: `pip install WHEEL "ray[data]" iree-base-runtime==3.13.0 iree-base-compiler==3.13.0
onnxruntime onnx`. Each has an actor with one CPU, which gets the same blocks of the object store by reference. One actor works at a time, on one
processor, in an order that is drawn anew for each round; a figure is rows per second of processor time of the actor, in thousands, the
median of the rounds (greatest in parentheses). Both runtimes of IREE programs get the same two files: a function for any number of rows, and
functions for 64 and for 256 rows, compiled with data tiling, which makes kernels for fixed sizes faster and others slower. With
`--plain` there are no actors and no Ray.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python/tests"))
from programs import compiled, weights  # noqa: E402

SIZES = [64, 256, 256, 16]
STATIC = [64, 256]


def onnx_model(path):
    """The same layers for onnxruntime."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes, values, last = [], [], "x"
    for layer, (weight, bias) in enumerate(zip(*weights(SIZES))):
        values += [numpy_helper.from_array(weight, f"w{layer}"), numpy_helper.from_array(bias, f"b{layer}")]
        is_last = layer == len(SIZES) - 2
        nodes.append(helper.make_node("Gemm", [last, f"w{layer}", f"b{layer}"], ["y" if is_last else f"g{layer}"]))
        if not is_last:
            nodes.append(helper.make_node("Relu", [f"g{layer}"], [f"h{layer}"]))
        last = f"h{layer}"
    value = lambda name, columns: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", columns])
    graph = helper.make_graph(nodes, "mlp", [value("x", SIZES[0])], [value("y", SIZES[-1])], values)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def vireo_engine(folder, static):
    import vireo.ray

    choice = {"batch_sizes": {rows: f"mlp{rows}" for rows in STATIC}} if static else {"function": "mlp"}
    path = folder / ("static.vmfb" if static else "dynamic.vmfb")
    predictor = vireo.ray.Predictor(path, columns="x", output="y", device="local-sync", **choice)
    return lambda x: predictor({"x": x})["y"]


def iree_engine(folder, static):
    import iree.runtime as rt

    config = rt.Config("local-sync")
    path = folder / ("static.vmfb" if static else "dynamic.vmfb")
    module = rt.load_vm_module(rt.VmModule.mmap(config.vm_instance, str(path)), config)
    if not static:
        return lambda x: module["mlp"](x).to_host()
    functions = {rows: module[f"mlp{rows}"] for rows in STATIC}

    def call(x):
        # As a user would write it by hand: the largest size that is not larger than what is left, and padding at the end.
        y, start = np.empty((len(x), SIZES[-1]), np.float32), 0
        while start < len(x):
            size = max((rows for rows in STATIC if rows <= len(x) - start), default=STATIC[0])
            piece = x[start : start + size]
            if len(piece) < size:
                piece = np.concatenate([piece, np.zeros((size - len(piece), x.shape[1]), np.float32)])
            y[start : start + size] = functions[size](piece).to_host()[: len(x) - start]
            start += size
        return y

    return call


def onnxruntime_engine(folder, static):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(folder / "mlp.onnx", options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


ENGINES = {
    "vireo": (vireo_engine, False),
    "iree.runtime": (iree_engine, False),
    "vireo, static": (vireo_engine, True),
    "iree.runtime, static": (iree_engine, True),
    "onnxruntime": (onnxruntime_engine, False),
}


class Worker:
    """Calls one engine with blocks of the object store. An actor, or with `--plain` an object."""

    def __init__(self, folder, name, processor):
        os.sched_setaffinity(0, [processor])
        make, static = ENGINES[name]
        self.call = make(pathlib.Path(folder), static)

    def run(self, batch, *blocks):
        """Rows per second of processor time, and the sum of all results."""
        rows, total = 0, 0.0
        start = time.process_time_ns()
        for block in blocks:
            for first in range(0, len(block), batch):
                rows += len(block[first : first + batch])
                total += float(self.call(block[first : first + batch])[:, 0].sum())
        return rows / (time.process_time_ns() - start) * 1e9, total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the rows and of the order of the engines")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batches", type=int, nargs="+", default=[100, 256, 1000, 4096], help="rows of a batch")
    parser.add_argument("--plain", action="store_true", help="in this process, without Ray")
    parser.add_argument("--models", type=pathlib.Path, help="keep the models in this folder, and use those that are there")
    parser.add_argument("--json", type=pathlib.Path, help="also write everything to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.models or pathlib.Path(temporary)).resolve()
        folder.mkdir(exist_ok=True)
        compiled(folder / "dynamic.vmfb", SIZES, [None])
        compiled(folder / "static.vmfb", SIZES, STATIC, ["--iree-opt-data-tiling"])
        onnx_model(folder / "mlp.onnx")
        generator = random.Random(arguments.seed)
        blocks = [np.random.default_rng(arguments.seed + i).normal(size=(8192, SIZES[0])).astype(np.float32) for i in range(2)]
        processor = sorted(os.sched_getaffinity(0))[-1]
        if arguments.plain:
            workers = {name: Worker(folder, name, processor) for name in ENGINES}
            run = lambda name, batch: workers[name].run(batch, *blocks)
        else:
            import ray

            ray.init(num_cpus=len(ENGINES), object_store_memory=300 * 2**20, include_dashboard=False, logging_level="warning")
            workers = {name: ray.remote(Worker).options(num_cpus=1).remote(str(folder), name, processor) for name in ENGINES}
            references = [ray.put(block) for block in blocks]
            run = lambda name, batch: ray.get(workers[name].run.remote(batch, *references))
        rates = {(batch, name): [] for batch in arguments.batches for name in ENGINES}
        for batch in arguments.batches:
            sums = [run(name, batch)[1] for name in ENGINES]
            if not np.allclose(sums, sums[0], rtol=1e-3, atol=1e-1):
                sys.exit(f"the results differ: {dict(zip(ENGINES, sums))}")
        for _ in range(arguments.rounds):
            for batch in arguments.batches:
                order = list(ENGINES)
                generator.shuffle(order)
                for name in order:
                    rates[batch, name].append(run(name, batch)[0])
        where = "in one process" if arguments.plain else "in actors"
        print(f"load {os.getloadavg()[0]:.1f}, seed {arguments.seed}, {arguments.rounds} rounds {where}; thousands of rows per second of processor time")
        print(f"{'rows of a batch':24}" + "".join(f"{batch:>16}" for batch in arguments.batches))
        for name in ENGINES:
            cells = [rates[batch, name] for batch in arguments.batches]
            print(f"{name:24}" + "".join(f"{statistics.median(cell) / 1e3:8.0f} ({max(cell) / 1e3:5.0f})" for cell in cells))
        for ours, peer in (("vireo", "iree.runtime"), ("vireo, static", "iree.runtime, static"), ("vireo, static", "onnxruntime")):
            # Of each round, since the speed of a shared machine changes between rounds.
            ratios = [statistics.median(a / b for a, b in zip(rates[batch, ours], rates[batch, peer])) for batch in arguments.batches]
            print(f"{ours} / {peer}: " + ", ".join(f"{ratio:.2f}" for ratio in ratios))
        if arguments.json:
            arguments.json.write_text(json.dumps({"seed": arguments.seed, "rates": [[*key, value] for key, value in rates.items()]}))


if __name__ == "__main__":
    main()
