"""What the rows of the GPU suite compute on: graphs, and tensors that are drawn at random on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

import explorer
from benchmarks.gpu_suite import peers
from explorer.checkout import CHECKOUT
from explorer.compiler.ir.graph import Graph
from explorer.runtime.data.graphs import load_graph, with_inverses
from explorer.runtime.data.triples import Triples, load_triples
from explorer.runtime.torch.structure import Structure, prepare

EXAMPLES = CHECKOUT / "examples"
CORNERS = frozenset({"relu", "leaky_relu", "abs"})
"""PyTorch's functions with a corner at 0, where their slope jumps."""
ROUNDINGS = 8.0
"""An argument that is nearer to a corner than so many times the rounding error of such arguments (root mean square) may
be found on its other side: five are what the largest of a million errors have."""
MOST_DRAWS = 100

Tensor = torch.Tensor
Tensors = dict[str, Tensor]


def drawn(graph: Graph, counts: Mapping[str, int], device: str, seed: int = 0) -> Tensors:
    """A value for every tensor that the structure does not bring: standard normal, but what is learnt divided by the
    root of the dimension that a product with it sums over."""
    random, made = torch.Generator(device).manual_seed(seed), {}
    counts = {"unit": 1, **counts}
    for tensor in graph.tensors:
        if tensor.kind != "structure":
            dims = [graph.size(extent) for extent in tensor.dims]
            shape = [*(counts[name] for name in tensor.sets), *dims]
            made[tensor.name] = torch.randn(shape, device=device, generator=random)
            if tensor.kind == "param" and dims:
                made[tensor.name] *= dims[-2:][0] ** -0.5
    return made


def away_from_corners(draw: Callable[[int], Tensors], plain: Callable[[Tensors], Tensor]) -> tuple[Tensors, str]:
    """What `draw` makes of the first seed with which no argument of a function with a corner lies at it, and a note on
    the seeds before. Gradients have a jump at a corner: float32 may be on one side and float64 on the other, and both
    are right. `plain` is the function that is differentiated. Raises ValueError where MOST_DRAWS do not suffice."""
    for seed in range(MOST_DRAWS):
        tensors = draw(seed)
        found = at_corners(plain, tensors)
        if not found:
            note = f"drawn with seed {seed}, so that no argument of relu lies within float32's rounding of its corner"
            return tensors, note if seed else ""
    raise ValueError(f"{found} arguments of functions with a corner lie at it, however often the inputs are drawn")


def at_corners(plain: Callable[[Tensors], Tensor], tensors: Tensors) -> int:
    """How many arguments of functions with a corner float32 may find on its other side: float64 tells where they lie,
    and its difference from float32 how far rounding takes them. What is exactly 0 in both is not rounded."""
    kept = []
    for kind in (torch.float64, torch.float32):
        with torch.no_grad(), _Arguments() as arguments:
            plain({name: tensor.to(kind) for name, tensor in tensors.items()})
        kept.append(arguments.found)
    count = 0
    for exact, rounded in zip(*kept, strict=True):
        error = (exact - rounded).square().mean().sqrt()
        count += int((((exact != 0) | (rounded != 0)) & (exact.abs() <= ROUNDINGS * error)).sum())
    return count


class _Arguments(TorchFunctionMode):
    """Keeps what functions with a corner are called with."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Tensor] = []

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if function.__name__ in CORNERS:
            self.found.append(args[0])
        return function(*args, **(kwargs or {}))


def power_law(count: int, draws: int, exponent: float, random: torch.Generator) -> Tensor:
    """`draws` ids below `count`, the k-th busiest as likely as k ** -exponent; which ids are busy is at random."""
    device = random.device
    shares = torch.arange(1, count + 1, dtype=torch.float64, device=device) ** -exponent
    ends = torch.cumsum(shares / shares.sum(), 0)
    ids = torch.randperm(count, generator=random, device=device)
    uniform = torch.rand(draws, dtype=torch.float64, generator=random, device=device)
    return ids[torch.searchsorted(ends, uniform).clamp_(max=count - 1)]


@cache
def knowledge_graph(data: str) -> Triples:
    """The triples of a preset or a file."""
    return load_triples(data)


@lru_cache(maxsize=1)
def relational_graph(name: str, data: str, device: str) -> tuple[Structure, peers.Edges]:
    """A graph encoded for the programs of any layer, and its edges as the peers take them."""
    graph = load_graph(name) if name else with_inverses(knowledge_graph(data))
    found = {key: torch.from_numpy(ids).to(device) for key, ids in graph.arrays().items()}
    numbers = {key: getattr(graph, key) for key in ("num_nodes", "num_etypes", "num_ntypes")}
    edges = peers.Edges(*found.values(), graph.num_etypes)
    return prepare(_any_layer(), {**found, **numbers}, {}, 0, checked=True), edges


def _any_layer() -> Graph:
    """A graph program of a layer: encodings are of the relational graph alone."""
    text = (EXAMPLES / "rgnn" / "gcn.emb").read_text()
    program: Any = explorer.compile(text, on_demand=True).stages["graph"].program
    assert isinstance(program, Graph)
    return program
