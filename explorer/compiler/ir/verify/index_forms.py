"""Indices of scheduled kernels as sums of multiples, `32 * w + l + 4`, and whether they tell iterations apart."""

from __future__ import annotations

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.kernels import Loop, ScheduledKernel
from explorer.compiler.ir.loops import Index, Load
from explorer.compiler.ir.node import Atom, walk
from explorer.compiler.ir.verify.sharing import size_of


@dataclass(frozen=True)
class IndexForm:
    """`start` and multiples of loop variables, or of names that are no such sum. It `tells_apart` where each value is
    that of one combination of these, as digits of a number."""

    start: int
    terms: tuple[tuple[str, int], ...]
    tells_apart: bool
    behind_found: bool  # it counts from a number that memory has, and what is added tells iterations apart


class IndexForms:
    """The forms of a kernel's loop variables and of all its integer arithmetic: each whole once it is asked for, for
    most names are only parts of others."""

    def __init__(self, kernel: ScheduledKernel) -> None:
        self._sums: dict[str, tuple[int, dict[str, int]]] = {name: (size, {}) for name, size in kernel.sizes}
        self._spans: dict[str, int | None] = {}  # by loop variable, its last value less its first
        self._bounds: dict[str, tuple[int, int]] = {}  # by loop variable, its first value and its last, where known
        self._loaded: set[str] = set()
        self._forms: dict[str, IndexForm] = {}
        for node in walk(kernel):
            if isinstance(node, Loop):
                lower, upper = size_of(kernel, node.lower), size_of(kernel, node.extent)
                self._spans[node.variable] = None if lower is None or upper is None else max(0, upper - lower - 1)
                self._sums[node.variable] = (0, {node.variable: 1})
                if lower is not None and upper is not None:
                    self._bounds[node.variable] = lower, max(lower, upper - 1)
            elif isinstance(node, Index):
                *_, left, right = (_form(operand, self._sums) for operand in node.operands)
                self._sums[node.result] = _combined(node, left, right) or (0, {node.result: 1})
            elif isinstance(node, Load):
                self._loaded.add(node.result)

    def get(self, name: str) -> IndexForm | None:
        """The form of what has this name; None where that is no index that arithmetic made."""
        if name not in self._forms and name in self._sums:
            self._forms[name] = self._form(*self._sums[name])
        return self._forms.get(name)

    def between(self, index: Atom) -> tuple[int, int] | None:
        """The least and the greatest value of an index, and of all elements of a vector; None where these are unknown,
        or where anything is subtracted."""
        start, terms = _form(index, self._sums)
        if any(name not in self._bounds or by < 0 for name, by in terms.items()):
            return None
        least, most = (start + sum(by * self._bounds[name][end] for name, by in terms.items()) for end in (0, 1))
        return least, most

    def _form(self, start: int, terms: dict[str, int]) -> IndexForm:
        added = {name: by for name, by in terms.items() if name not in self._loaded}
        behind_found = len(added) == len(terms) - 1 and _tells_apart(added, self._spans)
        return IndexForm(start, tuple(terms.items()), _tells_apart(terms, self._spans), behind_found)


def _form(atom: Atom, forms: dict[str, tuple[int, dict[str, int]]]) -> tuple[int, dict[str, int]]:
    if isinstance(atom, str):
        return forms.get(atom, (0, {atom: 1}))
    return int(atom), {}


def _combined(
    index: Index, left: tuple[int, dict[str, int]], right: tuple[int, dict[str, int]]
) -> tuple[int, dict[str, int]] | None:
    """The form of a sum, a difference or a product with a number; None for all else."""
    if index.function == "mul" and not (left[1] and right[1]):
        (by, _), (start, terms) = (left, right) if right[1] else (right, left)
        return by * start, {name: by * factor for name, factor in terms.items() if by}
    if index.function not in ("add", "sub"):
        return None
    sign = 1 if index.function == "add" else -1
    terms = dict(left[1])
    for name, by in right[1].items():
        terms[name] = terms.get(name, 0) + sign * by
    return left[0] + sign * right[0], {name: by for name, by in terms.items() if by}


def _tells_apart(terms: dict[str, int], spans: dict[str, int | None]) -> bool:
    """Whether each multiple is larger than all smaller ones together can make; a loop of one iteration makes none."""
    reach: int | None = 0
    several = [(name, by) for name, by in terms.items() if spans.get(name) != 0]
    for name, by in sorted(several, key=lambda term: (abs(term[1]), spans.get(term[0]) is None)):
        if reach is None or abs(by) <= reach:
            return False
        span = spans.get(name)
        reach = None if span is None else reach + abs(by) * span
    return True
