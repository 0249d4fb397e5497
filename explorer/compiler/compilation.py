"""A compilation: a model text with everything that was made of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from explorer.compiler.counts import ASSUMED, CountError, Counts, fitting, read_counts
from explorer.compiler.decisions import Pinned, Policy, Replay, Schedule, ScheduleTextError
from explorer.compiler.decisions import Value as Chosen
from explorer.compiler.edited.verdict import NOT_RUN, EditedStage, Read, Verdict
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.graph import Graph, Value, operator_name
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Span, operations_of
from explorer.compiler.ir.set_maps import sets_of
from explorer.compiler.ir.work import work_by_set
from explorer.compiler.kept import Kept
from explorer.compiler.language.check import check
from explorer.compiler.language.diagnostics import Diagnostic, DiagnosticsError
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.names.structures import NEGATIVE
from explorer.compiler.language.parsing.parse import parse
from explorer.compiler.options import OWN_NEGATIVES, USUAL_NEGATIVE_COUNT, Negatives, OptionError, Options, read_options
from explorer.compiler.pipeline import STAGES
from explorer.compiler.report import Report
from explorer.compiler.returned import for_each_returned
from explorer.compiler.stages import Program, Stage, Stages

if TYPE_CHECKING:
    from explorer.compiler.schedule.space import Nest, Space

DEEPEST_RECURSION = 20_000
"""Passes descend along chains of operations; the longest that a model may have needs less than this."""

Target = Callable[[Any, Mapping[str, Any]], tuple[Any, dict[str, Any]]]
"""Runs the program of a target's stage on arrays by name: the result, and gradients by tensor."""

Encoder = Callable[..., tuple[Mapping[str, Any], Callable[[Any, Mapping[str, Any]], tuple[Any, dict[str, Any]]]]]
"""From a compiled layer, a caller's arrays and the gradient of the result to the arrays that the layer's programs
read, and what makes of their outcome the one that the caller expects. It is given, since graphs are encoded by the
runtime, which knows the compiler and not the other way round."""


ModuleMaker = Callable[["Compilation", Mapping[str, int], Mapping[str, int], bool], Any]
"""Makes the PyTorch module of a compilation, of the sizes of sets and whether indices are checked; given, since the
runtime makes it."""


TargetsOf = Callable[["Compilation"], Mapping[str, Target]]
"""What a compilation runs on; given, as the makers of modules are."""


Prove = Callable[["Compilation", str, Read], tuple[Program, Verdict]]
"""Reads a program that somebody wrote in the place of a stage's, and says what is found of it; given, since the runtime
has the reference and draws the inputs."""


@dataclass(frozen=True)
class Operation:
    """An operation of the model text that is computed: the page's unit of highlighting.

    `span` is its operator or name, `extent` the whole expression; `work` counts
    the floating-point operations of all that it becomes, by the index set for each of whose rows they are done: a sum
    over the entries of a bag does them for each entry. It is empty for what only moves data."""

    id: int
    label: str
    span: Span
    extent: Span
    op: str
    value: str
    depends: tuple[str, ...]
    work: Mapping[str, int]


@dataclass(frozen=True)
class Compilation:
    """What `explorer.compile` returns. Without `ok` there are diagnostics and no stages. Machine code is in its best
    form, but for what `first_form` gives. `edits` are the stages whose text somebody has changed."""

    text: str
    name: str
    family: str
    sizes: Mapping[str, int]
    options: Options
    diagnostics: tuple[Diagnostic, ...]
    operations: tuple[Operation, ...]
    stages: Mapping[str, Stage]
    targets: Mapping[str, Target] = field(default_factory=dict, repr=False)
    targets_of: TargetsOf | None = field(default=None, repr=False)
    encode: Encoder | None = field(default=None, repr=False)
    make_module: ModuleMaker | None = field(default=None, repr=False)
    counts: Mapping[str, int] | None = field(default=None, repr=False)
    counted_on: str = field(default="", repr=False)
    asked: Schedule = field(default_factory=Schedule, repr=False)
    plain: Compilation | None = field(default=None, repr=False)
    first: bool = False
    prove: Prove | None = field(default=None, repr=False)
    edits: tuple[EditedStage, ...] = ()
    frozen: frozenset[str] = frozenset()

    @property
    def schedule(self) -> Schedule:
        """What was chosen for each kernel of the GPU: given to `compile`, it makes the same kernels. Empty where the
        model has none."""
        program = self.stages["kernels"].program if self.ok else None
        kernels = program.programs if isinstance(program, Module) else (program,)
        chosen = [own for kernel in kernels if isinstance(kernel, ScheduledKernel) for own in kernel.chosen]
        return Schedule(tuple((f"{kernel}.{name}", value) for kernel, own in chosen for name, value in own))

    def space(self) -> Space:
        """What `schedule` may say: every nest's decisions, each with what is valid in its place, and how many schedules
        there are. Raises ValueError where the model has no kernels for a GPU."""
        from explorer.compiler.schedule.space import space

        return space(*self._to_schedule())

    def choosable(self) -> dict[str, Nest]:
        """The same nest by nest, each to be asked what it leaves to choose where something is chosen. Raises
        ValueError where the model has no kernels for a GPU."""
        from explorer.compiler.schedule.space import nests_of

        return nests_of(*self._to_schedule())

    @property
    def rows(self) -> Counts:
        """How many rows each index set has in what is counted."""
        counts = ASSUMED if self.counts is None else read_counts(self.counts, self.counted_on)
        if not isinstance(self.stages, Stages):
            return counts
        return fitting(counts, self.family, *sets_of(self.stages.checked))

    def _to_schedule(self) -> tuple[Any, Report]:
        """The loops as they are scheduled, and a report for that. Raises ValueError where no schedule fits them."""
        if not self.ok or self.stages["kernels"].program is None:
            raise ValueError(self.stages["kernels"].reason if self.ok else "this compilation has errors")
        counts, policy = self.rows, Replay(self.asked, Pinned(self.options))
        (stage,) = (spec for spec in STAGES if spec.name == "kernels")
        program: Any = self.stages[stage.follows].program
        for step in stage.passes[:-1]:
            program = step(program, Report(self.options, counts, policy))
        return program, Report(self.options, counts, policy)

    @property
    def ok(self) -> bool:
        """Whether the text is a model."""
        return bool(self.stages)

    def first_form(self) -> Compilation:
        """The same with PTX and SASS in their first form, which is there in a third of the time: the same kernels,
        whose loops are not unrolled. To be looked at until the best form is made, and not to be timed."""
        assert isinstance(self.stages, Stages)
        return replace(self, stages=self.stages.first_form(), first=True)

    @property
    def may_part(self) -> bool:
        """Whether `apart` may be asked for: not again, nor of what somebody edited."""
        return not self.options.apart and not self.edits

    def with_options(self, **changed: str | int | bool) -> Compilation:
        """The same model compiled with some options changed, each stage when it is first asked for."""
        return compile_model(
            self.text,
            sizes=self.sizes,
            options=self.options.to_json() | changed,
            name=self.name,
            targets_of=self.targets_of,
            encode=self.encode,
            make_module=self.make_module,
            counts=self.counts,
            counted_on=self.counted_on,
            on_demand=True,
            schedule=self.asked,
            edited={edit.stage: edit.text for edit in self.edits},
            prove=self.prove,
            frozen=self.frozen,
        )

    def with_frozen(self, tensors: frozenset[str]) -> Compilation:
        """The same model whose backward pass computes no gradient of these tensors, nor what only they need, each stage
        when it is first asked for."""
        return self if tensors == self.frozen else replace(self, frozen=tensors).with_options()

    def with_edited(self, edited: Mapping[str, str]) -> Compilation:
        """The same model where the texts of some stages are others, each read, verified and held against the reference
        on small inputs; what follows is made of them. What is found of each is in `edits`: one that is refused leaves
        its stage to the compiler, and of one that is wrong nothing is made."""
        if not (self.ok and edited):
            return self
        from explorer.compiler.edited.forking import fork  # which loads the parsers of the stages

        assert isinstance(self.stages, Stages)
        stages, edits = self.stages, list[EditedStage]()
        for name in [*(spec.name for spec in STAGES if spec.name in edited), *(edited.keys() - self.stages.keys())]:
            edit, stages = fork(stages, name, edited[name], partial(self.prove or unproved, self))
            edits.append(edit)
        changed = replace(self, stages=stages, edits=tuple(edits))
        return replace(changed, targets=self.targets_of(changed)) if self.targets_of else changed

    def with_counts(self, counts: Mapping[str, int], counted_on: str = "") -> Compilation:
        """The same model with its costs counted on a graph or a matrix of these sizes, each stage when it is first
        asked for. Raises CountError where they are of another family's."""
        assert isinstance(self.stages, Stages)
        rows = fitting(read_counts(counts, counted_on), self.family, *sets_of(self.stages.checked))
        assert not self.edits, "what somebody edited was made for the counts of before"
        stages = self.stages.with_counts(rows)
        changed = replace(self, counts=counts, counted_on=counted_on, stages=stages, plain=None)
        return replace(changed, targets=self.targets_of(changed)) if self.targets_of else changed

    def with_schedule(self, schedule: Mapping[str, Chosen]) -> Compilation:
        """The same model with another schedule, each stage when it is first asked for: of its nests only those are
        scheduled again that would become something else. Raises ScheduleTextError."""
        asked = Schedule.of(schedule)
        stages = self.stages
        assert isinstance(stages, Stages)
        stages = stages.with_policy(Replay(asked, Pinned(self.options)))
        changed = replace(self, asked=asked, stages=stages, plain=self.plain or (None if self.asked else self))
        return replace(changed, targets=self.targets_of(changed)) if self.targets_of else changed

    @property
    def usual(self) -> Schedule:
        """What would be chosen if nobody asked for anything."""
        return (self.plain or self.with_schedule({})).schedule if self.asked else self.schedule

    @property
    def nests(self) -> Kept[Any]:
        """The nests that are kept of all schedules of this text, and how many had to be scheduled."""
        assert isinstance(self.stages, Stages)
        return self.stages.kept

    def to_json(
        self,
        stages: Iterable[str] | None = None,
        snapshots: Iterable[str] | None = None,
        effects: Iterable[str] | None = None,
    ) -> dict[str, Any]:
        """The JSON of `explorer.compiler.to_json`, of all stages or of those named, with the lines before and after
        each pass of these, or of those that `snapshots` names, and what each changed in figures, or of `effects`."""
        from explorer.compiler.to_json import compilation_json

        return compilation_json(self, stages, snapshots, effects)

    def run(self, inputs: Mapping[str, Any], on: str, grad: Any = None) -> Any:
        """The result, float32: scores [B], or [B, N] with negatives; a layer's rows, one for each node or edge; an
        op's, one for each bag, row, nonzero or entry. Where the definition returns several, a tuple of them.

        `inputs` holds arrays by name: index maps, and every tensor; for a layer `src`, `dst`, and where they are not
        to be derived `etype`, `ntype`, `num_nodes`, `num_etypes` and `num_ntypes`; for an op `ptr`, `idx`, `weight`
        (bags), `rowptr` or `row`, `col`, `value`, `num_rows`, `num_cols` (matrices), `ptr`, `blocks` (block gathers).
        With `grad`, the gradient of the result, or a tuple of those of several, it returns also a dict of gradients by
        tensor (compile with the option grad). `on` is a target ("cpu", "dae"), or a stage with an interpreter (graph,
        loops, kernels, all of slc and dlc). Raises ValueError for another `on`, where the text was no model, or where
        the arrays do not fit it."""
        if not self.ok:
            raise ValueError("this compilation has errors: " + "; ".join(d.message for d in self.diagnostics))
        from explorer.compiler.interpret import run_program
        from explorer.compiler.interpret.inputs import check_inputs, each_fact

        stage_of = {target: spec.name for spec in STAGES for target in spec.targets if target in self.targets}
        stage = self.stages.get(stage_of.get(on, on))
        if stage is None or stage.program is None:
            raise ValueError(stage.reason if stage else f"there is no stage or target '{on}'")
        if grad is not None and not self.options.grad:
            raise ValueError("there is no backward pass in this compilation: compile with the option grad")
        run: Target = self.targets.get(on, run_program)
        graph, negatives = self.stages["graph"].program, self.options.negatives
        assert isinstance(graph, Graph)
        if self.encode is None or graph.is_one_nest:
            check_inputs(graph, inputs, negatives.count if negatives else 0)
            result, gradients = run(stage.program, each_fact(graph, inputs))
        else:
            arrays, finish = self.encode(self, inputs, grad)
            result, gradients = finish(*run(stage.program, arrays))
        if negatives and negatives.replaces:  # which kernels of a GPU may see as one set with the triples
            result = for_each_returned(
                lambda scores, name: scores.reshape(-1, negatives.count, *map(graph.size, graph.value(name).shape)),
                result,
                graph.results,
            )
        return result if grad is None else (result, gradients)

    def torch(self, *, check_indices: bool = True, padding: Mapping[str, int] | None = None, **sizes: int) -> Any:
        """A `torch.nn.Module` that computes this model, on CPU and CUDA tensors, with autograd; a call returns a tuple
        where the definition returns several.

        `sizes` are those of the sets that parameters are over (`entity=14_541, relation=237`, `etype=474`): a `param`
        of known sizes is a parameter of the module, drawn at random; every other tensor is given to each call by name.
        `score = c.torch(entity=..., relation=...); score(h, r, t)`; `layer(src, dst, etype, x=x)`, or `layer(graph,
        x=x)` with `graph = layer.prepare(src, dst, etype)`; `op(ptr, idx, T=table)`. Indices may have any integer type.
        `padding` names the row of a set that stands for nothing (`row=10_000, padding={"row": 0}`): drawn as zeros, and
        without a gradient, as by `torch.nn.Embedding(padding_idx=0)`; a mean counts it.
        `check_indices=False` leaves out the check that ids have rows, for which a GPU must be waited for: so that a
        step can be captured as a CUDA graph (`torch.cuda.make_graphed_callables`), after a call of the same shapes.
        Raises ValueError where the text was no model or a size is of no set, ImportError without PyTorch."""
        if not self.ok:
            raise ValueError("this compilation has errors: " + "; ".join(d.message for d in self.diagnostics))
        if self.make_module is None:
            raise ValueError("a compilation of explorer.compile has a module; this one was made without a runtime")
        return self.make_module(self, sizes, padding or {}, check_indices)


def compile_model(
    text: str,
    *,
    sizes: Mapping[str, int] | None = None,
    options: Mapping[str, str | int | bool] | None = None,
    name: str | None = None,
    targets_of: TargetsOf | None = None,
    encode: Encoder | None = None,
    make_module: ModuleMaker | None = None,
    counts: Mapping[str, int] | None = None,
    counted_on: str = "",
    on_demand: bool = False,
    schedule: Mapping[str, Chosen] | str | None = None,
    policy: Policy | None = None,
    edited: Mapping[str, str] | None = None,
    prove: Prove | None = None,
    kept: Kept[Any] | None = None,
    frozen: frozenset[str] = frozenset(),
) -> Compilation:
    """Compiles a model text through every stage, or where it is `on_demand`, through each when it is first asked for.

    `sizes` override the model's dims, `options` are those of `explorer.compiler.options`, `name` picks a definition
    (the last one otherwise), `targets_of` makes what `Compilation.run` knows beside the interpreters, `encode` makes
    the arrays of a layer, `make_module` its module of PyTorch, `counts` how many nodes, edges and so on
    (`explorer.compiler.counts`) the graph or the matrix has that costs are counted on, `counted_on` what to call it;
    of a score they are the `batch`, the facts that it mostly gets at a time. `schedule` is what to choose for kernels
    of the GPU, by kernel and decision or as it is printed, and what it leaves open the options and the heuristics
    choose, or a `policy`. `edited` are texts for stages in the place of those that the compiler prints
    (`Compilation.with_edited`), of which `prove` finds whether they are right. Nests that are `kept` from texts
    compiled before are not scheduled again. Of tensors that are `frozen` a backward pass computes no gradient.
    Errors of the text are in `diagnostics`; nothing is raised for them."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), DEEPEST_RECURSION))
    chosen = Options()
    try:
        chosen = read_options(options or {})
        rows = ASSUMED if counts is None else read_counts(counts, counted_on)
        asked = Schedule.parse(schedule) if isinstance(schedule, str) else Schedule.of(schedule or {})
        checked = check(parse(text), text, sizes or {}, chosen.negatives, name)
    except (OptionError, CountError, ScheduleTextError) as error:
        return _failed(text, chosen, (Diagnostic(message=str(error), span=None),))
    except DiagnosticsError as error:
        return _failed(text, chosen, error.diagnostics)
    if checked.graph is None:
        return _failed(text, chosen, checked.diagnostics)
    edges = chosen.edges if checked.graph.family == "layer" else checked.graph.edges
    graph = replace(checked.graph, edges=edges, frozen=frozen)
    if chosen.negatives is None and any(entry.domain == NEGATIVE for entry in graph.maps):
        chosen = replace(chosen, negatives=Negatives(OWN_NEGATIVES, USUAL_NEGATIVE_COUNT))
    try:
        rows = fitting(rows, graph.family, *sets_of(graph))
    except CountError as error:
        return _failed(text, chosen, (Diagnostic(message=str(error), span=None),))
    report = Report(chosen, rows, Replay(asked, policy or Pinned(chosen)), kept=kept or Kept())
    compilation = Compilation(
        text=text,
        name=graph.name,
        family=graph.family,
        sizes=dict(graph.sizes),
        options=chosen,
        diagnostics=checked.diagnostics,
        operations=_operations(graph, checked.operations),
        stages=Stages(graph, report, on_demand),
        targets_of=targets_of,
        encode=encode,
        make_module=make_module,
        counts=counts,
        counted_on=counted_on,
        asked=asked,
        prove=prove,
        frozen=frozen,
    )
    if targets_of:
        compilation = replace(compilation, targets=targets_of(compilation))
    return compilation.with_edited(edited or {})


def unproved(compilation: Compilation, stage: str, read: Read) -> tuple[Program, Verdict]:
    """Where nobody has a reference: what is verified stands."""
    return read(), NOT_RUN


def _failed(text: str, options: Options, diagnostics: tuple[Diagnostic, ...]) -> Compilation:
    return Compilation(
        text=text, name="", family="", sizes={}, options=options, diagnostics=diagnostics, operations=(), stages={}
    )


def _operations(graph: Graph, sites: Iterable[OperationSite]) -> tuple[Operation, ...]:
    """The operations that a graph computes, with the value that each ends in."""
    made: dict[Span, list[Value]] = {}
    for value in graph.values:
        for span in operations_of(value.origin):
            made.setdefault(span, []).append(value)
    last = {span: values[-1] for span, values in made.items()}
    found = [site for site in sites if site.span in last]
    return tuple(
        Operation(
            id=number,
            label=site.label,
            span=site.span,
            extent=site.extent,
            op=operator_name(last[site.span].operator, last[site.span].shape),
            value=f"{last[site.span].index_set} [{', '.join(str(e) for e in last[site.span].shape)}]",
            depends=last[site.span].depends,
            work=work_by_set(graph, made[site.span]),
        )
        for number, site in enumerate(sorted(found, key=lambda site: site.span))
    )
