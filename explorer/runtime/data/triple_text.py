"""Tab-separated triples, the form in which public knowledge graphs are distributed: a line each."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from typing import IO

import numpy as np
import numpy.typing as npt

MAX_LINE_BYTES = 1 << 16
MAX_ID = 2**31 - 2
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
INTEGER = re.compile(r"-?[0-9]+", re.ASCII)


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a text as ids: the text's own, or the numbers of its names."""

    h: npt.NDArray[np.int32]
    r: npt.NDArray[np.int32]
    t: npt.NDArray[np.int32]
    num_entities: int
    num_relations: int


class _Numbering:
    """Numbers names in order of appearance and remembers the line on which each first stood."""

    def __init__(self) -> None:
        self.number: dict[bytes, int] = {}
        self.names: list[str] = []
        self.lines: list[int] = []

    def add(self, name: bytes, line: int) -> int:
        """Gives a new name its number; raises ValueError where it is not UTF-8."""
        try:
            self.names.append(name.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ValueError(f"line {line}: not UTF-8 text (byte 0x{name[error.start]:02x})") from error
        self.lines.append(line)
        self.number[name] = len(self.lines) - 1
        return len(self.lines) - 1

    def all_integers(self) -> bool:
        """Whether every name is written as a whole number."""
        return all(INTEGER.fullmatch(name) for name in self.names)

    def ids(self, role: str) -> npt.NDArray[np.int32]:
        """The names as ids, by number; raises ValueError at the line of the first that cannot be one."""
        for name, line in zip(self.names, self.lines, strict=True):
            # The length guards int(), which refuses numbers of thousands of digits.
            if name.startswith("-") or len(name) > 20 or int(name) > MAX_ID:
                raise ValueError(f"line {line}: {role} id {name[:20]} is not between 0 and {MAX_ID}")
        return np.array([int(name) for name in self.names], dtype=np.int32)


def read_text(stream: IO[bytes], max_bytes: int) -> Columns:
    """The triples of a text; blank lines are passed over.

    A line is head TAB relation TAB tail. If every entity and every relation is written as a whole number,
    those are the ids; otherwise all are names, numbered in order of appearance.
    Raises ValueError naming the line.
    """
    entities, relations = _Numbering(), _Numbering()
    heads, kinds, tails = array("i"), array("i"), array("i")
    entity_number, relation_number = entities.number, relations.number
    size = number = 0
    for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b""), start=1):
        size += len(line)
        if len(line) > MAX_LINE_BYTES or size > max_bytes:
            raise ValueError(f"line {number}: {_too_large(line, max_bytes)}")
        fields = (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).strip(b" \t\r\n").split(b"\t")
        if len(fields) != 3:
            if fields == [b""]:
                continue
            raise ValueError(f"line {number}: {_ragged(fields)}")
        head, relation, tail = fields
        # Names that are known already cost one look-up: the loop runs once a triple.
        at = entity_number.get(head)
        heads.append(entities.add(head, number) if at is None else at)
        at = relation_number.get(relation)
        kinds.append(relations.add(relation, number) if at is None else at)
        at = entity_number.get(tail)
        tails.append(entities.add(tail, number) if at is None else at)
    if not heads:
        raise ValueError("there are no triples in it" + (f" ({number} blank lines)" if number else ""))
    return _columns(entities, relations, [np.array(part, dtype=np.int32) for part in (heads, kinds, tails)])


def _columns(entities: _Numbering, relations: _Numbering, numbers: list[npt.NDArray[np.int32]]) -> Columns:
    h, r, t = numbers
    if not (entities.all_integers() and relations.all_integers()):
        return Columns(h, r, t, len(entities.names), len(relations.names))
    entity_ids, relation_ids = entities.ids("entity"), relations.ids("relation")
    counts = int(entity_ids.max()) + 1, int(relation_ids.max()) + 1
    return Columns(entity_ids[h], relation_ids[r], entity_ids[t], *counts)


def _too_large(line: bytes, max_bytes: int) -> str:
    if len(line) > MAX_LINE_BYTES:
        return f"longer than {MAX_LINE_BYTES:,} bytes; triples are lines of head TAB relation TAB tail"
    return f"the text is larger than the limit of {max_bytes >> 20} MiB"


def _ragged(fields: list[bytes]) -> str:
    found = f"{len(fields)} field" + ("s" if len(fields) > 1 else "")
    spaces = len(fields) == 1 and len(fields[0].split()) == 3
    hint = "; its fields are separated by spaces, not tabs" if spaces else ""
    return f"expected head TAB relation TAB tail, found {found}{hint}"
