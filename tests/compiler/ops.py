"""Ops that several tests compile, with structures made by hand and encoded as the programs read them."""

from functools import cache
from pathlib import Path

import numpy as np

import explorer
from explorer.compiler.interpret import run_program
from explorer.compiler.ir.index_sets import count_name
from explorer.compiler.pipeline import STAGES

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "embedding"
OPS = sorted(path for path in FOLDER.glob("*.emb") if "\nop " in path.read_text())
SIZES = {"D": 5, "F": 3, "S": 2, "Q": 3}
INTERPRETED = [spec.name for spec in STAGES if spec.name not in ("cuda", "ptx", "sass")]


@cache
def compiled(text, **options):
    """The compilation of an op, small, of the stages that somebody looks at."""
    sizes = {name: size for name, size in SIZES.items() if f"{name} =" in text}
    compilation = explorer.compile(text, sizes=sizes, options=options, on_demand=True)
    assert compilation.ok, "\n".join(diagnostic.render(text) for diagnostic in compilation.diagnostics)
    return compilation


def lists(lengths, rows, seed=0):
    """Bags or blocks of these lengths: which list each entry is in, and which of the rows it picks."""
    random = np.random.default_rng(seed)
    of = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)
    return of, random.integers(0, rows, len(of)).astype(np.int32)


def structure_of(graph, lengths=(2, 0, 3, 1, 0), rows=6, seed=0):
    """The maps of an op's graph, and the sizes of its sets: members in groups of these lengths."""
    member = graph.maps[0].domain
    home, pick = graph.maps[0], graph.maps[1]
    if home.codomain == pick.codomain:  # a square matrix
        rows = len(lengths)
    of, idx = lists(lengths, rows, seed)
    counts = {pick.codomain: rows, home.codomain: len(lengths), member: len(of)}
    return {home.name: of, pick.name: idx}, counts


def encoded(graph, maps, counts, seed=1):
    """All arrays that the programs of an op read, with tensors drawn at random, weights positive."""
    random = np.random.default_rng(seed)
    arrays = {count_name(name): count for name, count in counts.items()}
    for entry in graph.maps:
        if entry.codomain == "unit":
            continue
        ids = maps[entry.name]
        sizes = np.bincount(ids, minlength=counts[entry.codomain])
        arrays[entry.name] = ids
        arrays[f"{entry.name}_ptr"] = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        arrays[f"{entry.name}_order"] = np.argsort(ids, kind="stable").astype(np.int32)
    for tensor in graph.tensors:
        shape = [counts[name] for name in tensor.sets] + [graph.size(extent) for extent in tensor.dims]
        arrays[tensor.name] = random.normal(size=shape).astype(np.float32)
    return arrays


def results(compilation, arrays, stages=INTERPRETED):
    """By stage: the result and the gradients."""
    found = {}
    for name in stages:
        stage = compilation.stages[name]
        assert stage.available, stage.reason
        found[name] = run_program(stage.program, arrays)
    return found
