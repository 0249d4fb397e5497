"""Ember's Figure 1 where there is a GPU: where whole models' time goes, and a roofline of their embedding operations.

Times of whole models are of PyTorch's profiler, kernel by kernel, in a row of calls with whatever these leave in the
caches; the operations alone are timed as in `explorer bench gpu`, with cold ones. Needs PyTorch and CuPy, which are
imported only when a table is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.paper.figure import Published, Row, Table
from benchmarks.paper.measured import beside, on_gpu
from benchmarks.paper.measured.rows import MeasuredRows

WARM_UPS, PASSES = 2, 5
"""Forward passes before the profiler looks, and those that it looks at."""
GEMM, VECTOR, SCALAR, OTHER = "GEMM", "vector elementwise", "scalar elementwise", "other"
PRODUCTS = frozenset({"aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm"})
"""PyTorch's operators whose kernels are GEMM, but for elementwise ones that prepare their results."""
ELEMENTWISE, VECTORISED = "elementwise_kernel", "vectorized_"
"""What the names of PyTorch's elementwise kernels have in common, and those that take several elements a load."""
GATHERS = {"llm_bigbird": 20.0}
"""§2.2.2: the most, in %, that the gather takes of 8 random blocks a query."""
USED = (0.08, 52.0)
"""§2.3: the least and the most of an H100's bandwidth that is used, in %."""
OF_MODELS = {"dlrm_uni": 28.0, "dlrm_gau": 28.0}
"""§2.2.1: what both recommendation models reach, in %."""
LEAST, MOST = "least of all", "most of all"


def times_table(models: Sequence[Any] | None = None) -> Table:
    """Of each model's forward pass the share of its kernels' time, by what they do."""
    from benchmarks.paper.measured.ember.models import EMBEDDING, MODELS

    kinds, found = (EMBEDDING, GEMM, VECTOR, SCALAR, OTHER), MeasuredRows()
    columns = (*(f"{kind}, %" for kind in kinds), "kernels, ms")

    def make(model: Any) -> tuple[list[Row], bool]:
        on_gpu.give_back()
        ms = spent(model.ready(on_gpu.DEVICE))
        total = sum(ms.values())
        ours = {f"{kind}, %": 100 * ms.get(kind, 0.0) / total for kind in kinds}
        told: dict[str, Published] = {columns[0]: GATHERS[model.name]} if model.name in GATHERS else {}
        return [Row(model.name, {**ours, columns[-1]: total}, told)], True

    for model in MODELS if models is None else models:
        found.add(model.name, partial(make, model))
    note = (
        "Forward passes of models written for this in PyTorch, in float32: DLRM with 26 tables of a million rows and"
        " bags of 64, a layer of BigBird over four sequences of 4,096 tokens, TransE's distances of 16,384 triples, and"
        " GCN of Table 2's widths; the paper's are optimised ones of the literature. Inputs are generated with the"
        f" published counts. Means of {PASSES} in a row, by kernel, of PyTorch's profiler: what runs within a lookup's"
        " range is embedding, what a product launches is GEMM, and elementwise kernels are PyTorch's, vectorised or not"
        " by their names, as its copies are; softmax, norms and sums are other. What the device waits for is in none."
        " Published: at most; the bars are a drawing."
    )
    return found.table(columns, note, "%, and ms", ",.2f")


def spent(forward: Callable[[], Any]) -> dict[str, float]:
    """Milliseconds of a forward pass by what its kernels do. Raises RuntimeError where the profiler sees no kernel."""
    from torch.profiler import ProfilerActivity, profile

    from benchmarks.paper.measured.breakdown import synchronize

    for _ in range(WARM_UPS):
        forward()
    synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        for _ in range(PASSES):
            forward()
        synchronize()
    found = by_kind(profiled.events() or [])
    if not found:
        raise RuntimeError("PyTorch's profiler has seen no kernel on the device")
    return {kind: us / 1e3 / PASSES for kind, us in found.items()}


def by_kind(events: Iterable[Any]) -> dict[str, float]:
    """Microseconds of the kernels that a profile's operators launched, by what they do."""
    from benchmarks.paper.measured.ember.models import EMBEDDING

    found: dict[str, float] = {}
    for event in events:
        around = set(_ranges_of(event))
        for kernel in event.kernels:
            if kernel.name == EMBEDDING:  # the range itself, as the device's timeline has it
                continue
            kind = EMBEDDING if EMBEDDING in around else kind_of(kernel.name, around)
            found[kind] = found.get(kind, 0.0) + kernel.duration
    return found


def _ranges_of(event: Any) -> Iterable[str]:
    """The names of an operator and of all that it runs within."""
    while event is not None:
        yield event.name
        event = event.cpu_parent


def kind_of(kernel: str, operators: set[str]) -> str:
    """What a kernel outside lookups does, by its name and the operators that it runs within."""
    if ELEMENTWISE in kernel:
        return VECTOR if VECTORISED in kernel else SCALAR
    return GEMM if PRODUCTS & operators else OTHER


def roofline_table(lookups: Sequence[Any] | None = None) -> Table:
    """Of each model's embedding operation its intensity, what PyTorch and ours compute a second, and the share of the
    device's bandwidth that they use."""
    from benchmarks.paper.measured.ember.models import MODELS

    used = _used("PyTorch"), _used("ours")
    columns = ("FLOP/B", "PyTorch, TFLOP/s", "ours, TFLOP/s", *used, "MB", "PyTorch, ms", "ours, ms")
    found = MeasuredRows()

    def make(lookup: Any) -> tuple[list[Row], bool]:
        result = beside.measured(lookup)
        told: dict[str, Published] = {used[0]: OF_MODELS[lookup.name]} if lookup.name in OF_MODELS else {}
        shown = f"{lookup.name}, {lookup.size} wide"
        ours = roofline(result, beside.bench().ceilings.bytes_per_second)
        return [Row(shown, ours, told, result["peers"]["PyTorch"].get("error", ""))], bool(result["right"])

    for lookup in [model.lookup for model in MODELS] if lookups is None else lookups:
        found.add(lookup.name, partial(make, lookup))
    found.rows += _extremes(found.rows, used)
    note = (
        f"One lookup of each model of `fig1`, of a graph network the first layer's; medians of {on_gpu.REPEAT} with"
        " cold caches. Operations and bytes are counted from the program and the indices: MB are the least that memory"
        " must move, each 32-byte sector of a row that is asked for once, the indices and the results; intensity and"
        " the share of the bandwidth are of these, so that what is read twice is no use. 100 % is what a copy reaches"
        " on this device, measured. A gather computes nothing. PyTorch's are EmbeddingBag, index_select, rows by index"
        " with arithmetic, and a product with cuSPARSE; the first results of ours are held against float64. Published,"
        " of an H100's bandwidth: 28 % of recommendation models, 32 % of the GPU's peak for gnn_proteins, 0.08 to 52 %"
        " of all; the points are a drawing, and the paper does not say how it counts bytes."
    )
    return found.table(columns, note, "TFLOP/s, %, MB and ms", ",.3f")


def _used(whose: str) -> str:
    return f"{whose}, % of bandwidth"


def roofline(result: Mapping[str, Any], bytes_per_second: float) -> dict[str, float]:
    """A row's numbers from what was measured of an operation, on a device of this bandwidth."""
    moved, flop = result["compulsory_bytes"], result["flop"]
    times = {"PyTorch": result["peers"]["PyTorch"].get("ms"), "ours": result["ours"]["ms"]}
    numbers = {"FLOP/B": flop / moved, "MB": moved / 1e6}
    for whose, ms in times.items():
        if ms is not None:
            numbers |= {
                f"{whose}, TFLOP/s": flop / ms / 1e9,
                _used(whose): 100 * moved / (ms / 1e3) / bytes_per_second,
                f"{whose}, ms": ms,
            }
    return numbers


def _extremes(rows: Sequence[Row], columns: Sequence[str]) -> list[Row]:
    """The least and the most of the shares that rows have, beside the published ones of PyTorch's."""
    found = []
    for label, of, published in ((LEAST, min, USED[0]), (MOST, max, USED[1])):
        values = {column: [row.ours[column] for row in rows if column in row.ours] for column in columns}
        ours = {column: of(each) for column, each in values.items() if each}
        found.append(Row(label, ours, {columns[0]: published}))
    return found
