"""The pipeline, read from top to bottom: every stage, what it follows, and its passes.

The page, the command line and the tests go through this one tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.compiler.codegen.binary.ptx import generate_ptx
from explorer.compiler.codegen.binary.sass import generate_sass
from explorer.compiler.codegen.cuda.program import generate_cuda
from explorer.compiler.frozen import dataclass
from explorer.compiler.options import Options
from explorer.compiler.passes.access.accumulate_streams import accumulate_streams
from explorer.compiler.passes.access.address_streams import address_streams
from explorer.compiler.passes.access.align_queues import align_queues
from explorer.compiler.passes.access.bufferize import bufferize
from explorer.compiler.passes.access.decouple import decouple
from explorer.compiler.passes.access.level_hints import level_hints
from explorer.compiler.passes.access.separate import separate
from explorer.compiler.passes.access.store_streams import store_streams
from explorer.compiler.passes.access.toggle_callbacks import toggle_callbacks
from explorer.compiler.passes.access.vectorize import vectorize
from explorer.compiler.passes.gradients.differentiate import differentiate
from explorer.compiler.passes.graph.aggregate_first import aggregate_first
from explorer.compiler.passes.graph.combine_last import combine_last
from explorer.compiler.passes.graph.common_subexpressions import common_subexpressions
from explorer.compiler.passes.graph.compact import compact
from explorer.compiler.passes.graph.dead_values import dead_values
from explorer.compiler.passes.graph.divide_last import divide_last
from explorer.compiler.passes.graph.folded_stacks import folded_stacks
from explorer.compiler.passes.graph.late_reshapes import late_reshapes
from explorer.compiler.passes.graph.reassociate import reassociate
from explorer.compiler.passes.graph.reorder import reorder
from explorer.compiler.passes.loops.fuse import fuse
from explorer.compiler.passes.loops.hoist import hoist
from explorer.compiler.passes.loops.in_place import in_place
from explorer.compiler.passes.loops.interchange import interchange
from explorer.compiler.passes.loops.online import online
from explorer.compiler.passes.loops.pack import pack
from explorer.compiler.passes.loops.pad import pad
from explorer.compiler.passes.loops.share_rows import share_rows
from explorer.compiler.passes.loops.unpack import unpack
from explorer.compiler.report import Report
from explorer.compiler.schedule.distribute.products.split_products import split_products
from explorer.compiler.schedule.program import schedule

Pass = Callable[[Any, Report], Any]
"""From a program to one of the same or the next IR; it tells the report what it did and refused."""


@dataclass(frozen=True)
class StageSpec:
    """A stage: its passes run in order on the program of the stage that it follows ("" is the checked model)."""

    name: str
    follows: str
    passes: tuple[Pass, ...]
    title: str
    summary: str
    source: str
    targets: tuple[str, ...] = ()  # where its program runs
    on_demand: bool = False  # made when somebody looks at it, since it takes longer than all the others
    when_shown: bool = False  # made of an edit where a pane shows it: who types mostly looks at others
    levels: tuple[str, ...] = ()  # the stages of which the option `opt` picks the one that this stage follows

    def source_of(self, options: Options) -> str:
        """The stage whose program this one is made of."""
        return self.levels[options.opt] if self.levels else self.follows


STAGES: tuple[StageSpec, ...] = (
    StageSpec(
        name="graph",
        follows="",
        passes=(
            *(common_subexpressions, late_reshapes, reassociate, combine_last, reorder, aggregate_first),
            *(compact, divide_last, differentiate, folded_stacks, dead_values),
        ),
        title="Graph",
        summary="operators on rows over index sets, each with its set, shape and dependencies",
        source="cuKE §IV and Table III, Hector §3.2",
    ),
    StageSpec(
        name="loops",
        follows="graph",
        passes=(fuse, interchange, online, hoist, share_rows, pack, pad),
        title="Loops",
        summary="one fused loop nest, every index explicit",
        source="cuKE §V-B, Ember Fig. 13a",
        targets=("cpu",),
    ),
    StageSpec(
        name="slc",
        follows="loops",
        passes=(in_place, decouple, accumulate_streams, toggle_callbacks, store_streams, level_hints),
        title="SLC",
        summary="lookups as streams, compute in callbacks, in one structured program",
        source="Ember §6.1 and §6.2",
    ),
    StageSpec(
        name="slc.opt1",
        follows="slc",
        passes=(vectorize,),
        title="SLC opt1",
        summary="vectorised: the innermost loops load, push and compute a vector at a time",
        source="Ember §7.1, Fig. 15b",
        when_shown=True,
    ),
    StageSpec(
        name="slc.opt2",
        follows="slc.opt1",
        passes=(bufferize,),
        title="SLC opt2",
        summary="bufferised: the vectors of a row travel as one record, with one token",
        source="Ember §7.2, Fig. 15c",
        when_shown=True,
    ),
    StageSpec(
        name="slc.opt3",
        follows="slc.opt2",
        passes=(address_streams, align_queues),
        title="SLC opt3",
        summary="queue aligned: positions are counted, other scalars padded, so that vectors stay in line",
        source="Ember §7.3, Fig. 15d",
        when_shown=True,
    ),
    StageSpec(
        name="dlc",
        follows="slc.opt3",
        passes=(separate,),
        title="DLC",
        summary="the access unit's dataflow code and the execute unit's loop, with the queues between them",
        source="Ember §4 and §6.3",
        targets=("dae",),
        levels=("slc", "slc.opt1", "slc.opt2", "slc.opt3"),
        when_shown=True,
    ),
    StageSpec(
        name="kernels",
        follows="loops",
        passes=(unpack, split_products, schedule),
        title="Kernels",
        summary="the nests scheduled for a GPU: who does an iteration, where tiles live, what waits for what",
        source="cuKE §V and §VI, Hector §3.4.1, G-Sparse §III",
    ),
    StageSpec(
        name="cuda",
        follows="kernels",
        passes=(generate_cuda,),
        title="CUDA",
        summary="the kernels as CUDA C++, readable, one operation a line",
        source="cuKE §V",
        targets=("gpu",),
    ),
    StageSpec(
        name="ptx",
        follows="cuda",
        passes=(generate_ptx,),
        title="PTX",
        summary="what NVRTC makes of the CUDA, each instruction with its operation",
        source="NVRTC",
        on_demand=True,
    ),
    StageSpec(
        name="sass",
        follows="ptx",
        passes=(generate_sass,),
        title="SASS",
        summary="the machine code that ptxas, in NVRTC, makes of the PTX, and what each kernel takes of a GPU",
        source="nvdisasm",
        on_demand=True,
    ),
)
