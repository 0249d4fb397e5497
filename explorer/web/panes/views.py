"""What the templates show, made from a compilation's JSON: panes, the rail's counts, the operations.

Nothing here knows the stages by name: they are those of `explorer.compiler.pipeline.STAGES`, in its order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from explorer.compiler.language.diagnostics import with_article
from explorer.compiler.pipeline import STAGES, StageSpec
from explorer.compiler.to_json import with_origins
from explorer.runtime.targets.table import TARGETS
from explorer.web.messages import Options, Schedule, Sizes
from explorer.web.panes.code import FIRST_LINES, Code, by_unit, difference, folds_at, in_chunks, lines_of
from explorer.web.panes.decisions import Nest
from explorer.web.panes.drawing import DRAWABLE, Drawing, draw
from explorer.web.panes.editing import Edit
from explorer.web.panes.passes import PassRow, Point, Points, lines_at, pass_row, points_beside
from explorer.web.panes.refusals import operations_of


class PaneState(BaseModel):
    """What a reader has chosen for one pane. `at` is the number of a pass; None is the stage's end. A difference is to
    what the pass was given, or to `versus`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    stage: str = Field(max_length=40)
    at: int | None = Field(default=None, ge=0, le=1_000)
    diff: bool = False
    passes: bool = False
    drawn: bool = False
    decisions: bool = True
    editing: bool = False
    versus: Point | None = None


class Choices(BaseModel):
    """The sizes, options and schedule of one side of a comparison."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    sizes: Sizes = {}
    options: Options = {}
    schedule: Schedule = {}


@dataclass(frozen=True)
class Pane:
    """A pane as the template shows it. `waiting` means that the stage is still to be made, `first` that it is in its
    first form and the best is still to be made, `again` that there may be more of it another time; `sides_are` says
    what the sides of a difference are, and `same` that a comparison of two sides found none. Where the stage's text was
    `edit`ed, what was found of it; `fork` is the edited stage that this one is made of."""

    index: int
    state: PaneState
    waiting: bool = False
    first: bool = False
    reason: str = ""
    again: bool = False
    ms: float = 0.0
    code: Code | None = None
    sides: tuple[Code, Code] | None = None
    units: tuple[Code, Code] | None = None
    drawing: Drawing | None = None
    sides_are: tuple[str, str] = ("", "")
    same: bool = False
    passes: tuple[PassRow, ...] = ()
    current: int = -1
    resources: tuple[Mapping[str, Any], ...] = ()
    nests: tuple[Nest, ...] = ()
    unasked: Mapping[str, str] = field(default_factory=dict)
    editable: bool = False
    edit: Edit | None = None
    fork: str = ""

    @property
    def shows(self) -> str:
        """Which of its texts the pane shows: "sides", "units", "code", or none."""
        if self.drawing is not None:
            return ""
        if self.sides and not self.same and not self.changed_nothing:
            return "sides"
        return "units" if self.units and not self.same and not self.changed_nothing else "code" if self.code else ""

    @property
    def texts(self) -> tuple[Code, ...]:
        """The texts that it shows."""
        found = getattr(self, self.shows) if self.shows else ()
        return (found,) if isinstance(found, Code) else found

    def with_texts(self, texts: tuple[Code, ...]) -> Pane:
        """The pane with others in their places."""
        values: Any = texts[0] if self.shows == "code" else texts
        return replace(self, **{self.shows: values}) if self.shows else self

    @property
    def resources_in_short(self) -> str:
        """What the kernels take of a GPU: of each figure the one that leaves the least room."""
        most = max(int(kernel["registers"]) for kernel in self.resources)
        spilled = sum(kernel["spill_store_bytes"] + kernel["spill_load_bytes"] for kernel in self.resources)
        fewest = min(self.resources, key=lambda kernel: int(kernel["occupancy_warps"]))
        several = f"{len(self.resources)} kernels, at most " if len(self.resources) > 1 else ""
        return (
            f"{several}{most} registers, {f'{spilled:,} B of' if spilled else 'no'} spills"
            f" · {fewest['occupancy_warps']} of {fewest['most_warps']} warps"
        )

    @property
    def resources_in_full(self) -> str:
        """A line for each kernel."""
        return "\n".join(f"{kernel['kernel']}: {kernel['text']}" for kernel in self.resources)

    @property
    def drawable(self) -> bool:
        """Whether the stage can be drawn as well as read."""
        return self.state.stage in DRAWABLE

    @property
    def changed_nothing(self) -> bool:
        """Whether a difference was asked for and there is none."""
        return self.state.diff and self.code is not None and bool(self.passes)

    @property
    def changes(self) -> str:
        """The numbers of the passes that changed something."""
        return " ".join(str(number) for number, row in enumerate(self.passes) if row.state == "changed")

    @property
    def tools(self) -> tuple[bool | None, ...]:
        """What can be done with it, as the template's macro takes it."""
        has_text = not self.waiting and not self.reason
        is_editable = self.editable and not self.waiting and (self.edit is not None or not self.reason)
        return (
            self.state.drawn if self.drawable and has_text else None,
            self.edit is not None and self.state.editing if is_editable else None,
            self.state.decisions if self.nests else None,
            self.state.passes,
            self.state.diff,
            bool(self.passes),
        )

    @property
    def points(self) -> tuple[Points, ...]:
        """What its passes can be compared with."""
        return points_beside(self.state.stage)

    @property
    def chosen_point(self) -> str:
        """The point that it is compared with, as the page's menu calls it: `slc.opt1 0`."""
        versus = self.state.versus
        return "" if not self.state.diff else "given" if versus is None else f"{versus.stage} {versus.at}"

    @property
    def change_before(self) -> int | None:
        """The nearest earlier pass that changed something."""
        changed = [number for number, row in enumerate(self.passes[: self.current]) if row.state == "changed"]
        return changed[-1] if changed else None

    @property
    def pass_name(self) -> str:
        """The pass whose outcome the pane shows."""
        return self.passes[self.current].name if self.passes else ""


@dataclass(frozen=True)
class RailStage:
    """A stage on the rail. `own` counts its lines by the operation that is their own; `aside` means that a later stage
    is made of an earlier one, past this; `late`, that it is made when a pane shows it; `fork` is the edited stage that
    it is, or is made of."""

    name: str
    title: str
    summary: str
    total: int | None
    open: bool
    aside: bool = False
    late: bool = False
    fork: str = ""
    own: tuple[tuple[int, int], ...] = ()

    @property
    def short(self) -> str:
        """The name beside its neighbours: `.opt1` after `slc`."""
        _, dot, level = self.name.partition(".")
        return dot + level or self.name


@dataclass(frozen=True)
class Rail:
    """The pipeline as the rail draws it: what all targets share, then a branch for each target."""

    trunk: tuple[RailStage, ...]
    branches: dict[str, tuple[RailStage, ...]]


def _own_lines(stage: Mapping[str, Any]) -> dict[int, int]:
    """By operation, how many of a stage's lines are its own."""
    found: dict[int, int] = {}
    for place, count in Counter([line["origin"] for line in stage["lines"]]).items():
        origin = stage["origins"][place]
        if origin["operations"] and not origin["made"]:
            operation = origin["operations"][0]
            found[operation] = found.get(operation, 0) + count
    return found


def own_lines(compiled: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    """By stage that is made in its best form the same."""
    return {name: _own_lines(stage) for name, stage in in_best_form(compiled).items()}


def labels_of(compiled: Mapping[str, Any]) -> dict[int, str]:
    """The operations' labels by their numbers."""
    return {operation["id"]: operation["label"] for operation in compiled["operations"]}


def in_best_form(compiled: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """A compilation's stages by name, without those in their first form: of these nothing is said but in their panes,
    where it stands that they are."""
    first = {spec.name for spec in STAGES if spec.on_demand and compiled.get("first")}
    return {name: stage for name, stage in _by_name(compiled).items() if name not in first}


def build_rail(compiled: Mapping[str, Any], panes: Sequence[PaneState], own: Mapping[str, Mapping[int, int]]) -> Rail:
    """The rail for a compilation with its `own_lines`; stages that it lacks have no count yet."""
    made = in_best_form(compiled)
    there = {stage["name"] for stage in compiled["stages"]}
    shown = {pane.stage for pane in panes}
    passed_by = _passed_by(compiled)
    trunk: list[RailStage] = []
    branches: dict[str, list[RailStage]] = {target: [] for target in TARGETS}
    for spec in STAGES:
        found = made.get(spec.name)
        stage = RailStage(
            spec.name,
            spec.title,
            spec.summary,
            None if found is None else len(found["lines"]),
            spec.name in shown,
            spec.name in passed_by,
            spec.on_demand or (spec.when_shown and spec.name not in there | shown),
            "" if found is None else found["fork"],
            tuple(sorted(own.get(spec.name, {}).items())),
        )
        (trunk if _followers(spec.name) > 1 or not spec.follows else branches[_branch(spec)]).append(stage)
    return Rail(tuple(trunk), {target: tuple(stages) for target, stages in branches.items()})


def _passed_by(compiled: Mapping[str, Any]) -> set[str]:
    """The levels beyond the one that the options chose."""
    level = compiled.get("options", {}).get("opt")
    return set() if level is None else {name for spec in STAGES for name in spec.levels[level + 1 :]}


def _followers(name: str) -> int:
    return sum(spec.follows == name for spec in STAGES)


def _branch(spec: StageSpec) -> str:
    """The target that a stage leads to; of what only shows what a target runs, that of the stage which it follows."""
    return _leads_to(spec) or _branch(next(other for other in STAGES if other.name == spec.follows))


def _leads_to(spec: StageSpec) -> str:
    behind = [found for other in STAGES if other.follows == spec.name and (found := _leads_to(other))]
    return next(iter((*spec.targets, *behind)), "")


def build_panes(
    compiled: Mapping[str, Any],
    states: Sequence[PaneState],
    against: Mapping[str, Any] | None = None,
    shown: slice = FIRST_LINES,
) -> tuple[Pane, ...]:
    """The panes for a compilation, those of a stage that it lacks wait; or, `against` another compilation of the same
    text, what differs from it. Of a text by itself the lines that are `shown`."""
    made = _by_name(compiled)
    best = in_best_form(compiled)
    labels = labels_of(compiled)
    panes = tuple(
        replace(
            _build_pane(index, state, made, labels, shown, compiled),
            first=state.stage in made and state.stage not in best,
            again=bool(compiled.get("stopped")),
            resources=_resources(state.stage, best),
        )
        for index, state in enumerate(states)
    )
    if against is None:
        return panes
    other, labels, names = _by_name(against), labels_of(against) | labels, _side_names(against, compiled)
    stages = [(other.get(pane.state.stage), made.get(pane.state.stage)) for pane in panes]
    return tuple(_compare(pane, *both, labels, names) for pane, both in zip(panes, stages, strict=True))


def _by_name(compiled: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {stage["name"]: stage for stage in compiled["stages"]}


def _compare(
    pane: Pane,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    labels: Mapping[int, str],
    names: tuple[str, str],
) -> Pane:
    """A pane that shows a stage's end as text, with side A before it."""
    if pane.code is None or pane.state.at is not None or before is None or after is None:
        return pane
    if before["text"] == after["text"]:
        return replace(pane, same=True, sides_are=names)
    old, new = (with_origins(stage, stage["lines"]) for stage in (before, after))
    sides = difference(pane.state.stage, old, new, labels)
    return replace(pane, sides=sides, sides_are=names)


def _side_names(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[str, str]:
    """What sets each side apart: the sizes, options and decisions that differ."""
    choices = [{**side["sizes"], **side["options"], **side["schedule"]} for side in (first, second)]
    names = dict.fromkeys([*choices[1], *choices[0]])
    differing = [name for name in names if choices[0].get(name) != choices[1].get(name)]

    def words(side: Mapping[str, Any]) -> str:
        return ", ".join(f"{name} {_in_words(side.get(name, 'usual'))}" for name in differing)

    return words(choices[0]), words(choices[1])


def _in_words(value: Any) -> str:
    """A choice as the page's controls have it: what is switched is on or off."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _resources(name: str, made: Mapping[str, Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """What the kernels of a stage take: its own figures, or those of what is compiled from it."""
    compiled = [spec.name for spec in STAGES if spec.follows == name]
    found = [made[stage]["resources"] for stage in (name, *compiled) if stage in made]
    return tuple(next(filter(None, found), ()))


def _build_pane(
    index: int,
    state: PaneState,
    made: Mapping[str, Mapping[str, Any]],
    labels: Mapping[int, str],
    part: slice,
    compiled: Mapping[str, Any],
) -> Pane:
    stage = made.get(state.stage)
    if stage is None:
        return Pane(index, state, waiting=True)
    if not stage["available"]:
        return Pane(index, state, reason=stage["reason"])
    names = operations_of(stage) if state.passes else {}
    passes = tuple(pass_row(report, names, labels) for report in stage["passes"])
    last = len(passes) - 1
    current = last if state.at is None else min(state.at, last)
    # The last pass ends where the stage does; of others a compilation was asked for the lines, where a pane shows them.
    shown = with_origins(stage, stage["lines"] if current == last else stage["passes"][current]["after"])
    pane = Pane(index, state, ms=stage["ms"], passes=passes, current=current)
    if state.diff and state.versus is not None and passes:
        return _beside(pane, lines_at(made, state.versus), shown, labels, part)
    if state.diff and passes:
        report = stage["passes"][current]
        before, after = (with_origins(stage, report[side]) for side in ("before", "after"))
        if [line["text"] for line in before] != [line["text"] for line in after]:
            return replace(pane, sides=difference(state.stage, before, after, labels))
    if state.drawn and pane.drawable:
        return replace(pane, drawing=draw(shown, compiled["counted"], compiled["options"]["apart"]))
    lines = lines_of(state.stage, shown, labels)
    return replace(pane, code=in_chunks(lines, folds_at(shown), part), units=by_unit(lines))


def _beside(
    pane: Pane,
    found: tuple[str, Sequence[Mapping[str, Any]]] | None,
    shown: Sequence[Mapping[str, Any]],
    labels: Mapping[int, str],
    part: slice,
) -> Pane:
    """A pane with its text beside another point's of the pipeline; as it is, where that is not there or the same."""
    stage, name = pane.state.stage, f"after {pane.pass_name}, {pane.state.stage}"
    other = "" if found is None else found[0]
    if found is None or [line["text"] for line in found[1]] == [line["text"] for line in shown]:
        code = in_chunks(lines_of(stage, shown, labels), folds_at(shown), part)
        return replace(pane, code=code, sides_are=(other, name))
    return replace(pane, sides=difference(stage, found[1], shown, labels), sides_are=(other, name))


def snapshots(panes: Iterable[PaneState]) -> set[str]:
    """The stages of which panes show texts before their end."""
    own = {pane.stage for pane in panes if pane.diff or pane.at is not None}
    return own | {pane.versus.stage for pane in panes if pane.diff and pane.versus is not None}


def last_change(compiled: Mapping[str, Any], name: str) -> int | None:
    """The last pass of a stage that changed something; None where there is none."""
    stage = _by_name(compiled).get(name)
    changed = [number for number, report in enumerate(stage["passes"] if stage else ()) if report["changed"]]
    return changed[-1] if changed else None


@dataclass(frozen=True)
class SourceLine:
    """The line of the model with the most operations: pieces of text, each with its operation where it has one."""

    number: int
    pieces: tuple[tuple[str, int | None], ...]


def source_line(text: str, compiled: Mapping[str, Any]) -> SourceLine:
    """What a narrow screen shows of the model above its stages."""
    on_one_line = [entry for entry in compiled["operations"] if entry["line"] == entry["end_line"]]
    number = Counter(entry["line"] for entry in on_one_line).most_common(1)[0][0] if on_one_line else 1
    line = text.split("\n")[number - 1]
    pieces: list[tuple[str, int | None]] = []
    at = len(line) - len(line.lstrip())
    for entry in sorted(on_one_line, key=lambda entry: int(entry["column"])):
        start, end = entry["column"] - 1, entry["end_column"] - 1
        if entry["line"] != number or start < at:
            continue
        pieces += [(line[at:start], None), (line[start:end], entry["id"])]
        at = end
    pieces.append((line[at:], None))
    return SourceLine(number, tuple(piece for piece in pieces if piece[0]))


OPERATOR_MEANINGS = {
    "gather_vec": "a row of a table, picked by an index",
    "gather_mat": "a matrix of a table, picked by an index",
    "gather": "a block of a table, picked by an index",
    "bmv": "vector times matrix, one matrix a row",
    "bvv": "dot product of two vectors a row",
    "bsv": "scalar times vector a row",
    "bmv_t": "a row's vector times its matrix transposed",
    "bov": "outer product of two vectors a row",
    "bov_t": "outer product of two vectors a row, transposed",
    "bmm": "matrix times matrix, one pair a row",
    "norm<1>": "sum of absolute values",
    "norm<2>": "square root of the sum of squares",
    "transpose": "a view with the last two dimensions exchanged",
    "concat": "one after another along the last dimension",
    "reshape": "the same elements under another shape",
    "add": "element by element",
    "sub": "element by element",
    "mul": "element by element",
    "div": "element by element",
}
"""What an operator of the graph does, in words (names: cuKE, Table III); others explain themselves."""


ROWS_OF = {"batch": "a triple", "negative": "a negative", "unit": "once"}
"""How often an index set's rows are computed, where its own name does not say it."""


def work_in_words(work: Mapping[str, int]) -> str:
    """The work of an operation: `64 FLOP an edge, 1 a node`."""
    if not work:
        return "none: it only moves data"
    each = [f"{flop:,} {{}}{ROWS_OF.get(name) or with_article(name)}" for name, flop in work.items()]
    return ", ".join([each[0].format("FLOP "), *(part.format("") for part in each[1:])])


KINDS = {"bags": "bag", "blocks": "query"}
"""What the lists of an op are called in the menu of data, by its structure; all others are matrices."""


def kind_of_lists(compiled: Mapping[str, Any]) -> str:
    """Which data sets an op runs on; "" for what is none."""
    graphs = [stage for stage in compiled["stages"] if stage["name"] in DRAWABLE and stage["available"]]
    if compiled.get("family") != "op" or not graphs:
        return ""
    heading = graphs[0]["lines"][0]["text"]  # op SLS over bags
    return KINDS.get(heading.split()[-1], "matrix")


def programs(compiled: Mapping[str, Any]) -> dict[str, str]:
    """By target the digest of the program that it runs, of the stages that are made."""
    made = _by_name(compiled)
    return {target: made[spec.name]["digest"] for spec in STAGES for target in spec.targets if spec.name in made}


class OperationFacts(NamedTuple):
    """What the page says of an operation; `counts` are the stages that have lines of its own, with how many."""

    id: int
    label: str
    op: str
    value: str
    depends: tuple[str, ...]
    work: tuple[tuple[str, int], ...]
    counts: tuple[tuple[str, int], ...]


def operation_facts(compiled: Mapping[str, Any], own: Mapping[str, Mapping[int, int]]) -> list[OperationFacts]:
    """The operations of a compilation with these `own_lines`."""
    return [
        OperationFacts(
            operation["id"],
            operation["label"],
            operation["op"],
            operation["value"],
            tuple(operation["depends"]),
            tuple(operation["work"].items()),
            tuple((stage, counts[operation["id"]]) for stage, counts in own.items() if operation["id"] in counts),
        )
        for operation in compiled["operations"]
    ]
