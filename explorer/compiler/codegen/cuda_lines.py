"""The lines of one kernel's body in CUDA C++, one after another: what is declared, named, and put in braces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from explorer.compiler.codegen.cuda_expressions import Expressions, Helpers
from explorer.compiler.codegen.cuda_places import PRIMARY, Scopes, Value
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.node import Line, Origin, merge

WIDTH = 110
"""Characters of a line that has a loop or a condition and all that is in it."""
DECLARED = re.compile(r"\s*(float[24]?|int) \w+;")
"""A line that declares one name, and says no value."""


class Lines(Expressions):
    """Writes lines."""

    def __init__(self, kernel: ScheduledKernel, helpers: Helpers, arch: str) -> None:
        super().__init__(kernel, helpers, arch)
        self.depth = 1
        self.lines: list[Line] = []
        self.scopes = Scopes()

    def write(self, text: str, origin: Origin = ()) -> None:
        """A line, which also belongs to what is written in it in the place of names."""
        origin, self.taken = self.with_taken(origin), []
        before = self.lines[-1] if self.lines else Line("")
        if DECLARED.fullmatch(before.text) and before.text.endswith(f" {text.partition(' = ')[0]};") and " = " in text:
            kind = before.text.rpartition(" ")[0]
            self.lines[-1] = Line(f"{kind} {text}", merge(before.origin, origin))
        else:
            self.lines.append(Line("  " * self.depth + text, origin))

    def with_taken(self, origin: Origin) -> Origin:
        """An origin, and those of what is written in the place of names."""
        others = [taken.origin for taken in self.taken if taken.origin != origin]
        return merge(origin, *others) if others else origin

    def declare(self, kind: str, declared: str, origin: Origin) -> None:
        """What is declared beside others of its type where they stand in the line before."""
        before = self.lines[-1] if self.lines else Line("")
        beside = before.text.startswith(f"{'  ' * self.depth}{kind} ")
        alike = before.text.endswith("];") == declared.endswith("]")
        if beside and alike and len(before.text) + len(declared) < WIDTH:
            self.lines[-1] = Line(f"{before.text[:-1]}, {declared};", merge(before.origin, origin))
        else:
            self.write(f"{kind} {declared};", origin)

    def define(self, name: str, kind: str, value: Value) -> None:
        """A name for a value: what is written in its place, if that is used once; a name that such a value has; or else
        a line."""
        lasting = value.lasting and all(taken.lasting for taken in self.taken)
        value = replace(value, origin=self.with_taken(value.origin), lasting=lasting)
        same = self.scopes.known(kind, value.text) if lasting else ""
        if same:
            value = replace(value, text=same, binds=PRIMARY)
        if same or (name in self.in_place and value.fits):
            self.values[name], self.taken = value, []
            return
        if lasting:
            self.scopes.define(kind, value.text, self.names[name])
        self.write(f"const {kind} {self.names[name]} = {value.text};", value.origin)

    @contextmanager
    def braces(self, head: str, origin: Origin) -> Iterator[None]:
        """A head, what is written meanwhile one level deeper, and the brace that closes it."""
        self.write(f"{head} {{", origin)
        self.depth += 1
        self.scopes.found.append({})
        first = len(self.lines)
        yield
        self.scopes.found.pop()
        self.depth -= 1
        if len(self.lines) != first + 1 or not self.alone(head, self.lines[first].text.strip()):
            self.write("}")
            return
        opening, body = self.lines[first - 1 :]
        text = f"{head} {body.text.strip()}"
        if body.text.strip().startswith("if ("):
            text = f"{head[:-1]} && {body.text.strip().removeprefix('if (')}"
        self.lines[first - 1 :] = [Line("  " * self.depth + text, merge(opening.origin, body.origin))]

    def alone(self, head: str, body: str) -> bool:
        """Whether a line may stand without braces behind a head."""
        starts = ("const ", "float", "int ", "for ", "__", *(() if head.startswith("if (") else ("if ",)))
        plain = body.endswith(";") and not body.startswith(starts)
        return plain and len("  " * self.depth) + len(head) + len(body) < WIDTH
