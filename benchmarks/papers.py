"""Figures and tables of the papers, ours beside the published numbers; where there is a GPU, those that are of one too.

`explorer bench papers [cuke|hector|gsparse|ember ...] [FIGURE ...] [--json] [--html FILE]`. Every figure says whether
it was counted, simulated or measured; published numbers stand in brackets, with the reason where ours differ. What
needs a GPU that is not here, or the authors' machine, says so and is left out; for what is measured all programs are
compiled first, side by side. All figures take some minutes; `--list` names them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from benchmarks.gpu import missing_gpu
from benchmarks.paper import cuke, ember, gsparse, hector
from benchmarks.paper.figure import Figure, Paper, Table, as_json, as_text
from benchmarks.paper.measured import rows
from benchmarks.paper.measured.ahead import compile_all
from benchmarks.paper.page import page
from explorer.runtime.data.triples import InputError

BY_NAME_ONLY = "takes some minutes"
FAILED = "it failed on the GPU: "
PAPERS = {paper.name: paper for paper in (cuke.PAPER, hector.PAPER, gsparse.PAPER, ember.PAPER)}


def main(argv: Sequence[str]) -> int:
    """Prints every figure as soon as it is made, or with --json one object; status 1 where a result is wrong."""
    parser = argparse.ArgumentParser(prog="explorer bench papers", description=__doc__)
    told = f"papers, of {', '.join(PAPERS)}, and figures of them, as in `cuke fig8 table5`; default all of all"
    parser.add_argument("names", nargs="*", metavar="NAME", help=told)
    parser.add_argument("--list", action="store_true", help="name the figures, and make none")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write one page with charts, which needs no network")
    told = "a folder with real graphs (wn18.npz, fb15k-237.npz ...) that take the place of generated ones"
    parser.add_argument("--data", metavar="DIR", type=Path, help=told)
    told = "begin no row of a measured table that long after its first; default %(default).0f"
    parser.add_argument("--seconds", type=float, default=rows.SECONDS, help=told)
    arguments = parser.parse_args(argv)
    rows.allow(arguments.seconds)
    if arguments.data:
        try:
            cuke.use_files(arguments.data)
        except InputError as error:
            parser.error(str(error))
    named = [name for name in arguments.names if name in PAPERS] or list(PAPERS)
    chosen = [PAPERS[name] for name in dict.fromkeys(named)]
    known = [figure.name for paper in chosen for figure in paper.figures]
    figures = [name for name in arguments.names if name not in PAPERS] or known
    if wrong := [name for name in figures if name not in known]:
        parser.error(f"no paper or figure {', '.join(wrong)} of {', '.join(named)}: there are {', '.join(known)}")
    if arguments.list:
        print(
            "\n".join(f"{paper.name:8} {figure.name:8} {figure.title}" for paper in chosen for figure in paper.figures)
        )
        return 0
    if not missing_gpu():
        asked = [figure for paper in chosen for figure in paper.figures if figure.name in figures]
        compile_all([each for figure in asked for each in figure.ahead()], _tell_compiled)
    made = [(paper, _make(paper, figures, quiet=arguments.json)) for paper in chosen]
    date = datetime.now(UTC).date().isoformat()
    if arguments.json:
        whole = {paper.name: [as_json(figure, table) for figure, table in figures] for paper, figures in made}
        print(json.dumps({"date": date, "papers": whole}))
    if arguments.html:
        arguments.html.write_text(page(made, date, " ".join(("explorer bench papers", *argv))))
    found = [(figure, table) for _, figures in made for figure, table in figures]
    wrong = any(table is not None and not table.right for _, table in found)
    return int(wrong or any(figure.needs.startswith(FAILED) for figure, _ in found))


def _tell_compiled(done: int, of: int) -> None:
    """Says how far the programs are, in a line that is written again where there is a terminal, or else at the end."""
    if sys.stderr.isatty() or done == of:
        end = "" if done < of else "\n"
        print(f"\rcompiled {done} of {of} programs, which are measured then", end=end, file=sys.stderr, flush=True)


def _make(paper: Paper, names: Sequence[str], *, quiet: bool) -> list[tuple[Figure, Table | None]]:
    """A paper's figures, or those named, each printed as it comes."""
    made = []
    if not quiet:
        print(f"==== {paper.title} ====\n", flush=True)
    for figure in paper.figures:
        if figure.name not in names:
            continue
        began = monotonic()
        figure, table = _made(figure)
        made.append((figure, table))
        print(f"{figure.name}: {monotonic() - began:.1f} s", file=sys.stderr, flush=True)
        if not quiet:
            print(f"{as_text(figure, table)}\n", flush=True)
    return made


def _made(figure: Figure) -> tuple[Figure, Table | None]:
    """A figure with its table; one that a GPU is needed for with why it has none, if it failed there."""
    if figure.make:
        return figure, figure.make()
    if figure.on_gpu is None or missing_gpu():
        return figure, None
    try:
        return figure, figure.on_gpu()
    except Exception as error:  # what is measured before and after it is not lost
        return replace(figure, needs=f"{FAILED}{type(error).__name__}: {error}"), None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
