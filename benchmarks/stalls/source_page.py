"""Reads the source page that ncu prints as CSV: the samples of each instruction, by why the warp did not go on.

`ncu --import REPORT --page source --csv --print-source sass` writes for each launch a row with its name, a row with the
columns' names, and a row an instruction (Nsight Compute, "CLI", Page source; "Kernel Profiling Guide", Warp Stall
Reasons):

    "Kernel Name","SLS_0_kernel"
    "Address","Source","Warp Stall Sampling (All Samples)",...,"stall_long_sb","stall_selected",...
    "0x7f5b24fa0100","      LDC R1, c[0x0][0x28]","12",...,"0","12",...

Columns come and go with ncu's versions, so they are found by their names; lines before the first kernel are ncu's own.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

TOTALS = ("Warp Stall Sampling (All Samples)", "# Samples", "Samples")
REASON = re.compile(r"stall_(?!.*not_issued)(\w+)")
UNKNOWN = "unknown"
"""What is put down for samples whose reason ncu does not say."""

Samples = dict[str, dict[int, int]]
"""By reason and address from the kernel's beginning, how many."""


@dataclass
class Launch:
    """What ncu says of one launch: the addresses and opcodes of all instructions, and the samples."""

    kernel: str
    instructions: list[tuple[int, str]] = field(default_factory=list)
    samples: Samples = field(default_factory=dict)


class FormatError(Exception):
    """What is no source page of ncu's."""


def read(lines: Iterable[str]) -> list[Launch]:
    """The launches of a source page. Raises FormatError."""
    found: list[Launch] = []
    names: list[str] = []
    for row in csv.reader(lines):
        cells = [cell.strip() for cell in row]
        if cells[:1] == ["Kernel Name"] and len(cells) > 1 and "Address" not in cells:
            found.append(Launch(cells[1].partition("(")[0].strip()))
        elif "Address" in cells and "Source" in cells:
            names = cells
        elif found and names and len(cells) == len(names):
            _add(found[-1], dict(_first(names, cells)))
    if not any(launch.instructions for launch in found):
        raise FormatError("There is no kernel with instructions in what ncu has printed.")
    return [_from_zero(launch) for launch in found if launch.instructions]


def _first(names: Sequence[str], cells: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The cells by the names of their columns, the first where two have one name."""
    seen: set[str] = set()
    for name, cell in zip(names, cells, strict=True):
        if name not in seen:
            seen.add(name)
            yield name, cell


def _add(launch: Launch, row: Mapping[str, str]) -> None:
    if not re.fullmatch(r"(0x)?[0-9a-fA-F]+", row["Address"]):
        return
    address = int(row["Address"], 16)
    launch.instructions.append((address, opcode_of(row["Source"])))
    total = next((_number(row[name]) for name in TOTALS if name in row), None)
    reasons = {match[1]: _number(cell) for name, cell in row.items() if (match := REASON.fullmatch(name))}
    told = sum(reasons.values())
    if total is not None and told != total:  # what does not add up is not told apart
        reasons = {UNKNOWN: total}
    for reason, count in reasons.items():
        if count:
            launch.samples.setdefault(reason, {})[address] = count


def opcode_of(text: str) -> str:
    """The opcode of an instruction, without its predicate and its modifiers: `IMAD` of `@!P0 IMAD.WIDE R2, ...`."""
    words = text.replace(";", " ").split()
    words = words[1:] if words and words[0].startswith("@") else words
    return words[0].partition(".")[0] if words else ""


def _number(cell: str) -> int:
    """A count, "" for none. Raises FormatError."""
    try:
        return round(float(cell.replace(",", ""))) if cell else 0
    except ValueError:
        raise FormatError(f"{cell!r} is no number of samples.") from None


def _from_zero(launch: Launch) -> Launch:
    base = min(address for address, _ in launch.instructions)
    return Launch(
        launch.kernel,
        [(address - base, opcode) for address, opcode in launch.instructions],
        {reason: {address - base: n for address, n in at.items()} for reason, at in launch.samples.items()},
    )


def added(launches: Iterable[Launch]) -> Samples:
    """The samples of several launches of a kernel, together."""
    found: Samples = {}
    for launch in launches:
        for reason, at in launch.samples.items():
            known = found.setdefault(reason, {})
            for address, count in at.items():
                known[address] = known.get(address, 0) + count
    return found
