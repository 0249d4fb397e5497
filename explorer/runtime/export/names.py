"""Names of a model in the C++, the schemas and the Python of an extension, none of which has them for itself."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

from explorer.compiler.ir.node import Names

_TAKEN = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr const_cast
continue decltype default delete do double dynamic_cast else enum explicit export extern false float for friend goto if
inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
reinterpret_cast return short signed sizeof static static_assert static_cast struct switch template this thread_local
throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
Tensor Scalar Device Stream Layout Generator Dict Future str complex self None True False
at c10 std torch blocks stream guard check make ceil_div sizes_fit dim3 error
"""
"""Words of C++, of the schemas of PyTorch's operators, and of the text around the names."""
UNFIT = re.compile(r"\W", re.ASCII)


class Named:
    """The names, by those that the compiler has: the same where they are free."""

    def __init__(self, names: Iterable[str]) -> None:
        allocator = Names({*_TAKEN.split(), *keyword.kwlist})
        self._of = {name: allocator.new(UNFIT.sub("_", name)) for name in dict.fromkeys(names)}

    def __getitem__(self, name: str) -> str:
        return self._of[name]
