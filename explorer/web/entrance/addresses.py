"""Addresses of clients, and of proxies that speak for them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

_OF_ONE_CLIENT = 64
"""The bits of an IPv6 address that its network gives out; whoever has one has all 2^64 behind them."""


def group(address: str) -> str:
    """What all addresses of one client have in common: an IPv4 address is one, an IPv6 network of 64 bits is one."""
    found = _parsed(address)
    if found is None:
        return address
    return str(found if found.version == 4 else ipaddress.ip_network((found, _OF_ONE_CLIENT), strict=False))


def is_local(address: str) -> bool:
    """Whether it is this computer's own for itself."""
    found = _parsed(address)
    return found is not None and found.is_loopback


def is_of(address: str, named: Iterable[str]) -> bool:
    """Whether it is one of these addresses, or in one of these networks."""
    found = _parsed(address)
    return found is not None and any(found in ipaddress.ip_network(each) for each in named)


def address_or_network(named: str) -> str:
    """An address, or a network of them, as uvicorn takes it. Raises ValueError."""
    return str(ipaddress.ip_network(named, strict=False) if "/" in named else ipaddress.ip_address(named))


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address, also where it is an IPv4 one in IPv6's form; None for what is none."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if found.version == 6 else None
    return mapped or found
