#!/usr/bin/env python3
"""Compares the Python package with `iree.runtime` and `onnxruntime`: `benches/compare_python.py [--seed N]`.

Run it with an environment that has all of them: `pip install WHEEL iree-base-runtime==3.13.0 iree-base-compiler==3.13.0 onnxruntime onnx`.
Packages that are missing are left out, and it says so. One process on one processor calls all of them in turn, in an order that is
drawn anew for each round; a figure is the processor time of the calling thread per call, the median of the rounds (least in
parentheses). Imports and loading are measured in processes of their own. Both runtimes of IREE programs get one file.
"""

import argparse
import contextlib
import gc
import importlib.util
import json
import multiprocessing
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

ABS = pathlib.Path(__file__).resolve().parent.parent / "fixtures/models/abs.vmfb"
# Layers of the models: batch, then the sizes.
MODELS = {"mlp8": (8, [64, 256, 256, 16]), "big": (8, [1024, 4096, 4096, 1024])}
# The figures that the package is held to, by the names below.
GOALS = [
    ("abs to an array", "iree.runtime", 1 / 0.25),
    ("mlp8, array to array", "iree.runtime", 1.7),
    ("mlp8, array to array", "onnxruntime", 1.2),
    ("mlp8, prepared", "onnxruntime", 1.0),
]


def has(name):
    """True if a package is installed; the parent of a name that has one is imported for that."""
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.util.find_spec(name) is not None
    return False


def build(folder):
    """Writes the models as ONNX and as module files."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    import vireo

    generator = np.random.default_rng(1)
    for name, (batch, sizes) in MODELS.items():
        nodes, weights, last = [], [], "x"
        for layer, (rows, columns) in enumerate(zip(sizes, sizes[1:])):
            weights.append(numpy_helper.from_array(generator.normal(0, rows**-0.5, (rows, columns)).astype("f4"), f"w{layer}"))
            weights.append(numpy_helper.from_array(generator.normal(0, 0.1, columns).astype("f4"), f"b{layer}"))
            end = "y" if layer == len(sizes) - 2 else f"h{layer}"
            nodes.append(helper.make_node("Gemm", [last, f"w{layer}", f"b{layer}"], [end if end == "y" else f"g{layer}"]))
            if end != "y":
                nodes.append(helper.make_node("Relu", [f"g{layer}"], [end]))
            last = end
        value = lambda name, columns: helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, columns])
        graph = helper.make_graph(nodes, name, [value("x", sizes[0])], [value("y", sizes[-1])], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, folder / f"{name}.onnx")
        vireo.compile(folder / f"{name}.onnx", cpu="host", output=folder / f"{name}.vmfb")


def vireo_calls(folder):
    import vireo

    sessions = {"abs": vireo.Session(ABS, device="local-sync")}
    sessions["mlp8"] = vireo.Session(folder / "mlp8.vmfb", device="local-sync")
    f, g = sessions["abs"]["abs"], sessions["mlp8"]["mlp8"]
    zero, x = np.array(-2, "f4"), argument("mlp8")
    tensor = vireo.empty(x.shape)
    np.asarray(tensor)[:] = x
    # As with a binding of `onnxruntime`, the argument is read where the host wrote it.
    prepared = g.prepare(tensor)
    return {
        "abs, result as object": lambda: f(zero),
        "abs to an array": lambda: np.asarray(f(zero)),
        "mlp8, array to object": lambda: g(x),
        "mlp8, array to array": lambda: np.asarray(g(x)),
        "mlp8, on the device": lambda: g(tensor),
        "mlp8, prepared": lambda: np.asarray(prepared.run()),
    }


def iree_calls(folder):
    import iree.runtime as rt

    config = rt.Config("local-sync")
    load = lambda path: rt.load_vm_module(rt.VmModule.mmap(config.vm_instance, str(path)), config)
    f, g = load(ABS)["abs"], load(folder / "mlp8.vmfb")["mlp8"]
    zero, x = np.array(-2, "f4"), argument("mlp8")
    on_device = rt.asdevicearray(config.device, x)
    return {
        "abs, result as object": lambda: f(zero),
        "abs to an array": lambda: f(zero).to_host(),
        "mlp8, array to object": lambda: g(x),
        "mlp8, array to array": lambda: g(x).to_host(),
        "mlp8, on the device": lambda: g(on_device),
    }


def onnxruntime_calls(folder):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(folder / "mlp8.onnx", options, providers=["CPUExecutionProvider"])
    x = argument("mlp8")
    y = np.empty((8, 16), "f4")
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    return {
        "mlp8, array to array": lambda: session.run(None, {"x": x})[0],
        "mlp8, prepared": lambda: session.run_with_iobinding(binding),
    }


def argument(model):
    batch, sizes = MODELS[model]
    return np.random.default_rng(2).normal(size=(batch, sizes[0])).astype("f4")


def measure(calls, rounds, count, generator):
    """Microseconds of processor time per call of each, in turn."""
    times = {key: [] for key in calls}
    for call in calls.values():
        for _ in range(200):
            call()
    for _ in range(rounds):
        order = list(calls)
        generator.shuffle(order)
        for key in order:
            call = calls[key]
            gc.collect()
            start = time.thread_time_ns()
            for _ in range(count):
                call()
            times[key].append((time.thread_time_ns() - start) / count / 1000)
    return times


START = """
import json, os, resource, sys, time
def memory():
    fields = dict(line.split(":", 1) for line in open("/proc/self/smaps_rollup") if ":" in line[:20])
    return [int(fields[name].split()[0]) / 1024 for name in ("Rss", "Anonymous")]
import numpy as np
before, start = memory(), time.process_time_ns()
{code}
after = memory()
print(json.dumps([(time.process_time_ns() - start) / 1e6, after[0] - before[0], after[1] - before[1]]))
"""


def start(code, rounds):
    """Processor time in ms, and growth of resident and of anonymous memory in MiB, least of some processes."""
    runs = [json.loads(subprocess.run([sys.executable, "-P", "-c", START.replace("{code}", code)], capture_output=True, check=True, text=True).stdout) for _ in range(rounds)]
    return [min(column) for column in zip(*runs)]


def starts(folder, packages):
    big = folder / "big"
    x = "np.ones((8, 1024), 'f4')"
    codes = {
        "vireo": ("import vireo", f"s = vireo.Session('{big}.vmfb', device='local-sync')['big']; s({x})"),
        "iree.runtime": (
            "import iree.runtime as rt",
            f"c = rt.Config('local-sync'); s = rt.load_vm_module(rt.VmModule.mmap(c.vm_instance, '{big}.vmfb'), c)['big']; s({x}).to_host()",
        ),
        "onnxruntime": ("import onnxruntime as ort", f"s = ort.InferenceSession('{big}.onnx', providers=['CPUExecutionProvider']); s.run(None, {{'x': {x}}})"),
    }
    for name in packages:
        imported, loaded = codes[name]
        yield name, "import after numpy", start(imported, 7)
        # The import is not counted.
        yield name, "100 MB loaded and called", start(f"{imported}\nbefore, start = memory(), time.process_time_ns()\n{loaded}", 5)


def work(folder, calls, done):
    import vireo

    function = vireo.Session(folder / "mlp8.vmfb", device="local-sync")["mlp8"]
    x = argument("mlp8")
    function(x)
    begin = time.perf_counter()
    for _ in range(calls):
        function(x)
    done.put(calls / (time.perf_counter() - begin))


def scaling(folder, calls=20000):
    """Calls per second of one thread, of two threads and of two processes."""
    import queue

    rates = {}
    for name, workers in (("one thread", 1), ("two threads", 2)):
        done = queue.Queue()
        threads = [threading.Thread(target=work, args=(folder, calls, done)) for _ in range(workers)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        rates[name] = sum(done.get() for _ in threads)
    context = multiprocessing.get_context("spawn")
    done = context.Queue()
    processes = [context.Process(target=work, args=(folder, calls, done)) for _ in range(2)]
    [process.start() for process in processes]
    rates["two processes"] = sum(done.get() for _ in processes)
    [process.join() for process in processes]
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the order of the calls")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=300, help="calls of each in a round")
    parser.add_argument("--models", type=pathlib.Path, help="keep the models in this folder, and use those that are there")
    parser.add_argument("--json", type=pathlib.Path, help="also write everything to this file")
    arguments = parser.parse_args()
    if not has("vireo"):
        sys.exit("skipped: the package `vireo` is not installed")
    packages = [name for name in ("vireo", "iree.runtime", "onnxruntime") if has(name)]
    for name in ("iree.runtime", "onnxruntime", "onnx", "iree.compiler"):
        if not has(name):
            print(f"skipped: there is no {name}")
    if not (has("onnx") and has("iree.compiler")) and arguments.models is None:
        sys.exit("skipped: the models cannot be made without `onnx` and `iree.compiler`")
    processors = os.sched_getaffinity(0)
    with contextlib.ExitStack() as stack:
        folder = arguments.models or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(exist_ok=True)
        if not (folder / "big.vmfb").exists():
            build(folder)
        rates = scaling(folder) if len(processors) > 1 else {}
        os.sched_setaffinity(0, sorted(processors)[-1:])
        makers = {"vireo": vireo_calls, "iree.runtime": iree_calls, "onnxruntime": onnxruntime_calls}
        calls = {(call, name): made for name in packages for call, made in makers[name](folder).items()}
        times = measure(calls, arguments.rounds, arguments.calls, random.Random(arguments.seed))
        print(f"load {os.getloadavg()[0]:.1f}, seed {arguments.seed}, {arguments.rounds} rounds of {arguments.calls} calls; us of processor time per call")
        names = list(dict.fromkeys(call for call, _ in calls))
        print(f"{'':26}" + "".join(f"{name:>22}" for name in packages))
        for call in names:
            cells = [times.get((call, name)) for name in packages]
            print(f"{call:26}" + "".join(f"{statistics.median(cell):13.2f} ({min(cell):6.2f})" if cell else f"{'':22}" for cell in cells))
        for call, peer, goal in GOALS:
            if (call, peer) in times:
                ratio = statistics.median(times[call, peer]) / statistics.median(times[call, "vireo"])
                print(f"{call}: {ratio:.2f} times as fast as {peer} (expected {goal:.2f}){'' if ratio >= goal else '  MISSED'}")
        began = list(starts(folder, packages))
        for name, what, (milliseconds, resident, anonymous) in began:
            print(f"{what}, {name}: {milliseconds:.2f} ms of processor time, {resident:.1f} MiB, {anonymous:.1f} MiB of it anonymous")
        if rates:
            print(", ".join(f"{name}: {rate:.0f} calls/s ({rate / rates['one thread']:.2f})" for name, rate in rates.items()))
        if arguments.json:
            document = {"seed": arguments.seed, "load": os.getloadavg(), "us": [[*key, value] for key, value in times.items()], "starts": began, "rates": rates}
            arguments.json.write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
