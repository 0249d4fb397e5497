"""What the files hold that a command's arguments name: a model's text, compiled, and a schedule."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.runtime.runs.events import sentence_diagnostic
from explorer.values import BadInput, read_options, read_sizes

if TYPE_CHECKING:
    from explorer.compiler.decisions import Value
    from explorer.runtime.runs.fitting import Fitted

MOST_BYTES = 1 << 20
"""A file beyond this is not read at all; the compiler's own limit, 64 KiB, comes with a diagnostic."""


def fit_model(arguments: argparse.Namespace, data: str = "", batch: int | None = None) -> Fitted:
    """Compile the file that the arguments name, for data where some is named, a score for a batch of so many triples;
    raises BadInput with the diagnostics of a bad model."""
    from explorer.runtime.data.triples import InputError
    from explorer.runtime.runs.fitting import fit
    from explorer.runtime.runs.request import ModelRequest

    if batch is not None and batch < 1:
        raise BadInput(f"--batch takes a whole number from 1, not {batch}")
    text, schedule = read_model(arguments.file), read_schedule(arguments)
    sizes, options = read_sizes(arguments.set), read_options(arguments)
    asked = ModelRequest(text=text, name=arguments.name, sizes=sizes, options=options, schedule=schedule, data=data)
    try:
        found = fit(replace(asked, batch=batch))
    except InputError as error:
        raise BadInput(str(error)) from None
    compilation = found.compilation
    if not compilation.ok:
        rendered = [
            f"{arguments.file}:{'' if diagnostic.span else ' '}{diagnostic.render(text)}"
            for diagnostic in compilation.diagnostics
        ]
        raise BadInput("\n".join(rendered), [diagnostic.to_json(text) for diagnostic in compilation.diagnostics])
    if data and not found.data:
        raise BadInput(f"--data {data[:200]}: a {compilation.family} is compiled the same for all data")
    if batch is not None and compilation.family != "score":
        raise BadInput(f"--batch {batch}: only a score has a batch")
    return found


def read_schedule(arguments: argparse.Namespace) -> dict[str, Value]:
    """The schedule of the file that the arguments name; none where they name none. Raises BadInput."""
    from explorer.compiler.decisions import Schedule, ScheduleTextError

    path = getattr(arguments, "schedule", None)
    if path is None:
        return {}
    try:
        return Schedule.parse(read_model(path)).to_json()
    except ScheduleTextError as error:
        raise BadInput(f"{path}: {error}") from None


def read_model(path: str) -> str:
    """A model's text; raises BadInput for a file that cannot be read, is too large or is not UTF-8."""
    try:
        if path == "-":
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"{path}: cannot be read: {reason}") from None
    if len(data) > MOST_BYTES:
        raise BadInput(f"{path}: larger than 1 MiB; a program may have 64 KiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, data, error.start) from None


def _not_utf8(path: str, data: bytes, offset: int) -> BadInput:
    """The diagnostic of a byte that is no text, with its line and a caret."""
    before = data[:offset].split(b"\n")
    line, column = len(before), len(before[-1].decode("utf-8")) + 1
    source = data.split(b"\n")[line - 1].rstrip(b"\r").decode("utf-8", errors="replace")
    message = f"byte 0x{data[offset]:02x} is not UTF-8 text"
    diagnostic = {
        **sentence_diagnostic(message, "Save the file as UTF-8."),
        "source": source,
        "line": line,
        "column": column,
        "end_line": line,
        "end_column": column + 1,
    }
    return BadInput(f"{path}:{line}:{column}: {message}\n  {source}\n  {' ' * (column - 1)}^", [diagnostic])
