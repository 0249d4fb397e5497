"""What the templates of the page have, whatever they show."""

from __future__ import annotations

from explorer.compiler.language.parsing.pasted import is_python
from explorer.compiler.options import (
    ARCHITECTURES,
    EDGES,
    LARGEST_NEGATIVE_COUNT,
    LONGEST_VECTOR,
    MOST_SHARING,
    PRECISIONS,
)
from explorer.compiler.pipeline import STAGES
from explorer.runtime import tuning
from explorer.runtime.targets.table import TARGETS, USUAL
from explorer.tuner import shipped
from explorer.web import limits, settings
from explorer.web.panes import code, decisions, patches, views
from explorer.web.panes.highlight import quoted
from explorer.web.templates.environment import TEMPLATES


def give(most_panes: int) -> None:
    """Give them to the templates, with how many panes there may be."""
    TEMPLATES.env.globals.update(
        stages=STAGES,
        targets=TARGETS,
        usual_target=USUAL,
        most_lines=code.MOST_LINES,
        chunks_in_group=code.GROUP,
        lines_in_chunk=code.CHUNK,
        rows_of=code.rows_of,
        rows_text=patches.rows_text,
        most_panes=most_panes,
        architectures=ARCHITECTURES,
        precisions=PRECISIONS,
        edge_orders=EDGES,
        inspections=settings.INSPECTIONS,
        chunk_sizes=settings.CHUNK_SIZES,
        chunk_switches=settings.CHUNK_SWITCHES,
        switches=settings.SWITCHES,
        pad=settings.PAD,
        sum_choices=settings.SUM_CHOICES,
        sum_switches=settings.SUM_SWITCHES,
        levels=settings.LEVELS,
        stage_keys=settings.stage_keys(),
        late_stages=[spec.name for spec in STAGES if spec.on_demand],
        longest_vector=LONGEST_VECTOR,
        parameters=settings.machine_parameters(),
        largest_negative_count=LARGEST_NEGATIVE_COUNT,
        most_sharing=MOST_SHARING,
        meanings=views.OPERATOR_MEANINGS,
        work_in_words=views.work_in_words,
        limits=limits,
        tuning=tuning,
        has_recordings=bool(shipped.names()),
        shown=decisions.shown,
        json_value=decisions.json_value,
        quoted=quoted,
        is_python=is_python,
    )
