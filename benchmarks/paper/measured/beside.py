"""Tables of times beside what users run in the place of ours, measured in turns where there is a GPU.

Sparse products beside cuSPARSE, whole networks beside eager PyTorch (G-Sparse), and layers of relational graph networks
beside eager PyTorch and torch.compile (Hector's Figure 8). Needs PyTorch and CuPy, which are imported only then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from itertools import product
from math import prod
from statistics import geometric_mean
from typing import Any

from benchmarks.paper.figure import Row, Table
from benchmarks.paper.measured import on_gpu
from benchmarks.paper.measured.ahead import Code
from benchmarks.paper.measured.on_gpu import COMPILE_SECONDS, COMPILED
from benchmarks.paper.measured.rows import MeasuredRows, reasons
from explorer.compiler.compilation import Compilation

NODES, EDGES, FEATURES, HIDDEN, CLASSES, HEADS = 169_343, 1_166_243, 128, 128, 40, 4
"""Of ogbn-arxiv, and of a network of two layers on it."""
STEPS = 5
"""Whose losses are held against float64's."""
CSR = {"spmm": "torch.sparse.mm", "sddmm": "torch.sampled_addmm"}
COPIED_BYTES, WITH_GRADIENTS = 80 << 30, 3
"""Copies of weights that would take more are left out; a backward pass has so many times as many."""
LOOP, COPIES = "a product a type", "a matrix an edge"
OTHERS = ("torch_geometric", "dgl")
"""Libraries that the papers have beside theirs, by module."""
OVER_ALL: dict[str, Callable[[Sequence[float]], float]] = {"least": min, "geometric mean": geometric_mean, "most": max}
Told = Mapping[tuple[str, str], Mapping[str, tuple[float, float, float]]]
"""By paper and task, of settings, the least, mean and largest speed that is published."""


@cache
def bench() -> Any:
    """What measures rows of `explorer bench gpu` in this process."""
    from benchmarks import gpu
    from benchmarks.gpu_suite.measuring import Bench

    return Bench(gpu.parse(["--repeat", str(on_gpu.REPEAT)]))


def measured(row: Any) -> Mapping[str, Any]:
    """A row of `explorer bench gpu` as that has it, judged. Raises RuntimeError where ours has no time."""
    from benchmarks import gpu

    on_gpu.give_back()
    result = {"row": row.name, **bench().measure(row)}
    gpu.judge([result])
    if "ms" not in result.get("ours", {}):
        raise RuntimeError(result.get("error") or result["ours"]["error"])
    return result


def products_table() -> Table:
    """G-Sparse's kernels: SpMM and SDDMM beside cuSPARSE."""
    from benchmarks.gpu_suite.rows import ROWS, MatrixRow

    rows, found = [row for row in ROWS if isinstance(row, MatrixRow)], MeasuredRows()
    columns = ("ours, ms", "cuSPARSE, ms", "gather and sum, ms", "speed over cuSPARSE")
    missing: dict[str, None] = {}

    def make(row: MatrixRow) -> tuple[list[Row], bool]:
        result = measured(row)
        peers = {name: each["ms"] for name, each in result["peers"].items() if "ms" in each}
        missing.update(dict.fromkeys(name for name in result["peers"] if name not in peers))
        theirs = [ms for name, ms in peers.items() if name in (CSR[row.model], "CuPy csr @ dense")]
        ours = {columns[0]: result["ours"]["ms"]}
        if theirs:
            ours |= {columns[1]: min(theirs), columns[3]: min(theirs) / ours[columns[0]]}
        ours |= {columns[2]: peers["eager"]} if "eager" in peers else {}
        return [Row(f"{row.name}, {row.size} wide", ours)], bool(result["right"])

    for row in sorted(rows, key=lambda row: row.nonzeros):
        found.add(row.name, partial(make, row))
    note = (
        "The rows of `explorer bench gpu` by these names: matrices of OGB's counts, degrees of a power law; medians of"
        f" {on_gpu.REPEAT} with cold caches. cuSPARSE is the faster of PyTorch's call and CuPy's. Published, of kernels"
        " on graphs and GPUs of their own: up to 4.75 times the speed of others (PACT'23 abstract)."
    )
    note += f" No time, for they are not installed or have no room: {', '.join(missing)}." if missing else ""
    return found.table(columns, note, form=",.4f")


def code_of_products() -> list[Code]:
    """What these times are of."""
    from benchmarks.gpu_suite.rows import ROWS, MatrixRow

    return [partial(code_of, row) for row in ROWS if isinstance(row, MatrixRow)]


def code_of(row: Any) -> Compilation:
    """The compilation of a row of `explorer bench gpu`."""
    made: Compilation = row.program().compilation
    return made


def networks_table(nodes: int = NODES, edges: int = EDGES) -> Table:
    """G-Sparse's networks end to end, forward and a step of training, on a graph of these counts."""
    from benchmarks.paper.measured.networks import Citations, networks

    columns = ("ours, ms", "eager, ms", "cuSPARSE, ms", "speed over eager", "speed over cuSPARSE")
    on_gpu.give_back()
    graph, found = Citations.drawn(nodes, edges, on_gpu.DEVICE), MeasuredRows()
    for network in networks(FEATURES, HIDDEN, CLASSES, HEADS):
        found.add(network.name, partial(network_rows, network, graph))
    note = (
        f"Two layers, {FEATURES} to {HIDDEN} to {CLASSES}, GAT's first with {HEADS} heads, on {nodes:,} nodes with"
        f" {edges:,} edges of arxiv's counts and one of each node to itself, degrees of a power law. Each layer is a"
        " compiled module; what is between, the loss and Adam are PyTorch's on all sides. Milliseconds of a call, or a"
        " step, in a row of them, with what the host does. Eager gathers and adds by index; cuSPARSE stands for"
        " torch.sparse.mm, with a transposed matrix that is made before. Logits, gradients and the losses of"
        f" {STEPS} steps are held against float64. Published (PACT'23 abstract): 1.37 to 2.25 over other systems."
    )
    return found.table(columns, note, form=",.3f")


def code_of_networks() -> list[Code]:
    """What these times are of."""
    from benchmarks.paper.measured.networks import networks

    every = product(range(len(networks(FEATURES, HIDDEN, CLASSES, HEADS))), (0, 1), (False, True))
    return [partial(_code_of_network, *each) for each in every]


def _code_of_network(place: int, layer: int, grad: bool) -> Compilation:
    from benchmarks.paper.measured.networks import networks

    features = frozenset(() if layer or not grad else ("x",))  # of the first layer, which are not learnt
    return on_gpu.called_code(networks(FEATURES, HIDDEN, CLASSES, HEADS)[place].modules()[layer], grad, features)


def network_rows(network: Any, graph: Any) -> tuple[list[Row], bool]:
    """A network's two rows, inference and a step of training, and whether all sides are right."""
    import torch

    from benchmarks.paper.measured.networks import Training, by_index, errors
    from benchmarks.traced import interleaved

    device = graph.src.device
    random = torch.Generator(device).manual_seed(1)
    sides, learnt = network.sides(graph)
    x = torch.randn(graph.nodes, network.sizes[0]["F"], device=device, generator=random)
    labels = torch.randint(0, network.classes, (graph.nodes,), device=device, generator=random)
    exactly = network.in_pytorch(graph, by_index(network, graph, torch.float64))
    trained = {name: Training(forward, x, labels, learnt) for name, forward in sides.items()}
    wrong = []
    for name, side in trained.items():
        apart = errors(side, Training(exactly, x.double(), labels, learnt), STEPS)
        wrong += [] if apart.right else [f"{name} is off: {apart}"]
    rows = []
    for task in ("inference", "training"):
        times = interleaved({name: side.logits if task == "inference" else side.step for name, side in trained.items()})
        ours = {f"{name}, ms": ms for name, ms in times.items()}
        ours |= {f"speed over {name}": ms / times["ours"] for name, ms in times.items() if name != "ours"}
        rows.append(Row(f"{network.name}, {task}", ours, basis="; ".join(wrong)))
    return rows, not wrong


def layer_peers(layer: str) -> on_gpu.Peers:
    """A layer in eager PyTorch: a product a type, and with a copy of a weight for each edge where there is room."""

    def made(tensors: Mapping[str, Any], edges: Any, grad: bool) -> dict[str, on_gpu.Run]:
        from benchmarks.gpu_suite.peers import LAYERS

        plain = LAYERS[layer]
        runs = {LOOP: _called(lambda given: plain(given, edges), tensors, grad)}
        if copied_bytes(tensors, edges) * (WITH_GRADIENTS if grad else 1) <= COPIED_BYTES:
            runs[COPIES] = _called(_with_copies(layer, edges), tensors, grad)
        return runs

    return made


def copied_bytes(tensors: Mapping[str, Any], edges: Any) -> int:
    """What copies of each type's matrices take: one for each edge, or for each node of types of nodes."""
    matrices = [tensor.shape for tensor in tensors.values() if tensor.dim() > 2]
    return sum(
        4 * (len(edges.src) if count == edges.etypes else edges.nodes) * prod(shape) for count, *shape in matrices
    )


def _with_copies(layer: str, edges: Any) -> Any:
    from benchmarks.training import EAGER

    maps = {name: getattr(edges, name) for name in ("src", "dst", "etype", "ntype")}
    features = "feature" if layer == "rgat" else "x"
    return lambda given: EAGER[layer](given[features], given, maps)


def _called(compute: Any, tensors: Mapping[str, Any], grad: bool) -> on_gpu.Run:
    """A call without gradients, or with those by what is learnt."""
    import torch

    if not grad:
        return lambda: compute(tensors)
    features = ("x", "feature")
    leaves = {name: tensor.clone().requires_grad_(name not in features) for name, tensor in tensors.items()}
    learnt = [leaf for leaf in leaves.values() if leaf.requires_grad]

    def step() -> Any:
        result = compute(leaves)
        return torch.autograd.grad(result, learnt, torch.ones_like(result), allow_unused=True)

    return step


def layers_table(
    layer: str, sizes: Mapping[str, int], graphs: Sequence[str], settings: Mapping[str, on_gpu.Options], told: Told
) -> Table:
    """Hector's Figure 8 of one layer: inference and training on graphs, under some settings, beside eager PyTorch; and
    over all graphs the least, mean and largest speed over the faster form of that, with what is published of those."""
    speed_of = {name: f"speed, {name}" for name in settings}
    columns = (*(f"{name}, ms" for name in (*settings, LOOP, COPIES)), *speed_of.values())
    found, speeds = MeasuredRows(), dict[tuple[str, str], list[float]]()

    def make(data: str, task: str) -> tuple[list[Row], bool]:
        times = on_gpu.layer_times(layer, data, sizes, settings, task == "training", layer_peers(layer))
        ours = {f"{name}, ms": ms for name, ms in times.ms.items()}
        theirs = [ms for name, ms in times.ms.items() if name not in settings]
        for name in (name for name in settings if theirs and name in times.ms):
            ours[speed_of[name]] = min(theirs) / times.ms[name]
            speeds.setdefault((task, name), []).append(ours[speed_of[name]])
        return [Row(f"{data}, {task}", ours, basis=reasons(times.errors))], times.right

    for data in graphs:
        for task in ("inference", "training"):
            found.add(f"{data}, {task}", partial(make, data, task))
    found.rows += over_all(speeds, speed_of, told)
    absent = [name for name in OTHERS if find_spec(name) is None]
    note = (
        f"{layer.upper()}, 64 to 64, medians of {on_gpu.REPEAT} with cold caches, in turns; speeds are over the faster"
        " of eager PyTorch with a product for each edge type, and with a copy of a weight for each edge where these"
        " have room. Published: Hector's Table 4 and PIGEON's Table 6, over the best of DGL, PyG, Seastar, Graphiler"
        " and HGL, on an RTX 3090 and all eight graphs; the bars are a drawing."
    )
    note += f" Not installed here: {', '.join((*absent, 'Seastar, Graphiler and HGL'))}."
    return found.table(columns, note, form=",.3f")


def over_all(speeds: Mapping[tuple[str, str], Sequence[float]], speed_of: Mapping[str, str], told: Told) -> list[Row]:
    """For each paper and task a row with the least, one with the geometric mean and one with the most of the speeds,
    which are given by task and setting, in the columns of the settings that something is published of."""
    rows = []
    for (paper, task), published in told.items():
        found = {name: speeds[task, name] for name in published if (task, name) in speeds}
        for place, (word, of) in enumerate(OVER_ALL.items()):
            ours = {speed_of[name]: of(each) for name, each in found.items()}
            theirs = {speed_of[name]: known[place] for name, known in published.items()}
            rows.append(Row(f"{word}, {task}, {paper}", ours, theirs))
    return rows


def compiled_table(layers: Mapping[str, Mapping[str, int]], data: str) -> Table:
    """Layers on one graph beside what torch.compile makes of them in its time."""
    columns = ("ours, ms", f"{COPIES}, ms", f"{COMPILED}, ms", f"speed over {COMPILED}")
    found = MeasuredRows()

    def make(layer: str, task: str) -> tuple[list[Row], bool]:
        both = {"ours": {"reorder": True, "compact": True}}
        errors: dict[str, str] = {}
        peers = partial(_compiled, layer, errors)
        times = on_gpu.layer_times(layer, data, layers[layer], both, task == "training", peers)
        ours = {f"{name}, ms": ms for name, ms in times.ms.items()}
        if {"ours", COMPILED} <= times.ms.keys():
            ours[columns[3]] = times.ms[COMPILED] / times.ms["ours"]
        return [Row(f"{layer.upper()}, {task}", ours, basis=reasons({**errors, **times.errors}))], times.right

    for layer in layers:
        for task in ("inference", "training"):
            found.add(f"{layer.upper()}, {task}", partial(make, layer, task))
    note = (
        f"On {data}, as in Figure 8's tables; torch.compile has {COMPILE_SECONDS} s for each, of the form with a copy"
        " of a weight for each edge, which it need not make."
    )
    return found.table(columns, note, form=",.3f")


def _compiled(
    layer: str, errors: dict[str, str], tensors: Mapping[str, Any], edges: Any, grad: bool
) -> dict[str, on_gpu.Run]:
    """A layer with copies, eager and as torch.compile makes it; what it cannot make in its time is among `errors`."""
    import torch

    from benchmarks.timing.device import called_within

    compute = _with_copies(layer, edges)
    runs = {COPIES: _called(compute, tensors, grad)}
    torch._dynamo.reset()
    compiled = _called(torch.compile(compute), tensors, grad)
    if error := called_within(COMPILE_SECONDS, compiled):
        errors[COMPILED] = error
    else:
        runs[COMPILED] = compiled
    return runs
