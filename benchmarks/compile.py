"""How long the compiler takes: model text to CUDA text, and its own import.

`explorer bench compile [--repeat N] [--json]`. A compilation makes every stage from the graph to the CUDA, printed and
verified; PTX and SASS are made on demand and are not in it. One layer is also measured with its backward pass, from the
text to the loops, and two scores and a layer from CUDA to PTX (NVRTC, which makes the machine code too) and from there
to SASS (nvdisasm and what reads it): in the first form, which is shown at once, in the best, and where that is kept on
disk. Long texts, without gradients and with, are compiled at two lengths: twice the text may take at most 2.5 times the
CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from benchmarks.cases.growing import GROWING
from benchmarks.timing.host import heading, provenance, summary
from explorer.compiler.codegen.binary.kept import VARIABLE
from explorer.runtime.workers.worker import warm_compile

CHECKOUT = Path(__file__).resolve().parents[1]
COMPILE_TARGET_MS = 30.0  # for TransR
BACKWARD = "rgat"
ON_DEMAND = ("kge/transr", "kge/rescal", "rgnn/rgcn")
"""Examples whose late stages are timed too."""
BACKWARD_TARGET_MS = 60.0  # text to loops, with its backward pass
IMPORT_TARGET_MS = 150.0
GROWTH_TARGET = 2.5  # times the CPU time for twice the text
IMPORT = """
from time import perf_counter
begin = perf_counter()
import explorer.compiler
print((perf_counter() - begin) * 1e3)
"""


def main(argv: Sequence[str]) -> int:
    """Prints a table, or with --json one object."""
    parser = argparse.ArgumentParser(prog="explorer bench compile", description=__doc__)
    parser.add_argument("--repeat", type=int, default=50, help="compilations of each example; default 50")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    imports = import_samples()
    warm_compile()  # as in the server's workers
    figures: dict[str, Any] = {
        **provenance(),
        "import_ms": summary(imports),
        "import_target_ms": IMPORT_TARGET_MS,
        "compile_target_ms": COMPILE_TARGET_MS,
        "compile_ms": {
            path.stem: summary(compile_samples(path.stem, path.read_text(), arguments.repeat))
            for path in sorted((CHECKOUT / "examples").glob("*/*.emb"))
        },
        "backward_ms": summary(backward_samples(arguments.repeat)),
        "backward_target_ms": BACKWARD_TARGET_MS,
        "on_demand_ms": {
            f"{Path(name).stem}, {stage}": summary(samples)
            for name in ON_DEMAND
            for stage, samples in on_demand_samples(name, min(arguments.repeat, 10)).items()
        },
        "growth": growth(),
        "growth_target": GROWTH_TARGET,
    }
    print(json.dumps(figures) if arguments.json else table(figures))
    return 0


def compile_samples(name: str, text: str, repeat: int) -> list[float]:
    """Milliseconds from an example's text to all stages that need no NVRTC."""
    import explorer

    print(f"compiling {name} {repeat} times ...", file=sys.stderr, flush=True)
    samples = []
    for number in range(repeat + 1):
        own = _another(text, number)
        begin = perf_counter()
        compilation = explorer.compile(own)
        samples.append((perf_counter() - begin) * 1e3)
        if not compilation.ok or not compilation.stages["cuda"].available:
            raise RuntimeError(f"{name} does not compile to CUDA")
    return samples[1:]  # the first one builds the parser's tables


def _another(text: str, number: int) -> str:
    """The same model in another text: the tree of the last text is kept."""
    return f"{text}\n# {number}\n"


def backward_samples(repeat: int) -> list[float]:
    """Milliseconds from a layer's text to the loops of its forward and backward pass, each pass's texts included."""
    import explorer
    from explorer.compiler.pipeline import STAGES

    text = (CHECKOUT / "examples" / "rgnn" / f"{BACKWARD}.emb").read_text()
    later = [spec.name for spec in STAGES if spec.name not in ("graph", "loops") and not spec.on_demand]
    samples = []
    for number in range(repeat + 1):
        own = _another(text, number)
        begin = perf_counter()
        compilation = explorer.compile(own, options={"grad": True})
        total = (perf_counter() - begin) * 1e3
        samples.append(total - sum(compilation.stages[name].ms for name in later))
    return samples[1:]


def on_demand_samples(name: str, repeat: int) -> dict[str, list[float]]:
    """Milliseconds of each stage that is made on demand, for the example of that name: in the first form and the best,
    with nothing kept, and as another process then finds the best on disk."""
    import explorer
    from explorer.compiler.pipeline import STAGES

    text = (CHECKOUT / "examples" / f"{name}.emb").read_text()
    late = [spec.name for spec in STAGES if spec.on_demand]
    samples: dict[str, list[float]] = {}
    for _ in range(repeat + 1):
        with TemporaryDirectory() as folder, _keeping_in(folder):
            compiled = explorer.compile(text)
            forms = {", first": compiled.first_form(), "": compiled, ", kept": explorer.compile(text)}
            for form, compilation in forms.items():
                _forget()
                for stage in late:
                    samples.setdefault(stage + form, []).append(compilation.stages[stage].ms)
    return {stage: times[1:] for stage, times in samples.items()}  # the first one loads NVRTC


@contextmanager
def _keeping_in(folder: str) -> Iterator[None]:
    """What NVRTC and nvdisasm make is kept in a folder for a while."""
    usual = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = folder
    yield
    del os.environ[VARIABLE]
    os.environ.update({} if usual is None else {VARIABLE: usual})


def _forget() -> None:
    """As in a new process: what was made is on disk alone."""
    from explorer.compiler.codegen.binary.nvdisasm import disassemble
    from explorer.compiler.codegen.binary.nvrtc import compile_text

    compile_text.cache_clear()
    disassemble.cache_clear()


def growth(repeat: int = 2) -> list[dict[str, Any]]:
    """For each long text the CPU seconds of a compilation and of twice the text, each the least of a few."""
    rows = []
    for grad in (False, True):
        for name, (text, count) in GROWING.items():
            length = count // 2 if grad else count
            print(f"compiling {name} of {length} and {2 * length} ...", file=sys.stderr, flush=True)
            once, twice = (
                min(_cpu_seconds(_another(text(terms), time), grad) for time in range(repeat))
                for terms in (length, 2 * length)
            )
            rows.append({"text": name, "grad": grad, "count": length, "once_s": once, "twice_s": twice})
    return rows


def _cpu_seconds(text: str, grad: bool) -> float:
    import explorer

    begin = process_time()
    compilation = explorer.compile(text, options={"grad": grad})
    seconds = process_time() - begin
    if not compilation.ok:
        raise RuntimeError("; ".join(each.message for each in compilation.diagnostics))
    return seconds


def import_samples(repeat: int = 9) -> list[float]:
    """Milliseconds of `import explorer.compiler`, each in a fresh interpreter."""
    command = [sys.executable, "-c", IMPORT]
    keeping_bytecode = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    runs = [
        subprocess.run(command, cwd=CHECKOUT, env=keeping_bytecode, check=True, capture_output=True, text=True).stdout
        for _ in range(repeat + 1)
    ]
    return [float(run) for run in runs[1:]]  # the first one may write .pyc files


def table(figures: dict[str, Any]) -> str:
    """The figures for people."""
    lines = [heading(figures), "", f"{'':28}{'median ms':>10}{'p5':>9}{'p95':>9}  target"]
    backward = f"{BACKWARD} --grad, to the loops"
    rows = {
        "import explorer.compiler": figures["import_ms"],
        **figures["compile_ms"],
        backward: figures["backward_ms"],
        **figures["on_demand_ms"],
    }
    targets = {"import explorer.compiler": IMPORT_TARGET_MS, "transr": COMPILE_TARGET_MS, backward: BACKWARD_TARGET_MS}
    for name, row in rows.items():
        target = f"  under {targets[name]:g}" if name in targets else ""
        lines.append(f"{name:28}{row['median']:>10.2f}{row['p5']:>9.2f}{row['p95']:>9.2f}{target}")
    middle = median(row["median"] for row in figures["compile_ms"].values())
    lines.append(f"{'median of the examples':28}{middle:>10.2f}")
    lines += ["", f"{'long texts':28}{'count':>10}{'s':>9}{'twice, s':>9}  ratio, under {GROWTH_TARGET:g}"]
    for row in figures["growth"]:
        name = row["text"] + (" --grad" if row["grad"] else "")
        ratio = f"  {row['twice_s'] / row['once_s']:.2f}"
        lines.append(f"{name:28}{row['count']:>10}{row['once_s']:>9.2f}{row['twice_s']:>9.2f}{ratio}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
