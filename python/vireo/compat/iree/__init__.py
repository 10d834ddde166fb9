"""The interface of the package `iree.runtime`, over this runtime.

    import vireo.compat.iree as rt

    config = rt.Config("local-task")
    module = rt.load_vm_module(rt.VmModule.mmap(config.vm_instance, "model.vmfb"), config)
    y = module.main(x).to_host()

A program that says `import iree.runtime` gets it after `vireo.compat.iree.install()`, by `python -m vireo.compat.iree
program.py`, or with `overlay()` earlier on its path. `docs/python.md` says what there is of the interface and what not.
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path as _Path
from typing import Any

from . import _binding, array_interop, dtypes, flags, function, io, system_api, system_setup, typing
from ._binding import (
    BufferCompatibility,
    BufferUsage,
    ExternalTimepointFlags,
    ExternalTimepointType,
    FileHandle,
    HalAllocator,
    HalBuffer,
    HalBufferView,
    HalCommandBuffer,
    HalDevice,
    HalDeviceLoopBridge,
    HalDriver,
    HalElementType,
    HalExternalTimepoint,
    HalFence,
    HalModuleDebugSink,
    HalSemaphore,
    Linkage,
    MappedMemory,
    MemoryAccess,
    MemoryType,
    ParameterIndex,
    ParameterIndexEntry,
    ParameterProvider,
    PyModuleInterface,
    SemaphoreCompatibility,
    Shape,
    VmBuffer,
    VmContext,
    VmFunction,
    VmInstance,
    VmModule,
    VmRef,
    VmVariantList,
    create_hal_module,
    create_io_parameters_module,
)
from .array_interop import DeviceArray, asdevicearray
from .function import FunctionInvoker
from .io import (
    SplatValue,
    parameter_index_add_numpy_ndarray,
    parameter_index_entry_as_numpy_flat_ndarray,
    parameter_index_entry_as_numpy_ndarray,
    save_archive_file,
)
from .system_api import (
    TARGET_BACKEND_TO_DRIVER,
    Config,
    SystemContext,
    load_vm_flatbuffer,
    load_vm_flatbuffer_file,
    load_vm_module,
    load_vm_modules,
    normalize_value,
)
from .system_setup import get_device, get_driver, get_first_device, query_available_drivers
from .typing import HalModuleBufferViewTraceCallback

_SUBMODULES = ("_binding", "array_interop", "dtypes", "flags", "function", "io", "system_api", "system_setup", "typing")

# What the interface has and this package has not, with the reason.
_MISSING = {
    "Tokenizer": "texts become tokens before a model runs: use the package `tokenizers`",
    "TokenizerEncodeStream": "texts become tokens before a model runs: use the package `tokenizers`",
    "TokenizerDecodeStream": "texts become tokens before a model runs: use the package `tokenizers`",
    "benchmark": "use `python -m vireo benchmark`",
    "benchmark_exe": "use `python -m vireo benchmark`",
    "benchmark_module": "use `python -m vireo benchmark`",
    "version": "it is `vireo.__version__`",
}


class _Missing(AttributeError, NotImplementedError):
    """Something that the interface has and this package has not."""


def __getattr__(name: str) -> Any:
    if name in _MISSING:
        raise _Missing(f"vireo.compat.iree has no `{name}`: {_MISSING[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def install() -> None:
    """Lets `import iree.runtime` give this package, in this process, from now on."""
    this = sys.modules[__name__]
    already = sys.modules.get("iree.runtime")
    if already is this:
        return
    # The overlay is imported as the package that this one is to be.
    if already is not None and getattr(already, "__file__", None) != str(overlay() / "iree/runtime/__init__.py"):
        raise RuntimeError("iree.runtime has been imported already: call vireo.compat.iree.install() before that")
    try:
        parent = importlib.import_module("iree")
    except ImportError:
        # Without the compiler there is no such package at all.
        parent = types.ModuleType("iree")
        parent.__path__ = []
        sys.modules["iree"] = parent
    sys.modules["iree.runtime"] = this
    for name in _SUBMODULES:
        sys.modules[f"iree.runtime.{name}"] = sys.modules[f"{__name__}.{name}"]
    setattr(parent, "runtime", this)


def overlay() -> _Path:
    """The folder that, earlier on the path than `iree.runtime`, gives this package in its place. `iree.compiler` stays."""
    return _Path(__file__).resolve().parent / "overlay"
