"""The Embedding Compiler Explorer: `compile` a model text, and look into or run the `Compilation`."""

from explorer.compiler.compilation import Compilation
from explorer.runtime.compiling import compile

__all__ = ["Compilation", "compile"]
