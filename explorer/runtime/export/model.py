"""The Python of an extension that depends on its model: its tensors, its maps and its operators."""

from __future__ import annotations

import json
from collections.abc import Sequence
from textwrap import indent

from explorer.compiler.ir.graph import NODES, Graph, IndexMap, plural
from explorer.compiler.ir.index_sets import SetNames, factors, is_given, number_of
from explorer.compiler.ir.set_maps import EDGE, beside_edges, edges_beside
from explorer.runtime.encode.declared import declared_in
from explorer.runtime.encode.ops import Sets
from explorer.runtime.export.follow import extents_text, follow_text
from explorer.runtime.export.names import Named
from explorer.runtime.export.plan import Call, Plan, Program

FAMILIES = {"score": ("Score", "scores"), "layer": ("Layer", "layers"), "op": ("Lists", "lists")}
"""By family, the class that a model's is one of, and its file."""
DTYPES = {"f16": "torch.float16", "bf16": "torch.bfloat16", "i8": "torch.int8"}
"""The types of tensors that are stored in less than 32 bits."""
MAPS = {"declared": "DeclaredMap", "computed": "ComputedMap"}
"""By field of a model's class, what the maps of it are."""
WIDTH = 96
FORMS = {"bags": 0, "blocks": 1, "csr": 2, "coo": 3}


class Python(str):
    """What is Python already, and no string of it."""


def model_text(plan: Plan, named: Named, package: str) -> str:
    """The file `model.py`."""
    graph = plan.graph
    base, file = FAMILIES[graph.family]
    programs = [_program(program, named, plan, package) for program in plan.programs]
    follows = [follow_text(program, plan) for program in plan.programs]
    given = declared_in(graph) if graph.family == "layer" else [entry for entry in graph.maps if is_given(entry)]
    fields = {
        "tensors": _tensors(graph),
        "maps": tuple((entry.name, entry.codomain) for entry in given),
        **_maps_of_the_text(plan),
        "outputs": plan.outputs,
        "output_sets": tuple(graph.value(name).index_set for name in graph.results),
        "result": Python("_RESULT"),
        "gradients": Python("_GRADIENTS") if plan.gradients else None,
        "upstreams": plan.upstreams,
        "slopes": dict(plan.slopes),
        **_family_fields(plan, given),
    }
    kinds = [kind for field, kind in MAPS.items() if field in fields]
    imported = f"\nfrom .maps import {', '.join(kinds)}" if kinds else ""
    said = "\n".join(f"    {name} = {_literal(value)}" for name, value in fields.items())
    return f'''"""{graph.name}, made by `explorer export` of the text in model.emb."""

import torch

from . import _C  # noqa: F401, which registers the operators
from .indices import Indices
from .{file} import {base}{imported}
from .module import Declared, Operator, Program

_OPS = torch.ops.{package}


{chr(10).join(follows)}
{chr(10).join(programs)}

class {graph.name}({base}):
    """{_signature(plan)}"""

{said}

    def extents(self, counts: dict[str, int]) -> dict[str, int]:
        return {{
{extents_text(plan)}
        }}
'''


def _literal(value: object) -> str:
    """A value in Python; what is Python already stays."""
    if isinstance(value, Python):
        return value
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_literal(name)}: {_literal(each)}' for name, each in value.items())}}}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


def _tensors(graph: Graph) -> Python:
    """What a call needs: not what the graph of a layer brings, nor the gradients of the results."""
    lines = []
    for tensor in graph.tensors:
        if tensor.kind == "upstream" or (tensor.kind == "structure" and graph.family != "op"):
            continue
        dims = tuple(map(graph.size, tensor.dims))
        learnt = graph.wants_gradient(tensor)
        said = f"{_literal(tensor.name)}, {_literal(tensor.sets)}, {dims!r}"
        stored = "" if tensor.storage == "f32" else f", stored={DTYPES[tensor.storage]}"
        lines.append(f"        Declared({said}, learnt={learnt}, held={tensor.kind == 'param'}{stored}),\n")
    return Python(f"(\n{''.join(lines)}    )")


def _maps_of_the_text(plan: Plan) -> dict[str, object]:
    """The maps that the text declares, and those that it computes of ids, where there are some."""
    graph = plan.graph
    declared = [(entry.name, entry.domain, entry.codomain, plural(entry.domain)) for entry in declared_in(graph)]
    computed = [
        (entry.name, factors(graph.maps, entry), entry.codomain, entry.computed)
        for entry in graph.maps
        if entry.computed
    ]
    found: dict[str, Sequence[tuple[object, ...]]] = {"declared": declared, "computed": computed}
    return {field: _calls(MAPS[field], rows) for field, rows in found.items() if rows}


def _calls(name: str, rows: Sequence[tuple[object, ...]]) -> Python:
    """A tuple of what a class makes of each row, one a line."""
    lines = (f"        {name}({', '.join(map(_literal, row))}),\n" for row in rows)
    return Python(f"(\n{''.join(lines)}    )")


def _family_fields(plan: Plan, maps: list[IndexMap]) -> dict[str, object]:
    graph, negatives = plan.graph, plan.compilation.options.negatives
    if graph.family == "score":
        given = tuple((entry.name, entry.domain) for entry in maps)
        shared = {"sharing": negatives.sharing} if negatives and negatives.sharing > 1 else {}
        return {"given": given, "negatives": negatives.count if negatives else 0, **shared}
    if graph.family == "layer":
        beside = tuple(edges.removesuffix(f"_{EDGE}") for edges in edges_beside(graph))
        types = ("ntype",) if graph.ends == NODES else ()
        counted = (*dict.fromkeys(graph.ends), "etype", *types, *(beside_edges(name)[1] for name in beside))
        usual = graph.ends == NODES and not beside
        fields = {"ends": graph.ends, "counted": {number_of(name): name for name in counted}, "beside": beside}
        return {"edges": graph.edges, **({} if usual else fields)}
    sets = Sets.of(graph)
    names = {field: name for field, name in vars(sets).items() if field != "maps"}
    ends, order = SetNames.of(plan.derived_graph).inverses[sets.home]
    return {"form": FORMS[graph.structure], **names, "home_ends": ends, "home_order": order}


def _signature(plan: Plan) -> str:
    graph = plan.graph
    tensors = [f"{t.name}[{', '.join(map(str, (*t.sets, *t.dims)))}]" for t in graph.tensors if t.kind != "structure"]
    sizes = "".join(f", {name} = {size}" for name, size in graph.sizes)
    return f"The {graph.family} {graph.name} of {', '.join(tensors)}{sizes}."


def _program(program: Program, named: Named, plan: Plan, package: str) -> str:
    def operator(call: Call | None) -> str:
        if call is None:
            return "None"
        arrays = [buffer.name for buffer in call.given]
        made = [buffer.name for buffer in call.made]
        rows = [f"_OPS.{call.name}.default", _tuple(arrays), _tuple(call.sizes), _tuple(made)]
        return "Operator(\n" + indent(",\n".join(rows), " " * 8) + ",\n    )"

    parts = [f"follow=_follow_{program.name}", f"inspect={operator(program.inspect)}", f"run={operator(program.run)}"]
    if program.rest is not None:
        parts.append(f"rest={operator(program.rest)}")
    return f"_{program.name.upper()} = Program(\n    " + ",\n    ".join(parts) + ",\n)\n"


def _tuple(names: Sequence[str]) -> str:
    """A tuple of names, in lines that are not too long."""
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > WIDTH:
            lines.append("")
        lines[-1] += f"{_literal(name)}, "
    if len(lines) == 1:
        return _literal(tuple(names))
    return "(\n" + "".join(f"    {line.rstrip()}\n" for line in lines) + ")"
