"""Loops to scheduled kernels: the first template that fits each nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from explorer.compiler.ir import loops
from explorer.compiler.ir.index_sets import STARTS
from explorer.compiler.ir.kernels import Count, ScheduledKernel, reads_of
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Names, VerificationError, walk
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.passes.loops.cleared import clearing_kernel
from explorer.compiler.report import Mark, Report
from explorer.compiler.schedule.chunks.strategy import schedule_chunks
from explorer.compiler.schedule.distribute.by_elements import add_elements
from explorer.compiler.schedule.distribute.duplicates import Repeated
from explorer.compiler.schedule.distribute.fission import split_stages, walked_by_few
from explorer.compiler.schedule.distribute.flatten_negatives import flatten_negatives
from explorer.compiler.schedule.distribute.join_segments import join_segments
from explorer.compiler.schedule.distribute.join_sums import joined, sums_together
from explorer.compiler.schedule.distribute.long_sums import added, sum_in_pieces
from explorer.compiler.schedule.distribute.scatter import scatter_sums
from explorer.compiler.schedule.distribute.split_rows import split_rows
from explorer.compiler.schedule.distribute.split_sums import split_sums
from explorer.compiler.schedule.distribute.unit_rows import clear_together, rows_of_one
from explorer.compiler.schedule.edit.dead_code import without_unread
from explorer.compiler.schedule.edit.guards import within_extents
from explorer.compiler.schedule.gemm.outer_products import schedule_outer_products
from explorer.compiler.schedule.gemm.strategy import Groupings, schedule_pairs, schedule_products
from explorer.compiler.schedule.match.outer_products import find_outer_sum
from explorer.compiler.schedule.segments.by_rows import schedule_rows
from explorer.compiler.schedule.segments.strategy import schedule_sparse
from explorer.compiler.schedule.shared_out import is_shared_out
from explorer.compiler.schedule.unread import say_unread
from explorer.compiler.schedule.warps.rows_in_memory import rows_in_memory, rows_to_move
from explorer.compiler.schedule.warps.strategy import SHARED_BYTES, RowsTooLarge, schedule_warps
from explorer.compiler.target import FLOAT_BYTES, MOST_SHARED_BYTES
from explorer.compiler.unsupported import Unsupported

Step = TypeVar("Step", ScheduledKernel, ScheduledKernel | loops.Kernel)
"""A scheduled kernel, or one that may still be to schedule."""


def warps(kernel: loops.Kernel, report: Report, most_bytes: int, names: Names) -> tuple[ScheduledKernel, ...]:
    """A warp an iteration, after what clears the sums that iterations take together."""
    steps = [step for step in (clearing_kernel(kernel), kernel) if step]
    return tuple(_a_warp(step, report, most_bytes, names) for step in steps)


def _a_warp(kernel: loops.Kernel, report: Report, most_bytes: int, names: Names) -> ScheduledKernel:
    """A warp an iteration; rows that no block of the GPU has room for are in its memory."""
    try:
        return schedule_warps(kernel, report, most_bytes)
    except RowsTooLarge as error:
        if most_bytes < MOST_SHARED_BYTES[report.options.arch]:
            raise
        moved = rows_to_move(error.rows, SHARED_BYTES // FLOAT_BYTES)
        report.did(f"{kernel.name}: {', '.join(moved)} in the GPU's memory, larger than a block's shared memory")
        return schedule_warps(rows_in_memory(kernel, moved, names), report)


def schedule(program: loops.Kernel | Module, report: Report) -> ScheduledKernel | Module:
    """The program's kernels scheduled; raises Unsupported, with a sentence, for one that no template fits."""
    if isinstance(program, loops.Kernel):
        kernels = within_extents((program,), _scheduled((program,), (), (), report), report)
        say_unread(program, kernels, report)
        result = next(buffer.name for buffer in program.buffers if buffer.kind == "output")
        if len(kernels) == 1 and all(b.kind != "output" or b.name == result for b in kernels[0].buffers):
            return kernels[0]
        steps = _streaming(result, kernels)
        return Module(origin=program.origin, name=program.name, result=result, gradients=(), programs=steps)
    nests = tuple(kernel for kernel in program.programs if isinstance(kernel, loops.Kernel))
    kept = (program.result, *(name for _, name in program.gradients))
    steps = within_extents(nests, _scheduled(nests, kept, program.inverses, report), report)
    say_unread(program, steps, report)
    return replace(program, programs=_streaming(program.result, steps), inverses=())


def _scheduled(
    nests: tuple[loops.Kernel, ...], kept: tuple[str, ...], inverses: tuple[tuple[str, str], ...], report: Report
) -> tuple[ScheduledKernel, ...]:
    """The kernels of a program's nests, in order, of which a caller gets the arrays `kept`, within the shared memory
    that a block has on every GPU; where some kernel needs more, within what this GPU gives a block."""
    said, refused = report.mark(), list(report.refusals)
    try:
        return _scattered(nests, kept, inverses, report, SHARED_BYTES)
    except Unsupported:
        report.back_to(said)
        report.refusals[:] = refused  # they are refused again, or not
        return _scattered(nests, kept, inverses, report, MOST_SHARED_BYTES[report.options.arch])


def _scattered(
    nests: tuple[loops.Kernel, ...],
    kept: tuple[str, ...],
    inverses: tuple[tuple[str, str], ...],
    report: Report,
    most_bytes: int,
) -> tuple[ScheduledKernel, ...]:
    """With what a batch's sums are scattered, and its negatives flattened; where some kernel of those cannot be made,
    as the nests are."""
    said = report.mark()
    try:
        flat = flatten_negatives(scatter_sums(nests, inverses, report), report)
        return tuple(_with_count(step, flat.count) for step in _each_scheduled(flat.kernels, kept, report, most_bytes))
    except Unsupported as error:
        report.back_to(said)
        report.refused(f"{nests[0].name}: neither scattered nor flattened: {error}")
        return _each_scheduled(nests, kept, report, most_bytes)


def _each_scheduled(
    nests: tuple[loops.Kernel, ...], kept: tuple[str, ...], report: Report, most_bytes: int
) -> tuple[ScheduledKernel, ...]:
    scheduling = _Scheduling.of(nests, report, kept, most_bytes)
    return _named_apart([step for nest in nests for step in scheduling.kernels(nest)])


def _named_apart(kernels: Sequence[ScheduledKernel]) -> tuple[ScheduledKernel, ...]:
    """The kernels, a number behind the name of one that has another's: what is left of a nest keeps the nest's name,
    so that two templates may each have made, say, a kernel that groups its rows. One that keeps its name stays the same
    object, which has been verified."""
    names = Names(set())
    named = ((kernel, names.new(kernel.name)) for kernel in kernels)
    return tuple(kernel if kernel.name == name else replace(kernel, name=name) for kernel, name in named)


def _with_count(kernel: ScheduledKernel, count: tuple[str, Count] | None) -> ScheduledKernel:
    """The kernel, with how many candidates there are where its arrays need that."""
    named = {extent for buffer in kernel.buffers for extent in buffer.extents}
    named |= {name for node in walk(kernel) for name in reads_of(node)}
    named |= {extent for _, number in kernel.counts for extent in number.names}
    return replace(kernel, counts=(count, *kernel.counts)) if count is not None and count[0] in named else kernel


def _streaming(result: str, kernels: tuple[ScheduledKernel, ...]) -> tuple[ScheduledKernel, ...]:
    """The kernels, those over pieces storing the program's result past the caches if nothing reads it again."""
    nodes = [node for kernel in kernels for node in walk(kernel)]
    if any(isinstance(node, loops.Load) and node.buffer == result for node in nodes):
        return kernels

    def one(kernel: ScheduledKernel) -> ScheduledKernel:
        stores = any(isinstance(node, loops.Store) and node.target == result for node in walk(kernel))
        over_pieces = kernel.template == "nonzeros" and stores
        return replace(kernel, streamed=(*kernel.streamed, result)) if over_pieces else kernel

    return tuple(map(one, kernels))


@dataclass(frozen=True)
class _Scheduling:
    """What the kernels of a module have in common."""

    groupings: Groupings
    repeated: Repeated
    maps: Mapping[str, loops.Buffer]
    report: Report
    most_bytes: int

    @classmethod
    def of(cls, nests: Sequence[loops.Kernel], report: Report, kept: Sequence[str], most_bytes: int) -> _Scheduling:
        """Nothing yet, of a module of these nests, of which a caller gets the arrays `kept`; a block that one warp's
        rows fill has `most_bytes` of shared memory."""
        return cls(Groupings.of(nests, kept), Repeated.of(nests), _maps_of(nests), report, most_bytes)

    def kernels(self, kernel: loops.Kernel) -> tuple[ScheduledKernel, ...]:
        """A nest's kernels: by chunks, where the options ask for it; those of its products, if it starts with some,
        then those of its parts, where its sums are split, else of a template of sums where one is for it, else a warp
        an iteration."""
        kernel = self.repeated.reading(kernel)
        said = self.report.mark()
        chunks = schedule_chunks(kernel, self.report)
        if chunks is not None and (shown := _shown_right(kernel, (chunks,), self.report)):
            return shown
        self.report.back_to(said)
        products = self._of_products(kernel)
        if products is not None:
            return products
        names = self.groupings.names
        split = split_sums(kernel, names)
        if not split and (stages := split_stages(kernel, names)):
            groups = sums_together(stages, self._is_plain)
            return self._cleared_together(kernel, [step for group in groups for step in self._together(group)])
        split = split or split_rows(kernel, names, self.maps)
        if split:
            return tuple(step for part in split for step in self._part(part))
        found = self._of_sums(kernel)
        if walked_by_few(kernel) and not (found and all(map(is_shared_out, found))):
            found = self._by_elements(kernel, said) or found
        if found:
            return found
        shown = _shown_right(kernel, warps(kernel, self.report, self.most_bytes, names), self.report)
        if shown:
            return shown
        raise Unsupported(f"No template's kernels for {kernel.name} can be shown to be right.")

    def _together(self, group: Sequence[loops.Kernel]) -> tuple[ScheduledKernel, ...]:
        """The kernels of a stage, or of sums that are taken together where that can be."""
        if len(group) > 1:
            together = joined([*map(self.repeated.reading, group)], self.groupings.names)
            found = self._in_pieces(together, rows=True)
            if found:
                return found
        return tuple(step for part in group for each in rows_of_one(part) for step in self._part(each))

    def _cleared_together(self, kernel: loops.Kernel, steps: list[ScheduledKernel]) -> tuple[ScheduledKernel, ...]:
        """The kernels of a nest's stages, those that only clear arrays in as few as can be, ahead of all."""
        clears = [step for step in steps if _clears(step)]
        outputs = [buffer for step in clears for buffer in step.buffers]
        clearing = [schedule_warps(each, self.report) for each in clear_together(kernel, outputs)]
        return *clearing, *(step for step in steps if step not in clears)

    def _is_plain(self, kernel: loops.Kernel) -> bool:
        """Whether a nest's long sum is taken as it is, in pieces: it is none of outer products, and of an element's own
        numbers."""
        names = self.groupings.names
        rows = split_rows(kernel, names, self.maps)
        return not rows and find_outer_sum(kernel) is None and sum_in_pieces(kernel, names, self.report) is not None

    def _of_sums(self, kernel: loops.Kernel) -> tuple[ScheduledKernel, ...]:
        """The kernels of a template of sums; none where no such template is for a nest."""
        made, said = dict(self.groupings.made), self.report.mark()
        shown = _shown_right(kernel, schedule_outer_products(kernel, self.groupings, self.report), self.report)
        if not shown:
            self.groupings.made = made
            self.report.back_to(said)
            shown = self._in_pieces(kernel)
        if not shown:
            shown = _shown_right(kernel, schedule_sparse(join_segments(kernel), self.report), self.report)
        if not shown:
            self.report.back_to(said)
        return shown

    def _by_elements(self, kernel: loops.Kernel, said: Mark) -> tuple[ScheduledKernel, ...]:
        """The kernels of a nest whose few iterations no template shares out: of what elements are summed of, and of
        their sums; or each element adds where it belongs. None where no array says that."""
        parts = split_rows(kernel, self.groupings.names, self.maps, always=True)
        if parts:
            self.report.back_to(said)
            return tuple(step for part in parts for step in self._part(part))
        steps = [schedule_warps(each, self.report, self.most_bytes) for each in add_elements(kernel, self.maps)]
        return _shown_right(kernel, steps, self.report)

    def _in_pieces(self, kernel: loops.Kernel, *, rows: bool = False) -> tuple[ScheduledKernel, ...]:
        """The kernels of sums over a whole set; none where a nest is something else, or, where it has to be by `rows`,
        lanes cannot share those."""
        said = self.report.mark()
        found = sum_in_pieces(kernel, self.groupings.names, self.report)
        if found is None:
            return ()
        clearing = schedule_warps(found.clearing, self.report)
        adding = tuple(added(each, found.parts) for each in schedule_rows(join_segments(found.storing), self.report))
        if rows and not adding:
            self.report.back_to(said)
            return ()
        steps = (clearing, *(adding or (schedule_warps(found.adding, self.report, self.most_bytes),)))
        shown = _shown_right(kernel, tuple(_with_count(step, found.count) for step in steps), self.report)
        if not shown:
            self.report.back_to(said)
        return shown

    def _of_products(self, kernel: loops.Kernel) -> tuple[ScheduledKernel, ...] | None:
        """The kernels of a nest that starts with products, None for another; a refused template has grouped and done
        nothing."""
        made, said = dict(self.groupings.made), self.report.mark()
        for products in (schedule_products, schedule_pairs):
            parts = products(kernel, self.groupings, self.report)
            if parts is not None and (shown := _shown_right(kernel, parts, self.report)):
                each = ((part,) if isinstance(part, ScheduledKernel) else self.kernels(part) for part in shown)
                return tuple(step for steps in each for step in steps)
            self.groupings.made = dict(made)
            self.report.back_to(said)
        return None

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
    others = [n for n in nodes if isinstance(n, loops.Load | loops.Accumulate | loops.Compute)]
    return stores == {(0.0,)} and not others and all(buffer.kind == "output" for buffer in kernel.buffers)


def _maps_of(nests: Sequence[loops.Kernel]) -> dict[str, loops.Buffer]:
    """By the array of where segments begin the one that says of each element in which segment it is, where some nest
    has it."""
    arrays = {buffer.name: buffer for nest in nests for buffer in nest.buffers if buffer.kind == "index"}
    return {f"{name}{STARTS}": buffer for name, buffer in arrays.items() if f"{name}{STARTS}" in arrays}


def _shown_right(kernel: loops.Kernel, steps: Sequence[Step], report: Report) -> tuple[Step, ...]:
    """The steps, scheduled kernels without what nobody reads, if these keep the rules of the IR; none where one does
    not, which is reported."""
    shown = tuple(without_unread(step) if isinstance(step, ScheduledKernel) else step for step in steps)
    for step in shown:
        if isinstance(step, ScheduledKernel):
            try:
                verify_scheduled(step)
            except VerificationError as error:
                report.refused(f"{kernel.name}: {step.name} ({step.template}) cannot be shown right: {error}")
                return ()
    return shown
