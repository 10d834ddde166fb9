"""Runs compiled IREE programs: sessions of models, called with arrays.

    session = vireo.Session("model.vmfb")
    y = session["main"](x)

`docs/python.md` in the repository is the guide.
"""

from ._vireo import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    Deferred,
    Error,
    FailedPrecondition,
    Fence,
    Function,
    Incompatible,
    Internal,
    InvalidArgument,
    Limits,
    Model,
    NotFound,
    OutOfRange,
    PermissionDenied,
    PreparedCall,
    Reference,
    ResourceExhausted,
    Session,
    Signature,
    Tensor,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    Unknown,
    Value,
    __version__,
    borrow,
    devices,
    empty,
)

# The constant of `typing`, whose import would take longer than that of this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._compile import compile

__all__ = [
    "Aborted",
    "AlreadyExists",
    "Cancelled",
    "DataLoss",
    "DeadlineExceeded",
    "Deferred",
    "Error",
    "FailedPrecondition",
    "Fence",
    "Function",
    "Incompatible",
    "Internal",
    "InvalidArgument",
    "Limits",
    "Model",
    "NotFound",
    "OutOfRange",
    "PermissionDenied",
    "PreparedCall",
    "Reference",
    "ResourceExhausted",
    "Session",
    "Signature",
    "Tensor",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Unknown",
    "Value",
    "__version__",
    "borrow",
    "compile",
    "devices",
    "empty",
]


def __getattr__(name: str) -> object:
    # What few programs use is imported when it is asked for: an import takes a millisecond without it.
    if name == "compile":
        from ._compile import compile

        return compile
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
