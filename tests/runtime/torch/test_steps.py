"""Training steps of modules on the CPU: what a step does not do twice, and that it notices what it may not overlook."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import explorer
from explorer.runtime.targets import cpu

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")

torch_ids = pytest.importorskip("explorer.runtime.torch.ids")

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
ENTITIES, RELATIONS, BATCH, D = 11, 3, 17, 6


def scored(path="kge/transe_l2", **options):
    """The module of an example's score, and ids for it."""
    text = (EXAMPLES / f"{path}.emb").read_text()
    sizes = dict.fromkeys(explorer.compile(text, on_demand=True).sizes, D)
    torch.manual_seed(0)
    made = explorer.compile(text, sizes=sizes, on_demand=True).torch(entity=ENTITIES, relation=RELATIONS, **options)
    return made, [torch.randint(count, (BATCH,)) for count in (ENTITIES, RELATIONS, ENTITIES)]


def eager(tables, h, r, t):
    return (tables["E"][h] - tables["E"][t] + tables["R"][r]).norm(dim=-1)


@pytest.fixture
def kernels_run(monkeypatch):
    """The names of the kernels that run, in their order."""
    found, run = [], cpu.CompiledKernel.run
    monkeypatch.setattr(
        cpu.CompiledKernel, "run", lambda self, *rest: found.append(self.kernel.name) or run(self, *rest)
    )
    return found


@pytest.mark.parametrize("path", ["kge/distmult", "kge/transr", "kge/transh"])
def test_a_step_runs_each_kernel_once(path, kernels_run):
    """Also where kernels of results would make gradients too."""
    made, given = scored(path)
    made(*given).sum().backward()
    prepared = made.backward_program()._executors["cpu"].prepared
    assert kernels_run == [each.kernel.name for part in prepared.parts for each in part.kernels]
    assert sorted(kernels_run) == sorted(each.kernel.name for each in prepared.kernels)


def test_a_result_alone_waits_for_no_kernel_of_the_gradients(kernels_run):
    made, given = scored()
    made(*given)
    assert kernels_run == [
        each.kernel.name for each in made.backward_program()._executors["cpu"].prepared.parts[0].kernels
    ]


def test_gradients_can_be_asked_for_again():
    made, given = scored()
    copies = {name: each.detach().double().requires_grad_() for name, each in made.named_parameters()}
    result, want = made(*given), eager(copies, *given)
    for weights in (torch.rand(BATCH), torch.rand(BATCH)):
        got = torch.autograd.grad((result * weights).sum(), [made.E, made.R], retain_graph=True)
        exact = torch.autograd.grad((want * weights).sum(), [copies["E"], copies["R"]], retain_graph=True)
        for ours, theirs in zip(got, exact, strict=True):
            torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5)


def test_a_result_that_its_gradients_read_may_not_be_changed_in_place():
    made, given = scored()
    result = made(*given)
    result.mul_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
@pytest.mark.parametrize("given", [[], [5], [3, 0, 7, 7, 1, 100]])
def test_ids_are_narrowed_with_their_ends(dtype, given):
    narrow, least, greatest = torch_ids.narrow(torch.tensor(given, dtype=dtype))
    assert narrow.dtype == torch.int32
    assert narrow.tolist() == given
    assert (least, greatest) == ((min(given), max(given)) if given else (0, -1))


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "Python"])
def test_the_ends_tell_what_an_int32_cannot_hold(compiled, monkeypatch):
    if not compiled:
        code = SimpleNamespace(narrow=torch_ids._narrow)
        monkeypatch.setattr(torch_ids, "_compiled", lambda: code)
    shape = torch.tensor([[2**40, -(2**40)], [0, 1]]).t()  # not contiguous
    narrow, *ends = torch_ids.narrow(shape)
    assert ends == [-(2**40), 2**40]
    assert narrow.shape == (2, 2)
    assert narrow[:, 1].tolist() == [0, 1]


@pytest.mark.parametrize("count", [0, 1, 7])
@pytest.mark.parametrize("elements", [0, 1, 300])
def test_a_counting_sort_is_stable_and_leaves_what_has_no_place_to_the_end(count, elements):
    ids = np.random.default_rng(count).integers(-1, count + 2, elements).astype(np.int32)
    begins, order = torch_ids.counting_sort(torch.from_numpy(ids), count)
    inside = (ids >= 0) & (ids < count)
    keys = np.where(inside, ids, count)
    assert order.tolist() == np.argsort(keys, kind="stable").tolist()
    assert begins.tolist() == [int((keys < place).sum()) for place in range(count + 1)]
    assert begins.dtype == order.dtype == torch.int32


def test_calls_alike_look_at_their_ids_alone(monkeypatch):
    made, given = scored()
    made(*given)
    monkeypatch.setattr(made, "_check", lambda *rest: pytest.fail("checked again"))
    others = [ids.roll(1) for ids in given]
    tables = {name: each.double() for name, each in made.named_parameters()}
    torch.testing.assert_close(made(*others).double(), eager(tables, *others), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "wrong"), [("h", ENTITIES), ("r", RELATIONS), ("t", 2**32), ("h", -1), ("t", -(2**32))]
)
def test_a_call_alike_with_an_id_that_has_no_row_is_refused(name, wrong):
    made, given = scored()
    made(*given)
    ids = dict(zip("hrt", given, strict=True))
    ids[name] = ids[name].clone()
    ids[name][BATCH // 2] = wrong
    with pytest.raises(ValueError, match=f"{name} holds {wrong}"):
        made(**ids)
    made(*given)


def test_a_table_of_another_size_is_another_kind_of_call():
    made, (h, r, t) = scored()
    made(h, r, t)
    h = torch.full_like(h, ENTITIES)
    with pytest.raises(ValueError, match="h holds 11"):
        made(h, r, t)
    assert made(h, r, t, E=torch.randn(ENTITIES + 1, D)).shape == (BATCH,)


@pytest.mark.parametrize("path", ["kge/transr", "kge/transh"])
def test_kernels_that_are_kept_apart_give_the_gradients_of_those_that_are_not(path):
    made, given = scored(path)
    made(*given).square().sum().backward()
    assert made.backward_program().compilation.options.apart
    inputs = dict(zip("hrt", (each.numpy().astype(np.int32) for each in given), strict=True))
    inputs |= {name: each.detach().numpy() for name, each in made.named_parameters()}
    together = made.compilation.with_options(grad=True)
    _, want = together.run(inputs, "graph", grad=2 * made.compilation.run(inputs, "graph"))
    for name, each in made.named_parameters():
        torch.testing.assert_close(each.grad, torch.from_numpy(want[name]).float(), rtol=1e-4, atol=1e-5)
