"""Names for what a text says: those of parameters, and of the variables that the user's source gives values."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Collection
from functools import cache, lru_cache
from keyword import iskeyword

from explorer.compiler.language.elaborate.headers.facts import OWN_SETS
from explorer.compiler.language.functions import callables
from explorer.compiler.language.names.builtins import ALIASES, INDEX_SETS
from explorer.runtime.trace.tapes.tape import Where

PREFIX = "weight"
"""What modules call their only tensor, which says nothing."""
_WORDS = ("dim", "param", "input", "score", "layer", "op", "graph", "bag", "blocks", "csr", "coo", "range")
_OF_GRAPHS = ("e", "g", "n", "src", "dst", "id", "in_degree")


def tensor_names(paths: Collection[str], taken: Collection[str]) -> dict[str, str]:
    """By the path of a parameter or buffer, `entities.weight`, its name in a text: `entities`, or the whole
    path where that is `taken`."""
    names: dict[str, str] = {}
    used = set(taken)
    for path in paths:
        short = path.removesuffix(f".{PREFIX}")
        siblings = [other for other in paths if other != path and other.startswith(f"{short}.")]
        whole = siblings or identifier(short.replace(".", "_")) in taken
        name = identifier((path if whole else short).replace(".", "_"))
        names[path] = fresh(name, used)
    return names


def identifier(name: str) -> str:
    """A name of the language."""
    made = re.sub(r"\W", "_", name)
    made = made if made[:1].isalpha() else f"p{made}"
    return f"{made}_" if iskeyword(made) or made in reserved() else made


@cache
def reserved() -> frozenset[str]:
    """The names that the language has for something."""
    functions = [name for function in callables() for name in (function.name, *function.aliases)]
    return frozenset([*functions, *ALIASES, *INDEX_SETS, *OWN_SETS, *_WORDS, *_OF_GRAPHS])


def fresh(name: str, used: set[str]) -> str:
    """The name, or with a number behind it where it is used; it is then."""
    made, count = name, 1
    while made in used:
        count += 1
        made = f"{name}{count}"
    used.add(made)
    return made


def assigned_names(where: Where) -> tuple[str, ...]:
    """The variables that the statement at a line assigns, all at once; none where it assigns other things."""
    return _assigned(where.file).get(where.line, ())


@lru_cache(maxsize=64)
def _assigned(file: str) -> dict[int, tuple[str, ...]]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return {}
    found: dict[int, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            names = tuple(part.id for part in parts if isinstance(part, ast.Name))
            if len(names) == len(parts):
                found |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), names)
    return found
