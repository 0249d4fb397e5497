"""Names of a model in the C++, the schemas and the Python of an extension, none of which has them for itself."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.index_sets import is_given
from explorer.compiler.ir.node import Names
from explorer.runtime.data.index_arrays import FORMS, NUMBERS
from explorer.runtime.data.triples import InputError
from explorer.runtime.encode.declared import declared_in

_TAKEN = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr const_cast
continue decltype default delete do double dynamic_cast else enum explicit export extern false float for friend goto if
inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
reinterpret_cast return short signed sizeof static static_assert static_cast struct switch template this thread_local
throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
Tensor Scalar Device Stream Layout Generator Dict Future str complex self None True False
at c10 std torch blocks stream guard check make ceil_div sizes_fit dim3 error int64_t uintptr_t
"""
"""Words of C++, of the schemas of PyTorch's operators, and of the text around the names."""
UNFIT = re.compile(r"\W", re.ASCII)
MACROS = re.compile(r"[A-Z][A-Z0-9_]{2,}|M_\w+|PRI\w+|SCN\w+|errno|std(in|out|err)|linux|unix|assert|alloca|offsetof")
"""What the headers of C, CUDA and PyTorch may have as macros: NULL, NAN, EOF, and all words in capitals."""
OF_CUDA = re.compile(r"cuda\w*|_[_A-Z]\w*")
"""What CUDA calls its own, and what the language keeps for those who write compilers."""
WORDS_OF_CALLS = {"self", "known"}
WORDS_OF_MAKING = {"self", "check_indices", "padding"}
"""What a module takes by name whatever its model is."""


class Named:
    """The names, by those that the compiler has: the same where they are free."""

    def __init__(self, names: Iterable[str], functions: Iterable[str] = ()) -> None:
        fitting = {name: UNFIT.sub("_", name) for name in names}
        others = {each for each in fitting.values() if MACROS.fullmatch(each) or OF_CUDA.fullmatch(each)}
        allocator = Names({*_TAKEN.split(), *keyword.kwlist, *functions, *others})
        self._of = {name: allocator.new(each) for name, each in fitting.items()}

    def __getitem__(self, name: str) -> str:
        return self._of[name]


def check_names(graph: Graph) -> None:
    """Raises InputError where a call of the module could not tell a tensor, an index or a set from another argument."""
    forms = NUMBERS | {name for form in FORMS for name in (form.lists, form.picks)}
    given = (entry for entry in graph.maps if is_given(entry)) if graph.family == "score" else declared_in(graph)
    indices = {entry.name for entry in given}
    tensors = {tensor.name for tensor in graph.tensors if tensor.kind != "structure"}
    sets = {name for tensor in graph.tensors if tensor.kind == "param" for name in tensor.sets}
    words = {"self", *(forms if graph.family == "op" else ())}
    taken = tensors & words or indices & WORDS_OF_CALLS or sets & WORDS_OF_MAKING
    if taken:
        raise InputError(f"{min(taken)} is what every such module is given by that name: choose another")
