"""Lowers a graph to fused nests: what a row needs is computed in one visit (cuKE §V-B, Hector §3.3).

A score becomes one kernel over the batch. A layer becomes as few kernels as its stored values allow, each a parallel
loop over an index set; a loop over the edges of a node is inside the node's iteration.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir import graph as g
from explorer.compiler.ir import loops
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Extent, Names, merge, walk
from explorer.compiler.passes.nest import POSITIONS, SORTED_MAPS, Nest, Scope, Target
from explorer.compiler.passes.report import Report
from explorer.compiler.passes.rows import values_in_rows
from explorer.compiler.passes.storage import KernelPlan, plan_kernels, stored_values


def fuse(graph: g.Graph, report: Report) -> loops.Kernel | Module:
    """The graph as one kernel (a score) or a module of kernels (a layer)."""
    if graph.family == "score":
        kernel = _fuse_score(graph, report)
        rows = sum(isinstance(node, loops.Row) for node in walk(kernel))
        kept = f"; {rows} kept in rows of their own" if rows else ""
        report.did(f"{len(graph.values)} values computed in one nest{kept}")
        if graph.gradients:
            report.refused("the gradients of a score stay in the graph: only those of layers become kernels so far")
        return kernel
    return _fuse_layer(graph, report)


def _taken(graph: g.Graph) -> set[str]:
    taken = {name for name, _ in graph.sizes}
    for entry in graph.maps:
        taken |= {entry.name, f"{entry.name}_ptr", f"{entry.name}_order", f"{entry.codomain}_ends"}
        taken |= {entry.domain, entry.codomain, *map(str, map(g.count_name, (entry.domain, entry.codomain)))}
    for tensor in graph.tensors:
        taken |= {tensor.name, *tensor.sets}
    return taken


def _fuse_score(graph: g.Graph, report: Report) -> loops.Kernel:
    names = Names(_taken(graph))
    batch, out = names.new("B"), names.new("out")
    b = names.new("b")
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
    loop = replace(top.close(batch), parallel=True)
    return _kernel(graph, graph.name, "batch", loop, shapes, (), (output,))


def _fuse_layer(graph: g.Graph, report: Report) -> Module:
    names = Names(_taken(graph))
    stored = stored_values(graph)
    called = {name: f"grad_{tensor}" for tensor, name in graph.gradients} | {graph.result: "out"}
    buffers = {name: names.new(called.get(name, "v" + name.removeprefix("%"))) for name in stored}
    rows = values_in_rows(graph, set(stored))
    kernels: list[loops.Kernel] = []
    temporaries: list[loops.Buffer] = []
    for number, plan in enumerate(plan_kernels(graph, stored)):
        kernel, outputs = _layer_kernel(graph, plan, f"{graph.name}_{number}", names, rows, buffers, temporaries)
        kernels.append(kernel)
        temporaries += [replace(buffer, kind="temporary") for buffer in outputs]
        report.did(f"{kernel.name}: template {kernel.template} over {plan.index_set}, stores {len(outputs)} value(s)")
    origin = merge(*(kernel.origin for kernel in kernels))
    gradients = tuple((tensor, buffers[value]) for tensor, value in graph.gradients)
    return Module(
        name=graph.name,
        result=buffers[graph.result],
        gradients=gradients,
        programs=tuple(kernels),
        origin=origin,
    )


def _layer_kernel(
    graph: g.Graph,
    plan: KernelPlan,
    name: str,
    names: Names,
    rows: set[str],
    buffers: dict[str, str],
    temporaries: list[loops.Buffer],
) -> tuple[loops.Kernel, tuple[loops.Buffer, ...]]:
    over = _summed_set(graph, plan.stores[0]) if plan.scatters else plan.index_set
    variable = names.new(POSITIONS.get(over, over[0]))
    top = Scope(None, variable, index_set=over, position=(variable,))
    nest = Nest(graph, names, rows, buffers)
    nest.computing = set(plan.stores)
    outputs = []
    for stored in plan.stores:
        value = nest.values[stored]
        if plan.scatters:
            nest.scatter(value, buffers[stored], top)
        else:
            nest.store(value, Target(buffers[stored], (variable,)), top)
        extents: tuple[Extent, ...] = (g.count_name(plan.index_set), *value.shape)
        outputs.append(loops.Buffer(name=buffers[stored], kind="output", extents=extents, origin=value.origin))
    loop = replace(top.close(g.count_name(over)), parallel=not plan.scatters)
    template = "scatter" if plan.scatters else _template(loop)
    return _kernel(graph, name, template, loop, {}, tuple(temporaries), tuple(outputs)), tuple(outputs)


def _summed_set(graph: g.Graph, name: str) -> str:
    """The set whose elements a sum adds up."""
    operator = graph.value(name).operator
    return next(e.domain for e in graph.maps if isinstance(operator, g.Segment) and e.name == operator.map)


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
    """The kernel with the buffers that its loop reads and writes."""
    read = {node.buffer for node in walk(loop) if isinstance(node, loops.Load)}

    def count(index_set: str) -> Extent:
        return index_set if graph.family == "score" else g.count_name(index_set)

    index = [
        loops.Buffer(name=e.name, kind="index", extents=shapes.get(e.domain, (count(e.domain),)), origin=e.origin)
        for e in graph.maps
    ]
    for entry in graph.maps:
        if entry.codomain == "unit":
            continue
        ends = loops.Buffer(
            name=f"{entry.name}_ptr", kind="index", extents=(f"{entry.codomain}_ends",), origin=entry.origin
        )
        index.append(ends)
        if entry.name not in SORTED_MAPS:
            extents = (count(entry.domain),)
            index.append(loops.Buffer(name=f"{entry.name}_order", kind="index", extents=extents, origin=entry.origin))
    tensors = [
        loops.Buffer(name=t.name, kind=t.kind, extents=(*map(count, t.sets), *t.dims), origin=t.origin)
        for t in graph.tensors
    ]
    inputs = tuple(buffer for buffer in (*index, *tensors, *temporaries) if buffer.name in read)
    return loops.Kernel(
        name=name,
        template=template,
        sizes=graph.sizes,
        buffers=(*inputs, *outputs),
        body=(loop,),
        origin=loop.origin,
    )
