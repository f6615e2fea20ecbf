"""Stores by the scheme of their address; the one table of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cdc.base.clock import Clock
from cdc.coord.contract import Store
from cdc.coord.etcd.address import EtcdAddress, StoreAddressInvalid

EMBEDDED = "embedded"


def _embedded(address: str, path: Path, clock: Clock) -> Store:
    from cdc.coord.embedded import EmbeddedStore

    return EmbeddedStore(path, clock)


def _etcd(address: str, path: Path, clock: Clock) -> Store:
    # Its client is loaded only where it is used.
    from cdc.coord.etcd.store import EtcdStore

    return EtcdStore(EtcdAddress.parse(address))


def _no_check(address: str) -> object:
    if address != EMBEDDED:
        raise StoreAddressInvalid("embedded has no options", object="store")
    return None


_STORES: dict[str, tuple[Callable[[str], object], Callable[[str, Path, Clock], Store]]] = {
    EMBEDDED: (_no_check, _embedded),
    "etcd": (EtcdAddress.parse, _etcd),
}


def check_address(address: str) -> str:
    """The address, if there is such a store. Raises :class:`StoreAddressInvalid`."""
    scheme = address.partition(":")[0]
    if scheme not in _STORES:
        raise StoreAddressInvalid(
            "there is no such kind of store", object="store", hint=f"one of {', '.join(_STORES)}"
        )
    _STORES[scheme][0](address)
    return address


def open_store(address: str, path: Path, clock: Clock) -> Store:
    """The store at an address; ``path`` is the file of the embedded one."""
    return _STORES[check_address(address).partition(":")[0]][1](address, path, clock)
