"""`@explorer.compile` of a function, a module or a class of modules: `torch.compile` for any sizes."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch

from explorer.runtime.dynamo.backend import backend


def compiled(what: Any, **options: Any) -> Any:
    """A function or a module that runs compiled, or a class, the same one, whose modules do. `options` are
    `torch.compile`'s. Raises TypeError for another class."""
    options = {"backend": backend, "dynamic": True, **options}
    if not isinstance(what, type):
        return torch.compile(what, **options)
    if not issubclass(what, torch.nn.Module):
        raise TypeError(f"{what.__name__} is no class of torch.nn.Module, whose modules could be compiled")
    kind: Any = what
    make = kind.__init__

    @wraps(make)
    def made(self: Any, *args: Any, **named: Any) -> None:
        make(self, *args, **named)
        if type(self) is kind:  # a class that inherits goes on making its own
            self.compile(**options)

    kind.__init__ = made
    return kind
