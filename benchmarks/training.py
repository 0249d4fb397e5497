"""Training of layers by node classification with random labels, as Hector's §4.1 trains them: the loss of each step.

`explorer bench training [LAYER ...] [--data tiny] [--steps 30] [--json]`. A layer's rows are logits, of as many classes
as they have elements; the loss is the cross-entropy of labels that are drawn once. The compiled layer, as a module of
PyTorch, and eager PyTorch start from the same parameters and take steps of Adam's, each of the whole graph; status 1
where their losses part or do not fall.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from explorer.runtime.data.graphs import RelationalGraph

CHECKOUT = Path(__file__).resolve().parents[1]
TOLERANCE = 1e-5
"""How far, relatively, losses may part."""
RATE = 0.01
EPSILON = 1e-4
"""What Adam adds to a gradient's size before it divides by that: a gradient that is 0 but for rounding, as along what a
softmax does not see, would be a whole step otherwise, in any direction."""


def main(argv: Sequence[str]) -> int:
    """Prints a line a layer, or with --json one object."""
    parser = argparse.ArgumentParser(prog="explorer bench training", description=__doc__)
    parser.add_argument("layers", nargs="*", metavar="LAYER", help=f"of {', '.join(EAGER)}")
    parser.add_argument("--data", default="tiny", help="a generated graph or a file of triples; default tiny")
    parser.add_argument("--steps", type=int, default=30, help="of the optimiser; default 30")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    if unknown := [name for name in arguments.layers if name not in EAGER]:
        parser.error(f"no layer {', '.join(unknown)}: there are {', '.join(EAGER)}")
    try:
        import torch  # noqa: F401
    except ImportError:
        print("training: PyTorch is not installed here", file=sys.stderr)
        return 2
    from explorer.runtime.data.graphs import load_graph

    graph = load_graph(arguments.data)
    rows = [train(name, graph, arguments.steps) for name in arguments.layers or EAGER]
    print(json.dumps({"data": arguments.data, "rows": rows}) if arguments.json else table(arguments.data, rows))
    return 0 if all(row["same"] and row["falls"] for row in rows) else 1


def table(data: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The losses before the first step and the last one, of both sides."""
    lines = [f"training on {data}, random labels, cross-entropy by step"]
    for row in rows:
        ours, eager = row["explorer"], row["eager"]
        lines.append(
            f"  {row['layer']:5} explorer {ours[0]:.5f} to {ours[-1]:.5f}, eager {eager[0]:.5f} to {eager[-1]:.5f}"
            f" in {len(ours)} steps: the loss {'falls' if row['falls'] else 'does NOT fall'}, and is"
            f" {'the same to float32 rounding' if row['same'] else 'NOT the same'}"
        )
    return "\n".join(lines)


def train(name: str, graph: RelationalGraph, steps: int) -> dict[str, Any]:
    """The losses of both sides by step, and whether they fall and are the same."""
    import torch

    import explorer

    text = (CHECKOUT / "examples" / "rgnn" / f"{name}.emb").read_text()
    compilation = explorer.compile(text, on_demand=True)
    source: Any = compilation.stages["graph"].program
    types = {"etype": graph.num_etypes, "ntype": graph.num_ntypes}
    over = {each for tensor in source.tensors if tensor.kind == "param" for each in tensor.sets}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # else its parameters depend on what the process has drawn before
        module = compilation.torch(**{each: types[each] for each in over})
    (features,) = (tensor for tensor in source.tensors if tensor.kind == "input")
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(graph.num_nodes, *map(source.size, features.dims), generator=generator)
    names = ("src", "dst", "etype", "ntype")
    maps = {each: torch.from_numpy(getattr(graph, each)).long() for each in names}
    structure = module.prepare(**maps, num_nodes=graph.num_nodes)
    copies = {key: value.detach().clone().requires_grad_() for key, value in module.named_parameters()}
    with torch.no_grad():
        classes = module(structure, **{features.name: x}).shape[-1]
    labels = torch.randint(0, classes, (graph.num_nodes,), generator=generator)
    ours = losses(lambda: module(structure, **{features.name: x}), list(module.parameters()), labels, steps)
    eager = losses(lambda: EAGER[name](x, copies, maps), list(copies.values()), labels, steps)
    apart = max(abs(a - b) / abs(b) for a, b in zip(ours, eager, strict=True))
    falls = ours[-1] < ours[0] and eager[-1] < eager[0]
    return {"layer": name, "explorer": ours, "eager": eager, "same": apart <= TOLERANCE, "falls": falls}


def losses(rows: Callable[[], Tensor], learnt: list[Tensor], labels: Tensor, steps: int) -> list[float]:
    """The loss before each step."""
    import torch

    optimizer, found = torch.optim.Adam(learnt, lr=RATE, eps=EPSILON), []
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(rows(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def rgcn(x: Tensor, learnt: Mapping[str, Tensor], g: Mapping[str, Tensor]) -> Tensor:
    """RGCN as one writes it: a copy of a weight for each edge."""
    import torch

    messages = torch.einsum("ef,efg->eg", x[g["src"]], learnt["W"][g["etype"]])
    alike = g["dst"] * (int(g["etype"].max()) + 1) + g["etype"]
    norm = 1 / torch.bincount(alike)[alike]
    return torch.relu(x @ learnt["w0"] + summed(norm[:, None] * messages, g, len(x)))


def rgat(x: Tensor, learnt: Mapping[str, Tensor], g: Mapping[str, Tensor]) -> Tensor:
    """RGAT with one head."""
    import torch

    w, types = learnt["W"][g["etype"]], g["etype"]
    sources, targets = (torch.einsum("ef,efg->eg", x[g[end]], w) for end in ("src", "dst"))
    scores = (sources * learnt["w_s"][types]).sum(-1) + (targets * learnt["w_t"][types]).sum(-1)
    weights = softmax(torch.nn.functional.leaky_relu(scores, 0.2), g, len(x))
    return summed(weights[:, None] * sources, g, len(x))


def hgt(x: Tensor, learnt: Mapping[str, Tensor], g: Mapping[str, Tensor]) -> Tensor:
    """HGT, a row's heads side by side."""
    import torch

    key, query, value = (torch.einsum("nf,nhfd->nhd", x, learnt[name][g["ntype"]]) for name in "KQV")
    keys = torch.einsum("ehd,ehdc->ehc", key[g["src"]], learnt["A"][g["etype"]])
    scores = (keys * query[g["dst"]]).sum(-1) * learnt["mu"][g["etype"]] / key.shape[-1] ** 0.5
    messages = torch.einsum("ehd,ehdc->ehc", value[g["src"]], learnt["M"][g["etype"]])
    return summed(softmax(scores, g, len(x))[..., None] * messages, g, len(x)).flatten(1)


def summed(rows: Tensor, g: Mapping[str, Tensor], nodes: int) -> Tensor:
    """The sum of edges' rows, by target."""
    return rows.new_zeros(nodes, *rows.shape[1:]).index_add(0, g["dst"], rows)


def softmax(scores: Tensor, g: Mapping[str, Tensor], nodes: int) -> Tensor:
    """Of each edge's scores, over the edges into its target."""
    place = g["dst"].reshape(-1, *(1,) * (scores.ndim - 1)).expand_as(scores)
    most = scores.new_zeros(nodes, *scores.shape[1:]).scatter_reduce(0, place, scores, "amax", include_self=False)
    powers = (scores - most.detach()[g["dst"]]).exp()
    return powers / summed(powers, g, nodes)[g["dst"]]


EAGER = {"rgcn": rgcn, "rgat": rgat, "hgt": hgt}
"""By the example's name, the layer in eager PyTorch."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
