"""Compiles points of a space: here, or in processes ahead of the device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from time import perf_counter

from explorer.compiler.codegen.binary import nvrtc
from explorer.compiler.codegen.text import Binary, Code
from explorer.compiler.compilation import Compilation, compile_model
from explorer.compiler.decisions import Value
from explorer.compiler.unsupported import Unsupported
from explorer.runtime.targets.gpu.program import GpuProgram
from explorer.tuner.features.launches import digest_parts, launch_features


@dataclass(frozen=True)
class Recipe:
    """What a process needs to compile any point of a space for an input; all of it can be pickled."""

    text: str
    sizes: tuple[tuple[str, int], ...]
    options: tuple[tuple[str, Value], ...]
    counts: tuple[tuple[str, int], ...] | None
    counted_on: str

    @classmethod
    def of(cls, compilation: Compilation) -> Recipe:
        """What makes a compilation again."""
        counts = None if compilation.counts is None else tuple(compilation.counts.items())
        chosen = tuple(compilation.options.to_json().items())
        return cls(compilation.text, tuple(compilation.sizes.items()), chosen, counts, compilation.counted_on)

    def compilation(self, options: Iterable[tuple[str, Value]] = ()) -> Compilation:
        """The compilation, with some options changed."""
        return _compilation(replace(self, options=tuple({**dict(self.options), **dict(options)}.items())))


def begin(recipe: Recipe) -> None:
    """What a process does before it makes its first point: it reads the model, and loads NVRTC where that is there."""
    recipe.compilation()
    with suppress(Unsupported):
        nvrtc.version()


@lru_cache(maxsize=8)
def _compilation(recipe: Recipe) -> Compilation:
    return compile_model(
        recipe.text,
        sizes=dict(recipe.sizes),
        options=dict(recipe.options),
        counts=None if recipe.counts is None else dict(recipe.counts),
        counted_on=recipe.counted_on,
        on_demand=True,
    )


@dataclass(frozen=True, eq=False)
class Made:
    """A point compiled: its program without its texts, what tells its machine code from any other, its launches'
    features; or why there is none."""

    program: GpuProgram | None
    digest: str
    features: list[list[float]]
    seconds: float
    error: str = ""


def make(recipe: Recipe, values: Mapping[str, Value], sizes: Mapping[str, int]) -> Made:
    """Compiles a point, where extents have these sizes."""
    begin = perf_counter()
    try:
        options = tuple((key, value) for key, value in values.items() if "." not in key)
        wanted = {key: value for key, value in values.items() if "." in key}
        compilation = recipe.compilation(options).with_schedule(wanted)
        program = GpuProgram.of(compilation)
        taken = compilation.schedule
        refused = [key for key, value in wanted.items() if taken.get(key) != value]
        if refused:
            raise ValueError(f"{refused[0]} is {taken.get(refused[0])}, not {wanted[refused[0]]}")
        digest = sha256(b"\0".join(digest_parts(program.code))).hexdigest()[:16]
        features = launch_features(program.code, sizes).tolist()
    except Exception as error:
        return Made(None, "", [], perf_counter() - begin, f"{type(error).__name__}: {error}"[:200])
    return Made(replace(program, code=_bare(program.code)), digest, features, perf_counter() - begin)


def _bare(code: Code) -> Code:
    """Code without its texts, which take longer to hand over than to make."""
    assert code.binary is not None
    return replace(code, lines=(), binary=Binary(code.binary.cubin, (), code.binary.resources))


def compiled_ahead(
    pool: Executor | None,
    jobs: Iterable[tuple[int, Mapping[str, Value]]],
    recipe: Recipe,
    sizes: Mapping[str, int],
    most: int,
) -> Iterator[tuple[int, Mapping[str, Value], Made]]:
    """Points with their programs in their order, of which so many are compiled ahead in a pool; without one, each when
    its turn comes."""
    if pool is None:
        yield from ((number, values, make(recipe, values, sizes)) for number, values in jobs)
        return
    left = iter(jobs)
    waiting: list[tuple[int, Mapping[str, Value], Future[Made]]] = []
    for number, values in islice(left, most):
        waiting.append((number, values, pool.submit(make, recipe, values, sizes)))
    while waiting:
        number, values, future = waiting.pop(0)
        yield number, values, future.result()
        for other, others in islice(left, 1):
            waiting.append((other, others, pool.submit(make, recipe, others, sizes)))
