"""Drivers and devices by URI, which are shared."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Sequence
from threading import RLock

from ._binding import HalDevice, HalDriver, get_cached_hal_driver

__all__ = ["get_device", "get_driver", "get_first_device", "query_available_drivers"]

DEFAULT_DRIVER_NAMES = "local-task,cuda,vulkan"
"""The devices that are tried in order, unless `IREE_DEFAULT_DEVICE` names others."""

_DEVICES: dict[str, HalDevice] = {}
_LOCK = RLock()


def query_available_drivers() -> Collection[str]:
    """The names of the drivers of this build."""
    return HalDriver.query()


def get_driver(device_uri: str) -> HalDriver:
    """The driver of a URI, which is shared."""
    return get_cached_hal_driver(device_uri)


def get_device(device_uri: str, cache: bool = True) -> HalDevice:
    """The device of a URI, which is shared unless `cache` is false."""
    with _LOCK:
        if cache and device_uri in _DEVICES:
            return _DEVICES[device_uri]
        driver = get_driver(device_uri)
        # A name alone means the first device of the driver.
        if "://" in device_uri or "?" in device_uri:
            device = driver.create_device_by_uri(device_uri)
        else:
            device = driver.create_default_device()
        if cache:
            _DEVICES[device_uri] = device
        return device


def get_first_device(device_uris: Sequence[str] | None = None, cache: bool = True) -> HalDevice:
    """The first of some devices that there is; of those of `IREE_DEFAULT_DEVICE` if none are given."""
    if device_uris is None:
        device_uris = os.environ.get("IREE_DEFAULT_DEVICE", DEFAULT_DRIVER_NAMES).split(",")
    reasons = []
    for uri in device_uris:
        try:
            return get_device(uri.strip(), cache=cache)
        except (ValueError, RuntimeError) as error:
            logging.debug("no device %s: %s", uri, error)
            reasons.append(str(error))
    raise ValueError(f"No device found from list {list(device_uris)}: {'; '.join(reasons)}")
