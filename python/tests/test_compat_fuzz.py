"""`vireo.compat.iree`: native functions with arguments of any kind give results or exceptions, and never end the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import MODELS, REPOSITORY

CALLS = int(os.environ.get("VIREO_COMPAT_FUZZ", "10000"))

PROGRAM = """
import faulthandler, os, random, sys, warnings
faulthandler.enable()
faulthandler.dump_traceback_later(100, exit=True)
warnings.simplefilter("ignore")
# Failures of functions that end objects are told, not raised.
sys.unraisablehook = lambda unraisable: None
import numpy as np
import vireo.compat.iree as rt
from vireo.compat.iree import _binding

models, parameters, seed, calls = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
choose = random.Random(seed)
instance, device = rt.VmInstance(), rt.get_device(("local-sync", "local-task")[seed % 2])
module = rt.VmModule.mmap(instance, models + "/multi.vmfb")
hal = rt.create_hal_module(instance, device)
context = rt.VmContext(instance, modules=[hal, module])
interface = rt.PyModuleInterface("fuzz", lambda interface: None)
interface.export("f", "0iIfFr_iIfFr", lambda self, *arguments: choose.choice([arguments, None, (1,), 3]))
custom = interface.create()
python = rt.VmContext(instance, modules=[custom])
index = rt.ParameterIndex()
index.load(parameters + "/weights.irpa")
values = [
    None, True, 0, 1, 2, 3, 7, 16, 48, 64, 3075, -1, 2**31, 2**32, 2**63, 2**64, 2**70, 0.5, float("nan"), "", "a", "local-sync", "irpa",
    "--task_worker_spin_us=1", "model.irpa", "0v_v", b"", b"abcd", b"x" * 64, bytearray(8), memoryview(b"abcdef")[1:], np.arange(6, dtype=np.int32),
    np.arange(6, dtype=np.float32).reshape(2, 3).T, np.zeros((0, 3)), np.float32(2), np.dtype("int32"), np.int8, object, [], [1, 2], (3,),
    {}, {"device_id": 0}, print, instance, device, module, hal, context, custom, python, interface, index, *rt.MemoryType, *rt.HalElementType,
    rt.Shape([2]), rt.VmBuffer(8), rt.VmVariantList(1), rt.HalFence(2), device.create_semaphore(0), rt.HalCommandBuffer(device),
    device.allocator, rt.asdevicearray(device, np.zeros(4, np.float32))._buffer_view, rt.HalExternalTimepoint(), rt.VmVariantList, rt.HalBuffer,
]
for name in ("scale", "collatz", "divide"):
    values.append(module.lookup_function(name))
values.append(custom.lookup_function("f"))
fixed = len(values)
# What waits for ever, and what leaves the process without its standard streams or the machine without a file.
excluded = {"wait", "__new__", "install", "mmap"}
done = 0
for call in range(calls):
    target = choose.choice(values) if choose.random() < 0.8 else choose.choice(list(vars(_binding).values()))
    names = [name for name in dir(target) if not name.startswith("__") and name not in excluded]
    try:
        if callable(target) and choose.random() < 0.5 and getattr(target, "__module__", "") == "vireo.compat.iree._binding":
            function = target
        elif names and type(target).__module__ == "vireo.compat.iree._binding":
            function = getattr(target, choose.choice(names))
        else:
            continue
        if not callable(function):
            result = function
        else:
            # Half of the arguments fit more often than not: they come from what calls returned.
            result = function(*choose.choices(values, k=choose.choice([0, 1, 1, 2, 2, 3, 3, 4, 5])))
        done += 1
        repr(result)
        values.append(result)
        if len(values) > fixed + 200:
            del values[fixed + choose.randrange(200)]
    except (Exception, MemoryError):
        pass
print(done)
"""


@pytest.mark.parametrize("seed", range(2))
def test_any_call(seed: int, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    arguments = [str(MODELS), str(REPOSITORY / "fixtures/parameters"), str(seed), str(CALLS)]
    ran = subprocess.run(
        [sys.executable, "-P", "program.py", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL
    )
    assert ran.returncode == 0, (ran.returncode, ran.stderr[-3000:])
    assert int(ran.stdout.split()[-1]) > CALLS / 100
