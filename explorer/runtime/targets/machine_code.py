"""The machine code of a kernel for the CPU: made by Numba, or kept on disk from when it was made before.

Numba takes a third of a second for a kernel, and the same model is run again after a restart, by another worker or by
the next command. Numba's own cache goes by files of Python, by their names and dates; here is one that goes by content,
as for the machine code of GPUs (`explorer.compiler.codegen.binary.kept`).
"""

from __future__ import annotations

import os
import platform
import types
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from explorer.compiler.codegen.binary.kept import kept
from explorer.runtime.targets import narrow


def machine_code(
    function: types.FunctionType, text: str, signature: tuple[Any, ...], options: Mapping[str, Any]
) -> Callable[..., None]:
    """What Numba makes of a function of this text for arguments of these types, by these options of `numba.njit`; the
    function itself where Numba is told to make nothing (NUMBA_DISABLE_JIT)."""
    import llvmlite
    import numba
    from numba.core import serialize
    from numba.core.compiler import CompileResult
    from numba.core.compiler_lock import global_compiler_lock

    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # which it sets by its environment
        return function
    compiler: Any = numba.njit(**options)
    dumps: Any = serialize.dumps  # these two are not annotated
    rebuild: Any = CompileResult._rebuild
    with global_compiler_lock:
        target = numba.core.registry.cpu_target.target_context
        target.refresh()
        versions = (platform.python_version(), numba.__version__, llvmlite.__version__)
        made_for = (versions, target.codegen().magic_tuple(), _settings(), signature, _in_order(options))
        key = ("numba", repr(made_for), repr(_surroundings(function)), Path(narrow.__file__).read_text(), text)
        # LLVM finds functions by their names, and other processes have numbered theirs from the beginning as well.
        function.__qualname__ = f"{function.__name__}_{sha256(repr(key).encode()).hexdigest()[:32]}"
        function.__module__ = __name__  # which it is read back for
        compiled = compiler(function)

        def make() -> tuple[bytes]:
            compiled.compile(signature)
            return (dumps(compiled.overloads[signature]._reduce()),)

        (code,) = kept(key, make)
        if not compiled.overloads:
            found = rebuild(target, *serialize.loads(code))
            target.insert_user_function(found.entry_point, found.fndesc, [found.library])
            compiled.add_overload(found)
        compiled.disable_compile()
    made: Callable[..., None] = compiled
    return made


def _surroundings(function: types.FunctionType) -> list[tuple[str, str]]:
    """What the names stand for that the text takes from around it."""
    found = [(name, function.__globals__[name]) for name in function.__code__.co_names if name in function.__globals__]
    return [(name, f"{getattr(is_, '__module__', '')}.{getattr(is_, '__qualname__', is_)}") for name, is_ in found]


def _settings() -> list[tuple[str, str]]:
    """What the environment tells Numba."""
    return sorted((name, value) for name, value in os.environ.items() if name.startswith("NUMBA_"))


def _in_order(options: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The options, the same whatever the order of sets in this process."""
    return [(name, sorted(value) if isinstance(value, set) else value) for name, value in sorted(options.items())]
