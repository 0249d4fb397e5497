"""What the ELF sections of a cubin say of its kernels: an account that does not come from ptxas's log.

A kernel's section `.nv.shared.` is as long as its static shared memory, and `.nv.info` holds attributes (EIATTR), among
them the registers of a function and the least stack that it runs in. `cuobjdump -res-usage` reads the same places.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

REGISTER_COUNT = 0x2F
MIN_STACK_SIZE = 0x12
MAX_THREADS = 0x05
SIZED_VALUE = 0x04
RESERVED = {"sm_80": 0, "sm_90": 1_024, "sm_90a": 1_024}
"""What the section of shared memory begins with that is the system's: on sm_90 the first address of a kernel is 0x400.
Only where the kernel has shared memory of its own."""


@dataclass(frozen=True)
class Section:
    name: str
    link: int
    size: int
    data: bytes


@dataclass(frozen=True)
class Usage:
    registers: int
    shared_bytes: int
    stack_bytes: int
    max_threads: int


def sections(cubin: bytes) -> list[Section]:
    """A cubin's sections; also asserts that nothing of it is cut off."""
    assert cubin[:4] == b"\x7fELF"
    (program_at, table_at) = struct.unpack_from("<QQ", cubin, 0x20)
    (entry, programs, size, count, names) = struct.unpack_from("<HHHHH", cubin, 0x36)
    assert max(table_at + size * count, program_at + entry * programs) <= len(cubin)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, table_at + size * number) for number in range(count)]
    table = headers[names][4]
    found = []
    for name, kind, _, _, at, length, link, _, _, _ in headers:
        data = b"" if kind == 8 else cubin[at : at + length]
        assert kind == 8 or len(data) == length
        found.append(Section(_string(cubin, table + name), link, length, data))
    return found


def usage(cubin: bytes, arch: str) -> dict[str, Usage]:
    """What each kernel uses, by its name."""
    found = sections(cubin)
    by_name = {section.name: section for section in found}
    symbols = by_name[".symtab"]
    strings = found[symbols.link].data
    names = [_string(strings, struct.unpack_from("<I", symbols.data, at)[0]) for at in range(0, symbols.size, 24)]
    functions = {
        (kind, names[number]): amount
        for kind, value in _attributes(by_name[".nv.info"].data)
        if kind in (REGISTER_COUNT, MIN_STACK_SIZE)
        for number, amount in [struct.unpack("<II", value)]
    }
    kernels = [section.name.removeprefix(".text.") for section in found if section.name.startswith(".text.")]
    return {
        kernel: Usage(
            functions[REGISTER_COUNT, kernel],
            by_name[f".nv.shared.{kernel}"].size - RESERVED[arch] if f".nv.shared.{kernel}" in by_name else 0,
            functions[MIN_STACK_SIZE, kernel],
            next(
                struct.unpack("<III", value)[0]
                for kind, value in _attributes(by_name[f".nv.info.{kernel}"].data)
                if kind == MAX_THREADS
            ),
        )
        for kernel in kernels
    }


def _attributes(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(data):
        form, kind, size = struct.unpack_from("<BBH", data, at)
        length = size if form == SIZED_VALUE else 0
        found.append((kind, data[at + 4 : at + 4 + length]))
        at += 4 + length
    return found


def _string(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
