"""The Python of an extension that depends on its model: its tensors, its operators, and the indices that they read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from textwrap import indent

from explorer.compiler.ir.graph import Graph, IndexMap
from explorer.compiler.ir.index_sets import CONTAINERS, SetNames, ends_of, factors, is_given
from explorer.runtime.encode.ops import Sets
from explorer.runtime.export.names import Named
from explorer.runtime.export.plan import Call, Plan, Program

FAMILIES = {"score": ("Score", "scores"), "layer": ("Layer", "layers"), "op": ("Lists", "lists")}
"""By family, the class that a model's is one of, and its file."""
WIDTH = 96
FORMS = {"bags": 0, "blocks": 1, "csr": 2, "coo": 3}


class Python(str):
    """What is Python already, and no string of it."""


def model_text(plan: Plan, named: Named, package: str) -> str:
    """The file `model.py`."""
    graph = plan.graph
    base, file = FAMILIES[graph.family]
    programs = [_program(program, named, plan, package) for program in plan.programs]
    follows = [_follow(program, plan) for program in plan.programs]
    maps = [entry for entry in graph.maps if is_given(entry)]
    fields = {
        "tensors": _tensors(graph),
        "maps": tuple((entry.name, entry.codomain) for entry in maps) if graph.family != "layer" else (),
        "output": plan.output,
        "output_set": graph.value(graph.result).index_set,
        "result": Python("_RESULT"),
        "gradients": Python("_GRADIENTS") if plan.gradients else None,
        "upstream": plan.upstream,
        "slopes": dict(plan.slopes),
        **_family_fields(plan, maps),
    }
    said = "\n".join(f"    {name} = {_literal(value)}" for name, value in fields.items())
    return f'''"""{graph.name}, made by `explorer export` of the text in model.emb."""

import torch

from . import _C  # noqa: F401, which registers the operators
from .indices import Indices
from .{file} import {base}
from .module import Declared, Operator, Program

_OPS = torch.ops.{package}


{chr(10).join(follows)}
{chr(10).join(programs)}

class {graph.name}({base}):
    """{_signature(plan)}"""

{said}

    def extents(self, counts: dict[str, int]) -> dict[str, int]:
        return {{
{_extents(plan)}
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
    """What a call needs: not what the graph of a layer brings, nor the gradient of the result."""
    lines = []
    for tensor in graph.tensors:
        if tensor.kind == "upstream" or (tensor.kind == "structure" and graph.family != "op"):
            continue
        dims = tuple(map(graph.size, tensor.dims))
        learnt = graph.wants_gradient(tensor)
        said = f"{_literal(tensor.name)}, {_literal(tensor.sets)}, {dims!r}"
        lines.append(f"        Declared({said}, learnt={learnt}, held={tensor.kind == 'param'}),\n")
    return Python(f"(\n{''.join(lines)}    )")


def _family_fields(plan: Plan, maps: list[IndexMap]) -> dict[str, object]:
    graph, negatives = plan.graph, plan.compilation.options.negatives
    if graph.family == "score":
        given = tuple((entry.name, entry.domain) for entry in maps)
        return {"given": given, "negatives": negatives.count if negatives else 0}
    if graph.family == "layer":
        return {}
    sets = Sets.of(graph)
    ends, order = SetNames.of(plan.derived_graph).inverses[sets.home]
    return {"form": FORMS[graph.structure], **vars(sets), "home_ends": ends, "home_order": order}


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


def _follow(program: Program, plan: Plan) -> str:
    """The function that adds the indices that a program reads and no call brings."""
    graph = plan.graph if program.name == "result" else plan.derived_graph
    read = {buffer.name for call in program.calls for buffer in call.given}
    lines, names = list[str](), SetNames.of(graph)
    sets = {known for known, _ in _set_extents(graph)}
    brought = {names.inverses[Sets.of(graph).home]} if graph.family == "op" else set()
    for entry in graph.maps:
        ends, order = names.inverses[entry.name]
        if not read & {ends, order} or (ends, order) in brought:
            continue
        ids, count = f'made.arrays["{entry.name}"]', f'counts["{entry.codomain}"]'
        if entry.paths:
            ids, count = _product(graph, entry), " * ".join(f'counts["{each}"]' for each in factors(graph, entry))
        assert entry.paths or entry.codomain in sets
        lines.append(f'made.invert({ids}, {count}, "{ends}", "{order}")')
    body = "\n".join(f"    {line}" for line in lines) or "    pass"
    return f'''def _follow_{program.name}(made: Indices, counts: dict[str, int]) -> None:
    """Adds the inverses of maps that these kernels read."""
{body}

'''


def _product(graph: Graph, entry: IndexMap) -> str:
    """Where a map of several paths leads from each element of its domain: to rows numbered in row-major order."""
    starts = {known.name: known.domain for known in graph.maps}

    def follow(path: str) -> str:
        rows, at = f'made.every(counts["{entry.domain}"])', entry.domain
        for step in path.split("."):
            if step == at:
                continue
            if starts[step] == CONTAINERS.get(at):
                each = f'max(1, counts["{at}"] // max(1, counts["{starts[step]}"]))'
                rows = f"{rows} // {each}"
            rows, at = f'made.arrays["{step}"].reshape(-1)[{rows}]', ""
        return rows

    first, *others = map(follow, entry.paths)
    for ids, index_set in zip(others, factors(graph, entry)[1:], strict=True):
        first = f'({first}) * counts["{index_set}"] + {ids}'
    return first


def _set_extents(graph: Graph) -> list[tuple[str, str]]:
    """By set that is no product, the name of its extent."""
    products = {entry.codomain for entry in graph.maps if entry.paths}
    return [(each, str(name)) for each, name in SetNames.of(graph).counts.items() if each not in products]


def _extents(plan: Plan) -> str:
    """The lines of the sizes that operators take."""
    needed = {size for program in plan.programs for call in program.calls for size in call.sizes}
    known = dict[str, str]()
    for graph in (plan.graph, plan.derived_graph):
        sizes = {each: f'counts["{each}"]' for each, _ in _set_extents(graph)}
        for entry in graph.maps:
            if entry.paths:
                sizes[entry.codomain] = " * ".join(sizes[each] for each in factors(graph, entry))
        names = SetNames.of(graph).counts
        for each, size in sizes.items():
            known |= {str(names[each]): size, ends_of(each): f"{size} + 1"}
    return "\n".join(f'            "{name}": {known[name]},' for name in sorted(needed))
