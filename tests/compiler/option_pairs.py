"""Settings of the options in which any two values of any two options that reach one stage meet.

Most faults need no more than two options to show (Kuhn et al. 2004), and a covering array has all pairs in a few dozen
settings. An option is there with its default, its least and greatest values and one between them. Those of a GPU's
schedule and those of the decoupled machine never meet: no stage reads both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np

from explorer.compiler.options import DECOUPLED, SCHEDULED, VALUES, Options

Setting = dict[str, Any]
NEGATIVES = ("none", "tail:1", "head:3")
USUAL = Options().to_json()


def levels(name: str) -> tuple[Any, ...]:
    """The values of an option that are tried, its default first."""
    default = USUAL[name]
    if name == "negatives":
        return NEGATIVES
    if isinstance(default, bool):
        return default, not default
    values = VALUES[name]
    tried = values if isinstance(default, str) else (values[0], values[-1], values[len(values) // 3 & ~1])
    return tuple(dict.fromkeys((default, *tried)))


def reaching(side: str) -> dict[str, tuple[Any, ...]]:
    """The options, with their values, that reach "decoupled" or "scheduled" stages; others than these reach both."""
    other = {"decoupled": SCHEDULED, "scheduled": DECOUPLED}[side]
    return {name: levels(name) for name in USUAL if name not in other}


@cache
def settings(side: str, family: str) -> tuple[Setting, ...]:
    """A covering array of the options of a side, for one family of models: only scores have negatives. Gradients are
    no option here: every setting is tried without and with them."""
    options = reaching(side)
    del options["grad"]
    if family != "score":
        del options["negatives"]
    return tuple(covering_array(options))


def covering_array(options: Mapping[str, Sequence[Any]], seed: int = 0) -> list[Setting]:
    """Settings in which every two values of every two options meet: greedily, each begins with a pair that is missing,
    and gives each other option the value that meets most missing ones (after Cohen et al. 1997)."""
    random = np.random.default_rng(seed)
    names = list(options)
    missing = {
        frozenset({(a, x), (b, y)}) for a, b in combinations(names, 2) for x, y in product(options[a], options[b])
    }
    made: list[Setting] = [{name: values[0] for name, values in options.items()}]
    missing -= _pairs(made[0])
    while missing:
        begin = min(missing, key=lambda pair: sorted(map(repr, pair)))
        setting = dict(begin)
        for at in random.permutation(len(names)):
            name = names[at]
            if name not in setting:
                setting[name] = max(options[name], key=lambda value, n=name: _met(setting, n, value, missing))
        made.append({name: setting[name] for name in names})
        missing -= _pairs(setting)
    return made


def _pairs(setting: Setting) -> set[frozenset[tuple[str, Any]]]:
    return {frozenset(pair) for pair in combinations(setting.items(), 2)}


def _met(setting: Setting, name: str, value: Any, missing: set[frozenset[tuple[str, Any]]]) -> int:
    return sum(frozenset({(name, value), other}) in missing for other in setting.items())


def changed(setting: Setting) -> Setting:
    """What is not as usual, for messages."""
    return {name: value for name, value in setting.items() if value != USUAL[name]}
