"""Where an op's lists come from: presets of Ember's tables, graphs read as matrices, and files.

A problem with a source is an InputError, as for triples.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from explorer.runtime.data import triples as inputs
from explorer.runtime.data.attention import BLOCK_PRESETS, big_bird
from explorer.runtime.data.bags import BAG_PRESETS, RECOMMENDATIONS, recommendation
from explorer.runtime.data.graphs import GRAPH_PRESETS, RelationalGraph, load_graph
from explorer.runtime.data.index_arrays import NUMBERS, Form, form_of, sparse_from
from explorer.runtime.data.index_lists import MEMORY_LIMIT, SparseRows, by_row, check_size
from explorer.runtime.data.locality import reuse
from explorer.runtime.data.matrices import MATRIX_PRESETS, matrix, scaled
from explorer.runtime.data.triples import MAX_FILE_BYTES, InputError, read_member, reading

SHORT_NAMES = {"rm1": "RM1:L0", "rm2": "RM2:L0", "rm3": "RM3:L0", "bigbird": "BigBird:8"}
DEFAULTS = {"bag": "RM1:L0", "query": "BigBird:8"}
"""What an op of each kind runs on where nothing is said, by the set that owns its entries; a matrix has DEFAULT."""
DEFAULT = "com-Youtube/500"
OFFERED_ELEMENTS = 2_000_000
"""A page offers graphs divided so that their rows come to so many elements: whole ones take the machine hours."""
FEWEST_OFFERED = 100
"""A graph that would have fewer vertices then is not offered."""
SCALES = tuple(digit * 10**power for power in range(5) for digit in (1, 2, 5))


def load_lists(source: str, data_dir: Path | None = None, limit: int = MEMORY_LIMIT) -> SparseRows:
    """The lists of a preset (`RM3:L0`, `BigBird:8`, `com-Youtube`, `com-Youtube/500`), a graph or a file.

    With `data_dir`, `source` is a preset or the name of a file in that directory, and nothing else is looked up.
    Raises InputError, also where they would take more than `limit` bytes.
    """
    known = {name.lower(): name for name in preset_names()} | SHORT_NAMES
    base, slash, divisor = source.rpartition("/")
    if slash and known.get(base.lower()) in MATRIX_PRESETS:
        if not (divisor.isascii() and divisor.isdigit() and len(divisor) < 10):
            raise InputError(f"{source[:80]}: a graph is divided by a whole number, as in {base}/100")
        return _preset(known[base.lower()], limit, int(divisor))
    if source.lower() in known:
        return _preset(known[source.lower()], limit)
    if source.lower() in GRAPH_PRESETS or source.lower() in {name.lower() for name in inputs.PRESETS}:
        return adjacency(load_graph(source, data_dir), limit)
    return _file(source, data_dir)


def _preset(name: str, limit: int, scale: int = 1) -> SparseRows:
    if name in BAG_PRESETS:
        model, _, locality = name.partition(":")
        return recommendation(model, locality)
    if name in BLOCK_PRESETS:
        return big_bird(int(name.partition(":")[2]))
    return matrix(name, scale, limit=limit)


def load_reuse(
    source: str, data_dir: Path | None = None, told: Callable[[int, int], None] = lambda done, of: None
) -> dict[str, Any]:
    """How far apart the accesses to the same row are, in the lists of a source; `told` hears how many are counted, and
    of how many. Raises InputError."""
    lists = load_lists(source, data_dir)
    told(0, lists.num_entries)
    return {
        "name": lists.name,
        "source": lists.source,
        "about": lists.about,
        "rows": lists.num_cols,
        **reuse(lists.idx, lambda done: told(done, lists.num_entries)),
    }


def preset_names() -> list[str]:
    """The presets that ops take, besides those of graphs."""
    return [*BAG_PRESETS, *BLOCK_PRESETS, *MATRIX_PRESETS]


def adjacency(graph: RelationalGraph, limit: int = MEMORY_LIMIT) -> SparseRows:
    """A graph as a matrix: row v holds the sources of v's in-edges, whatever their types."""
    check_size(graph.name, graph.num_nodes, graph.num_edges, "take a smaller graph", limit)
    found = SparseRows(
        name=graph.name,
        source=graph.source,
        num_cols=graph.num_nodes,
        ptr=graph.src[:0],
        idx=graph.src[:0],
        about="row v holds the sources of v's in-edges",
    )
    return by_row(graph.dst, graph.src, graph.num_nodes, found)


def _file(source: str, data_dir: Path | None) -> SparseRows:
    """The lists in a file, or the graph of one that holds triples."""
    path = Path(source)
    if data_dir is not None:
        files = {path.name: path for path in inputs.data_files(data_dir)}
        if source not in files:
            raise InputError(inputs.unknown_name(source, [*preset_names(), *files]))
        path = files[source]
    elif inputs.is_plain_name(source) and not (len(source) < 256 and path.exists()):
        raise InputError(inputs.unknown_name(source, preset_names()))
    with reading(source[:200]):
        if path.name.lower().endswith(".npz") and path.is_file() and form_in(path) is not None:
            return _read_npz(path, source)
    return adjacency(load_graph(source, data_dir))


def form_in(path: Path) -> Form | None:
    """The form of the lists in an archive, by the names of its arrays."""
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        return form_of({info.filename.removesuffix(".npy") for info in archive.infolist()})


def _read_npz(path: Path, label: str) -> SparseRows:
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if sum(info.file_size for info in members.values()) > MAX_FILE_BYTES:
            raise InputError(f"{label}: larger than the limit of {MAX_FILE_BYTES >> 20} MiB once unpacked")
        form = form_of(members)
        assert form is not None
        arrays = {
            name: read_member(
                archive, members[name], name, () if name in NUMBERS else (None,), "iuf" if name == form.value else "iu"
            )
            for name in vars(form).values()
            if name in members
        }
    return sparse_from(arrays, label, "file")


def available_lists(data_dir: Path | None) -> list[dict[str, Any]]:
    """What a page may offer to ops, files first: `for` is the kind of op that an entry is meant for (bag, matrix,
    query)."""
    generated = [
        *({"name": name, "label": f"{name}, {_bags(name)} (generated)", "for": "bag"} for name in BAG_PRESETS),
        *({"name": name, "label": f"{name} tokens a block (generated)", "for": "query"} for name in BLOCK_PRESETS),
        *_offered_matrices(),
        *({"name": name, "label": f"{name} (generated)", "for": "matrix"} for name in ("tiny", "small")),
    ]
    offered = inputs.summaries(data_dir, summary_of)
    return [*offered, *({**entry, "generated": True} for entry in generated)]


def _bags(name: str) -> str:
    """`128 bags of 64, rows of 32`."""
    preset = RECOMMENDATIONS[name.partition(":")[0]]
    return f"{preset.tables * preset.segments} bags of {preset.lookups}, rows of {preset.elements}"


def _offered_matrices() -> Iterator[dict[str, Any]]:
    for name, preset in MATRIX_PRESETS.items():
        scale = next(scale for scale in SCALES if preset.edges * preset.elements <= scale * OFFERED_ELEMENTS)
        part = scaled(name, preset, scale)
        if part.vertices < FEWEST_OFFERED:
            continue
        yield {
            "name": f"{name}/{scale}",
            "label": f"{name}, 1/{scale}: {part.vertices:,} vertices, {part.edges:,} edges (generated)",
            "for": "matrix",
        }


def whole_matrices() -> list[dict[str, Any]]:
    """The graphs as they are published, undivided: for a GPU, since the machine would take hours."""
    return [
        {
            "name": name,
            "label": f"{name}, whole: {preset.vertices:,} vertices, {preset.edges:,} edges (generated)",
            "for": "matrix",
            "generated": True,
        }
        for name, preset in MATRIX_PRESETS.items()
    ]


def summary_of(path: Path) -> dict[str, Any]:
    """A file's entry in `available_lists`; of one that has no lists in it nothing is read. Raises InputError."""
    with reading(path.name):
        form = form_in(path) if path.name.lower().endswith(".npz") else None
        found = _read_npz(path, path.name) if form else None
    kind = {"idx": "bag", "blocks": "query"}.get(form.picks, "matrix") if form else "matrix"
    size_words = f"{found.num_rows:,} lists, {found.num_entries:,} entries" if found else "triples as a matrix"
    return {"name": path.name, "label": f"{path.name} ({size_words})", "for": kind, "generated": False}
