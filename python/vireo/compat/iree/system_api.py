"""Contexts with the modules of a program, by name: what most programs use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._binding import HalDevice, VmContext, VmInstance, VmModule, create_hal_module
from .array_interop import DeviceArray
from .function import FunctionInvoker
from .system_setup import get_device, get_first_device

__all__ = [
    "Config",
    "SystemContext",
    "TARGET_BACKEND_TO_DRIVER",
    "load_vm_flatbuffer",
    "load_vm_flatbuffer_file",
    "load_vm_module",
    "load_vm_modules",
    "normalize_value",
]

TARGET_BACKEND_TO_DRIVER = {"llvm-cpu": "local-task", "vmvx": "local-task", "vulkan-spirv": "vulkan"}
"""The driver of the programs that a backend of the compiler makes."""


class Config:
    """A device, and the modules that programs on it need."""

    def __init__(self, driver_name: str | None = None, *, device: HalDevice | None = None) -> None:
        if device is not None and driver_name is not None:
            raise ValueError("a Config is of a driver_name or of a device, not of both")
        if device is None:
            device = get_first_device(driver_name.split(",") if driver_name is not None else None)
        self.device = device
        self.vm_instance = VmInstance()
        self.default_vm_modules: tuple[VmModule, ...] = (create_hal_module(self.vm_instance, device),)

    def __repr__(self) -> str:
        return f"<Config {self.device!r}>"


def normalize_value(value: Any) -> Any:
    """The value as an array of `numpy`; numbers get 32 bits, and lists, tuples and dictionaries stay."""
    if value is None or isinstance(value, (list, tuple, dict, np.ndarray)):
        return value
    if isinstance(value, DeviceArray):
        return np.asarray(value)
    if isinstance(value, bool):
        return np.asarray(value)
    if isinstance(value, int):
        return np.asarray(value, dtype=np.int32)
    if isinstance(value, float):
        return np.asarray(value, dtype=np.float32)
    return np.asarray(value)


class BoundModule:
    """A module of a context. Its functions are attributes and items."""

    def __init__(self, context: SystemContext, vm_module: VmModule) -> None:
        self._context = context
        self._vm_module = vm_module
        self._functions: dict[str, FunctionInvoker] = {}

    @property
    def name(self) -> str:
        """The name of the module."""
        return self._vm_module.name

    @property
    def vm_module(self) -> VmModule:
        """The module."""
        return self._vm_module

    def __getattr__(self, name: str) -> FunctionInvoker:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error

    def __getitem__(self, name: str) -> FunctionInvoker:
        found = self._functions.get(name)
        if found is not None:
            return found
        function = self._vm_module.lookup_function(name)
        if function is None:
            raise KeyError(f"there is no function '{name}' in {self}")
        invoker = FunctionInvoker(self._context.vm_context, self._context.config.device, function)
        self._functions[name] = invoker
        return invoker

    def __repr__(self) -> str:
        return f"<BoundModule {self._vm_module!r}>"


class BoundModules(dict[str, BoundModule]):
    """The modules of a context by name, as items and attributes."""

    def __getattr__(self, name: str) -> BoundModule:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error


class SystemContext:
    """A context with modules on a device. Without `vm_modules` it is dynamic: modules are added one after the other."""

    def __init__(self, vm_modules: Sequence[VmModule] | None = None, config: Config | None = None) -> None:
        self._config = config if config is not None else Config()
        self._is_dynamic = vm_modules is None
        defaults = self._config.default_vm_modules
        if vm_modules is None:
            self._vm_context = VmContext(self._config.vm_instance)
            self._vm_context.register_modules(defaults)
            modules = defaults
        else:
            modules = (*defaults, *vm_modules)
            self._vm_context = VmContext(self._config.vm_instance, modules=modules)
        self._bound_modules = BoundModules((module.name, BoundModule(self, module)) for module in modules)

    @property
    def vm_context(self) -> VmContext:
        """The context of the virtual machine."""
        return self._vm_context

    @property
    def is_dynamic(self) -> bool:
        """Whether modules can be added."""
        return self._is_dynamic

    @property
    def config(self) -> Config:
        """Its device and modules."""
        return self._config

    @property
    def instance(self) -> VmInstance:
        """What its modules are loaded with."""
        return self._config.vm_instance

    @property
    def modules(self) -> BoundModules:
        """Its modules by name."""
        return self._bound_modules

    def add_module_dependency(self, name: str, minimum_version: int = 0) -> None:
        """Adds a module that this build has by itself."""
        self.add_vm_module(VmModule.resolve_module_dependency(self.instance, name, minimum_version))

    def add_vm_modules(self, vm_modules: Sequence[VmModule]) -> None:
        """Adds modules."""
        assert self._is_dynamic, "a static context takes no more modules"
        vm_modules = list(vm_modules)
        for module in vm_modules:
            if module.name in self._bound_modules:
                raise ValueError(f"the context has a module '{module.name}' already")
        self._vm_context.register_modules(vm_modules)
        for module in vm_modules:
            self._bound_modules[module.name] = BoundModule(self, module)

    def add_vm_module(self, vm_module: VmModule) -> None:
        """Adds a module."""
        self.add_vm_modules((vm_module,))


def load_vm_modules(*vm_modules: VmModule, config: Config | None = None) -> list[BoundModule]:
    """The modules in a context of their own, in which each sees those before it."""
    context = SystemContext(vm_modules=vm_modules, config=config)
    return [context.modules[module.name] for module in vm_modules]


def load_vm_module(vm_module: VmModule, config: Config | None = None) -> BoundModule:
    """The module in a context of its own."""
    return load_vm_modules(vm_module, config=config)[0]


def _create_config(*, driver: str | None, backend: str | None) -> Config:
    if driver is None and backend is None:
        raise ValueError("a driver or a backend is needed to know the device")
    if driver is not None and backend is not None:
        raise ValueError("a driver and a backend each say which device it is: give one of them")
    if backend is not None:
        driver = TARGET_BACKEND_TO_DRIVER[backend]
    return Config(device=get_device(driver or ""))


def load_vm_flatbuffer(vm_flatbuffer: bytes, *, driver: str | None = None, backend: str | None = None) -> BoundModule:
    """The module of a file in memory, on a device of a driver or of that which a backend of the compiler is for."""
    config = _create_config(driver=driver, backend=backend)
    return load_vm_module(VmModule.copy_buffer(config.vm_instance, vm_flatbuffer), config)


def load_vm_flatbuffer_file(
    path: str,
    *,
    driver: str | None = None,
    backend: str | None = None,
    destroy_callback: Callable[[], Any] | None = None,
) -> BoundModule:
    """The module of a file, as `load_vm_flatbuffer`. `destroy_callback` is called when nothing refers to it any more."""
    config = _create_config(driver=driver, backend=backend)
    return load_vm_module(VmModule.mmap(config.vm_instance, path, destroy_callback), config)
