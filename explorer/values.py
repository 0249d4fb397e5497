"""What the words of the command line stand for: sizes, options and bytes, each wrong one with a sentence."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from explorer.runtime.runs.events import sentence_diagnostic


class BadInput(Exception):
    """What the user gave cannot be used: the text for the terminal, and the diagnostics for `--json`."""

    def __init__(self, text: str, diagnostics: Sequence[dict[str, Any]] = ()) -> None:
        super().__init__(text)
        self.diagnostics = list(diagnostics) or [sentence_diagnostic(text)]


def read_sizes(words: Iterable[str]) -> dict[str, int]:
    """The sizes by dimension that `--set` gives; raises BadInput."""
    sizes = {}
    for word in words:
        name, _, value = word.partition("=")
        if not name or not (value.isascii() and value.isdigit()):
            raise BadInput(f"--set takes a dimension and a whole number, as in D=64, not '{word[:80]}'")
        if len(value) > 18:
            raise BadInput(f"--set {word[:80]} is too large: no dimension may be that long")
        sizes[name.strip()] = int(value)
    return sizes


UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def read_memory(word: str) -> int:
    """The bytes that `--memory` gives, as people write them: 8GiB, 8 GB, 8g, 500MB, 2000000000; raises BadInput."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])?(iB|B)?)\s*", word, re.IGNORECASE | re.ASCII)
    if found is None or len(found[1]) > 18:
        raise BadInput(f"--memory takes a size, as in 8GiB, 500MB or 2000000000, not '{word[:80]}'")
    number, letter, ending = float(found[1]), (found[2] or "").upper(), (found[3] or "").lower()
    decimal = ending == "b"  # GB are 10^9 bytes, GiB and plain G 2^30
    size = int(number * (10 ** (UNITS[letter] // 10 * 3) if decimal else 2 ** UNITS[letter]))
    if size < 1 or (ending == "ib" and not letter):
        raise BadInput(f"--memory takes a size, as in 8GiB, 500MB or 2000000000, not '{word[:80]}'")
    return size


def read_options(arguments: argparse.Namespace) -> dict[str, str | int | bool]:
    """The compiler's options by name, from `--option`, `--negatives` and `--grad`; raises BadInput."""
    options: dict[str, str | int | bool] = {}
    for word in arguments.option:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise BadInput(f"--option takes NAME=VALUE, as in interchange=false, not '{word[:80]}'")
        options[name.strip()] = value
    if arguments.negatives is not None:
        options["negatives"] = arguments.negatives
    if arguments.grad:
        options["grad"] = True
    return options


def read_parameters(words: Iterable[str]) -> dict[str, int | float]:
    """The parameters by name; raises BadInput for names and values that the machine does not take."""
    from explorer.machine.parameters import MachineParameters, ParameterError

    parameters: dict[str, int | float] = {}
    for word in words:
        name, _, value = word.partition("=")
        whole = value.strip().lstrip("-").isdigit() and len(value) <= 18
        try:
            parameters[name.strip()] = int(value) if whole else float(value)
        except ValueError:
            raise BadInput(f"--machine takes NAME=NUMBER, not '{word[:80]}'") from None
    known = MachineParameters().values()
    for name in parameters:
        if name not in known:
            near = did_you_mean(name, known)
            raise BadInput(f"the machine has no parameter '{name}'{near}: there are {', '.join(sorted(known))}")
    try:
        MachineParameters.of(parameters)
    except ParameterError as error:
        raise BadInput(str(error)) from None
    return parameters


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest of the words that are known, in brackets, to follow one that is not; "" where none is near."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""
