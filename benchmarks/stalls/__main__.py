"""Records where the warps of the examples' kernels wait: `python -m benchmarks.stalls COMMAND`.

    prepare DIR            here, with the compiler: what the machine with the GPU needs, in DIR
    profile DIR OUT        there, with ncu, NumPy and CuPy alone: a file a case in OUT, those that are there left alone
    collect OUT            here: into what the page shows, explorer/compiler/heat/recorded
    check                  here: which kernels of the examples nothing is recorded of
    launch DIR CASE        what `profile` runs under ncu

Status 1 where a case was not measured, or kernels are missing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic


def main(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    commands = {"prepare": _prepare, "profile": _profile, "collect": _collect, "check": _check, "launch": _launch}
    return commands[arguments.command](arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks.stalls", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    prepare = commands.add_parser("prepare")
    prepare.add_argument("folder", type=Path)
    prepare.add_argument("--only", default="", help="cases whose name contains this")
    prepare.add_argument("--again", action="store_true", help="those that are recorded too")
    profile = commands.add_parser("profile")
    profile.add_argument("folder", type=Path)
    profile.add_argument("out", type=Path)
    profile.add_argument("--only", default="", help="cases whose name contains this")
    profile.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time; default: as many as cores")
    profile.add_argument("--seconds", type=float, default=180, help="that a case may take; default 180")
    profile.add_argument("--within", type=float, default=540, help="seconds for all; default 540")
    profile.add_argument("--ncu", default="", help="default: that of the path, or of the newest CUDA")
    collect = commands.add_parser("collect")
    collect.add_argument("out", type=Path)
    check = commands.add_parser("check")
    check.add_argument("--only", default="", help="cases whose name contains this")
    launch = commands.add_parser("launch")
    launch.add_argument("folder", type=Path)
    launch.add_argument("case")
    return parser


def _prepare(arguments: argparse.Namespace) -> int:
    from benchmarks.stalls.prepare import cases, prepare

    for case, count in prepare(arguments.folder, cases(arguments.only), arguments.again):
        print(f"{case.name}: {count or 'no'} kernels to measure", flush=True)
    return 0


def _profile(arguments: argparse.Namespace) -> int:
    from benchmarks.profiling.ncu import Failed, find_ncu
    from benchmarks.stalls.profiling import Settings, profile

    ncu = arguments.ncu or find_ncu()
    if not ncu:
        print("there is no ncu on the path, nor in a CUDA toolkit: --ncu names it", file=sys.stderr)
        return 2
    files = (file.stem for file in arguments.folder.glob("*.json"))
    wanted = sorted(case for case in files if arguments.only in case)
    settings = Settings(arguments.folder, arguments.out, ncu, arguments.seconds, monotonic() + arguments.within)
    try:
        failed = profile(settings, wanted, arguments.jobs, lambda text: print(text, flush=True))
    except Failed as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(wanted) - failed} of {len(wanted)} cases measured")
    return 1 if failed else 0


def _collect(arguments: argparse.Namespace) -> int:
    from benchmarks.stalls.collecting import collect

    for file, count in collect(arguments.out).items():
        print(f"{file.name}: {count} kernels, {file.stat().st_size / 1024:.0f} kB")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from benchmarks.stalls.prepare import cases, missing

    lacking = {case.name: found for case in cases(arguments.only) if (found := missing(case))}
    for name, kernels in lacking.items():
        print(f"{name}: nothing recorded of {', '.join(kernels)}")
    return 1 if lacking else 0


def _launch(arguments: argparse.Namespace) -> int:
    from benchmarks.stalls.launching import launch

    print(f"\ndevice: {launch(arguments.folder, arguments.case)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
