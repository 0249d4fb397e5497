"""The options of a compilation: one frozen object, read from the words that the command line and the page share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from explorer.compiler.frozen import dataclass
from explorer.compiler.target import TARGETS

LARGEST_NEGATIVE_COUNT = 4096
MOST_SHARING = 1 << 20
"""Of facts that have one list of negatives."""
OWN_NEGATIVES = "own"
NEGATIVES = ("tail", "head", OWN_NEGATIVES)
"""What negatives replace, or those that a text has a set of."""
USUAL_NEGATIVE_COUNT = 16
"""Of a text that has negatives of its own, where no option says how many."""
ARCHITECTURES = tuple(TARGETS)
"""What PTX is made for."""
PRECISIONS = {
    "float32": "on CUDA cores: errors of up to 2e-6",
    "tf32x3": "on tensor cores, each factor the sum of two TF32 numbers, in three passes: errors of up to 1e-5",
    "tf32": "on tensor cores, each factor rounded to the 11 bits of TF32: errors of up to 2e-3",
}
"""What a GPU multiplies rows and matrices in, and what that costs: the largest error of 16,384 RESCAL scores of 512
dimensions, relative to the mean one. Those of TransR, whose terms do not cancel, are smaller."""
EDGES = {
    "dst": "by destination, then type: COO, or with `encoding` CSC",
    "src": "by source, then type: COO, or with `encoding` CSR",
}
"""The ends that a layer's edges may be sorted by in memory (PIGEON §3.3.5)."""
USUAL_EDGES = "dst"
SPLITS = ("auto", "rows", "nonzeros")
CHUNKS = (0, *(1 << power for power in range(5, 13)))
"""Elements of a warp: from one a lane to where the largest graphs still keep a GPU busy; 0 is a choice by size."""
ENCODINGS = {
    "coo": "which row, or destination, an element is of is read from its array",
    "compressed": "it is found by a search of where these begin: CSC of a graph, CSR of a matrix",
}
"""How a GPU's kernels find what a graph's edges, or a matrix's nonzeros, are sorted by (PIGEON §3.3.5)."""
INSPECTIONS = {
    "false": "nothing is grouped or cached: the ablation",
    "true": "rows are grouped by the matrix that they are multiplied with: all of a batch, or once a graph",
    "chunks": "each block finds out what its chunk of edges shares, and keeps that in shared memory",
}
"""What the inspector of a GPU's kernels does (cuKE §VI)."""
CHUNK_EDGES = (2, 4, 6, 8, 12, 16, 24, 32, 48, 64)
CACHED_MATRICES = range(1, 9)
BLOCK_ELEMENTS = (32, 64, 128)
CHUNKS_A_GROUP = tuple(1 << power for power in range(8))
LANE_WIDTHS = (0, 2, 4, 8, 16, 32)
"""Lanes that share a row of a table; 0 is a choice by its length."""
BLOCK_ROWS = (0, *(1 << power for power in range(11)))
"""Rows of the output, or dot products, that a block computes; 0 is what eight warps have."""
BLOCK_COLUMNS = (0, *(1 << power for power in range(4, 10)))
"""Columns of the output that a block computes; 0 is all of them."""
LANE_VECTORS = (0, *(1 << power for power in range(5)))
"""Vectors of a row that a lane has; 0 is what its lanes leave to each."""
PRELOADS = (0, *(1 << power for power in range(5, 10)))
"""Elements of a row that are in shared memory at a time; 0 is none."""
PADS = (0, 4, 8, 16, 32)
"""Numbers whose multiple rows lie apart: 4 are a vector of 16 bytes, 8 a sector, 32 a line of 128; 0 is no padding."""
OPT_LEVELS = 4
LONGEST_VECTOR = 64
SWITCH = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}
VALUES: dict[str, tuple[str, ...] | tuple[int, ...] | range] = {
    "edges": tuple(EDGES),
    "pad": PADS,
    "inspect": tuple(INSPECTIONS),
    "encoding": tuple(ENCODINGS),
    "inspect_edges": CHUNK_EDGES,
    "inspect_cached": CACHED_MATRICES,
    "inspect_block": BLOCK_ELEMENTS,
    "inspect_group": CHUNKS_A_GROUP,
    "precision": tuple(PRECISIONS),
    "arch": ARCHITECTURES,
    "split": SPLITS,
    "chunk": CHUNKS,
    "lanes": LANE_WIDTHS,
    "lane_vectors": LANE_VECTORS,
    "block_rows": BLOCK_ROWS,
    "block_columns": BLOCK_COLUMNS,
    "preload": PRELOADS,
    "opt": range(OPT_LEVELS),
    "vlen": range(1, LONGEST_VECTOR + 1),
}
"""What an option takes that is no switch: one of some words or numbers, or a number from a range. `negatives` apart,
which are an end and a number or two."""
DECOUPLED = (
    *("opt", "vlen", "address_streams", "store_streams"),
    *("level_hints", "accumulate_streams", "toggle_callbacks"),
)
"""Options that only the stages of the decoupled machine read, from SLC on."""
SCHEDULED = (
    *("inspect", "inspect_edges", "inspect_cached", "inspect_block", "inspect_group", "inspect_reload"),
    "inspect_shuffle",
    *("precision", "arch", "split"),
    *("chunk", "lanes", "lane_vectors", "block_rows", "block_columns", "preload", "balance", "popular", "encoding"),
)
"""Options that only the stages of a GPU read, from the scheduled kernels on."""
OF_SUMS = (
    *("split", "chunk", "lanes", "lane_vectors", "block_rows", "block_columns", "preload", "balance", "popular"),
    "encoding",
)
"""Those of them that bear on sums over segments and on dot products."""
SHARED = ("encoding", "inspect", "arch", "split")
"""Those of them that say what may be chosen, and are themselves nothing that a kernel has."""


class OptionError(Exception):
    """An option that does not exist or a value that it does not take; the message is for the user."""


@dataclass(frozen=True)
class Negatives:
    """`count` corrupted triples for each positive one, replacing its head or its tail (cuKE §VII-B); or how many each
    has of a text's own, `n: negatives of entity`. So many facts in a row, a chunk, are `sharing` one list of them."""

    end: str  # "head", "tail" or "own"
    count: int
    sharing: int = 1

    @property
    def replaces(self) -> bool:
        """Whether they stand in the place of an id, so that each has a score of its own."""
        return self.end != OWN_NEGATIVES

    def __str__(self) -> str:
        return f"{self.end}:{self.count}" + (f"/{self.sharing}" if self.sharing > 1 else "")


@dataclass(frozen=True)
class Options:
    """What a user may choose.

    `grad` adds the backward pass; `reorder` permits linear-operator reordering and `compact` compact materialisation
    (both Hector §3.2), `aggregate` a sum by destination and type taken before its product with the type's matrix, which
    needs no array between the two, where no softmax of the node weighs what is summed, `interchange` the loop
    interchange, `online` sums of exponentials taken while their maximum grows (a softmax in one visit of its elements),
    `pack` scalars of a row, such as attention, as columns of the vectors that are read with them (Hector §6): off, for
    rows of whole sectors touch no fewer of them so, and are longer by what pads them;
    `pad` has the rows of arrays that kernels make for one another begin at multiples of so many numbers (PIGEON §3.1.3:
    "padding the innermost dimension"), 0 at no such: off, for rows of whole vectors gain nothing, and others take more
    memory to touch up to a sector less.
    `arch` is the GPU that PTX and SASS are made for. `precision` is what a GPU multiplies rows and matrices in, with
    sums in float32 always.

    `apart` keeps the kernels of results free of gradients: a training step has these only when the results are there,
    and makes nothing of them twice then. Off, since a pass over both at once loads what they share once.

    `edges` is the end that a layer's edges are sorted by in memory (`EDGES`): sums over a node's edges at that end go
    through them in order, those at the other end through an order of their own.

    `inspect` says what the inspector does on the GPU (`INSPECTIONS`): "true" is what measures best. The others beside
    it are read where it is "chunks" and a score allows it (cuKE §V-A, §VI): `inspect_edges` are the edges of a chunk
    (the paper's C), `inspect_cached` the matrices in shared memory (C1), `inspect_block` the elements of a row that
    are there at a time (D), and `inspect_group` the chunks whose edges are sorted together (p), 1 for no sorting. The
    paper has 16, 2, 64 and 128; more edges and fewer chunks measured better on an H100. `inspect_reload` has the rows
    that are multiplied with matrices stored for the first block of columns, and reloaded for the others (Listing 6),
    which else compute them again; `inspect_shuffle` has lanes hand the elements of such rows on by shuffles (§V-B), in
    place of shared memory.

    `encoding` is how they find which row, or destination, an element is of (`ENCODINGS`): "compressed" reads no array
    of it, and searches where rows begin (PIGEON §3.3.5).

    `split` is what a GPU's warps share out of a sum over segments: the rows, or the elements ("nonzeros", G-Sparse), or
    ("auto") what suits the set; `chunk` is how many elements a warp then takes, 0 for as many as suit their number.
    `lanes` is how many lanes at most share a row of a table there and in dot products (G-Sparse's kLaneWidth), of which
    each then has as many vectors as it takes, 0 for as many as suit its length. `lane_vectors` is how many vectors at
    most that is (kNRegTile, stride register tiling): fewer have more lanes share the row, and where it is longer than
    all of them have, more blocks.
    Where they are the rows, `block_rows` is how many of them a block has (kMTile; of dot products, how many elements),
    `block_columns` how many columns (kNTile = kLaneWidth x kNRegTile vectors), and `preload` how many elements of each
    row its warp fetches into shared memory at a time (kNnzTile), 0 for none; `balance` has an inspector sort them by
    length, once for a graph (all G-Sparse §III-B and III-D). Where they are the elements, a warp fetches its `chunk` of
    them so, or, of rows that are known to be long, a tile of a row at a time.
    `popular` has an inspector mark the rows that elements which warps share out gather most often, for sums or dot
    products, once for a graph, and the L2 cache keep them: for tables many times as large as the cache, where rows
    differ in how often they are gathered, and arrays that are bound once and launched often.

    `opt` is the level of SLC that the DLC is made of (Ember, Table 4), `vlen` the length of its vectors. Beside the
    levels, and off so that each shows what it does by itself: `address_streams` (Ember §7.3), `store_streams`,
    `level_hints`, `accumulate_streams` and `toggle_callbacks` (§7.4)."""

    negatives: Negatives | None = None
    grad: bool = False
    apart: bool = False
    reorder: bool = True
    compact: bool = True
    edges: str = USUAL_EDGES
    aggregate: bool = True
    interchange: bool = True
    online: bool = True
    pack: bool = False
    pad: int = 0
    inspect: str = "true"
    inspect_edges: int = 64
    inspect_cached: int = 2
    inspect_block: int = 64
    inspect_group: int = 32
    inspect_reload: bool = False
    inspect_shuffle: bool = False
    precision: str = "float32"
    arch: str = "sm_90"
    split: str = "auto"
    chunk: int = 0
    lanes: int = 0
    lane_vectors: int = 0
    block_rows: int = 0
    block_columns: int = 0
    preload: int = 0
    balance: bool = False
    popular: bool = False
    encoding: str = "coo"
    opt: int = 3
    vlen: int = 16
    address_streams: bool = False
    store_streams: bool = False
    level_hints: bool = False
    accumulate_streams: bool = False
    toggle_callbacks: bool = False

    def to_json(self) -> dict[str, str | int | bool]:
        """The options in the words that `read_options` takes."""
        negatives = str(self.negatives) if self.negatives else "none"
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"negatives": negatives}


DECIDED = {name: value for name, value in Options().to_json().items() if name in SCHEDULED and name not in SHARED}
"""The options that are decisions of kernels, each for all kernels alike, with their usual values, which leave it to the
heuristics."""


def read_options(values: Mapping[str, str | int | bool]) -> Options:
    """Options from name and value; raises OptionError with a sentence for what it does not know."""
    known = Options().to_json()
    for name in values:
        if name not in known:
            raise OptionError(f"there is no option '{name}': the options are {', '.join(known)}")
    texts = {name: str(value).strip().lower() for name, value in values.items()}
    switches: dict[str, Any] = {
        name: _read_switch(name, texts[name])
        for name, value in known.items()
        if isinstance(value, bool) and name in texts
    }
    chosen: dict[str, Any] = {name: _read_value(name, texts[name]) for name in VALUES if name in texts}
    return Options(negatives=_read_negatives(texts.get("negatives", "none")), **switches, **chosen)


def _read_negatives(text: str) -> Negatives | None:
    if text == "none":
        return None
    end, _, numbers = text.partition(":")
    count, slash, sharing = numbers.partition("/")
    if end not in NEGATIVES or not (_is_whole(count) and _is_whole(sharing or "1" * (not slash))):
        message = f"negatives are 'none', 'tail:N', 'head:N' or 'own:N', or of C triples in a row N/C, not '{text}'"
        raise OptionError(message)
    if not 1 <= int(count) <= LARGEST_NEGATIVE_COUNT:
        raise OptionError(f"negatives take 1 to {LARGEST_NEGATIVE_COUNT:,} a triple, not {int(count):,}")
    if not 1 <= int(sharing or 1) <= MOST_SHARING:
        raise OptionError(f"negatives are shared by 1 to {MOST_SHARING:,} triples, not by {int(sharing):,}")
    return Negatives(end, int(count), int(sharing or 1))


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def _read_switch(name: str, text: str) -> bool:
    if text not in SWITCH:
        raise OptionError(f"{name} is 'true' or 'false', not '{text}'")
    return SWITCH[text]


def _read_value(name: str, text: str) -> str | int:
    choices = VALUES[name]
    if isinstance(choices, range):
        return _read_number(name, text, choices)
    if name == "inspect" and text in SWITCH:  # beside its words it takes what a switch does
        text = str(SWITCH[text]).lower()
    word = _read_choice(name, text, tuple(map(str, choices)))
    return word if isinstance(choices[0], str) else int(word)


def _read_choice(name: str, text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise OptionError(f"{name} is one of {', '.join(choices)}, not '{text}'")
    return text


def _read_number(name: str, text: str, choices: range) -> int:
    if not (_is_whole(text) and int(text) in choices):
        raise OptionError(f"{name} is a number from {choices[0]} to {choices[-1]}, not '{text}'")
    return int(text)
