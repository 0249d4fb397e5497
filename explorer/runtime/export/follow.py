"""The Python of an extension by which indices follow from those that calls bring: computed ids, the inverses of maps,
and the sizes of sets."""

from __future__ import annotations

from explorer.compiler.ir.graph import Graph, IndexMap
from explorer.compiler.ir.index_functions import written
from explorer.compiler.ir.index_sets import CONTAINERS, SetNames, ends_of, factors, given_over
from explorer.runtime.encode.ops import Sets
from explorer.runtime.export.plan import Plan, Program


def follow_text(program: Program, plan: Plan) -> str:
    """The function that adds the indices that a program reads and no call brings."""
    graph = plan.graph if program.name == "result" else plan.derived_graph
    read = {buffer.name for call in program.calls for buffer in call.given}
    names = SetNames.of(graph)
    brought = {names.inverses[Sets.of(graph).home]} if graph.family == "op" else set()
    wanted = {name for name, arrays in names.inverses.items() if read & {*arrays} and arrays not in brought}
    inverted = [entry for entry in graph.maps if entry.name in wanted]
    lines = [_steps(graph, entry) for entry in _computed(graph, read, inverted)]
    lines += [_inverted(graph, entry, names) for entry in inverted]
    body = "\n".join(f"    {line}" for each in lines for line in each) or "    pass"
    return f'''def _follow_{program.name}(made: Indices, counts: dict[str, int]) -> None:
    """Adds what these kernels read and no call brings."""
{body}

'''


def _computed(graph: Graph, read: set[str], inverted: list[IndexMap]) -> list[IndexMap]:
    """The maps of computed ids that are read themselves, are inverted, or lie on the way to what is."""
    steps = {step for entry in inverted for path in entry.paths for step in path.split(".")}
    needed = read | steps | {entry.name for entry in inverted}
    return [entry for entry in graph.maps if entry.computed and entry.name in needed]


def _steps(graph: Graph, entry: IndexMap) -> list[str]:
    array = f'made.arrays["{entry.name}"]'
    paths = [_along(graph, entry.domain, path) for path in entry.paths]
    several = len(paths) > 1 and entry.domain in CONTAINERS  # of some of these each is a row, of others an element
    paths = [f"{path}.reshape(-1)" for path in paths] if several else paths
    ids = written(paths, entry.computed)
    if entry.widens:
        ids = f"({written([f'{path}.long()' for path in paths], entry.computed)}).int()"
    if several:
        ids += f'.reshape(made.arrays["{given_over(graph, entry.domain)}"].shape)'
    return [f'if "{entry.name}" not in made.arrays:', f"    {array} = {ids}"]


def _inverted(graph: Graph, entry: IndexMap, names: SetNames) -> list[str]:
    ends, order = names.inverses[entry.name]
    product = _is_product(entry)
    ids = _product(graph, entry) if product else f'made.arrays["{entry.name}"]'
    sets = factors(graph.maps, entry) if product else (entry.codomain,)
    sizes = ", ".join(f'counts["{each}"]' for each in sets)
    return [f'made.invert({ids}, ({sizes}{"," * (len(sets) == 1)}), "{ends}", "{order}")']


def _is_product(entry: IndexMap) -> bool:
    """Whether a map leads to a product of sets, which has no size of its own."""
    return bool(entry.paths) and not entry.computed


def _product(graph: Graph, entry: IndexMap) -> str:
    """Where a map of several paths leads from each element of its domain: to rows numbered in row-major order."""
    first, *others = (f"{_along(graph, entry.domain, path)}.reshape(-1)" for path in entry.paths)
    for ids, index_set in zip(others, factors(graph.maps, entry)[1:], strict=True):
        first = f'({first}) * counts["{index_set}"] + {ids}'
    return first


def _along(graph: Graph, domain: str, path: str) -> str:
    """Where a path of maps leads from each element of a set: of the shape of the first map that is over that."""
    starts = {known.name: known.domain for known in graph.maps}
    rows, at = "", domain
    for step in path.split("."):
        if step == at:
            continue
        if starts[step] == CONTAINERS.get(at):
            each = f'max(1, counts["{at}"] // max(1, counts["{starts[step]}"]))'
            rows = f'made.every(counts["{at}"]) // {each}'
        array = f'made.arrays["{step}"]'
        rows, at = f"{array}.reshape(-1)[{rows}]" if rows else array, ""
    return rows or f'made.every(counts["{domain}"])'


def _set_extents(graph: Graph) -> list[tuple[str, str]]:
    """By set that is no product, the name of its extent."""
    products = {entry.codomain for entry in graph.maps if _is_product(entry)}
    return [(each, str(name)) for each, name in SetNames.of(graph).counts.items() if each not in products]


def extents_text(plan: Plan) -> str:
    """The lines of the sizes that operators take."""
    needed = {size for program in plan.programs for call in program.calls for size in call.sizes}
    known = dict[str, str]()
    for graph in (plan.graph, plan.derived_graph):
        sizes = {each: f'counts["{each}"]' for each, _ in _set_extents(graph)}
        for entry in filter(_is_product, graph.maps):
            sizes[entry.codomain] = " * ".join(sizes[each] for each in factors(graph.maps, entry))
        names = SetNames.of(graph).counts
        for each, size in sizes.items():
            known |= {str(names[each]): size, ends_of(each): f"{size} + 1"}
    return "\n".join(f'            "{name}": {known[name]},' for name in sorted(needed))
