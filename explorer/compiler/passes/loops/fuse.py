"""Lowers a graph to fused nests: what a row needs is computed in one visit (cuKE §V-B, Hector §3.3).

A score becomes one kernel over the batch. A layer, and whatever has gradients or several results, becomes as few
kernels as its stored values allow, each a parallel loop over an index set; a loop over the edges of a node, or over the
triples of a relation, is inside the node's or the relation's iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from explorer.compiler.frozen import replace
from explorer.compiler.ir import graph as g
from explorer.compiler.ir import loops
from explorer.compiler.ir.index_sets import CONTAINERS, SetNames, ends_of, factors, shared_by
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Extent, Names, merge, walk
from explorer.compiler.ir.set_maps import is_sorted
from explorer.compiler.passes.loops.nest import Nest
from explorer.compiler.passes.loops.scope import Scope, Target, position_name
from explorer.compiler.passes.stored.rows import values_in_rows
from explorer.compiler.passes.stored.storage import KernelPlan, plan_kernels, stored_values
from explorer.compiler.report import Report


def fuse(graph: g.Graph, report: Report) -> loops.Kernel | Module:
    """The graph as one kernel (a score), or as a module of kernels (a layer, and whatever has several outputs)."""
    if report.options.edges != graph.edges:
        report.refused(f"{graph.name}: edges={report.options.edges}: nothing, for only a layer has a graph's edges")
    if graph.is_one_nest:
        kernel = _fuse_score(graph, report)
        rows = sum(isinstance(node, loops.Row) for node in walk(kernel))
        kept = f"; {rows} kept in rows of their own" if rows else ""
        report.did(f"{len(graph.values)} values computed in one nest{kept}")
        return kernel
    return _fuse_module(graph, report)


def _taken(graph: g.Graph) -> set[str]:
    taken = {name for name, _ in graph.sizes}
    for entry in graph.maps:
        taken |= {entry.name, entry.domain, entry.codomain}
    for tensor in graph.tensors:
        taken |= {tensor.name, *tensor.sets}
    return taken


def _fuse_score(graph: g.Graph, report: Report) -> loops.Kernel:
    sets = SetNames.of(graph)
    names, batch = Names(_taken(graph) | sets.taken()), sets.counts["batch"]
    out, b = names.new("out"), names.new("b")
    top = Scope(None, b, index_set="batch", position=(b,))
    inner = top
    extents: tuple[Extent, ...] = (batch,)
    negatives = report.options.negatives
    if negatives:
        j = names.new("j")
        inner = Scope(top, j, index_set="negative", position=(b, j))
        extents = (batch, negatives.count)
    nest = Nest(graph, names, values_in_rows(graph, set()), {})
    result = nest.values[graph.result]
    atom = nest.element(result, (), inner)
    inner.add(loops.Store(target=out, indices=inner.position, function="copy", operands=(atom,), origin=result.origin))
    if negatives:
        inner.close(negatives.count)
    shapes: dict[str, tuple[Extent, ...]] = {"batch": (batch,), "negative": extents}
    output = loops.Buffer(name=out, kind="output", extents=extents, origin=())
    loop = replace(top.close(batch, rows=True), parallel=True)
    return _kernel(graph, graph.name, "batch", loop, shapes, (), (output,))


def _fuse_module(graph: g.Graph, report: Report) -> Module:
    names = Names(_taken(graph) | SetNames.of(graph).taken())
    negatives = report.options.negatives
    contained = negatives.count if negatives else 0
    stored = stored_values(graph)
    called = {name: f"grad_{tensor}" for tensor, name in graph.gradients} | _result_names(graph)
    buffers = {name: names.new(called.get(name, "v" + name.removeprefix("%"))) for name in stored}
    rows = values_in_rows(graph, set(stored))
    kernels: list[loops.Kernel] = []
    temporaries: list[loops.Buffer] = []
    for number, plan in enumerate(plan_kernels(graph, stored, report.options.apart)):
        nest = Nest(graph, names, rows, buffers, contained)
        kernel, outputs = _module_kernel(nest, plan, f"{graph.name}_{number}", temporaries)
        kernels.append(kernel)
        temporaries += [replace(buffer, kind="temporary") for buffer in outputs]
        stores = f"stores {len(outputs)} value{'s' * (len(outputs) != 1)}"
        report.did(f"{kernel.name}: template {kernel.template} over {plan.index_set}, {stores}")
    origin = merge(*(kernel.origin for kernel in kernels))
    gradients = tuple((tensor, buffers[value]) for tensor, value in graph.gradients)
    inverses = _inverses(graph, kernels) if graph.family == "score" else ()
    return Module(
        name=graph.name,
        result=buffers[graph.result],
        further=tuple(buffers[name] for name in graph.further),
        gradients=gradients,
        programs=tuple(kernels),
        inverses=inverses,
        products=_products(graph, {entry for entry, _ in inverses}),
        origin=origin,
    )


def _result_names(graph: g.Graph) -> dict[str, str]:
    """What the arrays of the results are called: `out`, or `out_1`, `out_2`, by their places."""
    if not graph.further:
        return {graph.result: "out"}
    return {name: f"out_{place}" for place, name in reversed([*enumerate(graph.results, 1)])}


def _inverses(graph: g.Graph, kernels: list[loops.Kernel]) -> tuple[tuple[str, str], ...]:
    """By map of a batch, the order of its inverse, of those that the kernels read."""
    names, read = SetNames.of(graph).inverses, {buffer.name for kernel in kernels for buffer in kernel.buffers}
    return tuple((entry.name, names[entry.name][1]) for entry in graph.maps if names[entry.name][1] in read)


def _products(graph: g.Graph, inverted: set[str]) -> tuple[tuple[str, tuple[tuple[str, Extent], ...]], ...]:
    """Of the inverted maps those of several paths, each a map of the batch's own, with the extents they lead to."""
    counts = SetNames.of(graph).counts
    return tuple(
        (
            entry.name,
            tuple((path, counts[each]) for path, each in zip(entry.paths, factors(graph.maps, entry), strict=True)),
        )
        for entry in graph.maps
        if entry.name in inverted
        and entry.paths
        and not entry.computed
        and not any("." in path for path in entry.paths)
    )


def _module_kernel(
    nest: Nest, plan: KernelPlan, name: str, temporaries: list[loops.Buffer]
) -> tuple[loops.Kernel, tuple[loops.Buffer, ...]]:
    graph, count = nest.graph, nest.sets.counts[plan.index_set]
    variable = nest.names.new(position_name(plan.index_set))
    top = Scope(None, variable, index_set=plan.index_set, position=(variable,))
    nest.computing = set(plan.stores)
    outputs: list[loops.Buffer] = []
    for index_set, together in groupby(plan.stores, key=lambda stored: nest.values[stored].index_set):
        scope, stores = top, tuple(together)
        if CONTAINERS.get(index_set) == plan.index_set:
            own = nest.names.new("j")
            scope = Scope(top, own, index_set=index_set, position=(variable, own))
        for stored in stores:
            value, buffer = nest.values[stored], nest.stored[stored]
            if plan.scatters:
                nest.scatter(value, buffer, scope)
            else:
                nest.store(value, Target(buffer, scope.position), scope)
            extents = (*_rows(nest.sets, index_set, nest.contained), *value.shape)
            outputs.append(loops.Buffer(name=buffer, kind="output", extents=extents, origin=value.origin))
        if scope is not top:
            scope.close(nest.contained)
            nest.computing -= set(stores)  # what follows in this iteration reads them where they are stored
    loop = replace(top.close(count, rows=True), parallel=not plan.scatters)
    template = "scatter" if plan.scatters else _template(loop)
    shapes = {index_set: _rows(nest.sets, index_set, nest.contained) for index_set in CONTAINERS}
    return _kernel(graph, name, template, loop, shapes, tuple(temporaries), tuple(outputs)), tuple(outputs)


def _rows(sets: SetNames, index_set: str, contained: int) -> tuple[Extent, ...]:
    """The leading extents of arrays over a set."""
    if index_set in CONTAINERS:
        return (sets.counts.get(CONTAINERS[index_set], 0), contained)
    return (sets.counts[index_set],)


def _template(loop: loops.For) -> str:
    """Hector §3.2.5, by preference: `gemm` for rows times matrices, `traversal` for loops along segments, `rows`."""
    nodes = list(walk(loop))
    segments = any(isinstance(node, loops.For) and isinstance(node.extent, str) and node.lower != 0 for node in nodes)
    if segments:
        return "traversal"
    depth = max(_depth(loop), 0)
    return "gemm" if depth > 2 else "rows"


def _depth(loop: loops.For) -> int:
    return 1 + max((_depth(s) for s in loop.body if isinstance(s, loops.For)), default=0)


def _kernel(
    graph: g.Graph,
    name: str,
    template: str,
    loop: loops.For,
    shapes: dict[str, tuple[Extent, ...]],
    temporaries: tuple[loops.Buffer, ...],
    outputs: tuple[loops.Buffer, ...],
) -> loops.Kernel:
    """The kernel with the buffers that its loop reads and writes; `shapes` are the leading extents of some sets."""
    read = {node.buffer for node in walk(loop) if isinstance(node, loops.Load)}
    sets = SetNames.of(graph)

    def rows(index_set: str) -> tuple[Extent, ...]:
        return shapes.get(index_set) or (sets.counts[index_set],)

    index = [
        loops.Buffer(
            name=e.name, kind="index", extents=rows(e.domain), sharing=shared_by(graph.maps, e), origin=e.origin
        )
        for e in graph.maps
    ]
    for entry in graph.maps:
        if entry.codomain == "unit":
            continue
        ends, order = sets.inverses[entry.name]
        index.append(loops.Buffer(name=ends, kind="index", extents=(ends_of(entry.codomain),), origin=entry.origin))
        if not is_sorted(entry, graph.edges):
            flat = (sets.counts[entry.domain],)
            index.append(loops.Buffer(name=order, kind="index", extents=flat, origin=entry.origin))
    tensors = [
        loops.Buffer(
            name=t.name,
            kind=t.kind,
            extents=(*(e for s in t.sets for e in rows(s)), *t.dims),
            storage=t.storage,
            origin=t.origin,
        )
        for t in graph.tensors
    ]
    whole = {entry.name for entry in graph.maps if entry.codomain == "unit"}
    known = [buffer for buffer in (*index, *tensors, *temporaries) if buffer.name not in whole]
    inputs = tuple(buffer for buffer in known if buffer.name in read)
    inputs += _of_sizes(graph, loop, known, (*inputs, *outputs))
    return loops.Kernel(
        name=name,
        template=template,
        sizes=graph.sizes,
        buffers=(*inputs, *outputs),
        body=(loop,),
        origin=loop.origin,
    )


def _of_sizes(
    graph: g.Graph, loop: loops.For, known: Sequence[loops.Buffer], buffers: tuple[loops.Buffer, ...]
) -> tuple[loops.Buffer, ...]:
    """Buffers that a kernel reads nothing of, for it only counts, and whose extents it counts to."""
    extents = {node.extent for node in walk(loop) if isinstance(node, loops.For) and isinstance(node.extent, str)}
    ends = (node for node in walk(loop) if isinstance(node, loops.Compute) and node.function in loops.SEGMENT_ENDS)
    extents |= {end for node in ends for end in node.operands[1:] if isinstance(end, str)}
    named = loops.fixed_names(graph.sizes, buffers) | {loops.result_of(node) for node in walk(loop)}
    found = (next((b for b in known if extent in b.extents), None) for extent in sorted(extents - named))
    return tuple(dict.fromkeys(buffer for buffer in found if buffer is not None))
