"""Products with sparse matrices become sums over the edges that their nonzeros are."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")

from explorer.runtime.trace.tapes.nested import matrix_taken_apart  # noqa: E402
from tests.runtime.trace import sparse_modules as modules  # noqa: E402
from tests.runtime.trace.held import hold, redraw  # noqa: E402
from tests.runtime.trace.sparse_modules import NODES, matrix  # noqa: E402

LAYOUTS = [torch.sparse_coo, torch.sparse_csr]
SIZES = (23, 61), (12, 9)


def rows(count, seed):
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))


def held(made, arguments):
    """A trace, whose replacement has the results and gradients of the module on other arguments."""
    torch.manual_seed(0)
    module = made()
    found = explorer.trace(module, *arguments(7, 13, 0))
    redraw(module, 3)
    for nodes, nonzeros in SIZES:
        hold(module, found.module(), arguments(nodes, nonzeros, nodes))
    return found


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("multiply", modules.MULTIPLICATIONS.values(), ids=modules.MULTIPLICATIONS)
def test_a_matrix_that_is_handed_in(multiply, layout) -> None:
    text = held(lambda: modules.GCN(multiply), lambda n, e, seed: (rows(n, seed), matrix(n, n, e, seed, layout))).text
    assert "* adj_values[e] for e in n.incoming_edges())" in text


@pytest.mark.parametrize("made", modules.OF_A_MATRIX)
def test_what_is_made_of_a_matrix(made) -> None:
    held(made, lambda n, e, seed: (rows(n, seed), matrix(n, n, e, seed)))


@pytest.mark.parametrize("made", [modules.Mean, modules.Largest])
def test_a_reduction_of_rows(made) -> None:
    held(made, lambda n, e, seed: (rows(n, seed), matrix(n, n, e, seed, torch.sparse_csr)))


@pytest.mark.parametrize("made", modules.MADE)
def test_a_matrix_that_forward_makes_may_have_nonzeros_twice(made) -> None:
    def arguments(n, e, seed):
        generator = torch.Generator().manual_seed(seed)
        ends = torch.randint(0, n, (2, e), generator=generator)
        ends[:, 1] = ends[:, 0]
        return rows(n, seed), ends, torch.randn(e, generator=generator)

    held(made, arguments)


def test_a_matrix_between_two_sets() -> None:
    held(modules.Hypergraph, lambda n, e, seed: (rows(n, seed), matrix(n, n // 2 + 1, e, seed)))
    held(modules.Sampled, lambda n, e, seed: (rows(n, seed), matrix(n + 4, n, e, seed)))


def test_nonzeros_that_are_not_in_order_or_twice_are_those_of_the_module() -> None:
    module = modules.SGC()
    replacement = explorer.trace(module, rows(7, 0), matrix(7, 7, 13, 0)).module()
    ends = torch.tensor([[3, 0, 3, 1], [1, 2, 1, 0]])
    adj = torch.sparse_coo_tensor(ends, torch.randn(4), (5, 5))
    torch.testing.assert_close(replacement(rows(5, 1), adj), module(rows(5, 1), adj))


def test_many_matrices_in_turn_have_the_indices_that_they_had() -> None:
    many = [matrix(NODES, NODES, 40 + number, number) for number in range(9)]
    first, again = ([matrix_taken_apart("a", each)[1]["a.indices"] for each in many] for _ in range(2))
    assert all(one is other for one, other in zip(first, again, strict=True))
    many[0].mul_(2)
    made, parts = matrix_taken_apart("a", many[0])
    assert parts["a.indices"] is not first[0], "PyTorch counts that it was changed"
    assert torch.equal(made.of(parts).to_dense(), many[0].to_dense())
    with torch.inference_mode():
        unseen = matrix(NODES, NODES, 40, 0)
        assert torch.equal(matrix_taken_apart("a", unseen)[1]["a.indices"], unseen.indices())


def test_the_nonzeros_of_a_matrix_that_comes_again_are_read_once() -> None:
    module, adj = modules.SGC(), matrix(7, 7, 13, 0)
    replacement = explorer.trace(module, rows(7, 0), adj).module()
    replacement(rows(7, 1), adj)
    (kept,) = replacement._graphs._entries.values()
    replacement(rows(7, 2), adj)
    assert list(replacement._graphs._entries.values()) == [kept]
    torch.testing.assert_close(replacement(rows(7, 3), adj), module(rows(7, 3), adj))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_matrix_that_is_a_buffer(layout) -> None:
    torch.manual_seed(0)
    module = modules.Held(layout)
    replacement = explorer.trace(module).module()
    hold(module, replacement, ())
    redraw(module.lin, 3)
    hold(module, replacement, ())
    replacement.load_state_dict({**module.state_dict(), "x.weight": torch.ones(NODES, 4)})
    hold(module, replacement, ())


@pytest.mark.parametrize("made", modules.RECOMMENDERS)
def test_recommenders_propagate_the_rows_of_two_tables(made) -> None:
    torch.manual_seed(0)
    module = made()

    def ids(count, seed):
        generator = torch.Generator().manual_seed(seed)
        most = [modules.USERS, *[modules.ITEMS] * 2]
        return [torch.randint(0, each, (count,), generator=generator) for each in most[: modules.RECOMMENDERS[made]]]

    replacement = explorer.trace(module, *ids(7, 0)).module()
    for name, each in module.named_parameters():
        redraw(torch.nn.ParameterList([each]), len(name))
    for count in (19, 3, 1):
        hold(module, replacement, ids(count, count))


def test_tables_of_as_many_rows_are_two_kinds_of_nodes() -> None:
    torch.manual_seed(0)
    module = modules.LightGCN(6, 6)
    replacement = explorer.trace(module, torch.tensor([0, 5, 3, 2, 1]), torch.tensor([5, 5, 0, 1, 2])).module()
    hold(module, replacement, [torch.tensor([1, 2, 2]), torch.tensor([4, 0, 5])])
    with pytest.raises(ValueError, match="another kind"):
        replacement(torch.tensor([6]), torch.tensor([0]))


def refused(forward, *arguments):
    class Module(modules.Linear):
        def forward(self, *given):
            return forward(self, *given)

    with pytest.raises(ValueError, match=r"\w") as caught:
        explorer.trace(Module(), *arguments)
    return str(caught.value)


ADJ = matrix(7, 7, 13, 0)


@pytest.mark.parametrize(
    ("forward", "why"),
    [
        (lambda m, x, adj: adj.to_dense() @ x, "Keep it sparse"),
        (lambda m, x, adj: (adj @ adj) @ x, "Multiply one with rows first"),
        (lambda m, x, adj: (adj * x[:, :1]) @ x, "multiplied element by element"),
        (lambda m, x, adj: torch.sparse.sum(adj) * x, "summed otherwise than by rows"),
        (lambda m, x, adj: x * adj.t().coalesce().values().sum(), "Take those that the matrix was made of"),
        (lambda m, x, adj: torch.sparse.softmax(adj, 0) @ x, "Take it of the transpose's rows"),
        (
            lambda m, x, adj: torch.sparse.softmax(torch.sparse_coo_tensor(adj._indices(), x[:1, 0].expand(13)), 1) @ x,
            "raises|of one place",
        ),
        (lambda m, x, adj: ADJ @ x, "register_buffer makes it one"),
    ],
)
def test_what_a_text_has_no_words_for_says_what_to_do(forward, why) -> None:
    assert any(each in refused(forward, rows(7, 0), ADJ) for each in why.split("|"))


def test_other_sparse_tensors_are_refused() -> None:
    assert "no matrix of numbers" in refused(lambda m, x: x, torch.eye(4).to_sparse_bsr((2, 2)))
    assert "no matrix of numbers" in refused(lambda m, x: x, torch.ones(3, 2, 2).to_sparse(1))


def test_as_many_nonzeros_as_rows_tell_no_set_from_another() -> None:
    with pytest.raises(ValueError, match="as many nonzeros as rows or columns: trace with one whose counts differ"):
        explorer.trace(modules.Vector(), rows(7, 0), torch.eye(7).to_sparse())


def ends(nodes, edges, seed):
    return torch.randint(0, nodes, (2, edges), generator=torch.Generator().manual_seed(seed))


class Weighted(torch.nn.Module):
    """Numbers of nodes, times those of edges where there are some."""

    def forward(self, edges, numbers, weights=1.0):
        return torch.zeros_like(numbers).index_add(0, edges[1], numbers[edges[0]] * weights)


def test_numbers_of_nodes_that_are_as_many_as_edges_go_where_there_are_none_of_edges() -> None:
    replacement = explorer.trace(Weighted(), ends(13, 13, 0), rows(13, 1)[:, 0]).module()
    hold(Weighted(), replacement, (ends(7, 20, 1), rows(7, 2)[:, 0]))
    with pytest.raises(ValueError, match="is another than the module's on the example"):
        explorer.trace(Weighted(), ends(13, 13, 0), rows(13, 1)[:, 0], rows(13, 2)[:, 0])
