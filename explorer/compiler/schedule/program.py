"""Loops to scheduled kernels: each nest by the strategy that is chosen for it, or the first usual one that fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

from explorer.compiler.decisions import grouped
from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.index_sets import STARTS
from explorer.compiler.ir.kernels import Count, ScheduledKernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import VerificationError, walk
from explorer.compiler.ir.print.in_place import written_in_place
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.report import Mark, Report, ScheduledNest
from explorer.compiler.schedule.distribute.by_elements import add_elements
from explorer.compiler.schedule.distribute.chunk_parts import chunks_first
from explorer.compiler.schedule.distribute.duplicates import Repeated
from explorer.compiler.schedule.distribute.fission import split_stages, walked_by_few
from explorer.compiler.schedule.distribute.flatten_negatives import flatten_negatives
from explorer.compiler.schedule.distribute.join_segments import join_segments
from explorer.compiler.schedule.distribute.join_sums import joined, sums_together
from explorer.compiler.schedule.distribute.long_sums import added, sum_in_pieces
from explorer.compiler.schedule.distribute.products.cut_products import cut_products
from explorer.compiler.schedule.distribute.products.split_terms import split_terms
from explorer.compiler.schedule.distribute.scatter import scatter_sums
from explorer.compiler.schedule.distribute.split_rows import split_rows
from explorer.compiler.schedule.distribute.split_segments import split_segments
from explorer.compiler.schedule.distribute.split_sums import split_sums
from explorer.compiler.schedule.distribute.unit_rows import clear_together, rows_of_one
from explorer.compiler.schedule.edit.dead_code import without_unread
from explorer.compiler.schedule.edit.guards import within_extents
from explorer.compiler.schedule.fitting import nearest
from explorer.compiler.schedule.gemm.outer_products import schedule_outer_products
from explorer.compiler.schedule.gemm.strategy import Groupings, schedule_pairs, schedule_products
from explorer.compiler.schedule.inspect.compressed import Compression
from explorer.compiler.schedule.match.outer_products import find_outer_sum
from explorer.compiler.schedule.repack import padded, repack
from explorer.compiler.schedule.reuse import Trials, scheduled_once
from explorer.compiler.schedule.segments.by_parts import OF_PARTS, in_parts, waits_long
from explorer.compiler.schedule.segments.by_rows import schedule_rows
from explorer.compiler.schedule.segments.strategy import OF_SUMS, usual_of_sums
from explorer.compiler.schedule.shared_lists.strategy import schedule_shared_lists
from explorer.compiler.schedule.shared_out import is_shared_out, is_soon_merged
from explorer.compiler.schedule.strategies import (
    CHUNKS,
    CUT_PRODUCTS,
    ELEMENTS,
    GEMM,
    GEMM_OF_SUMS,
    LONG_SUMS,
    OUTER_PRODUCTS,
    ROWS,
    SEGMENT_PARTS,
    SHARED_LISTS,
    SPLIT_ELEMENTS,
    SPLIT_ROWS,
    SPLIT_SEGMENTS,
    SPLIT_SUMS,
    SPLIT_TERMS,
    STAGES,
    STRATEGY,
    WARPS,
    misfit,
)
from explorer.compiler.schedule.together import named_apart, streaming, with_count
from explorer.compiler.schedule.unread import say_unread
from explorer.compiler.schedule.warps.iterations import warps
from explorer.compiler.schedule.warps.runs import RUN, InRuns, in_runs
from explorer.compiler.schedule.warps.strategy import SHARED_BYTES, RowsTooLarge, schedule_warps
from explorer.compiler.unsupported import Unsupported

PARTS = (CUT_PRODUCTS, SPLIT_SUMS, STAGES, SPLIT_TERMS, SPLIT_ROWS, SEGMENT_PARTS, SPLIT_SEGMENTS, SPLIT_ELEMENTS)
"""The strategies that take a nest apart, whose kernels are scheduled in their turn."""
Made = ScheduledKernel | loops.Kernel
Step = TypeVar("Step", ScheduledKernel, Made)
"""A scheduled kernel, or one that may still be to schedule."""


def schedule(program: loops.Kernel | Module, report: Report) -> ScheduledKernel | Module:
    """The program's kernels scheduled; raises Unsupported, with a sentence, for one that no template fits."""
    if isinstance(program, loops.Kernel):
        result = next(buffer.name for buffer in program.buffers if buffer.kind == "output")
        kernels = padded(_scheduled((program,), (), None, report), (result,), report)
        kernels = _finished((program,), kernels, report)
        say_unread(program, kernels, report)
        if len(kernels) == 1 and all(b.kind != "output" or b.name == result for b in kernels[0].buffers):
            return kernels[0]
        steps = streaming((result,), kernels)
        return Module(origin=program.origin, name=program.name, result=result, gradients=(), programs=steps)
    nests = tuple(kernel for kernel in program.programs if isinstance(kernel, loops.Kernel))
    steps = repack(_scheduled(nests, program.kept, program, report), program.packed, report)
    steps = _finished(nests, padded(steps, program.kept, report), report)
    say_unread(program, steps, report)
    return replace(program, programs=streaming(program.results, steps), inverses=(), products=(), packed=())


def _finished(
    nests: tuple[loops.Kernel, ...], kernels: tuple[ScheduledKernel, ...], report: Report
) -> tuple[ScheduledKernel, ...]:
    """The kernels as they are printed: shown to stay inside their arrays, index arithmetic where it is read."""
    return tuple(map(written_in_place, within_extents(nests, kernels, report)))


def _scheduled(
    nests: tuple[loops.Kernel, ...], kept: tuple[str, ...], module: Module | None, report: Report
) -> tuple[ScheduledKernel, ...]:
    """The kernels of a program's nests, in order, of which a caller gets the arrays `kept`, within the shared memory
    that a block has on every GPU; where some kernel needs more, within what this GPU gives a block."""
    said, refused = report.mark(), list(report.refusals)
    try:
        return _scattered(nests, kept, module, report, SHARED_BYTES)
    except Unsupported:
        report.back_to(said)
        report.refusals[:] = refused  # they are refused again, or not
        return _scattered(nests, kept, module, report, report.target.shared_most)


def _scattered(
    nests: tuple[loops.Kernel, ...],
    kept: tuple[str, ...],
    module: Module | None,
    report: Report,
    most_bytes: int,
) -> tuple[ScheduledKernel, ...]:
    """With what a batch's sums are scattered, and its negatives flattened; where some kernel of those cannot be made,
    as the nests are. Where there are none of either, no other way could need less shared memory than this one."""
    said, changed = report.mark(), True
    try:
        inverses, products = (module.inverses, module.products) if module is not None else ((), ())
        scattered = scatter_sums(nests, inverses, products, report)
        flat = flatten_negatives(scattered, report, every=report.options.inspect == "chunks")
        changed = flat.count is not None or list(map(id, flat.kernels)) != list(map(id, nests))
        most = most_bytes if changed else report.target.shared_most
        return tuple(with_count(step, flat.count) for step in _each_scheduled(flat.kernels, kept, report, most))
    except Unsupported as error:
        if not changed:
            raise
        report.back_to(said)
        report.refused(f"{nests[0].name}: neither scattered nor flattened: {error}")
        return _each_scheduled(nests, kept, report, most_bytes)


def _each_scheduled(
    nests: tuple[loops.Kernel, ...], kept: tuple[str, ...], report: Report, most_bytes: int
) -> tuple[ScheduledKernel, ...]:
    scheduling, first = _Scheduling.of(nests, report, kept, most_bytes), len(report.choices)
    if report.nests is not None:
        report.nests.clear()
    made: list[tuple[int, int]] = []
    steps: list[ScheduledKernel] = []
    compression = Compression(nests, scheduling.groupings.names, report)
    for nest in nests:
        if report.nests is not None:
            report.nests[nest.name] = partial(scheduling.apart().again, nest)
        steps += compression.encoded(scheduling.kernels_once(nest))
        made.append((len(steps), len(report.choices)))
    named = named_apart(steps)
    begins = [(0, first), *made[:-1]]
    report.scheduled = [
        ScheduledNest(nest.name, tuple(kernel.name for kernel in named[a:b]), tuple(report.choices[c:d]))
        for nest, (a, c), (b, d) in zip(nests, begins, made, strict=True)
    ]
    return named


@dataclass(frozen=True)
class _Scheduling:
    """What the kernels of a module have in common."""

    groupings: Groupings
    repeated: Repeated
    maps: Mapping[str, loops.Buffer]
    report: Report
    most_bytes: int
    counts: dict[str, Count] = field(default_factory=dict)
    trials: Trials = field(default_factory=Trials)

    @classmethod
    def of(cls, nests: Sequence[loops.Kernel], report: Report, kept: Sequence[str], most_bytes: int) -> _Scheduling:
        """Nothing yet, of a module of these nests, of which a caller gets the arrays `kept`; a block that one warp's
        rows fill has `most_bytes` of shared memory."""
        groupings = Groupings.of(nests, report.options.edges, kept)
        return cls(groupings, Repeated.of(nests), _maps_of(nests), report, most_bytes)

    def copy(self) -> _Scheduling:
        """The same, which what is done from here on does not change."""
        repeated = replace(self.repeated, made=self.repeated.made.copy(), names=self.repeated.names.copy())
        groupings = replace(self.groupings, made=self.groupings.made.copy())
        return replace(self, groupings=groupings, repeated=repeated, trials=Trials())

    def apart(self) -> _Scheduling:
        """The same, that shares nothing with what is done from here on, the names that it gives neither."""
        before = self.copy()
        groupings = replace(before.groupings, names=self.groupings.names.copy())
        return replace(before, groupings=groupings, counts=dict(self.counts))

    def again(self, kernel: loops.Kernel, report: Report) -> tuple[ScheduledKernel, ...]:
        """A nest's kernels by themselves, chosen and reported elsewhere, with what was grouped before it, and under the
        names that it gets here: those given are free again for the next time."""
        names = self.groupings.names
        mark = names.mark()
        try:
            return replace(self.copy(), report=report, counts=dict(self.counts)).kernels(kernel)
        finally:
            names.back_to(mark)

    def kernels_once(self, kernel: loops.Kernel) -> tuple[ScheduledKernel, ...]:
        """A nest's kernels, those of before where they would be the same."""
        module = tuple(sorted(self.maps.items(), key=itemgetter(0))), self.repeated.wanted, self.groupings.handed
        made_of = (kernel, self.most_bytes, *module)
        return scheduled_once(made_of, self.report, self.groupings, self.repeated, lambda: self.kernels(kernel))

    def kernels(self, kernel: loops.Kernel) -> tuple[ScheduledKernel, ...]:
        """A nest's kernels, of the strategy that the policy wants, or the first of the usual ones that fits; those of
        what a strategy leaves of the nest, or splits it into, are scheduled in their turn."""
        kernel, report = self.repeated.reading(kernel), self.report
        report.enter(kernel.name)
        wanted = str(report.choose(kernel.name, STRATEGY, ""))
        for strategy in (*filter(None, (wanted,)), *self._usual(kernel)):
            report.settle(kernel.name, STRATEGY, strategy)
            before, said = self._made_before(), (report.mark(), self.groupings.names.mark())
            if steps := self._attempt(strategy, kernel, strategy == wanted):
                report.settle(kernel.name, STRATEGY, strategy, misfit(wanted) if wanted else "")
                parts = strategy in PARTS
                following = self._part if parts else self.kernels
                each = ((step,) if isinstance(step, ScheduledKernel) else following(step) for step in steps)
                try:
                    found = tuple(self._counted(kernel) for kernels in each for kernel in kernels)
                except RowsTooLarge:
                    raise
                except Unsupported as error:  # of a part: the nest is whole again for the next strategy
                    report.refused(f"{kernel.name} is not scheduled by {strategy}: {error}")
                    self._back_to(*before, *said)
                    continue
                return self._cleared_together(kernel, found) if strategy == STAGES else found
        raise Unsupported(f"No strategy's kernels for {kernel.name} can be shown to be right.")

    def _made_before(self) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
        """What nests share, as it is now."""
        return self.groupings.made.copy(), self.repeated.made.copy(), self.repeated.names.copy()

    def _back_to(
        self, groupings: dict[Any, Any], repeated: dict[Any, Any], names: dict[Any, Any], said: Mark, named: int
    ) -> None:
        """Forgets what has been scheduled since."""
        self.groupings.made = groupings
        self.groupings.names.back_to(named)
        self.repeated.made, self.repeated.names = repeated, names
        self.report.back_to(said)

    def _usual(self, kernel: loops.Kernel) -> Iterator[str]:
        """The strategies that a nest may have, the best first: by chunks, where the options ask for it; by its
        products, if it starts with some, or once these are cut out; by its parts, where its sums are split; by a
        strategy of sums where one is for it; else a warp an iteration."""
        if self.report.options.inspect == "chunks":
            yield CHUNKS
        yield SHARED_LISTS
        yield from (GEMM, GEMM_OF_SUMS, CUT_PRODUCTS, SPLIT_SUMS, STAGES, SPLIT_TERMS)
        yield from (SPLIT_ROWS, OUTER_PRODUCTS, LONG_SUMS)
        for strategy in usual_of_sums(kernel, self.report):
            if strategy == ROWS:
                yield from self._before_rows(kernel)
            yield strategy
        if walked_by_few(kernel):
            yield from (SPLIT_ELEMENTS, ELEMENTS)
        yield SEGMENT_PARTS
        if kernel.template != OF_PARTS:  # whose iterations are short, and alike
            yield SPLIT_SEGMENTS
        yield WARPS

    def _before_rows(self, kernel: loops.Kernel) -> Iterator[str]:
        """What is tried of a nest before its rows are walked from their first element to their last."""
        if usual_of_sums(kernel, self.report)[:-1] or waits_long(kernel, self.report):
            yield SEGMENT_PARTS
        if self.report.options.split == "auto" and kernel.template != OF_PARTS:
            yield SPLIT_SEGMENTS

    def _attempt(self, strategy: str, kernel: loops.Kernel, wanted: bool) -> tuple[Made, ...]:
        """What a strategy makes of a nest, shown to be right; nothing, and nothing grouped, done or chosen, where it
        does not fit."""
        made, said, named = self.groupings.made.copy(), self.report.mark(), self.groupings.names.mark()
        try:
            steps = self._told(self._made(strategy, kernel) or ())
        except Unsupported as error:
            if not wanted:
                raise
            self.report.refused(f"{kernel.name} is not scheduled by {strategy}: {error}")
            steps = ()
        if shown := _shown_right(kernel, steps, self.report):
            return shown
        self.groupings.made = made
        self.groupings.names.back_to(named)
        self.report.back_to(said)
        return ()

    def _made(self, strategy: str, kernel: loops.Kernel) -> Sequence[Made] | None:
        """What a strategy makes of a nest; nothing where it does not fit."""
        report, groupings, names = self.report, self.groupings, self.groupings.names
        match strategy:
            case "chunks":
                return chunks_first(kernel, names, report)
            case "shared_lists":
                return schedule_shared_lists(kernel, names, report)
            case "gemm":
                return schedule_products(kernel, groupings, report)
            case "gemm_of_sums":
                return schedule_pairs(kernel, groupings, report)
            case "cut_products":
                return cut_products(kernel, names, report)
            case "split_sums":
                return split_sums(kernel, names)
            case "stages":
                return self._stages(kernel)
            case "split_terms":
                return split_terms(kernel, names)
            case "split_rows":
                return split_rows(kernel, names, self.maps, self.groupings.edges)
            case "long_sums":
                return self._in_pieces(kernel)
            case "split_segments":
                return self._segments_apart(kernel)
            case "split_elements":
                return split_rows(kernel, names, self.maps, self.groupings.edges, always=True)
            case "elements":
                return [self._warps_of(each, kernel) for each in add_elements(kernel, self.maps, groupings.edges)]
            case "segment_parts":
                return self._in_segment_parts(kernel)
            case "outer_products":
                return schedule_outer_products(kernel, groupings, report)
            case "warps":
                return self._warps(kernel)
        sums = join_segments(kernel)
        tried = self.trials.take(strategy, sums, report)
        found = OF_SUMS[strategy](sums, report) if tried is None else tried
        if walked_by_few(kernel) and not all(is_shared_out(e) or is_soon_merged(e, report.counts) for e in found):
            report.refused(f"{kernel.name} is not scheduled by {strategy}: few blocks would go through all elements")
            return ()
        return found

    def _warps_of(self, kernel: loops.Kernel, nest: loops.Kernel) -> ScheduledKernel:
        """A kernel of a nest that clears, or adds to what is cleared, a warp an iteration."""
        if kernel.name != nest.name:
            self.report.enter(kernel.name)
        return schedule_warps(kernel, self.report, self.most_bytes)

    def _stages(self, kernel: loops.Kernel) -> list[loops.Kernel]:
        """The kernels of a nest's long sums, those together that can be, and of what is between them."""
        found: list[loops.Kernel] = []
        for group in sums_together(split_stages(kernel, self.groupings.names), self._is_plain):
            together = joined(group, self.groupings.names) if len(group) > 1 else None
            if together is not None and self._has_rows(together):
                found.append(together)
            else:
                found += [each for part in group for each in rows_of_one(part)]
        return found

    def _is_plain(self, kernel: loops.Kernel) -> bool:
        """Whether a nest's long sum is taken as it is, in pieces: it is none of outer products, and of an element's own
        numbers."""
        names = self.groupings.names
        rows = split_rows(kernel, names, self.maps, self.groupings.edges)
        return (
            not rows
            and find_outer_sum(kernel) is None
            and sum_in_pieces(kernel, names, self.report.like(None)) is not None
        )

    def _has_rows(self, kernel: loops.Kernel) -> bool:
        """Whether lanes can share the rows of sums that are taken together."""
        found = sum_in_pieces(kernel, self.groupings.names, self.report.like(None))
        return found is not None and bool(schedule_rows(join_segments(found.storing), self.report.like(None)))

    def _segments_apart(self, kernel: loops.Kernel) -> tuple[loops.Kernel, ...]:
        """The kernels of a nest's first segment and of the rest, where a strategy of sums is for the segment: one that
        shares a long row out, where the nest as a whole can be done by rows."""
        by_rows: bool | None = None
        for parts in split_segments(kernel, self.groupings.names):
            ways = usual_of_sums(parts.sums, self.report.like(None))
            if any(self._fits(way, parts.sums) for way in ways if way != ROWS):
                return parts.kernels
            by_rows = self._fits(ROWS, kernel) if by_rows is None else by_rows
            if not by_rows and ROWS in ways and self._fits(ROWS, parts.sums):
                return parts.kernels
        return ()

    def _fits(self, strategy: str, kernel: loops.Kernel) -> bool:
        """Whether a strategy of sums is for a nest."""
        sums, trial = join_segments(kernel), self.report.like(None)
        return bool(_shown_right(sums, self.trials.make(strategy, sums, trial, OF_SUMS[strategy]), trial))

    def _in_pieces(self, kernel: loops.Kernel) -> tuple[ScheduledKernel, ...]:
        """The kernels of sums over a whole set; none where a nest is something else."""
        found = sum_in_pieces(kernel, self.groupings.names, self.report)
        if found is None:
            return ()
        clearing, said = self._warps_of(found.clearing, kernel), self.report.mark()
        adding = tuple(added(each, found.parts) for each in schedule_rows(join_segments(found.storing), self.report))
        if not adding and split_rows(kernel, self.groupings.names, self.maps, self.groupings.edges, always=True):
            return ()  # what one warp would compute of each element in turn is stored for all elements first
        if not adding:
            self.report.back_to(said)
            adding = (self._warps_of(found.adding, kernel),)
        steps = (clearing, *adding)
        return tuple(with_count(step, found.count) for step in steps)

    def _in_segment_parts(self, kernel: loops.Kernel) -> tuple[loops.Kernel, ...]:
        """The kernels of parts of few long rows; none where a nest is something else."""
        found = in_parts(kernel, self.groupings.names, self.report)
        if found is None:
            return ()
        self.counts[found.count[0]] = found.count[1]
        return found.kernels

    def _warps(self, kernel: loops.Kernel) -> tuple[Made, ...]:
        """A warp an iteration of a nest, or where these are few and long, a run of one, and what is left of the nest;
        not that, where it cannot be shown to be right."""
        report, names = self.report, self.groupings.names
        said, named = report.mark(), names.mark()
        if (found := in_runs(kernel, names, report)) is not None:
            if steps := self._in_runs(kernel, found):
                self.counts[found.count[0]] = found.count[1]
                return (*steps, found.left) if found.left else steps
            report.back_to(said)
            names.back_to(named)
            why = "runs cannot be shown to be right, or each would have its rows in the GPU's memory"
            nearest(kernel.name, RUN, 0, (0,), report, why)
        return warps(kernel, report, self.most_bytes, names)

    def _in_runs(self, kernel: loops.Kernel, found: InRuns) -> tuple[Step, ...]:
        """The kernels of a nest that has been cut into runs; none where they cannot be shown to be right."""
        report, names = self.report, self.groupings.names
        try:
            made = warps(found.kernel, report, self.most_bytes, names, moving=False)
        except Unsupported as error:
            report.refused(f"{kernel.name} is not cut into runs: {error}")
            return ()
        return _shown_right(kernel, made, report)

    def _counted(self, kernel: ScheduledKernel) -> ScheduledKernel:
        """A kernel with how many parts or runs there are, where it needs that."""
        for count in self.counts.items():
            kernel = with_count(kernel, count)
        return kernel

    def _cleared_together(self, kernel: loops.Kernel, steps: Sequence[ScheduledKernel]) -> tuple[ScheduledKernel, ...]:
        """The kernels of a nest's stages, those that only clear arrays in as few as can be, ahead of all."""
        clears = [step for step in steps if _clears(step)]
        outputs = [buffer for step in clears for buffer in step.buffers]
        clearing = [self._warps_of(each, kernel) for each in clear_together(kernel, outputs)]
        chosen = tuple(each for step in clears for each in step.chosen)
        told = self._told(clearing)
        shown = _shown_right(kernel, told, self.report) if clears else ()
        if not shown:
            return tuple(steps)
        first, *others = (step for step in shown if isinstance(step, ScheduledKernel))
        first = replace(first, chosen=(*chosen, *first.chosen))
        return first, *others, *(step for step in steps if step not in clears)

    def _told(self, steps: Sequence[Made]) -> tuple[Made, ...]:
        """The steps, the first scheduled kernel of which says what has been chosen since the last that did."""
        first = next(((at, step) for at, step in enumerate(steps) if isinstance(step, ScheduledKernel)), None)
        if first is None:
            return tuple(steps)
        at, kernel = first
        untold = self.report.choices[self.report.told :]
        chosen = grouped((choice.key, choice.value) for choice in untold)
        self.report.told = len(self.report.choices)
        return (*steps[:at], replace(kernel, chosen=chosen), *steps[at + 1 :])

    def _part(self, kernel: loops.Kernel) -> tuple[ScheduledKernel, ...]:
        """The kernels of a part that a nest was split in; none where another part of the module is the same."""
        kernel = self.repeated.reading(kernel)
        if self.repeated.leaves_out(kernel):
            self.report.did(f"{kernel.name} is left out: another kernel has computed the same")
            return ()
        return self.kernels(kernel)


def _clears(kernel: ScheduledKernel) -> bool:
    """Whether a kernel does nothing but store zeros in arrays of its own."""
    nodes = list(walk(kernel))
    stores = {node.operands for node in nodes if isinstance(node, loops.Store)}
    others = [n for n in nodes if isinstance(n, (loops.Load, loops.Accumulate, loops.Compute))]
    return stores == {(0.0,)} and not others and all(buffer.kind == "output" for buffer in kernel.buffers)


def _maps_of(nests: Sequence[loops.Kernel]) -> dict[str, loops.Buffer]:
    """By the array of where segments begin the one that says of each element in which segment it is, where some nest
    has it."""
    arrays = {buffer.name: buffer for nest in nests for buffer in nest.buffers if buffer.kind == "index"}
    return {f"{name}{STARTS}": buffer for name, buffer in arrays.items() if f"{name}{STARTS}" in arrays}


def _shown_right(kernel: loops.Kernel, steps: Sequence[Step], report: Report) -> tuple[Step, ...]:
    """The steps, scheduled kernels without what nobody reads, if these keep the rules of the IR; none where one does
    not, which is reported. They are looked at as they are printed, so that the stage's own look finds it done."""
    shown = tuple(without_unread(step) if isinstance(step, ScheduledKernel) else step for step in steps)
    for step in shown:
        if isinstance(step, ScheduledKernel):
            try:
                verify_scheduled(written_in_place(step))
            except VerificationError as error:
                report.refused(f"{kernel.name}: {step.name} ({step.template}) cannot be shown right: {error}")
                return ()
    return shown
