"""Compiles the points of a space in processes, ahead of the device, and measures them on it, one after another."""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks._recorded_spaces import Input, RecordedSpace
from explorer.compiler.codegen.text import Binary, Code
from explorer.compiler.compilation import Compilation, compile_model
from explorer.compiler.decisions import Value
from explorer.runtime.arrays import check_inputs
from explorer.runtime.runs.fitting import fit
from explorer.runtime.runs.request import ModelRequest, RunRequest, Setup, compile_request
from explorer.runtime.targets.gpu.device import DeviceFault, cupy_module, current_device, faults
from explorer.runtime.targets.gpu.program import BoundProgram, GpuProgram
from explorer.runtime.targets.gpu.timing import Stopwatch
from explorer.tuner.features.launches import digest_parts, launch_features
from explorer.tuner.points import Points
from explorer.tuner.space import points_of

WARM_UPS, REPEAT, FEWEST = 2, 10, 3
"""Calls before the clock runs, the second of which records the graph of launches; then samples with cold caches, as
many with warm ones (G-Sparse §III-D takes one and ten), and the fewest where they would take MOST_MS."""
MOST_MS = 120.0
TOLERANCE = 1e-4
"""How far a result may be from the usual schedule's, relative to the largest value: sums in another order."""
AHEAD = 4
"""Points for each process that are compiled, or wait to be, before they are measured."""

Fields = dict[str, Any]


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


def enumerated(space: RecordedSpace, data: Input, folder: Path, arch: str) -> tuple[Points, Compilation]:
    """The points of a space for an input, and the model compiled for it. Raises ValueError."""
    source = "" if data.batch else data.source(folder)
    options = {**space.options, "arch": arch}
    compilation = fit(ModelRequest(text=space.text, sizes=data.sizes, options=options, data=source)).compilation
    if not compilation.ok:
        raise ValueError("; ".join(diagnostic.message for diagnostic in compilation.diagnostics))
    return points_of(compilation, space.varied, space.vary_options), compilation


class Bench:
    """A space made ready on the device for an input: its arrays lie there, and its usual result is right."""

    def __init__(self, space: RecordedSpace, data: Input, folder: Path) -> None:
        self.watch = Stopwatch(current_device())
        self.setup = _set_up(space, data, folder)
        self.recipe = Recipe.of(self.setup.compilation)
        self._arrays: dict[tuple[tuple[str, Value], ...], tuple[Fields, Mapping[Any, int]]] = {}
        self.usual: BoundProgram | None = None

    @property
    def sizes(self) -> dict[str, int]:
        """The size of every extent that launches are counted by."""
        return {str(name): int(size) for name, size in self.arrays_of({})[1].items() if isinstance(name, str)}

    def arrays_of(self, options: Mapping[str, Value]) -> tuple[Fields, Mapping[Any, int]]:
        """What programs with some options changed read, on the device, and the sizes of extents."""
        key = tuple(options.items())
        if key not in self._arrays:
            setup = self.setup.recompiled(options) if options else self.setup
            arrays, extents = check_inputs(setup.program("loops"), setup.inputs())
            cupy = cupy_module()
            self._arrays[key] = {name: cupy.asarray(array) for name, array in arrays.items()}, extents
        return self._arrays[key]

    def bind(self, program: GpuProgram, values: Mapping[str, Value]) -> BoundProgram:
        """A point's kernels on the input's arrays."""
        return program.bind(*self.arrays_of({key: value for key, value in values.items() if "." not in key}))

    def check_usual(self, program: GpuProgram, values: Mapping[str, Value]) -> None:
        """Holds the usual schedule's result against float64; the others are held against it. Raises ValueError."""
        self.usual = self.bind(program, values)
        got, gradients = self.setup.finished(*self.usual.run())
        check, loops = self.setup.check(got), self.setup.program("loops")
        if gradients and check.matches:
            self.setup.check_gradients(gradients, lambda arrays: program.bind(*check_inputs(loops, arrays)).run())
        if not self.setup.right(check):
            raise ValueError(self.setup.why_not(check))

    def measured(self, program: GpuProgram, values: Mapping[str, Value]) -> Fields:
        """The times of a point, cold and warm, or what is wrong with it. Raises DeviceFault."""
        bound = self.bind(program, values)
        for _ in range(WARM_UPS):
            first = self.watch.warm(bound.launch)
        assert self.usual is not None
        with faults():
            if not _agree(bound, self.usual):
                return {"invalidity": "correctness"}
        repeat = max(FEWEST, min(REPEAT, int(MOST_MS / 2 / max(first, 1e-3))))
        cold = [self._cold(bound) for _ in range(repeat)]
        self.watch.warm(bound.launch)
        warm = [self.watch.warm(bound.launch) for _ in range(repeat)]
        return {"invalidity": "correct", "times": [_mean(cold), _median(cold), _mean(warm), _median(warm)]}


    def _cold(self, bound: BoundProgram) -> float:
        """A time with cold caches: lines that kernels asked the L2 cache to keep longest would outlive the flush."""
        driver = _driver()
        if driver is not None and driver.cuCtxResetPersistingL2Cache():
            raise DeviceFault("the L2 cache's lines cannot be made ordinary ones")
        return self.watch.cold(bound.launch)


def _set_up(space: RecordedSpace, data: Input, folder: Path) -> Setup:
    """The model on its input, as any run has it."""
    request = RunRequest(
        text=space.text,
        on="gpu",
        sizes=data.sizes,
        options={**space.options, "arch": current_device().compile_for},
        data=data.source(folder),
        batch=data.batch or 1,
        peers=False,
        memory=None,
    )
    compilation = compile_request(request)
    steps: Generator[Any, None, Setup] = import_module(f"explorer.runtime.runs.{compilation.family}").prepare(
        request, compilation
    )
    while True:
        try:
            next(steps)
        except StopIteration as end:
            setup: Setup = end.value
            return setup


def _agree(bound: BoundProgram, usual: BoundProgram) -> bool:
    """Whether two schedules give the same, but for the order in which they add up."""
    (own, gradients), (other, of_other) = bound.results(), usual.results()
    pairs = [(own, other), *((gradients[name], of_other[name]) for name in gradients)]
    return all(_near(one, two) for one, two in pairs)


def _near(one: Any, two: Any) -> bool:
    absolute = cupy_module().abs
    return bool(absolute(one - two).max() <= TOLERANCE * float(absolute(two).max()))  # False for what is no number


@lru_cache(maxsize=1)
def _driver() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def _mean(samples: list[float]) -> float:
    return float(np.mean(samples))


def _median(samples: list[float]) -> float:
    return float(np.median(samples))


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
