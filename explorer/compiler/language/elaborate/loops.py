"""The statements in loops: reductions over the members of a group, a node's edges, and data on elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from explorer.compiler.ir.graph import plural
from explorer.compiler.language.diagnostics import Fix, slice_text
from explorer.compiler.language.elaborate.elements import Elements
from explorer.compiler.language.elaborate.iterators import Entered, Level, enter
from explorer.compiler.language.elaborate.reductions import Reductions
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.elaborate.unrolling import Unrolling
from explorer.compiler.language.names.entities import Constant, DataName, Entity, Index, Row
from explorer.compiler.language.names.structures import Structure
from explorer.compiler.language.parsing import syntax

if TYPE_CHECKING:
    from explorer.compiler.language.elaborate.elaborate import Elaborator


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

    # Loops

    def run(self, loop: syntax.Loop) -> None:
        """A `for` with its block."""
        if isinstance(loop.iterator, syntax.Numbers):
            if not self.unrolling.run(loop):
                self._forget(loop)
            return
        if self._structure.kind == "triples":
            message = f"a {self.family} has no loops over elements: it computes the same for every triple"
            detail = "Loops over nodes and edges belong to a layer; one over numbers is: for k in 0..K:"
            self._report(message, loop.header, detail)
            return
        entered = enter(self._elaborator, loop.iterator, loop.variables)
        if entered is None or not all(self.is_free(variable) for variable in loop.variables):
            # What the loop would have written is not known: silence stands for it.
            self._forget(loop)
            return
        self.letters.setdefault(loop.variables[0].text, []).append(entered.level.index_set)
        outer = self.level
        shown = "'{}' is the variable of the loop in line " + f"{loop.header.line}, which has ended"
        self.inside(entered, shown, lambda: self._statements(loop))
        self.elements.end_loop(outermost=outer == self.base)

    def _statements(self, loop: syntax.Loop) -> None:
        for statement in loop.statements:
            self._elaborator.statement(statement)

    def inside(self, entered: Entered, shown: str, work: Callable[[], Entity | None]) -> Entity | None:
        """Does something in a loop: the names that it leaves behind are unknown afterwards."""
        elaborator = self._elaborator
        scope, outer_level, outer_names = elaborator.scope, self.level, self._outer
        elaborator.scope = {**scope, **entered.variables}
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
                elif name not in scope and entity is not None:
                    self.ended[name] = f"""'{name}' {local}["{name}"]"""
                else:
                    scope[name] = entity
            elaborator.scope, self.level, self._outer = scope, outer_level, outer_names

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
        elif self._structure.kind == "triples":
            self._report(f"a {self.family} has no data on elements: assign to a name", statement.target.extent)
        else:
            self._assign_data(statement, statement.target)

    def is_outer(self, name: str) -> bool:
        """Whether a name belongs to what stands around the loop."""
        return name in self._outer

    def report_outer(self, statement: syntax.Assignment, name: str) -> None:
        """About a name of the block around, assigned anew in a loop: it would change from element to element."""
        sums = f"""What is summed in a loop is data of the element around: {self._structure.example}["{name}"] += ..."""
        detail = sums if self.level.end else ""
        message = f"'{name}' stands outside of this loop and cannot be assigned in it: choose another name"
        self._report(message, statement.target.extent, detail)

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
            self.report_outer(statement, target.text)
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
        group, member = self._structure.group, self._structure.member
        if not isinstance(index, Index) or self.elements.owner(index) not in (group, member):
            message = f"'{text}' is no {group} and no {member}: data stands on {self._structure.words}"
            self._report(message, target.base.extent)
            return
        key = (self.elements.owner(index), name)
        if not self._check_name(key, target):
            return
        if index.member or (index.identity and index.name == self.level.index_set):
            if statement.operator:
                value = self._combine(statement, self._value_before(statement, target, key, index), value)
            self.elements.write(key, value, target.extent)
        elif index.name == self.level.end and statement.operator:
            value = self._reduce(statement, self.elements.data.get(key, 0), value)
            self.elements.write(key, value, target.extent)
            self.elements.begin_sum(key, target.extent)
        else:
            self._report_not_own(statement, target, text, name)
            self.elements.data[key] = None

    def _value_before(
        self, statement: syntax.Assignment, target: syntax.Data, key: tuple[str, str], index: Index
    ) -> Row | Constant | None:
        """The data that an update changes."""
        if key in self.elements.data:
            return self.elements.read(index, key[1], target.extent, target.name.extent)
        message = f"'{key[1]}' has no value yet: '{statement.operator}=' changes what is there"
        several = plural(self._structure.member)
        sums = f"In a loop over the {several} of a {self._structure.group} += sums, from 0."
        detail = sums if statement.operator == "+" else ""
        self._report(message, target.extent, detail)
        return None

    def _report_not_own(self, statement: syntax.Assignment, target: syntax.Data, text: str, name: str) -> None:
        """A loop writes on its own element; in the loop over a node's edges the node's data is summed."""
        if text and self.level.end and not statement.operator:
            fixes = [Fix("Use +=", statement.span, "+=")]
            member = self._structure.member
            sums = f"once for each {member}: += sums over the {plural(member)}"
            message = f"""'{text}["{name}"]' would be written {sums}"""
            self._report(message, statement.extent, fixes=fixes)
            return
        detail = f"""A sum over {plural(self._structure.member)} is: {self._structure.summed}["{name}"] += ..."""
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
        self, statement: syntax.Assignment, start: Row | Constant | int | None, value: Row | Constant | None
    ) -> Row | Constant | None:
        """`+=` in a loop over a node's edges: the sum, on top of what was there before the loop."""
        if statement.operator != "+":
            over = f"the {plural(self._structure.member)} of a {self._structure.group}"
            message = f"a loop over {over} sums with '+=': there is no '{statement.operator}='"
            self._report(message, statement.span)
            return None
        if value is None or start is None:
            return None
        operations = self._elaborator.operations
        site = OperationSite("+=", statement.span, statement.extent)
        total = operations.segment(site, "sum", operations.builder.row(value), self.level.end, self._structure.group)
        if isinstance(start, int) or (isinstance(start, Constant) and start.value == 0):
            return total
        return operations.elementwise(site, "add", (statement.target, statement.value), start, total)

    # Expressions

    def comprehension(self, node: syntax.Call, element: syntax.Comprehension) -> Row | Constant | None:
        """`sum(x[e.src] for e in n.incoming_edges())`, `sum(W[k] for k in 0..K)`."""
        if isinstance(element.iterator, syntax.Numbers):
            return self.unrolling.comprehension(node, element)
        return self.reductions.comprehension(node, element)

    def seen_from_here(self, entity: Entity | None, name: syntax.Name) -> Entity | None:
        """What a name of a loop over groups is in the loop over a group's members: a node is one of an edge's ends."""
        end, group, member = self.level.end, self._structure.group, self._structure.member
        if not end:
            return entity
        site = OperationSite(name.text, name.extent, name.extent)
        if isinstance(entity, Row):
            return self._elaborator.operations.gather_value(site, entity, Index(end, group, member))
        if isinstance(entity, Index) and entity.domain == group:
            path = end if entity.identity else f"{end}.{entity.name}"
            return Index(path, entity.index_set, member, entity.shown)
        return entity

    def data(self, node: syntax.Data, base: Entity | None) -> Row | Constant | None:
        """`e["x"]` in an expression."""
        if base is None:
            return None
        name = self._data_name(node)
        text = slice_text(self._elaborator.text, node.base.extent)
        if not isinstance(base, Index) or self._structure.kind == "triples":
            owners = "no node and no edge of a layer"
            if self._structure.group:
                owners = f"no {self._structure.group} and no {self._structure.member}"
            self._report(f"'{text}' is {owners}: it has no data", node.extent)
            return None
        return None if name is None else self.elements.read(base, name, node.extent, node.name.extent)

    def bind_letters(self, value: syntax.Expression) -> None:
        """Before the result: the variables of the definition's loops stand for any element of their sets once more."""
        nodes = list(syntax.walk_expression(value))
        own = {v.text for node in nodes if isinstance(node, syntax.Comprehension) for v in node.variables}
        for node in nodes:
            if not isinstance(node, syntax.Name) or node.text in own or node.text in self._elaborator.scope:
                continue
            if node.text in self.letters:
                index_set = self._set_of_letter(node.text, nodes)
                inside = index_set == self._structure.member and self.base.index_set != "unit"
                level = Level(index_set, self._structure.home if inside else "")
                if self.level not in (self.base, level):
                    owners = self._structure.words.replace(" and ", " or of ")
                    self._report(f"a result is of {owners}, not of both", value.extent)
                    self._elaborator.scope[node.text] = None
                    continue
                self._elaborator.scope[node.text] = Index(index_set, index_set, index_set, node.text)
                self.level = level

    def _set_of_letter(self, letter: str, nodes: list[syntax.Expression]) -> str:
        """The set that a loop variable went over; of several the one that has the data which is read of it."""
        sets = self.letters[letter]
        for node in nodes:
            if isinstance(node, syntax.Data | syntax.Attribute) and isinstance(node.base, syntax.Name):
                named = [entry for entry in sets if (entry, node.name.text) in self.elements.data]
                if node.base.text == letter and named:
                    return named[-1]
        return sets[-1]
