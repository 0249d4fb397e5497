"""What is said of a score's own negatives where they are not understood."""

from __future__ import annotations

import pytest

import explorer
from explorer.compiler.options import Negatives
from tests.compiler.language.helpers import check, found
from tests.compiler.language.test_fixes import applied

HEADER = "dim D = 4\nscore f(h: entity, r: relation{}):\n    param E[entity, D], R[relation, D], b[relation]\n"
OWN = ", n: negatives of entity"


@pytest.mark.parametrize(("header", "body", "where", "message"), [
    (OWN, "return norm(E[n])", "4:19-20", "E is indexed by entity, but 'n' is not an index"),
    (OWN, "return n + norm(E[h])", "4:12-13", "'n' is a set of ids of each fact, which a reduction goes over"),
    (OWN, "n = 1\nreturn b[h]", "4:5-6", "'n' is a set of negatives and cannot be assigned: choose another name"),
    (OWN, "return sum(sum(dot(E[j], E[k]) for j in n) for k in n)", "4:45-46",
     "a fact's negatives are gone over already in the reduction around"),
    (OWN, "return sum(norm(E[k]) for k, w in n)", "4:34-35", "a reduction over n has one variable"),
    (OWN, "return sum(norm(E[k]) for k in n.all())", "4:36-43", "a reduction over 'n' is: for k in n"),
    (OWN, "return sum(norm(E[k]) for k in h)", "4:36-37", "'h' is no set of negatives: a loop has nothing to go over"),
    (OWN, "return sum(norm(R[k]) for k in n)", "4:21-25", "R is indexed by relation, but k is an entity"),
    (OWN, "return sum(norm(E[h]) for h in n)", "4:31-32",
     "'h' is the variable of the loop around: choose another name"),
    (OWN, "for k in n:\n        x = E[k]\n    return norm(E[h])", "4:5-15",
     "a score has no loops over elements: it computes the same for every triple"),
    (OWN, "return norm(E[h]) + norm(E[k])", "4:32-33", "unknown name 'k'"),
    (", n: negatives of time", "return norm(E[h])", "2:49-53", "unknown index set 'time': no tensor is over it"),
    (", n: negatives of batch", "return norm(E[h])", "2:49-54",
     "'batch' is a set that every score has: choose another name for the index set"),
    (", n: blocks of entity", "return norm(E[h])", "2:36-52",
     "an id of a score is of a set, not of 'blocks': n: entity"),
])  # fmt: skip
def test_what_is_wrong_with_its_place(header: str, body: str, where: str, message: str) -> None:
    text = HEADER.format(header) + f"    {body}\n"
    assert (where, message) in found(check(text)), found(check(text))


def test_negatives_are_of_facts() -> None:
    lines = "param E[entity, D]\n    return sum(norm(E[k]) for k in n)"
    text = f"dim D = 4\nscore f(n: negatives of entity):\n    {lines}\n"
    messages = [message for _, message in found(check(text))]
    assert messages == ["a score is of ids, each of a set: f(h: entity, r: relation, t: entity)"]


@pytest.mark.parametrize(("header", "option", "message"), [
    (OWN, Negatives("tail", 3), "'f' has negatives of its own, 'n': how many is negatives=own:3"),
    ("", Negatives("own", 3),
     "'f' has no negatives of its own: they replace an id, negatives=tail:3 or head:3"),
])  # fmt: skip
def test_what_a_run_asks_for_fits_the_header(header: str, option: Negatives, message: str) -> None:
    text = HEADER.format(header) + "    return norm(E[h]) + norm(R[r])\n"
    assert [each.message for each in check(text, negatives=option).diagnostics] == [message]


def test_how_many_there_are_has_a_default() -> None:
    text = HEADER.format(OWN) + "    return sum(dot(E[h] * R[r], E[k]) for k in n)\n"
    assert str(explorer.compile(text, on_demand=True).options.negatives) == "own:16"
    asked = explorer.compile(text, options={"negatives": "own:3"}, on_demand=True)
    assert str(asked.options.negatives) == "own:3"


def test_a_header_without_sets_is_given_them_beside_negatives() -> None:
    text = "dim D = 4\nscore f(h, n: negatives of entity):\n    param E[entity, D]\n    return norm(E[h])\n"
    (diagnostic,) = check(text).diagnostics
    assert [fix.replacement for fix in diagnostic.fixes] == ["(h: entity, n: negatives of entity)"]


@pytest.mark.parametrize(("body", "header", "written"), [
    ("return sum(norm(E[k]) for k in negatives)", "n: negatives of entity", "return sum(norm(E[k]) for k in n)"),
    ("return sum(norm(R[x]) for x in relation)", "n: negatives of relation", "return sum(norm(R[x]) for x in n)"),
    ("s = norm(E[h] - R[r])\n    return max(s for h in others)", "n: negatives of entity",
     "s = norm(E[h] - R[r])\n    return max(norm(E[k] - R[r]) for k in n)"),
    ("n = E[h]\n    s = dot(n, R[r])\n    return max(s + s * b[r] for h in others)", "m: negatives of entity",
     "n = E[h]\n    s = dot(n, R[r])\n    return max((dot((E[k]), R[r])) + (dot((E[k]), R[r])) * b[r] for k in m)"),
])  # fmt: skip
def test_a_set_that_the_header_lacks_is_offered(body: str, header: str, written: str) -> None:
    text = HEADER.format("") + f"    {body}\n"
    (diagnostic,) = check(text).diagnostics
    (fix,) = diagnostic.fixes
    assert fix.label == f"Take {header}"
    assert applied(text, fix) == HEADER.format(f", {header}") + f"    {written}\n"
    assert check(applied(text, fix)).graph is not None


def test_what_would_be_too_long_is_not_offered() -> None:
    """Values that name one another twice: written out, they would be longer than any text."""
    lines = [
        "a0 = norm(E[h])",
        *(f"a{n} = a{n - 1} * a{n - 1}" for n in range(1, 60)),
        "return sum(a59 for h in others)",
    ]
    (diagnostic,) = check(HEADER.format("") + "".join(f"    {line}\n" for line in lines)).diagnostics
    assert diagnostic.fixes == ()
    still = [line.replace("E[h]", "R[r]") for line in lines]
    (diagnostic,) = check(HEADER.format("") + "".join(f"    {line}\n" for line in still)).diagnostics
    assert [fix.label for fix in diagnostic.fixes] == ["Take n: negatives of entity"]


def test_a_name_that_stands_for_nothing_is_told_as_such() -> None:
    text = HEADER.format("") + "    return sum(1 for k in others)\n"
    assert found(check(text)) == [("4:27-33", "unknown name 'others'")]


@pytest.mark.parametrize("name", ["batch", "negative", "unit"])
@pytest.mark.parametrize("header", ["h: entity, {}: negatives of entity", "{}: entity", "h: entity, {}: entity"])
def test_an_id_is_not_called_as_the_sets_of_every_score(name: str, header: str) -> None:
    """A path of maps that is called as a set is stays at its elements."""
    value = "sum(E[k] for k in {})" if "negatives" in header else "E[{}]"
    text = f"score f({header}):\n    param E[entity]\n    return {value}\n".format(name, name)
    assert f"'{name}' is a set that every score has: choose another name" in [each for _, each in found(check(text))]
