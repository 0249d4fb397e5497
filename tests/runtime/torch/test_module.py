"""Modules of PyTorch from compiled models: the results and gradients of the eager expressions, and sentences for what
does not fit."""

from __future__ import annotations

import builtins
import copy
import re
import weakref
from pathlib import Path

import pytest

import explorer
from explorer.compiler.codegen.text import Launch
from explorer.compiler.ir.kernels import Count
from explorer.runtime.targets.parts import divide

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")

torch_programs = pytest.importorskip("explorer.runtime.torch.programs")
torch_cuda = pytest.importorskip("explorer.runtime.torch.cuda")

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
ENTITIES, RELATIONS, BATCH, NEGATIVES, D, K = 11, 3, 17, 4, 6, 5
NODES, EDGES, TYPES, F, G = 9, 40, 3, 4, 5


def module(path, sizes, options=None, **sets):
    """The module of an example, its parameters drawn with a seed."""
    text = (EXAMPLES / f"{path}.emb").read_text()
    compilation = explorer.compile(text, sizes=sizes, options=options, on_demand=True)
    assert compilation.ok, compilation.diagnostics
    torch.manual_seed(0)
    return compilation.torch(**sets)


def ids(count, *shape, dtype=torch.int64):
    return torch.randint(0, count, shape, generator=torch.Generator().manual_seed(count), dtype=dtype)


def same_gradients(made, tensors, eager, call):
    """Holds a call's result and every gradient, for a random gradient of the result, against the eager expression."""
    copies = {name: tensor.detach().double().requires_grad_(tensor.requires_grad) for name, tensor in tensors.items()}
    want, got = eager(copies), call()
    assert got.shape == want.shape
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-5)
    upstream = torch.randn(want.shape, generator=torch.Generator().manual_seed(1))
    want.backward(upstream.double())
    got.backward(upstream)
    for name, tensor in tensors.items():
        if tensor.requires_grad:
            assert tensor.grad.shape == tensor.shape
            torch.testing.assert_close(tensor.grad.double(), copies[name].grad, rtol=1e-4, atol=1e-5)


SCORES = {
    "transe_l2": lambda x, h, r, t: (x["E"][h] - x["E"][t] + x["R"][r]).norm(dim=-1),
    "distmult": lambda x, h, r, t: (x["E"][h] * x["R"][r] * x["E"][t]).sum(-1),
    "transr": lambda x, h, r, t: (torch.einsum("...d,...dk->...k", x["E"][h] - x["E"][t], x["P"][r]) + x["R"][r]).norm(
        dim=-1
    ),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("negatives", ["none", f"tail:{NEGATIVES}", f"head:{NEGATIVES}"])
@pytest.mark.parametrize("name", SCORES)
def test_a_score_has_the_results_and_gradients_of_eager(name, negatives):
    sizes = {"D": D, "K": K} if name == "transr" else {"D": D}
    score = module(f"kge/{name}", sizes, {"negatives": negatives}, entity=ENTITIES, relation=RELATIONS)
    end = negatives.partition(":")[0]
    index = {
        "h": ids(ENTITIES, BATCH, NEGATIVES) if end == "head" else ids(ENTITIES, BATCH),
        "r": ids(RELATIONS, BATCH),
        "t": ids(ENTITIES - 1, BATCH, NEGATIVES) if end == "tail" else ids(ENTITIES - 1, BATCH),
    }
    spread = {n: i[:, None] if i.ndim == 1 and end != "none" else i for n, i in index.items()}
    same_gradients(
        score, dict(score.named_parameters()), lambda x: SCORES[name](x, **spread), lambda: score(*index.values())
    )


def rgcn(x, src, dst, etype):
    message = torch.einsum("ef,efg->eg", x["x"][src], x["W"][etype])
    pairs = dst * TYPES + etype
    norm = 1 / torch.bincount(pairs, minlength=NODES * TYPES)[pairs].double()
    return torch.relu(x["x"] @ x["w0"] + torch.zeros(NODES, G).double().index_add(0, dst, norm[:, None] * message))


def test_a_layer_has_the_results_and_gradients_of_eager_and_is_prepared_once():
    layer = module("rgnn/rgcn", {"F": F, "G": G}, etype=TYPES)
    src, dst, etype, x = ids(NODES, EDGES), ids(NODES - 1, EDGES), ids(TYPES, EDGES), torch.randn(NODES, F)
    tensors = {**dict(layer.named_parameters()), "x": x}
    assert set(tensors) == {"W", "w0", "x"}
    graph = layer.prepare(src, dst, etype, num_nodes=NODES)
    same_gradients(layer, tensors, lambda t: rgcn(t, src, dst, etype), lambda: layer(graph, x=x))
    torch.testing.assert_close(layer(src=src, dst=dst, etype=etype, x=x), layer(graph, x=x))


def test_rows_of_edges_keep_the_callers_order():
    text = """
dim D = 4
layer Edges(g: graph):
    param x[node, D], w[edge, D]
    for e in g.edges():
        e["m"] = x[e.src] * x[e.dst] * w[e]
    return e["m"]
"""
    layer = explorer.compile(text).torch(node=NODES)
    src, dst, w = ids(NODES, EDGES), ids(NODES - 2, EDGES), torch.randn(EDGES, 4, requires_grad=True)
    tensors = {"x": layer.x, "w": w}
    same_gradients(layer, tensors, lambda t: t["x"][src] * t["x"][dst] * t["w"], lambda: layer(src=src, dst=dst, w=w))


def test_a_padding_row_is_zeros_and_has_no_gradient():
    bags = module("embedding/sls", {"D": D}, row=ENTITIES, padding={"row": 2})
    assert not bags.T[2].any()
    assert bags.T[:2].all()
    ptr, idx = torch.tensor([0, 3, 3, 9]), torch.tensor([2, 0, 2, 1, 2, 2, 0, 3, 1])
    theirs = torch.nn.EmbeddingBag.from_pretrained(
        bags.T.detach().clone(), freeze=False, mode="sum", padding_idx=2, include_last_offset=True
    )
    got, want = bags(ptr, idx), theirs(idx, ptr)
    torch.testing.assert_close(got, want)
    got.square().sum().backward()
    want.square().sum().backward()
    torch.testing.assert_close(bags.T.grad, theirs.weight.grad)
    assert not bags.T.grad[2].any()
    assert bags.T.grad[0].all()
    bags.reset_parameters()
    assert not bags.T[2].any()


def test_padding_of_a_tensor_that_each_call_brings():
    text = """
dim D = 6
score S(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D], M[entity, relation]
    return sum(E[h] * R[r] * E[t]) * M[h, r]
"""
    score = explorer.compile(text).torch(relation=3, padding={"entity": 1, "relation": 0})
    tensors = {"E": torch.randn(5, D, requires_grad=True), "M": torch.randn(5, 3, requires_grad=True)}
    h, r, t = (torch.arange(15) % 5, torch.arange(15) % 3, torch.arange(15) % 4)
    score(h, r, t, **tensors).sum().backward()
    assert not tensors["E"].grad[1].any()
    assert tensors["E"].grad[[0, 2, 3, 4]].any(1).all()
    assert not tensors["M"].grad[1].any()
    assert not tensors["M"].grad[:, 0].any()
    assert tensors["M"].grad[[0, 2, 3, 4], 1:].all()
    assert not score.R.grad[0].any()
    with pytest.raises(ValueError, match="the padding of entity is row 1, but there are 1"):
        score(h[:1], r[:1], t[:1], E=torch.randn(1, D), M=torch.randn(1, 3))


@pytest.mark.parametrize(
    ("padding", "message"),
    [
        ({"entity": 0}, "SLS has no parameter over entity to pad: they are over row"),
        ({"row": 7}, "the padding of row is one of its rows, not 7"),
        ({"row": -1}, "the padding of row is one of its rows, not -1"),
        ({"row": True}, "the padding of row is one of its rows, not True"),
    ],
)
def test_padding_that_is_no_row_is_refused(padding, message):
    with pytest.raises(ValueError, match=message):
        module("embedding/sls", {"D": D}, row=7, padding=padding)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_bags_have_the_results_and_gradients_of_embedding_bag(dtype):
    bags = module("embedding/sls_weighted", {"D": D}, row=ENTITIES)
    lengths = torch.tensor([3, 0, 5, 1])
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).to(dtype)
    idx, weight = ids(ENTITIES, 9, dtype=dtype), torch.randn(9, requires_grad=True)

    def eager(x):
        return torch.nn.functional.embedding_bag(
            idx, x["T"], ptr, mode="sum", per_sample_weights=x["weight"], include_last_offset=True
        )

    tensors = {"T": bags.T, "weight": weight}
    same_gradients(bags, tensors, eager, lambda: bags(ptr, idx, weight=weight))


@pytest.mark.parametrize("form", ["csr", "coo"])
def test_matrices_in_either_form_have_the_gradients_of_eager(form):
    product = module("embedding/spmm" if form == "csr" else "embedding/spmm_coo", {"D": D})
    rows, cols = ids(NODES, EDGES), ids(ENTITIES, EDGES)
    if form == "csr":
        rows = rows.sort().values
    value, x = torch.randn(EDGES, requires_grad=True), torch.randn(ENTITIES, D, requires_grad=True)
    ptr = torch.searchsorted(rows.sort().values, torch.arange(NODES + 1))
    given = {"rowptr": ptr, "col": cols} if form == "csr" else {"row": rows, "col": cols, "num_rows": NODES}

    def eager(t):
        return torch.zeros(NODES, D).double().index_add(0, rows, t["value"][:, None] * t["X"][cols])

    same_gradients(product, {"value": value, "X": x}, eager, lambda: product(**given, value=value, X=x))


def test_results_of_nonzeros_keep_the_callers_order():
    product = module("embedding/sddmm", {"D": D})
    rows, cols = ids(NODES, EDGES), ids(ENTITIES, EDGES)
    tensors = {"value": torch.randn(EDGES), "X": torch.randn(NODES, D), "Y": torch.randn(ENTITIES, D)}
    tensors = {name: tensor.requires_grad_() for name, tensor in tensors.items()}
    same_gradients(
        product,
        tensors,
        lambda t: t["value"] * (t["X"][rows] * t["Y"][cols]).sum(-1),
        lambda: product(row=rows, col=cols, **tensors),
    )


def test_an_optimiser_follows_the_same_path_as_with_eager():
    score = module("kge/transe_l2", {"D": D}, entity=ENTITIES, relation=RELATIONS)
    eager = {name: parameter.detach().clone().requires_grad_() for name, parameter in score.named_parameters()}
    losses = []
    for parameters, run in ((list(score.parameters()), score), (list(eager.values()), None)):
        optimiser, path = torch.optim.Adam(parameters, lr=0.05), []
        for step in range(15):
            h, r, t = (ids(count, BATCH) for count in (ENTITIES, RELATIONS, ENTITIES - 1 - step % 2))
            scores = run(h, r, t) if run else SCORES["transe_l2"](eager, h, r, t)
            loss = torch.nn.functional.softplus(scores).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            path.append(loss.item())
        losses.append(path)
    assert losses[0][-1] < 0.9 * losses[0][0]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_call_reads_and_writes_the_tensors_own_memory(monkeypatch):
    from explorer.runtime.targets import cpu

    score = module("kge/transe_l2", {"D": D}, entity=ENTITIES, relation=RELATIONS)
    seen = {}
    bind = cpu.Prepared.bind_checked
    monkeypatch.setattr(cpu.Prepared, "bind_checked", lambda self, a, e: seen.update(a) or bind(self, a, e))
    index = [ids(n, BATCH, dtype=torch.int32) for n in (ENTITIES, RELATIONS, ENTITIES)]
    score(*index)
    assert seen["E"].ctypes.data == score.E.data_ptr()
    assert seen["h"].ctypes.data == index[0].data_ptr()


def test_parameters_move_and_are_stored_like_those_of_any_module():
    score = module("kge/transr", {"D": D, "K": K}, entity=ENTITIES, relation=RELATIONS)
    assert {name: list(value.shape) for name, value in score.state_dict().items()} == {
        "E": [ENTITIES, D],
        "R": [RELATIONS, K],
        "P": [RELATIONS, D, K],
    }
    assert "TransR, D=6, K=5, entity=11, relation=3" in repr(score)
    twin = copy.deepcopy(score)
    index = [ids(n, BATCH) for n in (ENTITIES, RELATIONS, ENTITIES)]
    with torch.no_grad():
        twin.E.add_(1.0)  # moves both ends alike
        torch.testing.assert_close(twin(*index), score(*index))
        twin.R.add_(1.0)
        assert not torch.equal(twin(*index), score(*index))


def test_a_tensor_given_by_name_takes_the_parameters_place():
    score = module("kge/distmult", {"D": D}, entity=ENTITIES, relation=RELATIONS)
    index = [ids(n, BATCH) for n in (ENTITIES, RELATIONS, ENTITIES)]
    assert torch.equal(score(*index, R=torch.zeros(RELATIONS, D)), torch.zeros(BATCH))


GPU_CALLS = {
    "score": lambda: (
        module("kge/transr", {"D": D, "K": K}, {"negatives": f"tail:{NEGATIVES}"}, entity=ENTITIES, relation=RELATIONS),
        {"h": ids(ENTITIES, BATCH), "r": ids(RELATIONS, BATCH), "t": ids(ENTITIES - 1, BATCH, NEGATIVES)},
    ),
    "layer": lambda: (
        module("rgnn/rgat", {"F": F, "G": G}, etype=TYPES),
        {
            "src": ids(NODES, EDGES),
            "dst": ids(NODES - 1, EDGES),
            "etype": ids(TYPES, EDGES),
            "feature": torch.randn(NODES, F),
        },
    ),
    "op": lambda: (
        module("embedding/spmm_coo", {"D": D}, col=ENTITIES),
        {"row": ids(NODES, EDGES), "col": ids(ENTITIES, EDGES), "value": torch.randn(EDGES)},
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", GPU_CALLS)
def test_a_gpus_programs_get_the_tensors_and_the_stream_of_pytorch(name, pretended_gpu, monkeypatch):
    found = []
    for executors in (torch_programs.EXECUTORS, {"cpu": torch_programs.OnCpu}):
        monkeypatch.setattr(torch_programs, "EXECUTORS", executors)
        made, given = GPU_CALLS[name]()
        result = made(**given)
        (result * torch.arange(result.numel()).view(result.shape)).sum().backward()
        found.append([result, *(parameter.grad for parameter in made.parameters())])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4 * float(want.detach().abs().max()))
    assert set(pretended_gpu) == {7}  # forward and backward


@pytest.mark.parametrize(("capability", "arch"), [((9, 0), "sm_90a"), ((8, 6), "sm_80"), ((10, 0), "sm_90")])
def test_a_gpus_programs_are_compiled_for_it(capability, arch, pretended_gpu, fake_cuda):
    fake_cuda.capability = capability
    made, given = GPU_CALLS["score"]()
    made(**given).sum().backward()
    with torch.no_grad():
        made(**given)
    for program in (made._forward, *made._backward):
        (executor,) = program._executors.values()
        assert {each.arch for each in executor.code.binary.resources} == {arch}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")
@pytest.mark.parametrize("name", GPU_CALLS)
def test_a_gpu_gives_what_the_cpu_gives_on_any_stream(name):
    found = []
    for device in ("cpu", "cuda"):
        made, given = GPU_CALLS[name]()
        made, given = made.to(device), {key: tensor.to(device) for key, tensor in given.items()}
        with torch.cuda.stream(torch.cuda.Stream()):
            result = made(**given)
            (result * torch.arange(result.numel(), device=device).view(result.shape)).sum().backward()
            torch.cuda.synchronize()
        assert result.device.type == device
        found.append([result, *(parameter.grad for parameter in made.parameters())])
    for got, want in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4 * float(want.detach().abs().max()))


def distmult(**sets):
    return module("kge/distmult", {"D": D}, **sets)


H, R, T = (ids(n, BATCH) for n in (ENTITIES, RELATIONS, ENTITIES))
SENTENCES = {
    "DistMult has no parameter over entities: its parameters are over entity, relation": lambda: distmult(entities=3),
    "There is no tensor for E: give E=..., or make the module with .torch(entity=...)": lambda: distmult()(H, R, T),
    "h holds 10, but E has 4 rows": lambda: distmult(entity=4, relation=RELATIONS)(H, R, T),
    "h holds -1, which is not between 0 and": lambda: distmult(entity=4, relation=RELATIONS)(H - 1, R, T),
    "h holds torch.float32 where indices are whole numbers": lambda: distmult(entity=11, relation=3)(H.float(), R, T),
    "r has the shape [16], but is declared [batch = 17]": lambda: distmult(entity=11, relation=3)(H, R[1:], T),
    "There is no tensor for t": lambda: distmult(entity=11, relation=3)(H, R),
    "E holds torch.float64, but compiled kernels compute in torch.float32": lambda: distmult(relation=3)(
        H, R, T, E=torch.zeros(11, D).double()
    ),
    "E has the shape [11, 7], but is declared [entity, D = 6]": lambda: distmult(relation=3)(
        H, R, T, E=torch.zeros(11, 7)
    ),
    "DistMult has no tensor W: its tensors are E, R": lambda: distmult(entity=11, relation=3)(
        H, R, T, W=torch.zeros(1)
    ),
    "DistMult needs its indices: h, r, t": lambda: distmult(entity=11, relation=3)(),
    "E lies on meta, but the indices on cpu": lambda: distmult(relation=3)(
        H, R, T, E=torch.zeros(11, D, device="meta")
    ),
    "ptr ends with 9, but idx has 17 entries": lambda: module("embedding/sls", {"D": D}, row=11)(
        torch.tensor([0, 4, 9]), H
    ),
    "ptr must not fall": lambda: module("embedding/sls", {"D": D}, row=11)(torch.tensor([0, 9, 4, 17]), H),
    "idx holds 10, but T has 4 rows": lambda: module("embedding/sls", {"D": D}, row=4)(torch.tensor([0, 17]), H),
    "x is an input, which has no gradient": lambda: module("rgnn/rgcn", {"F": F, "G": G}, etype=RELATIONS)(
        H, T, R, x=torch.zeros(ENTITIES, F, requires_grad=True)
    ),
    "this compilation has errors": lambda: explorer.compile("score").torch(),
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_what_does_not_fit_is_said_in_a_sentence(sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        SENTENCES[sentence]()


def test_without_pytorch_the_error_says_what_to_install(monkeypatch):
    compilation, imported = explorer.compile((EXAMPLES / "kge" / "distmult.emb").read_text()), builtins.__import__

    def without(name, *rest):
        if name == "torch":
            raise ImportError("No module named 'torch'")
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"needs PyTorch.*pip install torch"):
        compilation.torch()


def scored():
    """A TransR with candidates, indices for it, and the gradient of its result."""
    sizes = {"entity": ENTITIES, "relation": RELATIONS}
    made = module("kge/transr", {"D": 16, "K": 16}, {"negatives": f"tail:{NEGATIVES}"}, **sizes)
    return made, (H, R, torch.stack([T] * NEGATIVES, dim=1))


def test_a_training_step_runs_each_kernel_of_the_backward_program_once(pretended_gpu, fake_cuda):
    made, given = scored()
    result = made(*given)
    first = list(fake_cuda.log)
    fake_cuda.log.clear()
    result.sum().backward()
    symbols = {launch.symbol for launch in made.backward_program()._executors["cpu"].code.launches}
    ran = [symbol for symbol in (*first, *fake_cuda.log) if symbol in symbols]
    assert len(ran) == len(set(ran))
    assert set(ran) == symbols
    assert any("product" in symbol for symbol in first)
    assert not any("product" in symbol and symbol in first for symbol in fake_cuda.log)


def test_a_result_that_nobody_keeps_is_freed_at_once(pretended_gpu, fake_cuda):
    made, given = scored()
    result = made(*given)
    assert result.requires_grad
    kept = weakref.ref(result)
    fake_cuda.arrays.clear()  # the pretended device's views of it
    del result
    assert kept() is None


def test_without_gradients_only_the_forward_program_runs(pretended_gpu, fake_cuda):
    made, given = scored()
    with torch.no_grad():
        made(*given)
    assert not list(made._backward)


def launches_of(*steps):
    """Launches by what they read and write."""
    return [
        Launch(name, (*reads, *writes), Count(((1, 1),)), 32, writes=frozenset(writes)) for name, reads, writes in steps
    ]


def test_launches_that_need_no_gradient_are_done_first():
    steps = (
        ("product", ["x"], ["y"]),
        ("slopes", ["y", "up"], ["g"]),
        ("clear", [], ["grad"]),
        ("ending", ["y"], ["out"]),
        ("sums", ["g"], ["grad"]),
    )
    parts = divide(launches_of(*steps), ("out",), ("up",))
    assert [launch.symbol for launch in parts.forward] == ["product", "ending"]
    assert [launch.symbol for launch in parts.backward] == ["slopes", "clear", "sums"]
    assert parts.crossing == {"y"}


@pytest.mark.parametrize(
    "steps",
    [
        [("all", ["x", "up"], ["out", "grad"])],  # the result comes with the gradients
        [("product", ["x"], ["y", "out"]), ("slopes", ["up"], ["y"])],  # what is left for the second part would change
        [("slopes", ["up", "y"], ["g"]), ("product", ["x"], ["y", "out"])],  # the order of a read and a write would
    ],
)
def test_launches_that_cannot_be_parted_stay_together(steps):
    assert divide(launches_of(*steps), ("out",), ("up",)) is None


def slopes(made, ids, tensors):
    """The result of a call, and the gradients of its squares."""
    result = made(*ids, **tensors)
    return [result.detach(), *torch.autograd.grad((result**2).sum(), list(tensors.values()))]


def test_calls_alike_are_checked_once_and_others_again(monkeypatch):
    compilation = explorer.compile((EXAMPLES / "kge/distmult.emb").read_text(), sizes={"D": D})
    made = compilation.torch(check_indices=False)
    tensors = {"E": torch.randn(ENTITIES, D, requires_grad=True), "R": torch.randn(RELATIONS, D, requires_grad=True)}
    slopes(made, (H, R, T), tensors)
    other = (T, R.flip(0), H)  # other ids in the same shapes
    want = slopes(compilation.torch(), other, tensors)
    checked = []
    monkeypatch.setattr(made, "_check", lambda *given: checked.append(given))
    for got, exact in zip(slopes(made, other, tensors), want, strict=True):
        torch.testing.assert_close(got, exact)
    assert not checked
    monkeypatch.undo()
    with pytest.raises(ValueError, match=re.escape("r has the shape [16], but is declared [batch = 17]")):
        made(H, R[1:], T, **tensors)


def test_gradients_of_a_result_that_was_changed_in_place_are_refused(pretended_gpu, fake_cuda):
    text = """
dim D = 8
score S(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    return exp(sum(E[h] * R[r] * E[t]))
"""
    made = explorer.compile(text, on_demand=True).torch(entity=ENTITIES, relation=RELATIONS)
    made(H, R, T).sum().backward()
    E, table = made.E.detach().clone().requires_grad_(), made.R.detach()
    (E[H] * table[R] * E[T]).sum(1).exp().sum().backward()
    torch.testing.assert_close(made.E.grad, E.grad, rtol=1e-4, atol=1e-5)
    result = made(H, R, T)
    result.mul_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_tensors_ids_and_gradients_that_begin_anywhere_are_read(pretended_gpu, monkeypatch):
    made = module("kge/distmult", {"D": 8}, entity=ENTITIES)
    read = []
    pretend = torch_cuda.address_of
    monkeypatch.setattr(torch_cuda, "address_of", lambda name, each: read.append(each) or pretend(name, each))
    table = torch.randn(RELATIONS * 8 + 1, requires_grad=True)
    shifted = [torch.cat([each[:1], each]).to(torch.int32)[1:] for each in (H, R, T)]
    weights = torch.rand(BATCH + 1)
    scores = made(*shifted, R=table[1:].view(RELATIONS, 8))
    (torch.cat([torch.zeros(1), scores]) * weights).sum().backward()
    assert read
    assert not any(each.data_ptr() % 16 for each in read)
    E, rows = made.E.detach(), table.detach()[1:].view(RELATIONS, 8).requires_grad_()
    (E[H] * rows[R] * E[T] * weights[1:, None]).sum().backward()
    torch.testing.assert_close(table.grad[1:].view(RELATIONS, 8), rows.grad, rtol=1e-4, atol=1e-5)
