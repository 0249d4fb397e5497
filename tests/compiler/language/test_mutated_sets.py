"""Texts over sets, maps, letters and storages, a word or a letter changed: a diagnostic with a place, or the numbers
that are meant, in the memory that a worker of the page has.

What a text means is told by the reference, in float64 of the numbers as they are stored."""

from __future__ import annotations

import multiprocessing
import random
import re
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.ir.graph import NODES, Graph
from explorer.compiler.ir.index_sets import number_of
from explorer.compiler.ir.set_maps import edges_beside
from explorer.compiler.stored import rounded
from explorer.runtime.encode.declared import made_sizes
from explorer.runtime.reference import evaluate
from explorer.runtime.workers.worker import limit_memory
from explorer.web.limits import COMPILE_MEMORY
from tests.compiler.by_form.facts import FACTS
from tests.compiler.by_form.forms import FORMS
from tests.compiler.by_form.set_forms import SET_FORMS
from tests.compiler.by_form.set_structures import GRAPHS, MAPPED, SOCIAL, bags, between, graph, matrix
from tests.stored_models import FLOATS, QUANTISED

from .helpers import check

TEXTS = {f"fact: {name}": fact.text for name, fact in FACTS.items()}
TEXTS |= {name: form.text for name, form in FORMS.items() if "einsum" in form.text}
TEXTS |= {
    name: form.text
    for name, form in SET_FORMS.items()
    if form.header in (MAPPED, GRAPHS, SOCIAL) or "edge_softmax" in form.text
}
TEXTS |= {f"{name} in {storage}": model.text.replace(": S", f": {storage}").replace("D = 8", "D = 3")
          for name, model in FLOATS.items() for storage in ("bf16", "f16")}  # fmt: skip
TEXTS["quantised"] = QUANTISED.text.replace("D = 8", "D = 3")
TEXTS["facts by letters"] = """dim D = 3
score Letters(u: user, v: user, i: item):
    param U[user, D]: bf16, P[user, item, D, D], b[item]: f16
    input y[batch, D]
    x = einsum("a,ab,b->b", U[u], P[v, i], stop_gradient(y))
    return einsum("b,c,->", x, U[v], b[i])
"""
TEXTS["maps by letters"] = """dim D = 3
layer Letters(g: graph):
    param x[node, D]: f16, m[edge, D], T[time, D, D]: bf16
    map rev: edge -> edge
    map up: node -> node
    map when: edge -> time
    for e in g.edges():
        e["s"] = einsum("a,ab,b->a", m[e.rev.rev], T[e.rev.when], x[e.dst.up.up])
    edge_softmax(g, "s")
    for n in g.nodes():
        n["y"] = sum(e["s"] * stop_gradient(x[e.src.up]) for e in n.incoming_edges())
    return n["y"] + n.up["y"]
"""
WORD = re.compile(r'"[^"\n]*"|->|\.\.|\*\*|[<>=!]=|//|\w+|[^\w\s]')
KINDS = (
    ("entity", "relation", "time", "user", "item", "batch", "node", "edge", "kind", "row", "col", "nonzero", "unit"),
    ("g", "q", "graph", "q_edge", "q_etype", "edge"),
    ("bf16", "f16", "i8", "int8", "half", "float32", "f32", "bfloat16", "f8"),
    ("h", "r", "t", "w", "u", "v", "i", "j", "y", "e", "n", "z"),
    ("rev", "when", "sort", "third", "up", "src", "dst", "etype", "id", "rev.rev", "dst.up", "src.sort"),
    ("param", "input", "map", "dim"),
    ("sum", "max", "mean", "prod", "norm", "dot", "softmax", "stop_gradient", "edge_softmax", "einsum", "tanh"),
    ("nodes", "edges", "incoming_edges", "outgoing_edges", "dst_nodes", "rows", "nonzeros", "row"),
    ("E", "R", "T", "U", "I", "M", "W", "x", "m", "k", "b", "P", "X", "Y"),
    ("+", "-", "*", "/", "@", "->", ",", ":", ".", "="),
    ("0", "1", "2", "3", "4", "7", "64", "-1", "0.5", "D", "K", "99999"),
)
"""Words, those of one line in place of one another."""
LETTERS = "abcdehk,-> z"
EACH = 7
"""Mutants of each text."""
COUNTS = {"node": 5, "edge": 7, "etype": 2, "ntype": 1, "col": 3, "nonzero": 6, "entry": 6, "row": 5}
OTHERS = 4
"""Elements of any other set."""
STRUCTURES = {
    "graph": graph,
    "bag": lambda: {**bags(), "weight": np.linspace(-1, 1, 6, dtype=np.float32)},
    "csr": matrix,
}


def other(word: str, chosen: random.Random) -> str:
    """What stands in a word's place: mostly another of its kind, and of letters one or two others."""
    if word.startswith('"'):
        at, end = sorted(chosen.choices(range(1, len(word)), k=2))
        return word[:at] + chosen.choice((chosen.choice(LETTERS), word[1:-1], "")) + word[end:]
    kinds = [kind for kind in KINDS if word in kind]
    if not kinds or chosen.random() < 0.1:
        return chosen.choice(("", f"{word} {word}", chosen.choice(chosen.choice(KINDS))))
    return chosen.choice(chosen.choice(kinds))


def mutants(name: str) -> Iterator[str]:
    """The text with words of it in the place of others, left out or twice, or two of its lines exchanged."""
    text, chosen = TEXTS[name], random.Random(name)
    places = [found.span() for found in WORD.finditer(text)]
    for _ in range(EACH):
        changed = text
        for start, end in sorted(chosen.sample(places, chosen.choice((1, 1, 2, 3))), reverse=True):
            changed = changed[:start] + other(text[start:end], chosen) + changed[end:]
        lines = changed.splitlines(keepends=True)
        if chosen.random() < 0.1:
            at, to = chosen.sample(range(len(lines)), 2)
            lines[at], lines[to] = lines[to], lines[at]
        yield "".join(lines)


def inputs_for(text: str, program: Graph) -> dict[str, Any]:
    """The ids of each map and numbers for each tensor, as they are stored."""
    generator = np.random.default_rng(1)
    inputs: dict[str, Any] = next((make() for word, make in STRUCTURES.items() if f": {word}" in text), {})
    counts = {**COUNTS, "row": 4} if "csr" in text else COUNTS
    if program.ends != NODES:  # which a mutant may call otherwise
        inputs = {name: ids for name, ids in between().items() if name in ("src", "dst", "etype", "num_etypes")}
        sizes = dict(zip(program.ends, (3, 7), strict=True))
        inputs |= {number_of(name): size for name, size in sizes.items()}
        counts = {**counts, **sizes, "edge": len(inputs["src"])}
    owners = {"batch": 3, **counts}
    for entry in program.maps:
        declared = program.family == "score" and not entry.paths
        if entry.name not in inputs and (
            declared or entry.domain in ("node", "edge", *program.ends, *edges_beside(program))
        ):
            ids = generator.integers(0, counts.get(entry.codomain, OTHERS), owners.get(entry.domain, OTHERS))
            inputs[entry.name] = ids.astype(np.int32)
    owners |= made_sizes(program.maps, {entry.codomain: OTHERS for entry in program.maps} | owners)
    for tensor in program.tensors:
        if tensor.kind != "structure":
            shape = [owners.get(each, OTHERS) for each in tensor.sets] + [program.size(each) for each in tensor.dims]
            drawn = generator.normal(size=shape) * (20 if tensor.storage == "i8" else 1)
            inputs[tensor.name] = rounded(drawn.astype(np.float32), tensor.storage)
    return inputs


def assert_numbers_are_right(text: str) -> None:
    """The graph and the loops compute what the text means, where that is a number."""
    compilation = explorer.compile(text, on_demand=True)
    program = compilation.stages["graph"].program
    assert isinstance(program, Graph)
    inputs = inputs_for(text, program)
    want = evaluate.evaluate(text, inputs, {})
    for stage in ("graph", "loops"):
        got = compilation.run(inputs, stage)
        expected = np.broadcast_to(want, got.shape)
        known = np.isfinite(expected) & (np.abs(expected) < 1e6)
        scale = max(1.0, float(np.abs(expected[known]).max(initial=0)))
        np.testing.assert_allclose(
            got[known], expected[known], rtol=1e-3, atol=1e-4 * scale, err_msg=f"{stage}\n{text}"
        )


def assert_right(text: str) -> bool:
    """A diagnostic with a place, or right numbers; whether it is a model."""
    result = check(text)
    assert (result.graph is None) == bool(result.diagnostics), text
    for diagnostic in result.diagnostics:
        assert diagnostic.span is not None, text
        assert diagnostic.message in diagnostic.render(text)
    if result.graph is not None:
        assert_numbers_are_right(text)
    return result.graph is not None


def had() -> int:
    """Bytes of memory that a process has of the one that it was forked from."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData:"))
    return int(line.split()[1]) << 10


def work(name: str, out: Connection) -> None:
    """Tells of each mutant whether it is a model, or what is wrong with it."""
    import traceback

    limit_memory(COMPILE_MEMORY + had())
    for text in mutants(name):
        try:
            out.send(assert_right(text))
        except BaseException:
            out.send(f"{text}\n{traceback.format_exc(limit=-6)}")
    out.close()


def outcomes(name: str) -> list[bool | str]:
    """Of all mutants of a text, in a process of their own that may take what a worker may."""
    told, out = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=work, args=(name, out))
    process.start()
    out.close()
    found: list[bool | str] = []
    try:
        while True:
            if not told.poll(240):
                process.kill()
                return [*found, "nothing for 240 s"]
            found.append(told.recv())
    except EOFError:
        process.join()
    return found


@pytest.mark.parametrize("name", TEXTS)
def test_a_mutant_has_a_diagnostic_with_a_place_or_right_numbers(name: str) -> None:
    found = outcomes(name)
    wrong = [told for told in found if isinstance(told, str)]
    assert not wrong, "\n".join(wrong)
    assert len(found) == EACH


def test_there_are_two_hundred() -> None:
    assert len(TEXTS) * EACH >= 200


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_itself_is_right(name: str) -> None:
    assert assert_right(TEXTS[name])
