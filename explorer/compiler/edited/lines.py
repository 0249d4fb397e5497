"""Which lines of an edited text are the compiler's, and what operations the others belong to."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.node import Line, Origin, Span


@dataclass(frozen=True)
class Matched:
    """By line of an edited text, counted from 0, the origin that it has of the compiler's: its own where it is
    unchanged, and where as many lines stand in the place of others, theirs. `first` is the first line that is not the
    compiler's, `changed` counts those and the ones that are gone, `touched` are the origins of all of these."""

    origins: tuple[Origin, ...]
    first: int
    changed: int
    touched: tuple[Origin, ...]

    @property
    def operations(self) -> tuple[Span | None, ...]:
        """By line the operation that it computes, where it is one."""
        primaries = (origin[0] if origin else None for origin in self.origins)
        return tuple(each if isinstance(each, Span) else None for each in primaries)

    @property
    def operation(self) -> Span | None:
        """The operation of the first line that was changed and belongs to one."""
        primaries = (origin[0] for origin in self.touched if origin)
        return next((each for each in primaries if isinstance(each, Span)), None)


def match(before: Sequence[Line], after: Sequence[str]) -> Matched:
    """The lines of an edited text beside those that the compiler printed; blanks at their ends do not count."""
    old, new = [line.text.rstrip() for line in before], [line.rstrip() for line in after]
    head = _alike(old, new)
    tail = _alike(old[head:][::-1], new[head:][::-1])
    origins: list[Origin] = [()] * len(new)
    touched: list[Origin] = []
    first, changed = len(new), 0
    middle = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    blocks = [(tag == "equal", head + i, head + j, head + k, head + m) for tag, i, j, k, m in middle.get_opcodes()]
    ends = (True, len(old) - tail, len(old), len(new) - tail, len(new))
    for same, i, j, k, m in ((True, 0, head, 0, head), *blocks, ends):
        if same or j - i == m - k:
            origins[k:m] = [line.origin for line in before[i:j]]
        if not same:
            touched += [line.origin for line in before[i:j]]
            first, changed = min(first, k), changed + max(j - i, m - k)
    return Matched(tuple(origins), min(first, max(len(new) - 1, 0)), changed, tuple(touched))


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines are the same from the start on."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
