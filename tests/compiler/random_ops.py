"""Random ops over random lists: the expressions of `random_models` for each bag, query, row or nonzero.

Values stay small, as there: a sum over entries counts as one over MOST_ENTRIES of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.compiler.random_models import LARGEST_BOUND, UNARY, Model, Shape, Value

MOST_LISTS = 4
MOST_ENTRIES = 7
MOST_ROWS = 4
MOST_TENSORS = 6
SIZES = ("D", "F", "S")
EXTENTS = (1, 2, 3, 4)

# Among ordinary names some that the compiler gives to what it makes itself.
TENSOR_NAMES = ("T", "X", "Y", "K", "P", "out", "acc", "begin", "z1", "inf", "p", "index")
DATA_NAMES = ("y", "s", "k", "h", "norm_sum", "result")
OVER_MEMBERS = ("sum", "sum", "mean", "max", "min")


@dataclass(frozen=True)
class Form:
    """How an op is written: its header, its sets, and what a loop over a list's entries goes over."""

    header: str
    group: str
    member: str
    picked: str
    letter: str  # of a list
    entries: str
    weighted: bool
    loop: str = ""  # over all lists, where the op is not called for each


BAG = Form("b: bag of row", "bag", "entry", "row", "b", "b", True)
BLOCKS = Form("q: blocks of block", "query", "entry", "block", "q", "q", False)
CSR, COO, SQUARE, SQUARE_COO = (
    Form(f"A: {kind}[{rows}, {columns}]", rows, "nonzero", columns, "i", "A.row(i)", True, "A.rows()")
    for kind, rows, columns in (
        ("csr", "row", "col"),
        ("coo", "user", "item"),
        ("csr", "node", "node"),
        ("coo", "node", "node"),
    )
)
FORMS = (BAG, BAG, BLOCKS, CSR, COO, SQUARE, SQUARE_COO)


@dataclass(frozen=True)
class Declared:
    """A tensor of the text."""

    name: str
    sets: tuple[str, ...]
    shape: Shape


@dataclass
class Op(Model):
    """A text while it is drawn. `place` is where it stands: "group", "member", or "nonzero" in a loop over all."""

    form: Form = BAG
    place: str = "group"
    weighted: bool = False
    declared: list[Declared] = field(default_factory=list)
    declarations: list[str] = field(default_factory=list)
    data: list[tuple[str, str, Shape, float]] = field(default_factory=list)  # set, name, shape, bound
    own_data: set[str] = field(default_factory=set)
    """What the loop that runs has written so far: readable on its own element alone."""

    def indices(self) -> dict[str, tuple[str, ...]]:
        """How the elements of each set are written here."""
        form = self.form
        if self.place == "nonzero":
            known = {form.member: ("z",), form.group: ("z.row",)}
            return known | {form.picked: (*known.get(form.picked, ()), "z.col")}
        known = {form.group: (form.letter,)}
        return known | ({form.picked: (*known.get(form.picked, ()), "j")} if self.place == "member" else {})

    def weights(self) -> list[Value]:
        """The number of this entry, where it has one by name."""
        if self.place == "nonzero":
            return [Value("z.value", 1.0, True)]
        return [Value("w", 1.0, True)] if self.place == "member" and self.weighted else []

    def expression(self, shape: Shape, depth: int) -> Value:
        if self.place == "group" and depth and self.draw(st.integers(0, 2)) == 0:
            return self.over_members(shape, depth - 1)
        return super().expression(shape, depth)

    def over_members(self, shape: Shape, depth: int) -> Value:
        """`sum(w * T[j] for j, w in b)`."""
        function = self.pick(OVER_MEMBERS)
        with self.members():
            operand = self.expression(shape, depth)
            text = f"{function}({operand.text} for {self.variables()} in {self.form.entries})"
        bound = operand.bound * (MOST_ENTRIES if function == "sum" else 1)
        return Value(f"tanh({text})", 1.0, True) if bound > LARGEST_BOUND else Value(text, bound, True)

    @contextmanager
    def members(self) -> Iterator[None]:
        """Inside of a loop over a list's entries; the locals of that loop end with it."""
        known = list(self.locals)
        self.place, self.weighted = "member", self.form.weighted and self.draw(st.booleans())
        yield
        self.place, self.locals = "group", known

    def variables(self) -> str:
        return "j, w" if self.weighted else "j"

    def leaf(self, shape: Shape) -> Value:
        """A local, data or a tensor of that shape, or a new tensor."""
        known = [value for other, value in self.locals if other == shape]
        known += [value for tensor in self.declared if tensor.shape == shape and (value := self.rows(tensor))]
        known += self.weights() * 2 if shape == () else []
        known += [
            Value(f'{self.owner(owner, name)}["{name}"]', bound, True)
            for owner, name, other, bound in self.data
            if other == shape and owner in self.indices() and self.place != "nonzero"
        ]
        if known and (len(self.declared) >= MOST_TENSORS or self.draw(st.integers(0, 2))):
            return self.pick(known)
        if shape == () and self.draw(st.integers(0, 5)) == 0:
            return Value(self.pick(("0.5", "-2", "3", *self.sizes)), 4.0, False)
        return self.gathered(shape)

    def owner(self, owner: str, name: str) -> str:
        """The element of which data is read."""
        return self.form.letter if name in self.own_data else self.pick(self.indices()[owner])

    def gathered(self, shape: Shape) -> Value:
        """The rows of a new tensor, or all of one that has no index sets."""
        sets = self.pick([*((name,) for name in self.indices()), (self.form.picked,), (), tuple(self.indices())])
        if (not shape and not sets) or any(name not in self.indices() for name in sets):
            sets = (next(iter(self.indices())),)
        taken = {tensor.name for tensor in self.declared}
        name = self.pick([name for name in TENSOR_NAMES if name not in taken] or [f"t{len(taken)}"])
        extents = ", ".join([*sets, *map(self.extent_text, shape)])
        self.declared.append(Declared(name, sets, shape))
        self.declarations.append(f"{self.pick(('param', 'param', 'input'))} {name}[{extents}]")
        value = self.rows(self.declared[-1])
        assert value is not None
        return value

    def rows(self, tensor: Declared) -> Value | None:
        """A tensor's rows as they are written here; None if it has none for such elements."""
        known = self.indices()
        if not all(name in known for name in tensor.sets):
            return None
        indices = [self.pick(known[name]) for name in tensor.sets]
        return Value(f"{tensor.name}[{', '.join(indices)}]" if indices else tensor.name, 1.0, bool(indices))

    def own(self, value: Value) -> Value:
        """The value, made one that every element has its own of."""
        if value.depends:
            return value
        owner = self.form.member if self.place == "nonzero" else self.form.group
        if self.place == "member":
            owner = self.form.picked
        known = [tensor for tensor in self.declared if tensor.sets == (owner,) and tensor.shape == ()]
        if not known:
            self.declared.append(Declared(f"own_{owner}", (owner,), ()))
            self.declarations.append(f"input own_{owner}[{owner}]")
            known = [self.declared[-1]]
        row = self.rows(known[0])
        assert row is not None
        return Value(f"({value.text} + {row.text})", value.bound + 1, True)

    def shape(self) -> Shape:
        return tuple(self.pick(self.sizes.values()) for _ in range(self.pick((0, 1, 1, 1, 2))))

    # Statements

    def assignment(self, letter: str, owner: str, depth: int) -> str:
        """`i["y"] = ...`."""
        shape, name = self.shape(), DATA_NAMES[len(self.data)]
        value = self.own(self.expression(shape, depth))
        self.data.append((owner, name, shape, value.bound))
        self.own_data.add(name)
        return f'{letter}["{name}"] = {value.text}'

    def summed(self, depth: int) -> list[str]:
        """`i["y"] += ...` in a loop over the entries."""
        shape, name, letter = self.shape(), DATA_NAMES[len(self.data)], self.form.letter
        with self.members():
            lines = [f"for {self.variables()} in {self.form.entries}:"]
            if self.draw(st.booleans()):
                local = self.expression(shape, depth - 1)
                lines.append(f"    u = {local.text}")
                self.locals.append((shape, Value("u", local.bound, local.depends)))
            value = self.own(self.expression(shape, depth))
        lines.append(f'    {letter}["{name}"] += tanh({value.text})')
        self.data.append((self.form.group, name, shape, float(MOST_ENTRIES)))
        self.own_data.add(name)
        return lines

    def group_lines(self, depth: int) -> list[str]:
        """What is computed for each bag, query or row."""
        lines = []
        for _ in range(self.draw(st.integers(1, 2))):
            if self.draw(st.integers(0, 2)):
                lines.append(self.assignment(self.form.letter, self.form.group, depth))
            else:
                lines += self.summed(depth)
        return lines

    def member_lines(self, depth: int) -> list[str]:
        """What is computed for each entry or nonzero."""
        if self.form.loop:
            self.place = "nonzero"
            line = self.assignment("z", self.form.member, depth)
            self.place = "group"
            return ["for z in A.nonzeros():", f"    {line}"]
        with self.members():
            line = self.assignment("j", self.form.member, depth)
            return [f"for {self.variables()} in {self.form.entries}:", f"    {line}"]


@st.composite
def op_texts(draw: Callable[[st.SearchStrategy], Any], depth: int = 3) -> str:
    """The text of one op with sizes from 1 to 4, no two alike."""
    op = Op(draw)
    op.form = op.pick(FORMS)
    values = draw(st.lists(st.sampled_from(EXTENTS), min_size=2, max_size=3, unique=True))
    op.sizes = dict(zip(SIZES, values, strict=False))
    lines: list[str] = []
    if draw(st.integers(0, 3)) == 0:
        lines += op.member_lines(depth)
        if draw(st.booleans()):
            lines += _group(op, depth - 1)
    else:
        lines += _group(op, depth)
    owner, name, _, _ = op.data[-1]
    letter = op.form.letter if owner == op.form.group else "z" if op.form.loop else "j"
    result = f'{letter}["{name}"]'
    if draw(st.integers(0, 2)) == 0:
        result = op.pick([form for form in UNARY if "exp" not in form]).format(result)
    head = [f"dim {', '.join(f'{n} = {size}' for n, size in op.sizes.items())}", "", f"op Model({op.form.header}):"]
    body = [*op.declarations, *lines, f"return {result}"]
    return "\n".join([*head, *(f"    {line}" for line in body), ""])


def _group(op: Op, depth: int) -> list[str]:
    op.own_data.clear()
    lines = op.group_lines(depth)
    return [f"for i in {op.form.loop}:", *(f"    {line}" for line in lines)] if op.form.loop else lines


@st.composite
def list_arrays(draw: Callable[[st.SearchStrategy], Any]) -> tuple[list[int], list[int], int]:
    """The list of each entry and the row that it picks, in order; with empty lists, one list, or none. With it, how
    many lists there are; there is one row at least."""
    lists = draw(st.integers(0, MOST_LISTS))
    entries = draw(st.integers(0, MOST_ENTRIES)) if lists else 0
    of = sorted(draw(st.lists(st.integers(0, max(lists - 1, 0)), min_size=entries, max_size=entries)))
    picks = draw(st.lists(st.integers(0, MOST_ROWS - 1), min_size=entries, max_size=entries))
    return of, picks, lists


def op_inputs(graph: Any, lists: tuple[list[int], list[int], int], seed: int) -> dict[str, Any]:
    """What a caller gives an op with that graph: its lists, and values in [-1, 1] for every tensor."""
    of, picks, count = np.array(lists[0], dtype=np.int32), np.array(lists[1], dtype=np.int32), lists[2]
    home, pick = graph.maps[:2]
    rows = count if home.codomain == pick.codomain else MOST_ROWS
    picks = picks % max(rows, 1)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=count))]).astype(np.int32)
    counts = {pick.codomain: rows, home.codomain: count, home.domain: len(of)}
    inputs: dict[str, Any] = {
        "bags": {"ptr": ptr, "idx": picks, "num_rows": rows},
        "blocks": {"ptr": ptr, "blocks": picks, "num_blocks": rows},
        "csr": {"rowptr": ptr, "col": picks, "num_cols": rows},
        "coo": {"row": of, "col": picks, "num_rows": count, "num_cols": rows},
    }[graph.structure]
    random = np.random.default_rng(seed)
    weight = {"bags": "weight", "csr": "value", "coo": "value"}.get(graph.structure)
    if weight is not None:
        inputs[weight] = random.uniform(-1, 1, len(of)).astype(np.float32)
    for tensor in graph.tensors:
        if tensor.kind in ("param", "input"):
            shape = [counts[name] for name in tensor.sets] + [graph.size(extent) for extent in tensor.dims]
            inputs[tensor.name] = random.uniform(-1, 1, shape).astype(np.float32)
    return inputs
