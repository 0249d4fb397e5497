"""What a reader can set, as the page offers it: the compiler's options, the simulated machine's parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from explorer.compiler import options
from explorer.compiler.pipeline import STAGES
from explorer.machine.parameters import MachineParameters


@dataclass(frozen=True)
class Switch:
    """An option that is on or off: its name, its label, and what it bears on."""

    name: str
    label: str
    bears_on: str


SWITCHES = (
    Switch("reorder", "reorder linear operators", "layers, graph onward"),
    Switch("compact", "compact values", "layers, graph onward"),
    Switch("aggregate", "add up before products", "layers, graph onward"),
    Switch("grad", "backward pass", "graph onward"),
    Switch("apart", "backward kernels apart", "with a backward pass, loops onward"),
    Switch("interchange", "interchange loops", "loops onward"),
    Switch("online", "online softmax", "layers, loops onward"),
    Switch("pack", "pack scalars with vectors", "layers, loops onward"),
    Switch("address_streams", "address streams", "slc.opt3 onward"),
    Switch("store_streams", "store streams", "slc.opt1 onward"),
    Switch("level_hints", "cache-level hints", "slc onward"),
    Switch("accumulate_streams", "accumulate streams", "slc onward"),
    Switch("toggle_callbacks", "toggle callbacks", "slc onward"),
)


def stage_keys() -> dict[str, str]:
    """By stage the letter that opens it after `g`: the first of its name that no stage before has; a level's digit."""
    keys: dict[str, str] = {}
    for spec in STAGES:
        letters = spec.name[-1] if "." in spec.name else spec.name
        keys[spec.name] = next(letter for letter in letters if letter not in keys.values())
    return keys


PASSES = {"aggregate": "aggregate_first", "grad": "differentiate"}
"""The pass of each switch whose pass has another name."""
SHOWN_INSPECTIONS = {"true": "whole batch", "chunks": "chunks", "false": "off"}
INSPECTIONS = tuple((word, shown, options.INSPECTIONS[word]) for word, shown in SHOWN_INSPECTIONS.items())
"""What the inspector does: the option's word, what the page calls it, and what it means."""


@dataclass(frozen=True)
class ChunkSize:
    """An option of the inspection by chunks: its name, its label, its values, and what cuKE calls it."""

    name: str
    label: str
    values: tuple[int, ...]
    about: str


CHUNK_SIZES = (
    ChunkSize("inspect_edges", "edges a chunk", options.CHUNK_EDGES, "C, of a block"),
    ChunkSize("inspect_group", "chunks a group", options.CHUNKS_A_GROUP, "p, sorted together"),
    ChunkSize("inspect_block", "elements a block", options.BLOCK_ELEMENTS, "D, of rows"),
    ChunkSize("inspect_cached", "cached matrices", tuple(options.CACHED_MATRICES), "C1, of a chunk"),
)

CHUNK_SWITCHES = (
    Switch("inspect_reload", "store rows, reload", "cuKE Listing 6, products by blocks of columns"),
    Switch("inspect_shuffle", "shuffle rows", "cuKE §V-B, products of rows and matrices"),
)


@dataclass(frozen=True)
class Choice:
    """An option that is one of a few words or numbers: its name, its label, its values with how each is shown, and what
    G-Sparse calls it or where it is read."""

    name: str
    label: str
    values: tuple[tuple[str, str], ...]
    about: str


def _sizes(values: tuple[int, ...], none: str) -> tuple[tuple[str, str], ...]:
    """Numbers, of which 0 is shown as a word."""
    return tuple((str(value), str(value) if value else none) for value in values)


SUM_CHOICES = (
    Choice("split", "split by", tuple((word, word) for word in options.SPLITS), "sums over segments"),
    Choice("encoding", "encoding", tuple((word, word) for word in options.ENCODINGS), "rows and destinations"),
    Choice("chunk", "nonzeros a warp", _sizes(options.CHUNKS, "auto"), "kNnzTile, by nonzeros"),
    Choice("lanes", "lanes a row", _sizes(options.LANE_WIDTHS, "auto"), "kLaneWidth"),
    Choice("lane_vectors", "vectors a lane", _sizes(options.LANE_VECTORS, "auto"), "kNRegTile"),
    Choice("block_rows", "rows a block", _sizes(options.BLOCK_ROWS, "auto"), "kMTile"),
    Choice("block_columns", "columns a block", _sizes(options.BLOCK_COLUMNS, "all"), "kNTile, by rows"),
    Choice("preload", "preload nonzeros", _sizes(options.PRELOADS, "off"), "kNnzTile, by rows"),
)
SUM_SWITCHES = (
    Switch("balance", "balance rows", "row balancing, by rows"),
    Switch("popular", "keep popular rows", "L2 cache"),
)
"""What is set of a GPU's sums over segments and dot products (G-Sparse §III), all from the kernels on."""
PAD = Choice("pad", "pad rows to", _sizes(options.PADS, "off"), "loops onward")
"""Where rows of arrays between kernels begin, in numbers."""
LEVELS = tuple(f"opt{level}" for level in range(options.OPT_LEVELS))
"""Ember's optimisation levels; `dlc`, and so the machine, takes one of them."""

SLIDERS = {"queue_bytes": "queue", "mshrs": "misses", "hbm_ns": "latency", "hbm_gbs": "memory", "cores": "cores"}
"""The parameters that have a slider, with its label; all others wait in a list."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of the machine with its usual value and its bounds."""

    name: str
    label: str
    value: float
    unit: str
    least: float
    most: float
    whole: bool
    about: str

    @property
    def slides(self) -> bool:
        """Whether the page gives it a slider."""
        return self.name in SLIDERS


def machine_parameters() -> tuple[Parameter, ...]:
    """Every parameter of the machine, those with sliders first and in their order."""
    found = {entry.name: _parameter(entry.name, entry.default, entry.metadata) for entry in fields(MachineParameters)}
    first = [found.pop(name) for name in SLIDERS if name in found]
    return (*first, *found.values())


def _parameter(name: str, value: Any, note: Mapping[str, Any]) -> Parameter:
    label = SLIDERS.get(name, name.replace("_", " "))
    about = f"{note['meaning']} ({note['source']})"
    unit = note["unit"].removesuffix(" a core")
    return Parameter(name, label, value, unit, note["least"], note["most"], isinstance(value, int), about)


def effects(compiled: Mapping[str, Any]) -> dict[str, str]:
    """What each option that is on does to this program, by the option's name: its pass has told it."""
    told: dict[str, str] = {}
    options = passes_on(compiled)
    for stage in compiled["stages"]:
        for report in stage["passes"]:
            if report["name"] in options:
                told[options[report["name"]]] = _effect(stage["name"], report)
    return told


def passes_on(compiled: Mapping[str, Any]) -> dict[str, str]:
    """The options that are on, by the name of the pass of each."""
    on = [switch.name for switch in SWITCHES if compiled["options"][switch.name]]
    return {PASSES.get(name, name): name for name in on}


def idle_sizes(text: str, compiled: Mapping[str, Any]) -> list[str]:
    """The sizes that a text declares and then never mentions: no value of theirs changes anything."""
    written = re.sub(r"#[^\n]*", "", text)
    return [name for name in compiled["sizes"] if len(re.findall(rf"\b{re.escape(name)}\b", written)) == 1]


def heeded(compiled: Mapping[str, Any]) -> list[str]:
    """The options of sums that the kernels of this program are made by; none where it has no such sum."""
    return sorted({name for stage in compiled["stages"] for report in stage["passes"] for name in report["heeded"]})


def _effect(stage: str, report: Mapping[str, Any]) -> str:
    if report["changed"]:
        return f"changes {stage}"
    return "refused, see its pass" if report["refusals"] else "nothing to do here"
