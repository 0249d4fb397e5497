"""Models whose tables are stored in less than 32 bits, with inputs, and what they mean, in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

import explorer

STORED = {"f16": torch.float16, "bf16": torch.bfloat16}


def rounded(array, storage):
    """The numbers that PyTorch stores, in float64: another rounding than the compiler's."""
    given = torch.from_numpy(np.asarray(array, np.float32))
    return (given.to(STORED[storage]) if storage in STORED else given).double().numpy()


@dataclass(frozen=True)
class Stored:
    """A text with `D` and `S`, the inputs by name of those, and the result of the numbers that are stored."""

    text: str
    inputs: Callable[[int], dict]
    means: Callable[..., np.ndarray]
    narrow: tuple[str, ...]
    learnt: tuple[str, ...]

    def compiled(self, size, storage, **options):
        text = self.text.replace("D = 8", f"D = {size}").replace(": S", f": {storage}")
        compilation = explorer.compile(text, options=options, on_demand=True)
        assert compilation.ok, "\n".join(each.render(text) for each in compilation.diagnostics)
        return compilation

    def exact(self, inputs, storage):
        """The inputs as they are stored, in float64 tensors; whole numbers stay."""
        found = {}
        for name, given in inputs.items():
            whole = isinstance(given, int) or np.issubdtype(given.dtype, np.integer)
            values = given if whole else rounded(given, storage if name in self.narrow else "f32")
            found[name] = torch.as_tensor(values) if not isinstance(given, int) else given
        return found

    def expected(self, inputs, storage, upstream=None):
        """The result in float64, and gradients by what is learnt, where that of the result is given."""
        exact = self.exact(inputs, storage)
        for name in self.learnt if upstream is not None else ():
            exact[name].requires_grad_()
        result = self.means(**exact)
        if upstream is None:
            return result.numpy(), {}
        result.backward(torch.from_numpy(upstream).double())
        return result.detach().numpy(), {name: exact[name].grad.numpy() for name in self.learnt}


def _normal(seed, *shape):
    return (np.random.default_rng(seed).normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)


def _ids(seed, most, *shape):
    return np.random.default_rng(seed).integers(0, most, shape).astype(np.int32)


LENGTHS = (3, 0, 17, 1, 40, 0)
OWNERS = torch.from_numpy(np.repeat(np.arange(len(LENGTHS)), LENGTHS))
ENDS = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int32)


def _by_owner(rows):
    return torch.zeros(len(LENGTHS), *rows.shape[1:], dtype=rows.dtype).index_add(0, OWNERS, rows)


BAGS = Stored(
    """dim D = 8
op Bags(b: bag of row):
    param T[row, D]: S
    return sum(w * T[i] for i, w in b)
""",
    lambda size: {"ptr": ENDS, "idx": _ids(1, 30, 61), "weight": _normal(2, 61), "T": _normal(3, 30, size)},
    lambda ptr, idx, weight, T: _by_owner(weight[:, None] * T[idx.long()]),
    ("T",),
    ("T", "weight"),
)
MATRIX = Stored(
    """dim D = 8
op Matrix(A: csr[row, col]):
    input X[col, D]: S
    param Y[row, D]
    for i in A.rows():
        i["y"] = sum(a * dot(X[j], Y[i]) * X[j] for j, a in A.row(i))
    return i["y"]
""",
    lambda size: {
        "rowptr": ENDS,
        "col": _ids(1, 30, 61),
        "num_cols": 30,
        "value": _normal(2, 61),
        "X": _normal(3, 30, size),
        "Y": _normal(4, len(LENGTHS), size),
    },
    lambda rowptr, col, num_cols, value, X, Y: _by_owner(
        (value * (X[col.long()] * Y[OWNERS]).sum(1))[:, None] * X[col.long()]
    ),
    ("X",),
    ("Y", "value"),
)
TRIPLES = Stored(
    """dim D = 8
score Triples(h: entity, r: relation, t: entity):
    param E[entity, D]: S, R[relation, D]
    param P[relation, D, D]: S
    return norm((E[h] - E[t]) @ P[r] + R[r], 2)
""",
    lambda size: {
        "h": _ids(1, 20, 70),
        "r": _ids(2, 3, 70),
        "t": _ids(3, 20, 70),
        "E": _normal(4, 20, size),
        "R": _normal(5, 3, size),
        "P": _normal(6, 3, size, size),
    },
    lambda h, r, t, E, R, P: torch.linalg.vector_norm(
        torch.einsum("bd,bde->be", E[h.long()] - E[t.long()], P[r.long()]) + R[r.long()], 2, 1
    ),
    ("E", "P"),
    ("E", "R", "P"),
)
GRAPH = Stored(
    """dim D = 8
layer Messages(g: graph):
    input x[node, D]: S
    param W[etype, D, D]: S, root[D, D]
    for e in g.edges():
        e["m"] = x[e.src] @ W[e.etype]
    for n in g.nodes():
        n["h"] = sum(e["m"] for e in n.incoming_edges()) + x[n] @ root
    return n["h"]
""",
    lambda size: {
        "src": _ids(1, 25, 90),
        "dst": _ids(2, 25, 90),
        "etype": _ids(3, 4, 90),
        "num_nodes": 25,
        "num_etypes": 4,
        "x": _normal(4, 25, size),
        "W": _normal(5, 4, size, size),
        "root": _normal(6, size, size),
    },
    lambda src, dst, etype, num_nodes, num_etypes, x, W, root: (
        torch.zeros(num_nodes, W.shape[2], dtype=x.dtype).index_add(
            0, dst.long(), torch.einsum("bd,bde->be", x[src.long()], W[etype.long()])
        )
        + x @ root
    ),
    ("x", "W"),
    ("W", "root"),
)
QUANTISED = Stored(
    """dim D = 8
op Quantised(b: bag of row):
    input T[row, D]: int8
    param scale[row], bias[row]
    return sum(scale[i] * T[i] + bias[i] for i in b)
""",
    lambda size: {
        "ptr": ENDS,
        "idx": _ids(1, 30, 61),
        "T": (_ids(3, 256, 30, size) - 128).astype(np.int8),
        "scale": _normal(4, 30),
        "bias": _normal(5, 30),
    },
    lambda ptr, idx, T, scale, bias: _by_owner((scale[:, None] * T.double() + bias[:, None])[idx.long()]),
    (),
    ("scale", "bias"),
)
FLOATS = {"bags": BAGS, "matrix": MATRIX, "triples": TRIPLES, "graph": GRAPH}
SIZES = (7, 41, 128)
CASES = [(model, storage, size) for model in FLOATS.values() for storage in STORED for size in SIZES]
CASES += [(QUANTISED, "i8", size) for size in SIZES]
NAMES = [f"{model.text.split()[5].split('(')[0]}-{storage}-{size}" for model, storage, size in CASES]


def close(got, want, tolerance=2e-6):
    """Up to what float32 makes of sums of a few hundred terms: rounded once more to 11 or 8 bits, it would not be."""
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=tolerance, atol=tolerance * np.abs(want).max())
