"""cuKE's figures and tables: what its chunks share, what its kernels ask memory for, and what its scores hold.

The published numbers are of the paper's text and its Tables II, IV and V. Batches are drawn from generated graphs of
the published sizes, whose relations are about as uneven as FB15k-237's: counts that hang on them differ from the
paper's. Real graphs take their place where there are files of them (`use_files`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.paper.figure import NEEDS_GPU, NEEDS_PROFILER, Figure, Paper, Row, Table
from benchmarks.paper.measured import counters, cuke_times, cuke_training, memory, profiled
from benchmarks.paper.measured.ahead import Code
from benchmarks.paper.measured.counters import Case
from explorer.checkout import CHECKOUT
from explorer.compiler.compilation import Compilation
from explorer.compiler.interpret.asked_bytes import asked_bytes
from explorer.compiler.ir.graph import Graph, operands
from explorer.compiler.ir.work import elements, used_values
from explorer.compiler.to_json import kernels_of
from explorer.runtime.compiling import compile as compiled
from explorer.runtime.data.triples import PRESETS, Triples, data_files, load_triples
from explorer.runtime.encode import batch, scores
from explorer.runtime.limits.chunks import shared_by_chunks

CHUNK, GROUP = 16, 128
"""§VII-A and §VI-B: C edges of a chunk, and p chunks sorted together."""
BATCH, WIDTH = 2048, 512
"""Triples that traffic is counted on, a group of GROUP chunks, and elements of a row (Figure 11, Table V)."""
MODELS = {"TransE": "transe_l1", "TransH": "transh", "TransR": "transr", "TransF": "transf", "RESCAL": "rescal"}
NEGATIVES, TIMED = cuke_times.NEGATIVES, "FB15k"
NEGATIVE_BATCH = 32
"""Triples, with NEGATIVES each; as many scores as BATCH."""
FLOAT, GB = 4, 10**9
INSPECTORS: dict[str, dict[str, str | int | bool]] = {
    "no inspector": {"inspect": False},
    "cuKE's chunks": {"inspect": "chunks", "inspect_edges": CHUNK, "inspect_group": GROUP},
    "whole batch": {"inspect": True},
}
"""The settings: each edge for itself, which is the paper's hand-written kernel; the paper's inspector with its sizes,
C = 16 and p = 128 (D = 64 and C1 = 2 are the usual ones here too); and all of a batch's edges by relation."""


REAL: dict[str, str] = {}
"""Files of real graphs that take the place of generated ones, by the name of their preset."""


def use_files(folder: Path) -> None:
    """Takes the real graphs of a folder for the presets whose names, in small letters, its .npz or .tsv files have.
    Raises InputError for a folder that cannot be read."""
    files = {path.name.lower().partition(".")[0]: str(path) for path in data_files(folder)}
    REAL.update({name: files[name.lower()] for name in PRESETS if name.lower() in files})


def _named(data: str) -> str:
    return f"{data} (real)" if data in REAL else data


def _of_generated(told: str) -> str:
    """What a note says of generated graphs, where some are: which ones, where others are real."""
    generated = [data for data in PRESETS if data not in REAL]
    if not generated:
        return ""
    return f" {told}, here {', '.join(generated)}." if REAL else f" {told}."


def _uneven() -> str:
    """What a note says of counts that hang on relations."""
    told = _of_generated("Counts hang on how uneven the relations of a generated graph are")
    return told if "FB15k" in REAL else f"{told} FB15k's 1,345 are more evenly used here than in the real one."


def source(data: str) -> str:
    """The file of a real graph, or the name of the generated one."""
    return REAL.get(data, data)


@cache
def _read(source: str) -> Triples:
    return load_triples(source)


def _triples(data: str) -> Triples:
    return _read(source(data))


def drawn(data: str, size: int, seed: int) -> dict[str, npt.NDArray[np.int32]]:
    """The head, relation and tail of a batch's triples, drawn with replacement."""
    triples = _triples(data)
    rows = np.random.default_rng(seed).integers(0, len(triples.h), size=size)
    return {"head": triples.h[rows], "relation": triples.r[rows], "tail": triples.t[rows]}


BATCH_8, BATCHES_8, GROUPS_8 = 8192, 20, (1, 2, 8, 32, GROUP, 512)
"""Figure 8's triples of a batch; how many batches, where the paper has 1,000; chunks sorted together."""


def figure_8() -> Table:
    """How many relations all chunks load, by p, and what sorting saves."""
    columns = (*(f"p={group}" for group in GROUPS_8), f"saved at p={GROUP}")
    rows = []
    for data in PRESETS:
        counts = {
            group: np.mean(
                [shared_by_chunks(drawn(data, BATCH_8, n), CHUNK, group)["relations_sorted"] for n in range(BATCHES_8)]
            )
            for group in GROUPS_8
        }
        ours = {f"p={group}": float(count) for group, count in counts.items()}
        ours[columns[-1]] = ours["p=1"] / ours[f"p={GROUP}"]
        rows.append(Row(_named(data), ours, {columns[-1]: (3.4, 7.0)}))
    note = (
        f"Different relations of a chunk of {CHUNK} edges, over all chunks of a batch of {BATCH_8:,}; the mean of"
        f" {BATCHES_8} batches (the paper's: of 1,000). p = 1 is not reordered, 512 the whole batch. Published for all"
        " graphs and p together: 3.4 to 7x; the counts themselves are a drawing."
    ) + _uneven()
    return Table("counted", columns, rows, note, "relations loaded a batch", ",.1f", logarithmic=True)


def shared_table() -> Table:
    """What chunks load of entities and relations, with and without reordering."""
    columns = ("edges' ends", "entities", "entities, reordered", "relations", "relations, reordered")
    rows = []
    for data in PRESETS:
        found = shared_by_chunks(drawn(data, BATCH_8, 0), CHUNK, GROUP)
        names = ("entities", "entities_sorted", "relations", "relations_sorted")
        ours = dict(zip(columns[1:], (float(found[name]) for name in names), strict=True))
        rows.append(Row(_named(data), {columns[0]: 2.0 * BATCH_8, **ours}))
    note = (
        f"A batch of {BATCH_8:,}, C = {CHUNK}, p = {GROUP}. A chunk has as many matrices as relations. Sorting"
        " by relation hardly changes which entities meet in a chunk: what is saved is relations and their matrices."
    )
    return Table("counted", columns, rows, note, "rows loaded a batch, each once a chunk", ",.0f")


@cache
def model(name: str, negatives: str, inspector: str) -> Compilation:
    """A score of Table II, WIDTH wide."""
    text = (CHECKOUT / "examples" / "kge" / f"{MODELS[name]}.emb").read_text()
    sizes = {"D": WIDTH} | ({"K": WIDTH} if name == "TransR" else {})
    return compiled(text, sizes=sizes, options={**INSPECTORS[inspector], "negatives": negatives}, on_demand=True)


def traffic(name: str, data: str, size: int, inspector: str, negatives: str = "none") -> dict[str, int]:
    """The bytes that each kernel of a score asks memory for, before any cache."""
    compilation = model(name, negatives, inspector)
    tensors = _zeros_of(batch.draw(compilation, _triples(data), size, limit=1 << 40))
    encoding = scores.encode(scores.graph_of(compilation), compilation.stages["loops"].program, tensors)
    return asked_bytes(kernels_of(compilation.stages["kernels"].program), {**tensors, **encoding.arrays})


def eager_bytes(graph: Graph, rows: Mapping[str, int]) -> int:
    """What one operator after another moves: each reads its operands whole and writes its result, a row for each of
    `rows` of its index set (`batch` or `negative`; constants have one). Gathers read and write a copy."""
    rows, total = {**rows, "unit": 1}, 0
    for value in used_values(graph):
        own = rows[value.index_set] * elements(graph, value)
        read = [graph.value(name) for name in operands(value.operator)]
        total += own + (sum(rows[v.index_set] * elements(graph, v) for v in read) if read else own)
    return FLOAT * total


def figure_9() -> Table:
    cases = [(name, "FB15k-237") for name in ("TransH", "TransR", "RESCAL")]
    cases += [("TransR", data) for data in PRESETS if data != "FB15k-237"]
    return _traffic(
        cases,
        BATCH,
        "none",
        (1.4, 7.9),
        (
            f"Bytes asked of memory at batch {BATCH:,}, {WIDTH} wide, before any cache, counted from the kernels' text"
            " and the batch's indices; PyTorch: every operator reads its operands and writes its result. Published:"
            " chunks over no inspector save 1.4 to 7.9x of the traffic that a profiler measures of TransR and RESCAL,"
            " behind caches; the bars' labels are a drawing. TransH asks for more by chunks: rows that a chunk has once"
            " are read again where a second loop over their elements needs them, and each block reads its group's ids."
        ),
    )


def figure_10() -> Table:
    return _traffic(
        [(name, "FB15k-237") for name in MODELS],
        NEGATIVE_BATCH,
        f"tail:{NEGATIVES}",
        None,
        (
            f"{NEGATIVE_BATCH} triples with {NEGATIVES} corrupted tails each, {WIDTH} wide: as many scores as Figure"
            " 9's. Head and relation are loaded once for a triple's negatives whatever the inspector does. A chunk is"
            f" of {CHUNK} scores, all of one triple here. PyTorch reads a triple's matrix once for all its negatives;"
            " without an inspector each score reads it."
        ),
    )


def _traffic(
    cases: Iterable[tuple[str, str]], size: int, negatives: str, saved: tuple[float, float] | None, note: str
) -> Table:
    columns = ("PyTorch, eager", *INSPECTORS, "no inspector over chunks, x", "no inspector over whole batch, x")
    rows = []
    for name, data in cases:
        graph = scores.graph_of(model(name, negatives, "no inspector"))
        ours = {columns[0]: eager_bytes(graph, {"batch": size, "negative": size * NEGATIVES}) / GB}
        for inspector in INSPECTORS:
            ours[inspector] = sum(traffic(name, data, size, inspector, negatives).values()) / GB
        for ratio, inspector in zip(columns[-2:], ("cuKE's chunks", "whole batch"), strict=True):
            ours[ratio] = ours["no inspector"] / ours[inspector]
        matrices = name in ("TransR", "RESCAL")
        rows.append(Row(f"{name}, {_named(data)}", ours, {columns[-2]: saved} if saved and matrices else {}))
    return Table("counted", columns, rows, note, "GB; the last columns are ratios", ",.3f", logarithmic=True)


TABLE_4 = {name: (preset.num_entities, preset.num_triples, preset.num_relations) for name, preset in PRESETS.items()}
PUBLISHED_4 = {
    "FB15k": (14951, 592213, 1345),
    "FB15k-237": (14541, 310116, 237),
    "BioKG": (93773, 5088434, 51),
    "WN18": (40943, 151442, 18),
}


def table_4() -> Table:
    columns = ("nodes", "edges", "relations")
    rows = []
    for data, published in PUBLISHED_4.items():
        triples = _triples(data)
        found = (len(np.union1d(triples.h, triples.t)), len(triples.r), len(np.unique(triples.r)))
        rows.append(
            Row(_named(data), dict(zip(columns, found, strict=True)), dict(zip(columns, published, strict=True)))
        )
    note = "Different ids that occur in the triples."
    note += _of_generated("Of those that are generated only the sizes are those of the real graphs")
    return Table("counted", columns, rows, note, form=",.0f", logarithmic=True)


TABLE_5 = {
    "FB15k": {4096: 0.77, 8192: 0.99, 16384: 1.37},
    "FB15k-237": {4096: 0.43, 8192: 0.56, 16384: 0.72},
    "BioKG": {4096: 0.16, 8192: 0.23, 16384: 0.33},
    "WN18": {4096: 0.15, 8192: 0.27, 16384: 0.45},
}
PYTORCH_5 = {4096: 4.0, 8192: 8.0, 16384: 16.0}
"""§VII-D: (3 x 2 KB + 1 MB) a triple."""


def batch_bytes(data: str, size: int, width: int) -> int:
    """What TransR's score of a batch needs on the device: a copy of each row and matrix that it asks for, the ids and
    the scores (§VII-D: "a copy of the data for the unique entities and relations in a batch")."""
    ids = drawn(data, size, 0)
    entities = len(np.union1d(ids["head"], ids["tail"]))
    relations = len(np.unique(ids["relation"]))
    return FLOAT * (entities * width + relations * (width + width * width) + 4 * size)


def pytorch_bytes(size: int, width: int) -> int:
    """The copies of three rows and a matrix for each triple (§VII-D)."""
    return FLOAT * size * (3 * width + width * width)


def table_5() -> Table:
    columns = tuple(f"{place} {size}" for size in PYTORCH_5 for place in ("ours", "share of PyTorch's, %"))
    rows = []
    for data, published in TABLE_5.items():
        ours, told = {}, {}
        for size, value in published.items():
            held = batch_bytes(data, size, WIDTH)
            ours[f"ours {size}"] = held / 2**30
            ours[f"share of PyTorch's, % {size}"] = 100 * held / pytorch_bytes(size, WIDTH)
            told[f"ours {size}"] = value
            told[f"share of PyTorch's, % {size}"] = 100 * value / PYTORCH_5[size]
        rows.append(Row(_named(data), ours, told))
    rows.append(
        Row(
            "PyTorch",
            {f"ours {size}": pytorch_bytes(size, WIDTH) / 2**30 for size in PYTORCH_5},
            {f"ours {size}": value for size, value in PYTORCH_5.items()},
        )
    )
    note = (
        f"TransR, {WIDTH} wide: rows and matrices that a batch asks for, once each, with ids and scores, beside the"
        " copies that PyTorch makes for every triple. How its GB were taken the paper does not say; ours are of the"
        " data alone, so they are below where relations are few. The paper's 'less than 10 %' does not hold for three"
        " of its own cells (19.2, 12.3 and 10.7 %)."
    ) + _uneven()
    return Table("counted", columns, rows, note, "GiB, and %", ".2f", logarithmic=True)


def copies_table() -> Table:
    columns = ("GiB of projection matrices",)
    rows = [Row("PyTorch, B=4096, Dim=1024", {columns[0]: FLOAT * 4096 * 1024**2 / 2**30}, {columns[0]: 16.0})]
    ids = drawn("FB15k-237", 4096, 0)
    held = FLOAT * len(np.unique(ids["relation"])) * 1024**2 / 2**30
    rows.append(Row("a batch of FB15k-237 asks for", {columns[0]: held}))
    note = "B * Dim * Dim * 4 bytes are copied, a matrix a triple; fused kernels read the relations' own matrices."
    return Table("counted", columns, rows, note, form=".2f")


def kernels_table() -> Table:
    """How many kernels a score is, by inspector."""
    columns = ("operators", *INSPECTORS)
    rows = []
    for name in MODELS:
        graph = scores.graph_of(model(name, "none", "no inspector"))
        ours: dict[str, float] = {columns[0]: len(used_values(graph))}
        for inspector in INSPECTORS:
            ours[inspector] = len(kernels_of(model(name, "none", inspector).stages["kernels"].program))
        told = {"cuKE's chunks": 1.0}
        rows.append(Row(name, ours, told))
    note = (
        "Kernels of a score of Table II, which is one after another operator in PyTorch. Published: one fused kernel"
        " for each (§IV). Grouped by relation over the whole batch, products become a kernel of tiles with two small"
        " ones before it, that group."
    )
    return Table("counted", columns, rows, note, form=".0f")


PROFILED = {
    f"{inspector}{kind}": (inspector, negatives)
    for inspector, kind, negatives in (
        ("cuKE's chunks", "", 0),
        ("cuKE's chunks", ", negatives", NEGATIVES),
        ("whole batch", "", 0),
    )
}
"""Settings whose kernels' occupancy is told: the inspector, and how many negatives a triple has."""
PROFILED_BATCH = 16_384
"""Scores of a batch, as in the rows of `bench gpu`."""


def resources() -> Table:
    """What the kernels of scores take of a multiprocessor (§VII-B)."""
    return profiled.resources(
        {
            f"{name}, {setting}": model(name, f"tail:{negatives}" if negatives else "none", inspector)
            for name in MODELS
            for setting, (inspector, negatives) in PROFILED.items()
        }
    )


def occupancy() -> Table:
    """The same measured, with the warps that a run reaches. TransE's norm is that of the rows of `bench gpu`, 2."""
    return profiled.occupancy(profiled_cases())


def profiled_cases() -> list[Case]:
    """The scores whose occupancy is measured."""
    data = REAL.get("FB15k-237", "FB15k-237")
    return [
        Case(
            f"{name}, {setting}",
            f"kge/{file}",
            WIDTH,
            data,
            INSPECTORS[inspector],
            PROFILED_BATCH // max(1, negatives),
            negatives,
        )
        for name, file in (MODELS | {"TransE": "transe_l2"}).items()
        for setting, (inspector, negatives) in PROFILED.items()
    ]


def _zeros_of(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The same index arrays, with values that take no memory: bytes hang on none."""
    return {
        name: array if np.issubdtype(array.dtype, np.integer) else np.broadcast_to(np.float32(0), array.shape)
        for name, array in tensors.items()
    }


def _settings() -> cuke_times.Settings:
    """What times are of: the graph of Figure 9a, and the settings beside the compiler's own."""
    chosen = {name: INSPECTORS[name] for name in ("cuKE's chunks", cuke_times.PLAIN)}
    return cuke_times.Settings.of(source(TIMED), _named(TIMED), chosen)


def speeds(negatives: int) -> Table:
    """Figure 9 as times, or, of so many negatives, Figure 10."""
    return cuke_times.table(_settings(), negatives)


def code_of_speeds(negatives: int) -> list[Code]:
    """What these times are of."""
    return cuke_times.code(_settings(), negatives)


def memory_5() -> Table:
    """Table V as PyTorch's allocator counts it."""
    return memory.table_5(partial(drawn, seed=0), _named, WIDTH, TABLE_5, PYTORCH_5)


_figure = partial(Figure.of, "cuke")

PAPER = Paper(
    "cuke",
    "cuKE: code generation for scores of knowledge-graph embeddings",
    (
        _figure("table2", "Table II: models, and the kernels that they become", [1, 15], kernels_table),
        _figure("copies", "§II-C: copies of projection matrices", [24], copies_table),
        _figure("table4", "Table IV: data sets", [17], table_4),
        _figure("fig8", "Figure 8: relations that blocks load, by reordering", [12], figure_8),
        _figure("shared", "Figure 8, of entities too: what chunks load", [4, 5, 12], shared_table),
        _figure("fig9", "Figure 9: traffic of positive scores", [19], figure_9),
        _figure("fig10", "Figure 10: traffic of negative scores", [16, 20], figure_10),
        _figure(
            "speeds9",
            "Figure 9 as times: positive scores",
            [18, 19],
            None,
            NEEDS_GPU,
            lambda: speeds(0),
            lambda: code_of_speeds(0),
        ),
        _figure(
            "speeds10",
            "Figure 10 as times: negative scores",
            [18, 20],
            None,
            NEEDS_GPU,
            lambda: speeds(NEGATIVES),
            lambda: code_of_speeds(NEGATIVES),
        ),
        _figure(
            "speedups",
            "§I: 14.9x over TorchScript, 7.8x over TVM, 1.7x over hand-written code",
            [18, 21],
            None,
            NEEDS_GPU,
            lambda: cuke_times.means(_settings()),
            lambda: [*code_of_speeds(0), *code_of_speeds(NEGATIVES)],
        ),
        _figure(
            "fig11",
            "Figure 11: time of an iteration, 1.3x to 2.3x",
            [22],
            None,
            NEEDS_GPU,
            lambda: cuke_training.table(source, _named),
            cuke_training.code,
        ),
        _figure("table5", "Table V: memory of TransR's score", [23], table_5),
        _figure(
            "memory5",
            "Table V: memory of TransR's score, measured",
            [23],
            None,
            NEEDS_GPU,
            memory_5,
            partial(memory.code_5, WIDTH),
        ),
        _figure("occupancy", "§VII-B: registers, shared memory, warps that fit", [24], resources),
        _figure(
            "achieved",
            "§VII-B: occupancy of 75 to 93 %, measured",
            [24],
            None,
            NEEDS_PROFILER,
            occupancy,
            lambda: counters.code(profiled_cases()),
        ),
    ),
)
