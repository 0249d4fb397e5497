"""The lines of one kernel's body in CUDA C++, one after another: what is declared, named, and put in braces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from explorer.compiler.codegen.cuda.expressions import Expressions
from explorer.compiler.codegen.cuda.helpers import WIDTH, Helpers
from explorer.compiler.codegen.cuda.inlining import PRIMARY, Scopes, Value
from explorer.compiler.frozen import replace
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.node import Line, Origin, merge, serving
from explorer.compiler.target import GpuTarget

CHANGED, STARTED = re.compile(r"(\w+) = (.*);"), re.compile(r"float (\w+) = ([\w.]+);")
"""A line that gives a name another value, and one that declares a number with its first."""
ARRAYS = re.compile(r"\s*(__shared__ )?(__align__\(16\) )?(float[24]?|int) [^=()]*(\[[^=]*)?\];")
"""A line that declares arrays, and does not say what is in them."""
NEEDS_BRACES = ("const ", "float", "int ", "for ", "if ", "__shared__ ")
"""Starts of lines that need braces around them, or that others follow."""
CONDITIONAL = re.compile(r"if \(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)(?: (.*[^{]))?")
"""A conditional statement without braces: its condition, and what stands behind that in the same line."""
START = re.compile(r"(\s*float[24]? )\w+ = [^,;]+(, \w+ = [^,;]+)*;")
"""A line that declares numbers with their first values."""
DECLARED = re.compile(r"\s*(float[24]?|int) \w+;")
"""A line that declares one name, and says no value."""


class Lines(Expressions):
    """Writes lines."""

    def __init__(self, kernel: ScheduledKernel, helpers: Helpers, target: GpuTarget) -> None:
        super().__init__(kernel, helpers, target)
        self.depth = 1
        self.lines: list[Line] = []
        self.scopes = Scopes()

    def write(self, text: str, origin: Origin = ()) -> None:
        """A line, which also belongs to what is written in it in the place of names."""
        origin, self.taken = self.with_taken(origin), []
        text, origin = self.with_start(text, origin)
        before = self.lines[-1] if self.lines else Line("")
        if DECLARED.fullmatch(before.text) and before.text.endswith(f" {text.partition(' = ')[0]};") and " = " in text:
            kind = before.text.rpartition(" ")[0]
            self.lines[-1] = Line(f"{kind} {text}", merge(origin, before.origin))
        else:
            self.lines.append(Line("  " * self.depth + text, origin))

    def with_start(self, text: str, origin: Origin) -> tuple[str, Origin]:
        """What first changes a number, `s = fmaf(u, v, s);`, with its declaration, if that is of the same braces; else
        as it is."""
        change = CHANGED.fullmatch(text)
        if change is None or len(re.findall(rf"\b{change[1]}\b", change[2])) != 1:
            return text, origin
        indent = "  " * self.depth
        for place in range(len(self.lines) - 1, -1, -1):
            line = self.lines[place]
            if not line.text.startswith(indent) or re.search(rf"\b{change[1]}\b", line.text):
                break
        else:
            return text, origin
        start = STARTED.fullmatch(line.text.removeprefix(indent))
        if start is None or start[1] != change[1]:
            return text, origin
        del self.lines[place]
        value = re.sub(rf"\b{change[1]}\b", start[2], change[2])
        return f"float {change[1]} = {value};", merge(origin, line.origin)

    def with_taken(self, origin: Origin) -> Origin:
        """An origin, and those of what is written in the place of names."""
        others = [taken.origin for taken in self.taken if taken.origin != origin]
        return merge(origin, *others) if others else origin

    def declare(self, kind: str, declared: str, origin: Origin) -> None:
        """What is declared beside others of its type where they stand in one of the declarations before."""
        for place in range(len(self.lines) - 1, -1, -1):
            before = self.lines[place]
            if not ARRAYS.fullmatch(before.text) or not declared.endswith("]"):
                break
            beside = before.text.startswith(f"{'  ' * self.depth}{kind} ")
            if beside and len(before.text) + len(declared) < WIDTH:
                self.lines[place] = Line(f"{before.text[:-1]}, {declared};", _declaring(before.origin, origin))
                return
        before = self.lines[-1] if self.lines else Line("")
        beside = before.text.startswith(f"{'  ' * self.depth}{kind} ") and "[" not in before.text + declared
        if beside and len(before.text) + len(declared) < WIDTH:
            self.lines[-1] = Line(f"{before.text[:-1]}, {declared};", _declaring(before.origin, origin))
        else:
            self.write(f"{kind} {declared};", origin)

    def define(self, name: str, kind: str, value: Value) -> None:
        """A name for a value: what is written in its place, if that is used once; a name that such a value has; or else
        a line."""
        if self.taken:
            lasting = value.lasting and all(taken.lasting for taken in self.taken)
            value = replace(value, origin=self.with_taken(value.origin), lasting=lasting)
        same = self.scopes.known(kind, value.text) if value.lasting else ""
        if same:
            value = replace(value, text=same, binds=PRIMARY)
        if same or (name in self.in_place and value.fits):
            self.values[name], self.taken = value, []
            return
        if value.lasting:
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
        if head.startswith("for (") and self.is_one_condition(first):
            self.lines[first - 1] = Line("  " * self.depth + head, self.lines[first - 1].origin)
            return
        texts = _without_braces(head, [line.text.strip() for line in self.lines[first:]], WIDTH - 2 * self.depth)
        if not texts:
            self.write("}")
            return
        origins = [self.lines[first - 1].origin, merge(*(line.origin for line in reversed(self.lines[first:])))]
        if len(texts) == 1:
            origins = [merge(*reversed(origins))]
        indents = ("  " * self.depth, "  " * (self.depth + 1))
        self.lines[first - 1 :] = [
            Line(indent + text, origin) for indent, text, origin in zip(indents, texts, origins, strict=False)
        ]

    def is_one_condition(self, first: int) -> bool:
        """Whether the lines from one on are a condition with its braces, and no more: those of a loop say nothing."""
        body, indent = self.lines[first:], "  " * (self.depth + 1)
        inside = all(line.text.startswith(f"{indent}  ") for line in body[1:-1])
        return len(body) > 2 and inside and body[0].text.startswith(f"{indent}if (") and body[-1].text == f"{indent}}}"


def _declaring(*origins: Origin) -> Origin:
    """The origin of a line that declares several names."""
    return serving("declarations", "generate_cuda", origins)


def _without_braces(head: str, body: list[str], width: int) -> list[str]:
    """A head and the one statement behind it, in one line if that is no wider, or two; none where it needs braces.

    A condition that has nothing but a conditional statement inside becomes one condition of both."""
    inner = CONDITIONAL.fullmatch(body[0]) if body and head.startswith("if (") else None
    if inner and len(body) == (1 if inner[2] else 2):
        head, body = f"{head[:-1]} && {inner[1]})", [inner[2] or body[1]]
    if len(body) != 1 or not body[0].endswith(";") or body[0].startswith(NEEDS_BRACES):
        return []
    return [f"{head} {body[0]}"] if len(head) + len(body[0]) < width else [head, body[0]]


def joined_starts(lines: Sequence[Line]) -> list[Line]:
    """A kernel's lines, in which numbers that start one after another are declared together."""
    joined: list[Line] = []
    for line in lines:
        before = joined[-1] if joined else Line("")
        first, second = START.fullmatch(before.text), START.fullmatch(line.text)
        if first and second and first[1] == second[1]:
            text = f"{before.text[:-1]}, {line.text.removeprefix(second[1])}"
            joined[-1] = Line(text, _declaring(before.origin, line.origin))
        else:
            joined.append(line)
    return joined
