"""The language on one screen: snippets that compile, and the tables that the checker itself reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from explorer.compiler.language.names.builtins import BUILTINS, SETS_OF_FAMILIES
from explorer.compiler.language.names.prelude import prelude
from explorer.compiler.language.parsing.syntax import Docstring


@dataclass(frozen=True)
class Snippet:
    """A whole model that shows one thing of the language."""

    title: str
    about: str
    text: str


@dataclass(frozen=True)
class Call:
    """A function that a text can call."""

    written: str
    about: str


SNIPPETS = (
    Snippet(
        "A score",
        "One number for each triple. dim names a size, param a table that is learned, and E[h] picks a row of it.",
        """dim D = 64

score TransE(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    return norm(E[h] + R[r] - E[t], 1)
""",
    ),
    Snippet(
        "A matrix a relation",
        "x @ W multiplies a row with a matrix; .T exchanges its dimensions.",
        """dim D = 64

score RESCAL(h: entity, r: relation, t: entity):
    param E[entity, D], W[relation, D, D]
    return dot(E[h] @ W[r], E[t])
""",
    ),
    Snippet(
        "A loop over numbers",
        "for k in 0..K repeats its lines before the run; W[k] is one of a stack, E[t][0] an element of a row.",
        """dim D = 64, K = 2

score Deep(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D], W[K, D, D]
    x = E[h] + R[r]
    for k in 0..K:
        x = tanh(x @ W[k])
    return dot(x, E[t]) + E[t][0]
""",
    ),
    Snippet(
        "Choices, axes, a number of its own",
        "A comparison is 1 or 0, where chooses by it; sum(x, axis=0) goes over the heads; a bias meets each of them.",
        """dim D = 64, H = D // 16

score Choosing(h: entity, r: relation, t: entity):
    param E[entity, H, D], R[relation, D], gamma
    x = where(E[h] > 0, E[h] ** 2, floor(E[h])) + R[r]
    return gamma - norm(sum(softmax(x) - E[t], axis=0), 1)
""",
    ),
    Snippet(
        "A layer over a graph",
        "Loops go over nodes and edges; n[...] and e[...] hold data of each. input is given, not learned.",
        """dim F = 64, G = 64

layer RGCN(g: graph):
    input x[node, F]
    param W[etype, F, G]
    for n in g.nodes():
        n["h"] = relu(sum(e.norm * (x[e.src] @ W[e.etype]) for e in n.incoming_edges()))
    return n["h"]
""",
    ),
    Snippet(
        "Attention",
        "Data of edges, and a softmax over the edges into each node.",
        """dim F = 64

layer Attention(g: graph):
    input x[node, F]
    param w[etype, F]
    for e in g.edges():
        e["a"] = dot(e.src.x, w[e.etype])
    edge_softmax(g, "a")
    for n in g.dst_nodes():
        n["h"] = sum(e["a"] * x[e.src] for e in n.incoming_edges())
    return n["h"]
""",
    ),
    Snippet(
        "From one set to another",
        "g: graph[user, item] has users for e.src and items for e.dst, each counted for itself.",
        """dim F = 64

layer Liked(g: graph[user, item]):
    input x[user, F], y[item, F]
    param W[F, F], S[F, F]
    for n in g.dst_nodes():
        n["h"] = relu(y[n] @ S + mean(x[e.src] @ W for e in n.incoming_edges()))
    for u in g.src_nodes():
        u["h"] = x[u] + sum(e.dst["h"] for e in u.outgoing_edges())
    return user["h"], item["h"]
""",
    ),
    Snippet(
        "Two graphs of the same nodes",
        "Each has edges of its own, and where one is named they are its: q.incoming_edges(n), q.in_degree(n). Tensors"
        " are over q_edge.",
        """dim F = 64

layer Signed(g: graph, q: graph):
    input x[node, F], w[q_edge]
    param W[F, F], V[F, F]
    for n in g.nodes():
        likes = mean(x[e.src] for e in g.incoming_edges(n))
        dislikes = sum(w[e] * x[e.src] for e in q.incoming_edges(n)) / (1 + q.in_degree(n))
        n["h"] = tanh(likes @ W - dislikes @ V)
    return n["h"]
""",
    ),
    Snippet(
        "By type",
        "n.incoming_etypes() are the types of a node's edges, n.incoming_edges(r) the edges of one; by=etype divides a"
        " softmax so.",
        """dim F = 64

layer Within(g: graph):
    input x[node, F]
    param w[etype, F], W[etype, F, F]
    for e in g.edges():
        e["a"] = dot(e.src.x, w[e.etype])
    edge_softmax(g, "a", by=etype)
    for n in g.nodes():
        for r in n.incoming_etypes():
            n["h"] += tanh(sum(e["a"] * x[e.src] for e in n.incoming_edges(r)) @ W[r])
    return n["h"]
""",
    ),
    Snippet(
        "All nodes at once",
        "Outside of loops a reduction goes over a whole set: here a batch norm, with what max is of no edges.",
        """dim F = 64

layer Norm(g: graph):
    input x[node, F]
    for n in g.nodes():
        n["h"] = max((x[e.src] for e in n.incoming_edges()), default=-1)
    mu = mean(n["h"] for n in g.nodes())
    var = mean((n["h"] - mu) ** 2 for n in g.nodes())
    for n in g.nodes():
        n["y"] = (n["h"] - mu) / sqrt(var + 0.00001)
    return n["y"]
""",
    ),
    Snippet(
        "An op over bags",
        "b: bag of row is a list of lists of rows; i goes over the entries of one.",
        """dim D = 64

op Lookup(b: bag of row):
    param T[row, D]
    return sum(T[i] for i in b)
""",
    ),
    Snippet(
        "Where ids lead",
        "map kind: entity -> type is an array of ids, one of each entity; h.kind is where it leads from a head.",
        """dim D = 64

score Typed(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D], K[type, D]
    map kind: entity -> type
    return norm(E[h] + K[h.kind] + R[r] - E[t] - K[t.kind], 1)
""",
    ),
    Snippet(
        "Ids of ids",
        "i // M, i % M and (A * h + t) % M are maps of their own, made once; what they pick from names their sets.",
        """dim D = 64, M = 1000

score Crossed(h: entity, r: relation, t: entity):
    param Q[quotient, D], R[remainder, D], C[cross, D]
    return sum((Q[h // M] + R[h % M]) * C[(237 * t + r) % M])
""",
    ),
    Snippet(
        "Half the bytes",
        "f16, bf16 and int8 are what a tensor is stored in; loads make float32 of it, and sums are of float32.",
        """dim D = 128

op Quantised(b: bag of row):
    input T[row, D]: int8
    param scale[row], bias[row]
    return sum(scale[i] * T[i] + bias[i] for i in b)
""",
    ),
    Snippet(
        "An op over a sparse matrix",
        "A.rows() goes over the rows, A.row(i) over the nonzeros of one, each with its column and value.",
        """dim D = 64

op SpMM(A: csr[I, J]):
    input X[J, D]
    for i in A.rows():
        i["y"] = sum(v * X[j] for j, v in A.row(i))
    return i["y"]
""",
    ),
    Snippet(
        "Several results",
        "A definition returns as many values as you name; so does a helper, whose values a, b = f(x) takes apart.",
        """dim F = 64

def gate(x, y):
    return sigmoid(x + y), x * y

layer Gated(g: graph):
    input x[node, F], f[edge, F]
    for e in g.edges():
        a, b = gate(f[e], x[e.src])
        e["g"] = a * b
    for n in g.nodes():
        n["h"] = sum(e["g"] for e in n.incoming_edges())
    return n["h"], e["g"]
""",
    ),
    Snippet(
        "A helper",
        "def names a formula of your own; it is put in where it is called.",
        """dim D = 64

def distance(a, b):
    return norm(a - b, 2)

score Near(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    return distance(E[h] + R[r], E[t])
""",
    ),
)


def functions() -> tuple[Call, ...]:
    """The built-in functions and those of the prelude, as they are called."""
    built_in = (Call(known.call, known.about) for known in BUILTINS.values())
    return tuple(sorted((*built_in, *_helpers()), key=lambda call: call.written))


def _helpers() -> Iterable[Call]:
    for name, definition in prelude().items():
        parameters = ", ".join(parameter.name.text for parameter in definition.parameters)
        said = next((each.text for each in definition.statements if isinstance(each, Docstring)), "")
        yield Call(f"{name}({parameters})", said.strip('"'))


SETS = SETS_OF_FAMILIES
"""The index sets that each kind of definition brings."""
