"""Ember's figures and tables: by the simulated machine, counted from programs and lists, and Figure 1 on a GPU.

The simulated ones are those of the suite `dae`, whose docstring says what its cycles rest on. Published numbers are of
the paper's text, its tables, and, for Figure 16, the figure scripts of its artifact.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from benchmarks import dae
from benchmarks.paper.figure import NEEDS_GPU, Figure, Paper, Published, Row, Table
from benchmarks.paper.measured.ember import figures
from benchmarks.paper.whole_models import figure_8
from benchmarks.simulated import by_hand, core_alone
from explorer.checkout import CHECKOUT
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.work import per_lookup
from explorer.machine.parameters import MachineParameters
from explorer.runtime.data.bags import RECOMMENDATIONS
from explorer.runtime.data.lists import load_reuse
from explorer.runtime.data.matrices import MATRIX_PRESETS
from explorer.runtime.run import RunRequest, compile_request

LEVELS = tuple(f"opt{level}" for level in dae.LEVELS)
PEAK_GBS = 64.0
"""Figure 17's 100 %, as it is read here: 64 bytes a cycle of the access unit, at 1 GHz."""
UNIT_POWER = 1.02
"""§3.2: the access unit takes less than 2 % more power. An assumption here: nothing simulates power."""
ASSUMED_CORE = "the core alone is an assumed baseline, between code of 16 lanes and scalar code"


@cache
def _rows(group: str) -> tuple[Mapping[str, Any], ...]:
    """The suite's rows of a group of operations, simulated once."""
    return tuple(row for case in dae.CASES if case.group == group for row in dae.simulate(case))


@cache
def _statements() -> Mapping[str, Mapping[str, Any]]:
    """What is simulated and published of the core alone, by figure."""
    return {row["statement"].split(",")[0]: row for row in core_alone.statements(MachineParameters())}


COMPUTE = {"SLS": (1, 1), "SpAttn": (0, None), "SpMM": (2, 1), "MP": (5, 2), "KG": (4, 3)}
"""Table 1, column 3: operations and lookups."""
OPERATIONS = {"SLS": "sls", "SpAttn": "spattn", "SpMM": "spmm", "MP": "mp", "KG": "kg_lookup"}


def compute_table() -> Table:
    rows = []
    for group, name in OPERATIONS.items():
        text = (CHECKOUT / "examples" / "embedding" / f"{name}.emb").read_text()
        graph = compile_request(RunRequest(text=text, on="dae")).stages["graph"].program
        assert isinstance(graph, Graph)
        operations, lookups = per_lookup(graph)
        compute, looked_up = COMPUTE[group]
        published: dict[str, Published] = {"operations an element": float(compute)}
        if looked_up is not None:
            published["lookups"] = float(looked_up)
        rows.append(Row(group, {"operations an element": operations, "lookups": lookups}, published))
    note = (
        "Counted from the graph of examples/embedding. MP takes one multiplication less: the vertex's row is scaled by"
        " a dot product, which is a scalar here, where the paper scales the products by element before it reduces them."
    )
    return Table("counted", ("operations an element", "lookups"), rows, note, form=".2f")


MOST_ACCESSES = 25_000_000
"""Larger graphs take half a minute each, most of which is making them; `explorer reuse --data` has them too."""


def reuse_table() -> Table:
    rows = []
    published: dict[str, Published] = {"RM1:L1": 63.0, "RM1:L2": 99.0}
    small = [name for name, preset in MATRIX_PRESETS.items() if preset.edges < MOST_ACCESSES]
    blocks = [f"BigBird:{size}" for size in (1, 2, 4, 8)]
    for name in ("RM1:L0", "RM1:L1", "RM1:L2", *blocks, *small):
        share = {"within 1,000 rows": 100 * load_reuse(name)["within_1000"]}
        told = {"within 1,000 rows": published[name]} if name in published else {}
        rows.append(Row(name, share, told, "made so" if told else ""))
    others = ", ".join(name for name in MATRIX_PRESETS if name not in small)
    note = (
        "Reuse distances are counted exactly, on generated lists of the published sizes. L1 and L2 are made to have"
        " what §2.2.1 says of criteo's ftr0 and ftr2; the other curves of Table 1 are drawings, and the graphs'"
        f" numbering, which locality hangs on, is not theirs. Larger graphs: explorer reuse --data NAME ({others})."
    )
    return Table("counted", ("within 1,000 rows",), rows, note, "% of accesses", ".1f")


TABLE_2: dict[str, tuple[float, float]] = {
    "arxiv": (0.2, 1.2),
    "mag": (1.9, 21.1),
    "products": (2.4, 61.9),
    "proteins": (0.1, 39.6),
    "com-Youtube": (1.1, 6.0),
    "roadNet-CA": (2.0, 5.5),
    "web-Google": (0.9, 5.1),
    "wiki-Talk": (2.4, 5.0),
    "biokg": (0.1, 5.1),
    "wikikg2": (2.5, 17.1),
}


def inputs_table() -> Table:
    columns = ("vertices, M", "edges, M")
    rows = [
        Row(
            name,
            dict(zip(columns, (MATRIX_PRESETS[name].vertices / 1e6, MATRIX_PRESETS[name].edges / 1e6), strict=True)),
            dict(zip(columns, sizes, strict=True)),
        )
        for name, sizes in TABLE_2.items()
    ]
    note = "Generated with the counts that SNAP and OGB give for what the paper rounds; only the sizes are theirs."
    return Table("counted", columns, rows, note, "millions", ".2f", logarithmic=True)


def core_table(*statements: tuple[str, str]) -> Table:
    """A table by graph of statements of the core alone: each by its figure, as the column `name`."""
    found = [(column, _statements()[figure]) for figure, column in statements]
    rows = [
        Row(
            graph,
            {column: row["simulated"][graph] for column, row in found},
            {column: row["published"][graph] for column, row in found},
        )
        for graph in core_alone.SAMPLES
    ]
    uses = "; ".join(f"{column}: {row['use']}" for column, row in found)
    note = (
        f"SpMM 256 wide on one core, rows of the degrees of samples of the graphs. {uses}. Assumed: 16 lanes, a serial"
        " walk of the page table; columns have the reuse that follows from Figures 3c and 3d. The paper's own differ"
        " from one another: Figure 3d is 3c times 64 bytes only with that reuse."
    )
    return Table("simulated", tuple(column for column, _ in found), rows, note, ASSUMED_CORE, ".3g")


def figure_3() -> Table:
    return core_table(
        ("Fig. 3b", "requests in flight"),
        ("Fig. 3c", "row lines a cycle"),
        ("Fig. 3d", "% of the memory"),
    )


def figure_3a() -> Table:
    """The shares of requests that take so many times the L1D's latency."""
    found = {graph: core_alone.longer(graph) for graph in core_alone.SAMPLES}
    columns = tuple(f"over {times}x" for times in ("10", "20", "50", "100"))
    shares = {graph: {f"over {t}x": 100 * share for t, share in row.items()} for graph, row in found.items()}
    rows = [Row(graph, {column: row[column] for column in columns}) for graph, row in shares.items()]
    products: dict[str, Published] = {"over 10x": 74.0, "over 100x": 40.0}
    rows = [Row(row.label, row.ours, products if row.label == "products" else {}) for row in rows]
    note = (
        "Loads that take so many times the L1D's 2 cycles, from the request to the arrival, over the lines that rows"
        " have; 74 and 40 % are the caption's, of products. §2.3 says up to 86 % over 10x and up to 36 % over 100x,"
        " which contradicts the caption. Held out. Ours are above: every line of the memory takes over 100x here (100"
        " ns), and its walk of the page table and its wait for a miss register count too."
    )
    return Table("simulated", columns, rows, note, f"% of requests; {ASSUMED_CORE}", ".1f")


def figure_4() -> Table:
    row = _statements()["Fig. 4"]
    most = max(row["simulated"].values())
    rows = [Row(graph, {"2R.2L.2M over 1R.1L.1M": value}) for graph, value in row["simulated"].items()]
    rows.append(
        Row("the most", {"2R.2L.2M over 1R.1L.1M": most}, {"2R.2L.2M over 1R.1L.1M": row["published"]["arxiv"]})
    )
    note = (
        "Held out. Twice the reorder buffer, load-store queue and miss registers; the paper's bars by graph are a"
        " drawing, its text says up to 12 %. Here nothing but these and the page walks bounds the core, so it gains"
        " more. Power (+21 %) is not simulated."
    )
    return Table("simulated", ("2R.2L.2M over 1R.1L.1M",), rows, note, ASSUMED_CORE, ".2f")


FIGURE_6C = {"arxiv": 7.0, "mag": 7.6, "products": 6.8, "proteins": 3.7}
"""The memory's use by a core with an access unit, over one without."""
REQUESTS = 5.7
"""§3.2, Figure 6a: requests a second over those of a core, the mean."""


def figure_6() -> Table:
    columns = ("requests/s", "requests/s a watt", "use of the memory")
    row = _statements()["Fig. 6b"]
    rows = [
        Row(
            graph,
            {
                columns[0]: speed,
                columns[1]: speed / UNIT_POWER,
                columns[2]: core_alone.memory_percent_decoupled(graph) / _statements()["Fig. 3d"]["simulated"][graph],
            },
            {columns[1]: row["published"][graph], columns[2]: FIGURE_6C[graph]},
        )
        for graph, speed in row["simulated"].items()
    ]
    mean = sum(row["simulated"].values()) / len(row["simulated"])
    rows.append(Row("mean", {columns[0]: mean}, {columns[0]: REQUESTS}))
    note = (
        "Held out. A core with an access unit (opt3) over the core alone of Figure 3. Power is assumed: the unit takes"
        " 2 % more, the most that §3.2 says. Ours gains less: the access unit's row time is what Figure 16 calibrates,"
        " and no core that meets Figure 3 is slow enough for the published ratio on products."
    )
    return Table("simulated", columns, rows, note, ASSUMED_CORE, ".2f")


def figure_7() -> Table:
    columns = ("over 16-lane code", "over scalar code")
    rows = []
    for group in OPERATIONS:
        for row in _rows(group):
            over = row["speedup_over_core_alone"]
            label = f"{row['operation']} {row['data']}"
            rows.append(Row(label, dict(zip(columns, (over["vectorised"], over["scalar"]), strict=True))))
    right = all(row["matches_reference"] for group in OPERATIONS for row in _rows(group))
    note = (
        "Assumed baseline, not comparable with the paper's bars, so none stands beside ours. Published: 5.8 in the mean"
        " over all, 17 for SpAttn. The paper does not say how its code was compiled; no plain core meets both that mean"
        " and Figure 3. Its gains rise with locality, ours fall: the access unit takes the same for a row wherever it"
        " lies, and the core alone gets faster. Graphs are samples of rows, /100: one row in a hundred."
    )
    return Table(
        "simulated", columns, rows, note, "speed of opt3 with an access unit over the core alone", ".2f", right=right
    )


def figure_16() -> Table:
    rows = []
    for row in (*_rows("SLS"), *_rows("MP")):
        published = dict(zip(LEVELS[1:], row["published"], strict=True)) if row["published"] else {}
        ratios = {level: row["speedup_over_opt0"][level] for level in LEVELS[1:]}
        rows.append(Row(f"{row['operation']} {row['data']}", ratios, published, row["basis"]))
    right = all(row["matches_reference"] for row in (*_rows("SLS"), *_rows("MP")))
    note = (
        "The nine ratios of SLS with low locality are what the machine's costs are fitted to; all else is predicted,"
        " and the paper's bars of it are a drawing. Its text: 6.6, 12.1 and 21 for RM1 to RM3, vectorisation 5.13."
    )
    return Table("simulated", LEVELS[1:], rows, note, "speed over opt0", ".2f", right=right)


FIGURE_17: dict[tuple[str, str, str], Published] = {
    ("RM3:L0", "opt0", "execute"): 2.30,
    ("RM1:L0", "opt3", "access"): 18.05,
    ("RM3:L0", "opt0", "access over execute"): 8.0,
}
"""Two points, which the machine's units are calibrated on, and what the text says of a third."""


def figure_17() -> Table:
    columns = ("access", "execute", "access over execute")
    rows = []
    for data in (f"{model}:L0" for model in RECOMMENDATIONS):
        machine = dae.set_up(dae.Case("SLS", "sls", data))
        for level in dae.LEVELS:
            found = machine.account({"opt": level}, throughput=True)["throughput"]
            ours = {unit: 100 * found[f"{unit}_alone"] / PEAK_GBS for unit in columns[:2]}
            ours[columns[2]] = ours["access"] / ours["execute"]
            told = {unit: FIGURE_17[key] for unit in columns if (key := (data, f"opt{level}", unit)) in FIGURE_17}
            calibrated = told.keys() & set(columns[:2])
            rows.append(Row(f"{data} opt{level}", ours, told, "calibrated" if calibrated else "predicted"))
    note = (
        "What either unit would do with the other infinitely fast: payload, of 64 bytes a cycle of the access unit. Two"
        " of the paper's points give the machine its units. Where access over execute is below 1 the access unit is"
        " what bounds. Ours is above the paper's 8 (§8.1, at most) at RM3 opt0: this access unit pushes records of"
        " three words side by side, where the paper's points say that the payload is a third of what it pushes. L1 and"
        " L2 differ by at most a fifth: explorer run examples/embedding/sls.emb --on dae --data RM3:L2."
    )
    return Table("simulated", columns, rows, note, "% of the peak", ".2f", logarithmic=True)


def figure_18() -> Table:
    columns = ("L3 APKE, from L3", "L3 APKE, from L2", "filtered, %")
    least, most = dae.FILTERED
    rows = []
    found = _rows("SpAttn")
    for plain, hinted in zip(found[::2], found[1::2], strict=True):
        copies = int(plain["data"].partition(":")[2])
        before, after = (row["l3_accesses_per_kiloelement"] for row in (plain, hinted))
        ours = dict(zip(columns, (before / copies, after / copies, 100 * (1 - after / before)), strict=True))
        rows.append(Row(plain["data"], ours, {columns[2]: (100 * least, 100 * most)}))
    right = all(row["matches_reference"] for row in found)
    note = (
        "Accesses of the last-level cache a thousand elements of the paper's result, which holds a key once a query of"
        " its block; indices are among them. Held out; published for all block sizes together, and more of larger"
        " blocks. Ours hardly depends on the block: its reuse is between neighbouring query blocks,"
        " which share as many key blocks whatever their size. Of embeddings alone it is 67 to 74 % there."
    )
    return Table("simulated", columns, rows, note, form=".1f", right=right)


def figure_19() -> Table:
    column = "compiled over by hand, %"
    rows = [
        Row(f"{row['operation']} {row['data']}", {column: 100 * row["compiled_speed_of_by_hand"]})
        for row in by_hand.rows(None)
        if row["matches_reference"]
    ]
    expected = sum(len(data) for _, _, data in by_hand.CASES)
    note = (
        "examples/embedding/*.dlc, written by a person, beside the compiler's opt3. Published: 99 % in the geometric"
        f" mean of all classes, against hand code that is not to be had. {by_hand.UNLIKE}"
    )
    return Table("simulated", (column,), rows, note, "% of the speed", ".1f", right=len(rows) == expected)


TABLE_3 = {"RM1": (64, 16_384, 32, 2, 64), "RM2": (32, 16_384, 64, 2, 128), "RM3": (16, 16_384, 128, 2, 256)}
PARTS_3 = ("segments", "entries a table", "elements", "tables", "lookups")


def table_3() -> Table:
    rows = []
    for name, published in TABLE_3.items():
        model = RECOMMENDATIONS[name]
        ours = (model.segments, model.entries, model.elements, model.tables, model.lookups)
        rows.append(Row(name, dict(zip(PARTS_3, ours, strict=True)), dict(zip(PARTS_3, published, strict=True))))
    return Table("counted", PARTS_3, rows, "The data sets RM1 to RM3, a core's share.", form=",.0f", logarithmic=True)


def table_4() -> Table:
    columns = ("control tokens", "data words", "payload words")
    rows = []
    for model in RECOMMENDATIONS:
        machine = dae.set_up(dae.Case("SLS", "sls", f"{model}:L0"))
        for level in dae.LEVELS:
            account = machine.account({"opt": level})
            queues = account["queues"]
            counts = (queues["control"]["pushes"], queues["data"]["pushes"], account["access"]["payload_bytes"] // 4)
            rows.append(Row(f"{model} opt{level}", dict(zip(columns, counts, strict=True))))
    note = (
        "What emb-opt0 to emb-opt3 (explorer compile examples/embedding/sls.emb --all --option opt=N) push into the"
        " queues on SLS, a core: one record an element, a vector of 16, a row, and a row without its position. The done"
        " token is counted. ref-dae is not to be had."
    )
    return Table("counted", columns, rows, note, "of a run", ",.0f", logarithmic=True)


_figure = partial(Figure.of, "ember")


PAPER = Paper(
    "ember",
    "Ember: embedding operations on decoupled access-execute architectures",
    (
        _figure(
            "fig1",
            "Figure 1: where the time of models goes on a GPU",
            [2],
            None,
            NEEDS_GPU,
            figures.times_table,
        ),
        _figure(
            "roofline",
            "Figure 1: a roofline of embedding operations on a GPU",
            [2],
            None,
            NEEDS_GPU,
            figures.roofline_table,
        ),
        _figure("table1", "Table 1: operations an element, and lookups", [1], compute_table),
        _figure("reuse", "Table 1: accesses within 1,000 other rows", [1], reuse_table),
        _figure("table2", "Table 2: inputs of graph-learning models", [3], inputs_table),
        _figure("fig3", "Figures 3b to 3d: a core without an access unit", [4], figure_3),
        _figure("fig3a", "Figure 3a: how long its requests take", [4], figure_3a),
        _figure("fig4", "Figure 4: a core with everything doubled", [5], figure_4),
        _figure("fig6", "Figure 6: a core with an access unit over one without", [6], figure_6),
        _figure("fig7", "Figure 7: what offloading lookups gains", [7], figure_7),
        _figure("fig8", "Figure 8: where the time of whole models goes", [7], figure_8),
        _figure("table3", "Table 3: recommendation models", [8], table_3),
        _figure("table4", "Table 4: what opt0 to opt3 push", [17], table_4),
        _figure("fig16", "Figure 16: what each optimisation gains", [17], figure_16),
        _figure("fig17", "Figure 17: access and compute throughput", [17], figure_17),
        _figure("fig18", "Figure 18: reading BigBird's blocks by L2", [16, 18], figure_18),
        _figure("fig19", "Figure 19: compiled beside written by hand", [19], figure_19),
    ),
)
