"""`explorer import FILE:NAME`: runs a person's own file, on their own machine, and writes the text of its module.

Only this command does: the page, which answers others, never runs Python that it is sent.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import explorer
from explorer.values import BadInput, did_you_mean


def import_module(arguments: argparse.Namespace) -> int:
    """The command. Raises BadInput for a file that does not run, a name that is not there, and what is not traced."""
    path, _, name = arguments.what.rpartition(":")
    if not path or not name:
        raise BadInput(f"{arguments.what}: say which module of which file, as in model.py:example")
    print(f"explorer: runs {path} on this machine", file=sys.stderr)
    module, inputs = _example(_run(Path(path)), path, name)
    try:
        text = explorer.trace(module, *inputs).text
    except ValueError as error:
        raise BadInput(f"{path}:{name}: {error}") from None
    if arguments.out is None:
        print(text, end="")
        return 0
    try:
        Path(arguments.out).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{arguments.out}: cannot be written: {error.strerror}") from None
    return 0


def _run(path: Path) -> Any:
    """The names that a file has when it has run, from its own folder's modules too."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise BadInput(f"{path}: no such file of Python")
    made = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[path.stem] = made
    try:
        spec.loader.exec_module(made)
    except (Exception, SystemExit) as error:
        raise BadInput(_failed(path, error)) from None
    return made


def _example(made: Any, path: str, name: str) -> tuple[Any, tuple[Any, ...]]:
    """A module and the inputs to trace it with: of a function that returns both, or a module with `example_inputs`."""
    found = getattr(made, name, None)
    if found is None:
        named = [each for each in vars(made) if not each.startswith("_")]
        raise BadInput(f"{path} has no {name}{did_you_mean(name, named)}")
    if hasattr(found, "forward") and hasattr(found, "example_inputs"):
        return found, _inputs(found, path)
    if not callable(found) or hasattr(found, "forward"):
        raise BadInput(
            f"{path}:{name}: a function that returns a module and its inputs is needed, as in return model, h, r, t"
        )
    try:
        made_of = found()
    except (Exception, SystemExit) as error:
        raise BadInput(_failed(Path(path), error)) from None
    if not isinstance(made_of, tuple | list) or len(made_of) < 2:
        raise BadInput(
            f"{path}:{name}: it returns a {type(made_of).__name__}: a module and its inputs are needed, as in return "
            "model, h, r, t"
        )
    module, *inputs = made_of
    return module, _laid_out(module, inputs)


def _laid_out(module: Any, inputs: list[Any]) -> tuple[Any, ...]:
    """The inputs of a module's call: also those that stand in one tuple, as `torch.export` takes them, where the module
    takes as many and not the tuple."""
    if len(inputs) == 1 and isinstance(inputs[0], tuple) and not _takes(module, inputs) and _takes(module, inputs[0]):
        return inputs[0]
    return tuple(inputs)


def _takes(module: Any, inputs: Sequence[Any]) -> bool:
    try:
        inspect.signature(module.forward).bind(*inputs)
    except (AttributeError, TypeError):
        return False
    return True


def _inputs(module: Any, path: str) -> tuple[Any, ...]:
    """A module's `example_inputs`: several, one, or what a method returns."""
    given = module.example_inputs
    try:
        given = given() if callable(given) else given
    except (Exception, SystemExit) as error:
        raise BadInput(_failed(Path(path), error)) from None
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def _failed(path: Path, error: BaseException) -> str:
    """What went wrong in a person's file, at the last line of it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    lines += [error.lineno] if isinstance(error, SyntaxError) else []
    return f"{path}{f':{lines[-1]}' if lines else ''}: {type(error).__name__}: {error}"
