"""Where the model of a predictor comes from, and the models that this process has loaded.

A `Source` is the path or the bytes of a module file, a `vireo.Model`, or a reference to one of them in Ray's object
store, with the options of its model. It is pickled by path and digest, by its bytes, or as the reference. Equal sources
of one process share one model, which `Predictor` asks for when it is made, or at the first call in another process.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import stat
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import _models, _vireo

# Models that stay loaded without a predictor that uses them: engines make one for each task.
KEPT = 4


def ray_module(name: str = "ray") -> Any:
    """A module of Ray. Its types are not known where it is not installed."""
    return importlib.import_module(name)


def described(value: object) -> str:
    """The type of a value, for messages."""
    kind = type(value)
    return f"a {kind.__name__}" if kind.__module__ == "builtins" else f"a {kind.__module__}.{kind.__name__}"


def is_reference(value: object) -> bool:
    """True for a reference to an object of Ray, without an import of it."""
    ray = sys.modules.get("ray")
    return ray is not None and isinstance(value, getattr(ray, "ObjectRef", ()))


def assigned_workers() -> int | None:
    """As many as the CPUs of the task or actor of Ray that this is, at least 1; None outside of them."""
    ray: Any = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    context = ray.get_runtime_context()
    if context.worker.mode != ray.WORKER_MODE:
        return None
    return max(1, int(context.get_assigned_resources().get("CPU", 1)))


class _Loaded:
    """A model of this process, once it is loaded."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.model: _vireo.Model | None = None


_lock = threading.Lock()
_loaded: OrderedDict[object, _Loaded] = OrderedDict()
_count = 0


def load_count() -> int:
    """How many models the predictors of this process have loaded so far: one for each file and its options."""
    return _count


def _forget_locks() -> None:
    # A thread of the parent may have held one when it was forked.
    global _lock
    _lock = threading.Lock()
    for entry in _loaded.values():
        entry.lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_locks)


def shared(key: object, load: Callable[[], _vireo.Model]) -> _vireo.Model:
    """The model of the key, which one thread loads while others that want it wait."""
    global _count
    with _lock:
        entry = _loaded.setdefault(key, _Loaded())
        _loaded.move_to_end(key)
        while len(_loaded) > KEPT:
            _loaded.popitem(last=False)
    with entry.lock:
        if entry.model is None:
            entry.model = load()
            with _lock:
                _count += 1
        return entry.model


def _folder() -> Path:
    """The folder of this user for modules that came as bytes, which nobody else may write to."""
    path = Path(tempfile.gettempdir()) / f"vireo-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise _vireo.PermissionDenied(f"{path} belongs to another user, or others may write to it: set TMPDIR")
    return path


def file_of(data: memoryview, digest: str) -> Path:
    """A file with these bytes, so that the processes of a machine share its pages."""
    path = _folder() / f"{digest}.vmfb"
    # A file that was cut off, or is another one, is replaced.
    if not path.exists() or _models.digest(path) != digest:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{digest}.")
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    return path


def stamp_of(path: str) -> tuple[int, ...] | None:
    """What changes when another file gets the path; None if there is no file, of which loading says why."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


@lru_cache(maxsize=64)
def verify(path: str, stamp: tuple[int, ...] | None, expected: str) -> None:
    """Refuses a file that is not the one of a pickle. A file that has not changed is read once."""
    _models.verify(path, expected)


class Source:
    """A model and its options, not loaded."""

    def __init__(self, model: Any, options: dict[str, Any]) -> None:
        self.version = _vireo.__version__
        self.path: str | None = None
        self.digest: str | None = None
        # The bytes, until they are in a file of this process's machine.
        self.data: Any = None
        self.file: Path | None = None
        self.options = {name: value for name, value in options.items() if value is not None}
        self._model: _vireo.Model | None = None
        if isinstance(model, _vireo.Model):
            if self.options:
                raise _vireo.InvalidArgument(f"a `vireo.Model` has its options, and takes no {', '.join(self.options)}")
            _, (origin, self.digest, self.version, self.options) = model.__reduce__()
            model = origin
        if isinstance(model, (str, os.PathLike)):
            self.path = os.path.abspath(os.fspath(model))
        elif is_reference(model):
            self.data = model
        else:
            try:
                self.data = memoryview(model).cast("B")
            except TypeError:
                expected = "the path or the bytes of a module file, a `vireo.Model`, or a reference of Ray to one of these"
                raise _vireo.InvalidArgument(f"`model`: expected {expected}, got {described(model)}") from None

    def model(self) -> _vireo.Model:
        """The model, which is loaded unless this process has it."""
        if self._model is None:
            self._model = self._find()
        return self._model

    def _find(self) -> _vireo.Model:
        if self.version != _vireo.__version__:
            raise _vireo.Incompatible(
                f"the predictor was pickled by version {self.version} of this package, and this is {_vireo.__version__}"
            )
        if is_reference(self.data):
            # Not kept: the model has its own memory, and the object store gets its own back.
            return Source(ray_module().get(self.data), self.options).model()
        options = self._options()
        chosen = tuple(sorted((name, repr(value)) for name, value in options.items()))
        if self.path is not None:
            path, stamp = self.path, stamp_of(self.path)
            if self.digest is not None:
                verify(path, stamp, self.digest)
            return shared((path, stamp, chosen), lambda: _vireo.Model(path, **options))
        if self.digest is None:
            self.digest = hashlib.sha256(self.data).hexdigest()
        if self.file is None:
            self.file = file_of(self.data, self.digest)
            self.data = None
        file = self.file
        return shared((self.digest, chosen), lambda: _vireo.Model(file, **options))

    def _options(self) -> dict[str, Any]:
        """The options here: as many workers as Ray has given, and none where the calling thread is the only one."""
        options = dict(self.options)
        if options.get("threads") is None:
            options["threads"] = assigned_workers()
        if not options.get("device") and options["threads"] == 1:
            options["device"] = ["local-sync"]
        return options

    def __getstate__(self) -> dict[str, Any]:
        if self.path is not None and self.digest is None:
            # The model knows whether the file is still the one that it was loaded from.
            _, (_, self.digest, _, _) = self.model().__reduce__()
        data = self.data if self.file is None else self.file.read_bytes()
        if isinstance(data, memoryview):
            data = data.tobytes()
        return {**self.__dict__, "data": data, "file": None, "_model": None}

    def __repr__(self) -> str:
        if self.path is not None:
            return repr(self.path)
        return "<a reference of Ray>" if is_reference(self.data) else "<bytes>"
