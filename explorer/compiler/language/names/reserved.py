"""Names that a text may not give to what it declares: those under which a run gives a structure."""

from __future__ import annotations

from explorer.compiler.ir.graph import plural
from explorer.compiler.ir.index_sets import count_name, number_of
from explorer.compiler.language.names.structures import BATCH, FACTS, GRAPH_KIND, OF_BAGS, Structure

_GIVEN = {
    "graph": ("ntype", "num_etypes", "num_ntypes", "in_degree", "src_pairs", "dst_pairs"),
    "bags": ("ptr", "weight"),
    "blocks": ("ptr", "blocks"),
    "csr": ("rowptr", "value", "num_rows", "num_cols"),
    "coo": ("rowptr", "value", "num_rows", "num_cols"),
}
"""What a run gives beside the maps, by the kind of structure."""
UPSTREAM = "upstream"


def reserved_names(structure: Structure) -> frozenset[str]:
    """Names under which a run gives the structure: its maps with their encodings, its sizes, and gradients. Of a score,
    whose encodings take names that are free, its own maps."""
    if structure.kind == FACTS:
        return frozenset((BATCH, *structure.maps))
    arrays = [f"{name}{array}" for name in structure.maps for array in ("", "_ptr", "_order")]
    counts = [str(count_name(index_set)) for index_set in structure.sets]
    wholes = [f"all_{plural(index_set)}" for index_set in structure.all_sets]
    given = [*_GIVEN[structure.kind]]
    if structure.kind == GRAPH_KIND:
        given += [number_of(index_set) for index_set in (*structure.groups, *_types_beside(structure))]
    elif structure.several:
        given = [f"{name}_{array}" for name in structure.several for array in OF_BAGS]
    return frozenset([*arrays, *counts, *wholes, *given, UPSTREAM])


def own_names(further: Structure) -> frozenset[str]:
    """Those that a layer's further graph adds to those of the first."""
    arrays = [f"{name}{array}" for name in further.maps for array in ("", "_ptr", "_order")]
    counts = [f"{word}{plural(index_set)}" for index_set in further.sets for word in ("", "all_", "num_")]
    return frozenset([*arrays, *counts, *further.sets])


def _types_beside(structure: Structure) -> tuple[str, ...]:
    """The types of the edges of a layer's further graphs."""
    return tuple(each.led_to("etype") for each in structure.several.values())


def why_reserved(name: str, structure: Structure) -> str:
    """What a name is that a run needs, "" where it is free."""
    if name not in reserved_names(structure):
        return ""
    if structure.kind == FACTS and name in structure.maps:
        return "is a map of the score"
    return "is what the gradient of the result is called" if name == UPSTREAM else f"is a part of {structure.owner}"
