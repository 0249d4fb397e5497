"""A model compiled for the data that it runs on.

Data fixes the sizes of dims where it says what its rows are (RM3: 128 elements), and has the numbers of rows that costs
are counted on. The page, the command line and every run compile for data here, so that what is shown is what runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from explorer.compiler.codegen.binary.ptx import is_made
from explorer.compiler.codegen.text import Code
from explorer.compiler.compilation import Compilation
from explorer.compiler.counts import BATCH
from explorer.compiler.ir.graph import Gather, Graph
from explorer.compiler.ir.index_sets import count_name
from explorer.compiler.ir.node import Extent
from explorer.compiler.ir.set_maps import listed_in
from explorer.compiler.pipeline import STAGES
from explorer.compiler.stages import Stages
from explorer.compiler.unsupported import OutOfBudget
from explorer.runtime.data.graphs import graph_counts
from explorer.runtime.encode.ops import Sets
from explorer.runtime.runs.request import ModelRequest, attempt, sources

SOON = 0.4
"""Seconds that a reader waits for the best form of machine code before one in its first form is made."""


class Lists(Protocol):
    """What compiling for an op's lists needs to know of them; `runtime.sparse` has the lists themselves."""

    @property
    def name(self) -> str: ...
    @property
    def row_shape(self) -> tuple[int, ...]: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def num_cols(self) -> int: ...
    @property
    def num_entries(self) -> int: ...


@dataclass(frozen=True)
class Outline:
    """Lists without their indices."""

    name: str
    row_shape: tuple[int, ...]
    num_rows: int
    num_cols: int
    num_entries: int


@dataclass(frozen=True)
class Fitted:
    """A compilation for data, and by dim where its size is from: "given", "the text", or the data's name."""

    compilation: Compilation
    sizes_from: Mapping[str, str]
    data: str = ""

    def to_json(
        self, stages: list[str] | None = None, snapshots: list[str] | None = None, effects: list[str] | None = None
    ) -> dict[str, Any]:
        """The compilation's JSON, with the data that it is for and where its sizes are from."""
        found = self.compilation.to_json(stages, snapshots, effects)
        return {**found, "data": self.data, "sizes_from": dict(self.sizes_from)}

    def forms(
        self, stages: list[str], snapshots: list[str] | None = None, effects: list[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Its JSON, and before it that of the first form of what NVRTC would keep a reader waiting for.

        A best form that is there soon needs no first one, which would take half as much again. Otherwise both are made
        at once, each by one core: NVRTC lets go of Python's lock."""
        late = [spec.name for spec in STAGES if spec.on_demand and spec.name in stages]
        if late and self.compilation.ok and self._is_slow():
            behind = ThreadPoolExecutor(1)
            best = behind.submit(lambda: [self.compilation.stages[name] for name in late])
            behind.shutdown(wait=False)  # nobody waits for what is stopped
            self._wait(best, late, SOON)
            assert isinstance(self.compilation.stages, Stages)
            if not best.done() and self.compilation.stages.stopped_by is None:
                first = replace(self, compilation=self.compilation.first_form())
                shown = first.to_json(stages, snapshots, effects)
                if not best.done() and all(first.compilation.stages[name].available for name in late):
                    yield shown
                assert isinstance(first.compilation.stages, Stages)
                self._wait(best, late, stopped_by=first.compilation.stages.stopped_by)
        yield self.to_json(stages, snapshots, effects)

    def _wait(
        self,
        best: Future[Any],
        late: list[str],
        seconds: float | None = None,
        stopped_by: OutOfBudget | MemoryError | None = None,
    ) -> None:
        """Until the best form is made, those seconds are over, or the compilation has taken what it may, for which the
        first form may have been stopped."""
        assert isinstance(self.compilation.stages, Stages)
        try:
            if stopped_by is not None:
                raise stopped_by
            wait([best], seconds)
            if best.done():
                best.result()
        except (OutOfBudget, MemoryError) as error:
            self.compilation.stages.stop_first_of(late, error)

    def _is_slow(self) -> bool:
        """Whether there are kernels whose best form nobody has made before."""
        code = self.compilation.stages["cuda"].program
        return isinstance(code, Code) and not is_made(code, self.compilation.options.arch)


def fit(request: ModelRequest, or_usual: bool = False) -> Fitted:
    """The request's model compiled for its data, a score for its batch; for none, where it names none or the model is
    the same for all. With `or_usual`, where its data is none that such a model runs on, for what that usually does.

    Raises InputError for data that cannot be read."""
    compilation = attempt(replace(request, edited={}))
    if compilation.ok and or_usual and compilation.family in ("layer", "op"):
        request = _on_fitting_data(request, compilation)
    if compilation.ok and request.batch is not None and compilation.family == "score":
        return Fitted(attempt(request, {BATCH: request.batch}), sources(request, compilation))
    if not (compilation.ok and request.data and compilation.family in ("layer", "op")):
        return Fitted(attempt(request), sources(request, compilation))
    if compilation.family == "op":
        return fit_op(request, compilation, outline(request.data, request.folder))
    assert isinstance(compilation.stages, Stages)
    counts = graph_counts(request.data, request.folder, compilation.stages.checked.ends)
    compilation = attempt(request, counts, Path(request.data).name)
    return Fitted(compilation, sources(request, compilation), request.data)


def _on_fitting_data(request: ModelRequest, compilation: Compilation) -> ModelRequest:
    from explorer.runtime.data.offered import fitting  # loads Numba, which only this needs

    owner = ""
    if compilation.family == "op":
        graph = compilation.stages["graph"].program
        if not isinstance(graph, Graph):  # it was stopped
            return request
        owner = Sets.of(graph).owner
    data = fitting(request.data, compilation.family, owner, request.folder)
    return request if data == request.data else replace(request, data=data, data_dir=None)


def fit_op(request: ModelRequest, compilation: Compilation, lists: Lists) -> Fitted:
    """The op compiled for the rows that the lists bring and for their number.

    The last dims of the table that is picked from are set where they are named, and where the request leaves them. An
    op that is no model at those sizes keeps its own."""
    graph = compilation.stages["graph"].program
    if not isinstance(graph, Graph):  # it was stopped
        return Fitted(compilation, sources(request, compilation), request.data)
    brought = {dim: size for dim, size in sizes_brought(graph, lists.row_shape).items() if dim not in request.sizes}
    counts = op_counts(graph, lists)
    for fixed in (brought, {}):
        sized = replace(request, sizes={**request.sizes, **fixed})
        found = attempt(sized, counts, lists.name)
        if found.ok:
            break
    misfits = {dim: f"the text, for {dim} = {size} of {lists.name} does not fit it" for dim, size in brought.items()}
    told = dict.fromkeys(fixed, lists.name) if fixed else misfits
    return Fitted(found, sources(request, compilation) | told, request.data)


def sizes_brought(graph: Graph, row_shape: tuple[int, ...]) -> dict[str, int]:
    """The named dims that rows of this shape fix, but one that would have two sizes."""
    brought: dict[str, int] = {}
    for dim, size in zip(reversed(picked_dims(graph)), reversed(row_shape), strict=False):
        if isinstance(dim, str) and brought.setdefault(dim, size) != size:
            return {}
    return brought


def op_counts(graph: Graph, lists: Lists) -> dict[str, int]:
    """The sizes of a matrix or of lists as `explorer.compile` takes them, by what the op calls its sets; bags beside
    the first are drawn about as large."""
    sizes: dict[str, int] = {}
    for home, pick in reversed(listed_in(graph)):
        sizes |= {pick.codomain: lists.num_cols, home.codomain: lists.num_rows, home.domain: lists.num_entries}
    return {str(count_name(index_set)): size for index_set, size in sizes.items()}


def picked_dims(graph: Graph) -> tuple[Extent, ...]:
    """The dims of the table whose rows the entries pick."""
    sets = Sets.of(graph)
    for value in graph.values:
        if isinstance(value.operator, Gather) and value.operator.indices == (sets.pick,):
            return next((t.dims for t in graph.tensors if t.name == value.operator.tensor), ())
    return ()


def outline(source: str, data_dir: Path | None) -> Outline:
    """The outline of what `load_lists` gives, made once. Raises InputError."""
    path = Path(source) if data_dir is None else data_dir / source
    return _outline(source, data_dir, path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=64)
def _outline(source: str, data_dir: Path | None, changed: int) -> Outline:
    from explorer.runtime.data.lists import load_lists  # loads Numba, which only this needs

    lists = load_lists(source, data_dir)
    return Outline(lists.name, lists.row_shape, lists.num_rows, lists.num_cols, lists.num_entries)
