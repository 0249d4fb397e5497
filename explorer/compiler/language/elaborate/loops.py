"""The statements in loops: reductions over the members of a group, a node's edges, and data on elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.compiler.ir.graph import plural
from explorer.compiler.ir.node import Span
from explorer.compiler.ir.set_maps import PAIRS, THROUGH
from explorer.compiler.language.diagnostics import Fix, joined_fix, slice_text
from explorer.compiler.language.elaborate.elements import WHOLE, Elements
from explorer.compiler.language.elaborate.iterators import Entered, Level, enter
from explorer.compiler.language.elaborate.reductions import Reductions, whole_map
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.elaborate.unrolling import Unrolling
from explorer.compiler.language.names.entities import Constant, DataName, Entity, Given, Index, Row, StructureArgument
from explorer.compiler.language.names.structures import NEGATIVE, Structure
from explorer.compiler.language.parsing import syntax

if TYPE_CHECKING:
    from explorer.compiler.language.elaborate.elaborate import Elaborator

SHORTER = {(along, through): end for (along, end), through in THROUGH.items()} | {
    (pair, f"{pair}_etype"): "etype" for pair in PAIRS
}
"""Two maps of an edge, one after another, that are one: its pair's node is its end, its pair's type its own."""


class Loops:
    """Elaborates the loops of one layer or op; in a score it refuses them."""

    def __init__(self, elaborator: Elaborator, structure: Structure, elements: Elements) -> None:
        self._elaborator = elaborator
        self._structure = structure
        self._report = elaborator.collector.report
        self.family = elaborator.family
        self.elements = elements
        self.base = Level(structure.each)
        """Where the definition's own statements stand: those of an op over bags are in each bag."""
        self.level = self.base
        self.ended: dict[str, str] = {}
        """Names that were known in a loop which has ended, with what to say about them."""
        self.letters: dict[str, list[str]] = {}
        """The variables of loops that have ended and the sets that they went over: `return n["h"]` uses them."""
        self._outer: frozenset[str] = frozenset()
        self.unrolling = Unrolling(elaborator)
        self.reductions = Reductions(elaborator, structure)
        self._running: syntax.Loop | None = None
        self._of_result: list[str] = []  # the variables that stand for elements in a result

    # Loops

    def run(self, loop: syntax.Loop) -> None:
        """A `for` with its block."""
        if isinstance(loop.iterator, syntax.Numbers):
            if not self.unrolling.run(loop):
                self._forget(loop)
            return
        if self._structure.kind == "facts":
            message = f"a {self.family} has no loops over elements: it computes the same for every triple"
            detail = (
                "Loops over nodes and edges belong to a layer; one over numbers is: for k in 0..K:, and over negatives"
                " goes a reduction: sum(E[k] for k in n)."
            )
            self._report(message, loop.header, detail)
            return
        entered = enter(self._elaborator, loop.iterator, loop.variables)
        if entered is None or not all(self.is_free(variable) for variable in loop.variables):
            # What the loop would have written is not known: silence stands for it.
            self._forget(loop)
            return
        if entered.at is not None:
            detail = 'Write a loop over the nodes before, which leaves what it finds as data: n["x"].'
            message = f"a loop over edges has no loop over those of {entered.at.text}: a sum or another reduction has"
            self._report(message, loop.iterator.extent, detail)
            self._forget(loop)
            return
        if entered.level.index_set not in PAIRS:
            self.letters.setdefault(loop.variables[0].text, []).append(entered.level.index_set)
        outer = self.level
        shown = "'{}' is the variable of the loop in line " + f"{loop.header.line}, which has ended"
        self.inside(entered, shown, lambda: self._statements(loop))
        self.elements.end_loop(outermost=outer == self.base)

    def _statements(self, loop: syntax.Loop) -> None:
        around, self._running = self._running, loop
        for statement in loop.statements:
            self._elaborator.statement(statement)
        self._running = around

    def inside(self, entered: Entered, shown: str, work: Callable[[], Entity | None]) -> Entity | None:
        """Does something in a loop: the names that it leaves behind are unknown afterwards."""
        elaborator = self._elaborator
        scope, outer_level, outer_names = elaborator.scope, self.level, self._outer
        elsewhere, hidden = self.elements.elsewhere, self._hidden(entered)
        self.elements.elsewhere = elsewhere or entered.at is not None
        self.ended |= hidden
        elaborator.scope = {**{name: scope[name] for name in scope if name not in hidden}, **entered.variables}
        self._outer = frozenset(name for name, entity in scope.items() if entity is not None)
        self.level = entered.level
        try:
            return work()
        finally:
            element = next(iter(entered.variables))
            local = f"is local to the loop in line {entered.level.line}: what leaves a loop is data, as in {element}"
            for name, entity in elaborator.scope.items():
                if name in entered.variables:
                    self.ended[name] = shown.format(name)
                elif name not in scope and name not in hidden and entity is not None:
                    self.ended[name] = f"""'{name}' {local}["{name}"]"""
                else:
                    scope[name] = entity
            elaborator.scope, self.level, self._outer = scope, outer_level, outer_names
            self.elements.elsewhere = elsewhere
            self.ended = {name: text for name, text in self.ended.items() if name not in hidden}

    def _hidden(self, entered: Entered) -> dict[str, str]:
        """The names that a reduction over the members of another group does not see, with what to say about them."""
        if entered.at is None:
            return {}
        index_set = self._elaborator.operations.builder.index_set
        variable = next(iter(entered.variables))
        message = f"'{{}}' is not of the edges of {entered.at.text}: this reduction sees '{variable}' alone"
        return {
            name: message.format(name)
            for name, entity in self._elaborator.scope.items()
            if isinstance(entity, (Index, Given)) or (isinstance(entity, Row) and index_set(entity.depends) != "unit")
        }

    def is_free(self, variable: syntax.Name) -> bool:
        """Whether a loop's variable is a name of its own."""
        bound = self._elaborator.scope.get(variable.text)
        if bound is None and not self._elaborator.is_size(variable.text):
            return True
        kind = "the variable of the loop around" if isinstance(bound, Index) else "a name already"
        self._report(f"'{variable.text}' is {kind}: choose another name", variable.extent)
        return False

    def _forget(self, loop: syntax.Loop) -> None:
        """After an error in a header: what depends on the loop counts as reported."""
        for statement in syntax.walk_statements((loop,)):
            if isinstance(statement, syntax.Loop):
                for variable in statement.variables:
                    self._elaborator.scope.setdefault(variable.text, None)
            if isinstance(statement, syntax.Assignment) and isinstance(statement.target, syntax.Data):
                self.elements.forget(statement.target.name.text)

    # Assignments

    def assign(self, statement: syntax.Assignment) -> None:
        """`e["x"] = y` and the updates `+=`, `-=`, `*=`, `/=`."""
        if isinstance(statement.target, syntax.Name):
            self._update_name(statement, statement.target)
        elif self._structure.kind == "facts":
            self._report(f"a {self.family} has no data on elements: assign to a name", statement.target.extent)
        else:
            self._assign_data(statement, statement.target)

    @property
    def _member(self) -> str:
        """The set of members that the running loop goes over; in none, one that there is."""
        here = self.level.index_set
        return here if here in self._structure.members else self._structure.member

    def is_outer(self, name: str) -> bool:
        """Whether a name belongs to what stands around the loop."""
        return name in self._outer

    def report_outer(self, target: syntax.Name) -> None:
        """About a name of the block around, assigned anew in a loop: it would change from element to element."""
        data = f"""{self._structure.example}["{target.text}"]"""
        sums = f"What is summed in a loop is data of the element around: {data} += ..."
        detail = sums if self.level.end else ""
        message = f"'{target.text}' stands outside of this loop and cannot be assigned in it: choose another name"
        self._report(message, target.extent, detail)

    def leave_names(self) -> tuple[frozenset[str], dict[str, str]]:
        """Before a helper's body, which sees no names but its own: what is to come back."""
        around = self._outer, self.ended
        self._outer, self.ended = frozenset(), {}
        return around

    def return_names(self, around: tuple[frozenset[str], dict[str, str]]) -> None:
        """After a helper's body."""
        self._outer, self.ended = around

    def _update_name(self, statement: syntax.Assignment, target: syntax.Name) -> None:
        """`x += y` on a local name."""
        elaborator = self._elaborator
        value = elaborator.value(statement.value, elaborator.expression(statement.value))
        if target.text not in elaborator.scope:
            elaborator.expression(target)
            return
        current = elaborator.scope[target.text]
        if self.is_outer(target.text):
            self.report_outer(target)
            elaborator.scope[target.text] = None
            return
        old = elaborator.value(target, current)
        elaborator.scope[target.text] = self._combine(statement, old, value)

    def _assign_data(self, statement: syntax.Assignment, target: syntax.Data) -> None:
        elaborator = self._elaborator
        index = elaborator.expression(target.base)
        name = self._data_name(target)
        value = elaborator.value(statement.value, elaborator.expression(statement.value))
        if index is None or name is None:
            self.elements.forget(name or target.name.text)
            return
        text = slice_text(elaborator.text, target.base.extent)
        if isinstance(index, StructureArgument):
            self._sum_whole(statement, target, self.elements.whole(index, name), value)
            return
        standing = (*self._structure.groups, *self._structure.members)
        known = (*standing, self.level.index_set, *self.level.around)
        along = isinstance(index, Index) and self._leads_from_here(index) and statement.operator == "+"
        if not isinstance(index, Index) or (self.elements.owner(index) not in known and not along):
            message = f"'{text}' is {_none_of(*standing)}: data stands on {self._structure.words}"
            self._report(message, target.base.extent)
            return
        key = (self.elements.owner(index), name)
        if not self._check_name(key, target):
            return
        if index.member or (index.identity and index.name == self.level.index_set):
            if statement.operator:
                value = self._combine(statement, self._value_before(statement, target, key, index), value)
            self.elements.write(key, value, target.extent, self._behind_the_loop(statement, target))
        elif along or (index.name == self.level.around.get(index.index_set) and statement.operator):
            value = self._reduce(statement, self.elements.data.get(key, 0), value, index)
            self.elements.write(key, value, target.extent)
            self.elements.begin_sum(key, target.extent)
        else:
            self._report_not_own(statement, target, text, name)
            self.elements.data[key] = None

    def _leads_from_here(self, index: Index) -> bool:
        """Whether a map leads from the elements of this loop, which stands in no other: `e.dst` of all edges."""
        return not self.level.around and index.domain == self.level.index_set and not index.identity

    def _behind_the_loop(self, statement: syntax.Assignment, target: syntax.Data) -> list[Fix]:
        """To give what the last line of the one loop around writes its name in a loop of its own, behind: then all
        elements have read what was there before."""
        loop, text = self._running, self._elaborator.text
        last = loop is not None and loop.statements[-1:] == (statement,) and not self.level.around
        if loop is None or not last or statement.operator or not isinstance(target.name, syntax.Text):
            return []
        name, element = target.name.text, slice_text(text, target.base.extent)
        new, indent = f"new_{name}", " " * (loop.header.column - 1)
        if any(known == new for _, known in self.elements.data):
            return []
        further = " " * (statement.extent.column - loop.header.column)
        lines = [f"{slice_text(text, loop.header)}:", f'{further}{element}["{name}"] = {element}["{new}"]']
        line = statement.extent.end_line
        end = len(text.split("\n")[line - 1]) + 1
        behind = Span(line, end, line, end), "".join(f"\n{indent}{line}" for line in lines)
        edits = [(target.extent, f'{element}["{new}"]'), behind]
        return [joined_fix(f'Write "{name}" behind the loop', text, edits)]

    def _sum_whole(
        self, statement: syntax.Assignment, target: syntax.Data, key: tuple[str, str], value: Row | Constant | None
    ) -> None:
        """`g["h"] += x[n]`: the sum over all elements of the loop, and of the loops around it."""
        level, start = self.level.index_set, self.elements.data.get(key, 0)
        found: Row | Constant | None = None
        own = isinstance(value, Row) and self._elaborator.operations.builder.index_set(value.depends) == level
        if level == WHOLE or not statement.operator:
            message = f"data of {self._structure.owner} is a sum over its elements"
            loop, text = "in a loop", slice_text(self._elaborator.text, target.base.extent)
            self._report(message, statement.extent, f"""It is written {text}["{target.name.text}"] += ..., {loop}.""")
        elif value is not None and not own:
            message = f"this is the same for every {level}: a sum over all of them is of what they have"
            self._report(message, statement.value.extent)
        else:
            found = self._reduce(statement, start, value, Index(whole_map(level), "", level))
            self.elements.begin_sum(key, target.extent)
        self.elements.data[key] = found

    def _value_before(
        self, statement: syntax.Assignment, target: syntax.Data, key: tuple[str, str], index: Index
    ) -> Row | Constant | None:
        """The data that an update changes."""
        if key in self.elements.data:
            return self.elements.read(index, key[1], target.extent, target.name.extent)
        message = f"'{key[1]}' has no value yet: '{statement.operator}=' changes what is there"
        several = plural(self._member)
        sums = f"In a loop over the {several} of a {self._structure.group} += sums, from 0."
        detail = sums if statement.operator == "+" else ""
        self._report(message, target.extent, detail)
        return None

    def _report_not_own(self, statement: syntax.Assignment, target: syntax.Data, text: str, name: str) -> None:
        """A loop writes on its own element; in the loop over a node's edges the node's data is summed."""
        if text and self.level.end and not statement.operator:
            fixes = [Fix("Use +=", statement.span, "+=")]
            member = "type" if self.level.index_set in PAIRS else self._member
            sums = f"once for each {member}: += sums over the {plural(member)}"
            message = f"""'{text}["{name}"]' would be written {sums}"""
            self._report(message, statement.extent, fixes=fixes)
            return
        detail = f"""A sum over {plural(self._member)} is: {self._structure.summed}["{name}"] += ..."""
        self._report(f"a loop writes data on its own element only, not on '{text}'", target.extent, detail)

    def _check_name(self, key: tuple[str, str], target: syntax.Data) -> bool:
        """Whether data may have this name."""
        index_set, name = key
        if name in self._structure.parts.get(index_set, ()):
            taken = f"given by {self._structure.owner}"
        elif name in self.elements.tables and self.elements.tables[name].tensor.sets == (index_set,):
            taken = f"declared in line {self.elements.tables[name].declaration.extent.line}"
        else:
            return True
        self._report(f"'{name}' is {taken}: choose another name for the data", target.name.extent)
        self.elements.data[key] = None
        return False

    def _data_name(self, target: syntax.Data, quiet: bool = False) -> str | None:
        """The name of data: written in quotes, or given to the helper."""
        if isinstance(target.name, syntax.Text):
            return target.name.text if quiet else self._checked(target.name)
        bound = self._elaborator.scope.get(target.name.text)
        if isinstance(bound, DataName):
            return bound.text
        if not quiet:
            text = target.name.text
            fix = Fix(f'Use "{text}"', target.name.extent, f'"{text}"')
            self._report(f'data is named in quotes: ["{text}"]', target.name.extent, fixes=[fix])
        return None

    def _checked(self, name: syntax.Text) -> str | None:
        if name.text.isidentifier() and name.text.isascii() and len(name.text) <= 64:
            return name.text
        self._report("the name of data is of ASCII letters, digits and '_', at most 64 of them", name.extent)
        return None

    def _combine(
        self, statement: syntax.Assignment, old: Row | Constant | None, value: Row | Constant | None
    ) -> Row | Constant | None:
        """An update: the old value with the new one."""
        if old is None or value is None:
            return None
        node = syntax.Binary(statement.operator, statement.span, statement.target, statement.value, statement.extent)
        return self._elaborator.operations.binary(node, old, value)

    def _reduce(
        self,
        statement: syntax.Assignment,
        start: Row | Constant | int | None,
        value: Row | Constant | None,
        onto: Index,
    ) -> Row | Constant | None:
        """`+=` in a loop over a node's edges: the sum, on top of what was there before the loop."""
        if statement.operator != "+":
            over = f"the {plural(self._member)} of a {self._structure.group}"
            message = f"a loop over {over} sums with '+=': there is no '{statement.operator}='"
            self._report(message, statement.span)
            return None
        if value is None or start is None:
            return None
        operations = self._elaborator.operations
        site = OperationSite("+=", statement.span, statement.extent)
        total = operations.builder.row(value)
        for step in onto.name.split("."):
            total = operations.segment(
                site, "sum", total, step, self._structure.maps.get(step, ("", onto.index_set))[1]
            )
        if isinstance(start, int) or (isinstance(start, Constant) and start.value == 0):
            return total
        return operations.elementwise(site, "add", (statement.target, statement.value), start, total)

    # Expressions

    def comprehension(self, node: syntax.Call, element: syntax.Comprehension) -> Row | Constant | None:
        """`sum(x[e.src] for e in n.incoming_edges())`, `sum(W[k] for k in 0..K)`."""
        if isinstance(element.iterator, syntax.Numbers):
            return self.unrolling.comprehension(node, element)
        return self.reductions.comprehension(node, element)

    def seen_from_here(self, entity: Entity | None, name: syntax.Expression) -> Entity | None:
        """What a name of a loop around is in this one: a node is one of an edge's ends, a type that of its edges."""
        operations, around, here = self._elaborator.operations, self.level.around, self.level.index_set
        if here == NEGATIVE:  # they read their fact's values and ids as they are
            return entity
        if isinstance(entity, Row):
            group = operations.builder.index_set(entity.depends)
            if group in around:
                site = OperationSite(slice_text(self._elaborator.text, name.extent), name.extent, name.extent)
                return operations.gather_value(site, entity, Index(around[group], group, here))
        elif isinstance(entity, Index) and entity.domain in around:
            end = around[entity.domain]
            own = entity.domain if entity.computed or entity.identity else ""  # a map may have that name as well
            first, *further = (
                end if path == own else SHORTER.get((end, path), f"{end}.{path}") for path in entity.paths
            )
            return replace(entity, name=first, further=tuple(further), domain=here)
        return entity

    def data(self, node: syntax.Data, base: Entity | None) -> Row | Constant | None:
        """`e["x"]` in an expression."""
        if base is None:
            return None
        name = self._data_name(node)
        text = slice_text(self._elaborator.text, node.base.extent)
        if isinstance(base, StructureArgument):
            return None if name is None else self.elements.read_whole(base, name, text, node)
        if not isinstance(base, Index) or base.computed or self._structure.kind == "facts":
            owners = "no node and no edge of a layer"
            if self._structure.group:
                owners = _none_of(*self._structure.groups, *self._structure.members)
            self._report(f"'{text}' is {owners}: it has no data", node.extent)
            return None
        return None if name is None else self.elements.read(base, name, node.extent, node.name.extent)

    def bind_letters(self, value: syntax.Expression) -> None:
        """Before a result: the variables of the definition's loops stand for any element of their sets once more, those
        of the result before it for none; and so does a name that is nothing else, of the set that it names or
        that has what is read of it."""
        for letter in self._of_result:
            del self._elaborator.scope[letter]
        self._of_result, self.level = [], self.base
        nodes = list(syntax.walk_expression(value))
        own = {v.text for node in nodes if isinstance(node, syntax.Comprehension) for v in node.variables}
        for node in nodes:
            if not isinstance(node, syntax.Name) or node.text in own or node.text in self._elaborator.scope:
                continue
            index_set = self._set_of_letter(node.text, nodes)
            if index_set:
                inside = index_set in self._structure.members and self.base.index_set != "unit"
                level = Level(index_set, {self._structure.group: self._structure.home_of(index_set)} if inside else {})
                if self.level not in (self.base, level):
                    owners = self._structure.words.replace(" and ", " or of ")
                    self._report(f"a result is of {owners}, not of both", value.extent)
                    self._elaborator.scope[node.text] = None
                    self._of_result.append(node.text)
                    continue
                self._elaborator.scope[node.text] = Index(index_set, index_set, index_set, node.text)
                self._of_result.append(node.text)
                self.level = level

    def _set_of_letter(self, letter: str, nodes: list[syntax.Expression]) -> str:
        """The set that a loop variable went over; of several the one that has the data which is read of it. Of another
        name the set of that name, or the one that has what is read of it, "" where that is none or several."""
        if letter not in self.letters:
            is_set = any(letter == index_set for index_set, _ in self.elements.data)
            return letter if is_set else self._set_read(letter, nodes)
        sets = self.letters[letter]
        for node in nodes:
            if isinstance(node, (syntax.Data, syntax.Attribute)) and isinstance(node.base, syntax.Name):
                named = [entry for entry in sets if (entry, node.name.text) in self.elements.data]
                if node.base.text == letter and named:
                    return named[-1]
        return sets[-1]

    def _set_read(self, letter: str, nodes: list[syntax.Expression]) -> str:
        """The one set of the structure's elements that has what a name is read as an element of, `x[n]` or `n["h"]`."""
        found: set[str] = set()
        tables = self.elements.tables
        for node in nodes:
            match node:
                case syntax.Index(base=syntax.Name(text=table)) if table in tables:
                    pairs = zip(tables[table].tensor.sets, node.indices, strict=False)
                    found |= {s for s, index in pairs if isinstance(index, syntax.Name) and index.text == letter}
                case syntax.Data(base=syntax.Name(text=base), name=syntax.Text(text=name)) if base == letter:
                    found |= {s for s, known in self.elements.data if known == name and s != WHOLE}
        if self.base.index_set != "unit" or not self._structure.group:  # of a score, whose results are of facts
            return ""
        known = {*self._structure.parts, *self._structure.mapped}
        return found.pop() if len(found) == 1 and found <= known else ""


def _none_of(*sets: str) -> str:
    """`no node and no edge`."""
    return " and ".join(f"no {index_set}" for index_set in sets)
