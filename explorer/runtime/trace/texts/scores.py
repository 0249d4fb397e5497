"""A trace as a `score`: what each row of a batch is, of rows that ids gather from tables, or that the batch brings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from explorer.runtime.trace.tapes.tape import TraceError, Where
from explorer.runtime.trace.texts.names import fresh
from explorer.runtime.trace.texts.say import Sayer
from explorer.runtime.trace.texts.written import OWN, Result, Written, declarations, used_tensors
from explorer.runtime.trace.translate import Map, Translation
from explorer.runtime.trace.values.expressions import Node

_SETS = ("entity", "relation", "entity")
_TRIPLE = "hrt"
_OWN_ROWS = "row"
"""The set of what a batch brings beside ids."""


class Index(NamedTuple):
    """An index of the header: what reads rows by it, a map or tensors that the batch brings, and the name of its set
    in the text. One that nothing reads is all zeros."""

    readers: tuple[str, ...]
    of: str
    own: bool = False

    @property
    def ids(self) -> str:
        """See `Written.ids`."""
        return OWN if self.own else "".join(self.readers)


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
    """Whether all maps lead to tables, from the rows of the results, or from those of a batch that they go over."""
    maps = translation.maps.values()
    domains = {each.node.set for each in translation.results}
    domains = (domains - {""}) or {each.domain for each in maps} or domains
    return len(domains) == 1 and all(
        each.domain in domains
        and all(of.startswith("rows of ") and of not in translation.homes for of in each.codomains)
        for each in maps
    )


def write_score(name: str, translation: Translation, given_ids: dict[str, str]) -> Written:
    """The text of a score; `given_ids` are names for maps, of the inputs that they are. Raises TraceError."""
    _refuse_mixed(translation)
    results = [each.node for each in translation.settled()]
    used = used_tensors(results)
    brought = [tensor for tensor, node in used.items() if node.set and not node.set.startswith("rows of ")]
    lengths = {f"rows of {name}": len(each.tensor) for name, each in translation.given.items() if each.tensor.dim()}
    slots, sets = _indices(list(translation.maps.values()), brought, lengths, set(used))
    sets = {each: sets.get(each) or sets[node.set] for each, node in used.items() if node.set}
    slots = [each for each in slots if each.of in {*_SETS, *sets.values()}]  # no table declares the others
    _same_lengths(translation, {each: of for each, of in sets.items() if each not in brought})
    given = {**translation.given, **translation.numbers}
    names = {*used, *sets.values()}
    heads, indices = [], dict[str, str]()
    usual = _TRIPLE if len(slots) == len(_TRIPLE) and translation.maps else "ijk"
    for at, slot in enumerate(slots):
        index = fresh(next((given_ids[each] for each in slot.readers if each in given_ids), usual[at % 3]), names)
        heads.append(index)
        indices |= dict.fromkeys(slot.readers, index)
    header = ", ".join(f"{index}: {slot.of}" for index, slot in zip(heads, slots, strict=True))
    sayer = ScoreSayer(results, translation.nodes.names, names, indices)
    said = [sayer.root(each) for each in results]
    heading = [f'"Traced from the PyTorch module {name}"', *declarations(used, given, sets)]
    body = "".join(f"    {line}\n" for line in [*heading, *sayer.lines, f"return {', '.join(said)}"])
    statements = [translation.nodes.lines_of(each, sayer.variables) for each in sayer.variables]
    inline = [each for each in results if each not in sayer.variables]
    returned = frozenset[Where]().union(*(translation.nodes.lines_of(each, sayer.variables) for each in inline))
    return Written(
        f"score {name}({header}):\n{body}",
        "score",
        {index: slot.ids for index, slot in zip(heads, slots, strict=True)},
        {each: bool(node.set) for each, node in used.items()},
        tuple(Result(each.shape, each.set_dim) for each in translation.results),
        lines=(*[frozenset()] * (1 + len(heading)), *statements, returned),
        numbers=translation.number_dims(used),
    )


def _refuse_mixed(translation: Translation) -> None:
    """Raises TraceError for what is of all rows of the batch."""
    if not all(each.node.set for each in translation.results) and any(each.node.set for each in translation.results):
        raise TraceError("a result is the same for all rows of the batch: a score is one number, or several, for each.")
    for node, call in translation.totals.items():
        raise TraceError(
            f"{call.operator}: a {node.data[0]} goes over all rows of the batch, which mixes them: a score is of one "
            "row. Leave it to the loss.",
            call.where,
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


def _indices(
    maps: list[Map], brought: list[str], lengths: Mapping[str, int], used: set[str]
) -> tuple[list[Index], dict[str, str]]:
    """The header, and by tables' sets, or tensors that the batch brings, the names of their sets in the text.
    `lengths` are the numbers of the sets' rows, and `used` names that no set may have."""
    if not maps:
        return _own(brought)
    slots, sets = _roles(maps, lengths, used)
    if brought:
        own = fresh(_OWN_ROWS, {*used, *sets.values()})
        slots, sets = [*slots, Index(tuple(brought), own, True)], {**sets, **dict.fromkeys(brought, own)}
    return slots, sets


def _own(brought: list[str]) -> tuple[list[Index], dict[str, str]]:
    """The rows that a batch brings, three of them head, relation and tail. Each is a table with a row for each
    triple."""
    parts = [(each,) for each in brought] if len(brought) == 3 else [tuple(brought), (), ()]
    slots = [Index(part, of, bool(part)) for part, of in zip(parts, _SETS, strict=True)]
    return slots, {each: slot.of for slot in slots for each in slot.readers}


def _roles(maps: list[Map], lengths: Mapping[str, int], used: set[str]) -> tuple[list[Index], dict[str, str]]:
    """An index for each map, and the names of the tables' sets. Maps to one table are of one set, and so are tables of
    one map; of one set or two they are entities and relations, as triples are, and of more they are called as their
    tables."""
    groups: list[Group] = []
    for each in maps:
        met = [group for group in groups if group[1] & each.codomains]
        joined = [one for group in met for one in group[0]] + [each], each.codomains.union(*(of for _, of in met))
        groups = [group for group in groups if group not in met] + [joined]
    groups.sort(key=lambda group: (-len(group[0]), maps.index(group[0][0])))
    groups = _of_one_length(groups, lengths)
    names = [*_SETS[:2]] if len(groups) <= 2 else [fresh(_called(of, lengths), used) for _, of in groups]
    sets = {of: name for name, (_, codomains) in zip(names, groups, strict=False) for of in codomains}
    slot = {
        each.name: Index((each.name,), name) for name, (group, _) in zip(names, groups, strict=False) for each in group
    }
    if [len(group) for group, _ in groups] not in ([1], [2], [1, 1], [2, 1]):
        return [slot[each.name] for each in maps], sets
    head, *tail = (slot[each.name] for each in groups[0][0])
    relation = slot[groups[1][0][0].name] if len(groups) > 1 else Index((), _SETS[1])
    return [head, relation, *(tail or [Index((), _SETS[2])])], sets


def _called(codomains: set[str], lengths: Mapping[str, int]) -> str:
    """What a set is called: the row of the first of its tables."""
    return f"{next(of for of in lengths if of in codomains).removeprefix('rows of ')}_row"
