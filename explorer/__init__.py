"""The Embedding Compiler Explorer: `compile` a model text, and look into or run the `Compilation`; or `gcompile` a
graph of another library."""

from explorer.compiler.compilation import Compilation
from explorer.runtime.compiling import compile
from explorer.runtime.gcompile import gcompile

__all__ = ["Compilation", "compile", "gcompile"]
