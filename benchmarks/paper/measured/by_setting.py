"""Hector's and G-Sparse's settings beside one another as times, and cuBLAS by rows.

Needs PyTorch and CuPy, which are imported only when a table is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from benchmarks.paper.figure import Row, Table
from benchmarks.paper.measured import on_gpu
from benchmarks.paper.measured.ahead import Code
from benchmarks.paper.measured.on_gpu import REPEAT
from benchmarks.paper.measured.rows import MeasuredRows
from explorer.compiler.compilation import Compilation

Told = Mapping[str, Mapping[str, float | None]]
"""By graph and setting the speed-up that is published, None where the paper's code had no room."""
Sizes = Callable[[int], Mapping[str, int]]
"""A layer's sizes by its dimension."""
DIMENSIONS, BOTH = (32, 64, 128), {"reorder": True, "compact": True}
"""Of Hector's Figure 11, and the setting that it is of."""
ROWS: on_gpu.Options = {"split": "rows"}
"""What all tiles of SpMM have in common."""
LANES, FEATURES = (2, 4, 8, 16, 32), (8, 32, 128, 256)
"""Of G-Sparse's Algorithm 3, widths of lanes, and of the rows that they share."""


def speed_ups(
    layer: str,
    sizes: Mapping[str, int],
    settings: Mapping[str, on_gpu.Options],
    grad: bool,
    told: Told,
    picked: Mapping[str, str],
    drafts: Told | None = None,
) -> Table:
    """A layer's time in the first setting, and how many times as fast the others are, on the graphs that something is
    published of, and how far behind the fastest what was `picked` is. What PIGEON, the paper's draft, has of a graph
    stands in a row of its own."""
    plain, *others = settings
    speed_of = {setting: f"speed, {setting}" for setting in others}
    columns = (f"{plain}, ms", *speed_of.values())
    found, measured = MeasuredRows(), dict[str, dict[str, float | None]]()

    def make(data: str) -> tuple[list[Row], bool]:
        times = on_gpu.layer_times(layer, data, sizes, settings, grad)
        measured[data] = {name: 1 / ms for name, ms in times.ms.items()}
        ours = {columns[0]: times.ms[plain]} if plain in times.ms else {}
        known = [name for name in others if {plain, name} <= times.ms.keys()]
        speeds = {speed_of[name]: times.ms[plain] / times.ms[name] for name in known}
        rows = [Row(data, {**ours, **speeds}, published(told[data]))]
        if drafts and data in drafts:
            rows.append(Row(f"{data}, PIGEON's Table 5", speeds, published(drafts[data])))
        return rows, times.right

    def published(speeds: Mapping[str, float | None]) -> dict[str, float]:
        return {speed_of[name]: speed for name, speed in speeds.items() if speed is not None}

    for data in told:
        found.add(data, partial(make, data))
    note = (
        f"Medians of {REPEAT} with cold caches, of kernels that are compiled once for all graphs; the paper's are of an"
        " RTX 3090. What is plain here is fused as well, so that less is left to gain."
    )
    if measured:
        note += f" {said({data: picked[data] for data in measured})} As measured that is {lost(picked, measured)}"
    return found.table(columns, note, "plain over optimised", ".3f")


def said(picked: Mapping[str, str]) -> str:
    """Which setting was chosen on which graphs, in a sentence."""
    graphs: dict[str, list[str]] = {}
    for data, setting in picked.items():
        graphs.setdefault(setting, []).append(data)
    each = "; ".join(f"{setting} on {', '.join(names)}" for setting, names in graphs.items())
    return f"Chosen by counted costs: {each}."


def lost(picked: Mapping[str, str], speeds: Told) -> str:
    """How far what was chosen is behind the fastest, by the settings' speeds, on each graph that it has one on."""
    behind = dict[str, float]()
    for data, each in speeds.items():
        known = {setting: speed for setting, speed in each.items() if speed is not None}
        if picked[data] in known:
            behind[data] = 1 - known[picked[data]] / max(known.values())
    if not behind:
        return "not known."
    within, worst = sum(loss <= 0.05 for loss in behind.values()), max(behind, key=lambda data: behind[data])
    return (
        f"within 5 % of the fastest of the four on {within} of {len(behind)} graphs, and at worst loses"
        f" {behind[worst]:.0%}, on {worst}."
    )


def by_dimension(layers: Mapping[str, Sizes], data: str) -> Table:
    """Hector's Figure 11: times by dimension, and over those at half of it."""
    columns = (*(f"{dim}, ms" for dim in DIMENSIONS), *(f"{dim} over {dim // 2}" for dim in DIMENSIONS[1:]))
    found = MeasuredRows()

    def make(label: str, layer: str, grad: bool) -> tuple[list[Row], bool]:
        times = {dim: on_gpu.layer_times(layer, data, layers[layer](dim), {"C+R": BOTH}, grad) for dim in DIMENSIONS}
        ms = {dim: each.ms["C+R"] for dim, each in times.items() if each.ms}
        ours = {f"{dim}, ms": value for dim, value in ms.items()}
        both_known = [dim for dim in DIMENSIONS[1:] if {dim, dim // 2} <= ms.keys()]
        ours |= {f"{dim} over {dim // 2}": ms[dim] / ms[dim // 2] for dim in both_known}
        return [Row(label, ours)], all(each.right for each in times.values())

    for layer in layers:
        for grad, task in ((False, "inference"), (True, "training")):
            label = f"{layer.upper()}, {task}"
            found.add(label, partial(make, label, layer, grad))
    note = (
        f"On {data}, compact and reordered, medians of {REPEAT} with cold caches. The paper says that doubling the"
        " dimensions takes less than twice the time; its bars are a drawing; Figure 12's IPC is in `fig12-rgat-bgs`."
    )
    return found.table(columns, note, form=",.3f")


def code_by_dimension(layers: Mapping[str, Sizes]) -> list[Code]:
    """What these times are of."""
    return [
        partial(on_gpu.layer_code, layer, sizes(dim), grad, BOTH)
        for layer, sizes in layers.items()
        for dim in DIMENSIONS
        for grad in (False, True)
    ]


def sparse_times(model: str, size: int, settings: Mapping[str, on_gpu.Options]) -> on_gpu.Measured:
    """Times of SpMM or SDDMM on arxiv's counts with degrees of a power law, by setting; of SpMM cuSPARSE's too."""
    row = _matrix(model, size)
    problem = row.problem(on_gpu.DEVICE, "")
    programs = {name: _sparse_program(row, options) for name, options in settings.items()}
    return on_gpu.in_turns(problem, programs, lambda got: problem.check(got, {}), row.tolerance)


def _matrix(model: str, size: int) -> Any:
    """The row of `explorer bench gpu` that has arxiv's counts."""
    from benchmarks.gpu_suite.rows import MatrixRow

    return MatrixRow(name=model, model=model, nodes=169_343, nonzeros=1_166_243, size=size)


def _sparse_program(row: Any, options: on_gpu.Options) -> Any:
    counts = {"rows": row.nodes, "cols": row.nodes, "nonzeros": row.nonzeros}
    return row.compiled(f"embedding/{row.model}", {"D": row.size}, counts, **options)


def sparse_code(model: str, size: int, options: on_gpu.Options) -> Compilation:
    """The compilation of such a product."""
    made: Compilation = _sparse_program(_matrix(model, size), options).compilation
    return made


def code_of_tiles(settings: Mapping[str, on_gpu.Options], size: int) -> list[Code]:
    """What the times of tiles are of."""
    return [partial(sparse_code, "spmm", size, {**ROWS, **options}) for options in settings.values()]


def tile_times(settings: Mapping[str, on_gpu.Options], size: int) -> Table:
    """G-Sparse's tiles of SpMM (§III-B) as times."""
    columns = ("ms", "over a warp a row")
    found = sparse_times("spmm", size, {name: {**ROWS, **options} for name, options in settings.items()})
    first = next(iter(found.ms.values()), 1.0)
    rows = [Row(name, {columns[0]: ms, columns[1]: ms / first}) for name, ms in found.ms.items()]
    note = (
        f"SpMM of arxiv's counts, {size} wide, rows shared out, degrees of a power law; medians of {REPEAT} with cold"
        " caches. `explorer bench gpu --only SpMM` has the usual schedule beside cuSPARSE."
    )
    return Table("measured", columns, rows, note, form=",.4f", right=found.right)


def code_of_lanes() -> list[Code]:
    """What the times of lane widths are of."""
    return [partial(sparse_code, "sddmm", size, {"lanes": width}) for size in FEATURES for width in LANES]


def lane_times() -> Table:
    """G-Sparse's lane widths of SDDMM (Algorithm 3) as times, by the features of a row."""
    columns = tuple(f"kLaneWidth = {width}, ms" for width in LANES)
    found = MeasuredRows()

    def make(label: str, size: int) -> tuple[list[Row], bool]:
        times = sparse_times("sddmm", size, {f"kLaneWidth = {width}, ms": {"lanes": width} for width in LANES})
        return [Row(label, times.ms)], times.right

    for size in FEATURES:
        found.add(f"{size} features", partial(make, f"{size} features", size))
    note = (
        f"SDDMM of arxiv's counts, degrees of a power law; medians of {REPEAT} with cold caches. The excerpt's Table IV"
        " has no numbers that could stand beside these."
    )
    return found.table(columns, note, form=",.4f")


PRODUCT_ROWS = tuple(2**power for power in range(17, 24))


def rows_times() -> Table:
    """Hector's §4.4: what cuBLAS makes a second of rows times a matrix of 64 by 64, by how many rows there are."""
    import torch

    from benchmarks.gpu_suite.rows import TOLERANCES

    on_gpu.give_back()
    columns, size = ("ms", "TFLOP/s"), 64
    left, right = (torch.randn(count, size, device=on_gpu.DEVICE) for count in (max(PRODUCT_ROWS), size))
    allowed, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, False
    few = left[: on_gpu.EXACT_EDGES]
    is_exact = on_gpu.apart(few @ right, few.double() @ right.double()) <= TOLERANCES["float32"]
    runs = {str(count): lambda count=count: left[:count] @ right for count in PRODUCT_ROWS}
    times = {int(name): samples.to_json() for name, samples in on_gpu.clock().interleave(runs, REPEAT).items()}
    torch.backends.cuda.matmul.allow_tf32 = allowed
    ms = {count: told["ms"] for count, told in times.items() if "ms" in told}
    rows = [
        Row(f"{count:,} rows", dict(zip(columns, (each, 2 * count * size**2 / each / 1e9), strict=True)))
        for count, each in ms.items()
    ]
    note = (
        f"float32, {size} to {size}; medians of {REPEAT} with cold caches. The paper says that it rises steadily from"
        " 1M (2^17) to 8M (2^20): these are the rows by both readings, to 2^23."
    )
    return Table("measured", columns, rows, note, form=",.3f", right=is_exact and ms.keys() == times.keys())
