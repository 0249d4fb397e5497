"""A trace as a `score`: a number for each triple, of rows that ids gather from tables, or that a batch brings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from explorer.runtime.trace.tapes.tape import TraceError, Where
from explorer.runtime.trace.texts.names import fresh
from explorer.runtime.trace.texts.say import Sayer
from explorer.runtime.trace.texts.written import OWN, Result, Written, declarations, used_tensors
from explorer.runtime.trace.translate import Map, Translation
from explorer.runtime.trace.values.expressions import Node
from explorer.runtime.trace.values.tensors import SET

Index = tuple[str, str]
"""An index of the header: the map that it is, and the name of its set in the text."""

_SETS = ("entity", "relation", "entity")


class ScoreSayer(Sayer):
    """Says `E[h]`."""

    def __init__(
        self, results: Iterable[Node], names: dict[Node, str], used: set[str], indices: dict[str, str]
    ) -> None:
        super().__init__(results, names, used)
        self._indices = indices  # by map, or by a tensor that the batch brings

    def leaf(self, node: Node) -> str:
        """See `Sayer`."""
        if node.operator == "gather":
            return f"{node.operands[0].data[0]}[{self._indices[str(node.data[0])]}]"
        name = str(node.data[0])
        return f"{name}[{self._indices[name]}]" if name in self._indices else name


def is_score(translation: Translation) -> bool:
    """Whether all maps lead from the rows of the results to tables."""
    domains = {each.node.set for each in translation.results}
    domains = (domains - {""}) or domains
    return len(domains) == 1 and all(
        each.domain in domains and all(of.startswith("rows of ") for of in each.codomains)
        for each in translation.maps.values()
    )


def write_score(name: str, translation: Translation, given_ids: dict[str, str]) -> Written:
    """The text of a score; `given_ids` are names for maps, of the inputs that they are. Raises TraceError."""
    results = [each.node for each in translation.results]
    for each in translation.results:
        if any(atom.axis != SET and atom.size != 1 for atom in each.atoms()):
            raise TraceError(
                f"the module returns {list(each.shape)}: a score is one number for each row of the batch. Trace what "
                "returns that, or sum what it returns."
            )
        if not each.node.set:
            raise TraceError("a result is the same for all rows of the batch: a score is one number for each.")
    for node, call in translation.totals.items():
        raise TraceError(
            f"{call.operator}: a {node.data[0]} goes over all rows of the batch, which mixes them: a score is of one "
            "row. Leave it to the loss.",
            call.where,
        )
    used = used_tensors(results)
    brought = [tensor for tensor, node in used.items() if node.set and not node.set.startswith("rows of ")]
    maps = list(translation.maps.values())
    if maps and brought:
        raise TraceError(
            f"{brought[0]} comes with each row of the batch, beside ids: the tensors of a score are of entities "
            "and relations. Make it a table, and hand in the ids of its rows."
        )
    lengths = {f"rows of {name}": len(each.tensor) for name, each in translation.given.items() if each.tensor.dim()}
    slots, sets = _own(brought) if brought else _roles(maps, lengths)
    sets = {each: sets.get(each) or sets[node.set] for each, node in used.items() if node.set}
    _same_lengths(translation, sets)
    given = {**translation.given, **translation.numbers}
    names = set(used)
    heads, indices = [], dict[str, str]()
    for slot, usual in zip(slots, "hrt" if not brought else "ijk", strict=True):
        index = fresh(given_ids.get(slot[0], usual) if slot else usual, names)
        heads.append(index)
        indices |= dict.fromkeys(slot, index)
    header = ", ".join(f"{index}: {of}" for index, of in zip(heads, _SETS, strict=True))
    sayer = ScoreSayer(results, translation.nodes.names, names, indices)
    said = [sayer.root(each) for each in results]
    heading = [f'"Traced from the PyTorch module {name}"', *declarations(used, given, sets)]
    body = "".join(f"    {line}\n" for line in [*heading, *sayer.lines, f"return {', '.join(said)}"])
    statements = [translation.nodes.lines_of(each, sayer.variables) for each in sayer.variables]
    inline = [each for each in results if each not in sayer.variables]
    returned = frozenset[Where]().union(*(translation.nodes.lines_of(each, sayer.variables) for each in inline))
    ids = {index: (OWN if brought else slot[0]) if slot else "" for index, slot in zip(heads, slots, strict=True)}
    text = f"score {name}({header}):\n{body}"
    return Written(
        text,
        "score",
        ids,
        {each: bool(node.set) for each, node in used.items()},
        tuple(Result(each.shape, each.set_dim) for each in translation.results),
        lines=(*[frozenset()] * (1 + len(heading)), *statements, returned),
        numbers=translation.number_dims(used),
    )


def _same_lengths(translation: Translation, sets: dict[str, str]) -> None:
    """Raises TraceError for tables of one set that have other numbers of rows."""
    for of in set(sets.values()):
        lengths = {each: len(translation.given[each].tensor) for each, its in sets.items() if its == of}
        if len(set(lengths.values())) > 1:
            said = ", ".join(f"{each} {length}" for each, length in lengths.items())
            raise TraceError(f"the rows of these tables are of one set, and their numbers differ: {said}.")


Group = tuple[list[Map], set[str]]
"""Maps to the same tables, and the tables' sets."""


def _of_one_length(groups: list[Group], lengths: Mapping[str, int]) -> list[Group]:
    """Three groups of a map each as two, where a head and a tail have tables of their own, of as many rows: the first
    two that do. Which set a table is called of changes no number."""
    if [len(group) for group, _ in groups] != [1, 1, 1]:
        return groups
    rows = [{lengths[of] for of in sets} for _, sets in groups]
    for one, other in ((0, 2), (0, 1), (1, 2)):
        if rows[one] == rows[other]:
            both = groups[one][0] + groups[other][0], groups[one][1] | groups[other][1]
            return [both, groups[3 - one - other]]
    return groups


def _own(brought: list[str]) -> tuple[list[list[str]], dict[str, str]]:
    """The rows that a batch brings, three of them head, relation and tail: by index, the tensors that it reads; and
    these tensors' sets. Each is a table with a row for each triple."""
    slots = [[each] for each in brought] if len(brought) == 3 else [brought, [], []]
    return slots, {each: of for slot, of in zip(slots, _SETS, strict=True) for each in slot}


def _roles(maps: list[Map], lengths: Mapping[str, int]) -> tuple[list[list[str]], dict[str, str]]:
    """Head, relation and tail: by index, the map that it is; and the names of the tables' sets. Maps to one table are
    of one set, and so are tables of one map. `lengths` are the numbers of the sets' rows."""
    groups: list[Group] = []
    for each in maps:
        met = [group for group in groups if group[1] & each.codomains]
        joined = [one for group in met for one in group[0]] + [each], each.codomains.union(*(of for _, of in met))
        groups = [group for group in groups if group not in met] + [joined]
    groups.sort(key=lambda group: (-len(group[0]), maps.index(group[0][0])))
    groups = _of_one_length(groups, lengths)
    counts = [len(group) for group, _ in groups]
    if counts not in ([1], [2], [1, 1], [2, 1]):
        raise TraceError(
            f"its {sum(counts)} kinds of ids are of {len(counts)} sets of rows: a score has a head and a tail of one "
            "set, entities, and a relation of another."
        )
    slots = [[groups[0][0][0].name], [], [each.name for each in groups[0][0][1:]]]
    sets = dict.fromkeys(groups[0][1], "entity")
    if len(groups) > 1:
        slots[1] = [groups[1][0][0].name]
        sets |= dict.fromkeys(groups[1][1], "relation")
    return slots, sets
