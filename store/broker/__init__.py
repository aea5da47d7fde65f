"""The broker: the embedded queue server of a data folder, or the Redis that is given.

`open_broker` is for the one process that owns the data folder, `find_broker` for those that attach, `connect` makes a client.
Nothing here is loaded before it is asked for: finding a broker needs no redis-py, and its keeper needs neither.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from store.broker.client import broker_errors, connect
    from store.broker.locate import find_broker
    from store.broker.owner import Broker, open_broker

__all__ = ["Broker", "broker_errors", "connect", "find_broker", "open_broker"]

_ROOM_OF = {
    "Broker": "owner",
    "open_broker": "owner",
    "find_broker": "locate",
    "connect": "client",
    "broker_errors": "client",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
