"""Which resource a row exhausts, by what ncu counts: the rules on made-up counters, and the suite without a GPU.

No GPU and no ncu here: `PAGE` is a sample of the format, a script stands in for ncu's command line, and a pretended
CuPy launches the kernels."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from benchmarks import gpu_exhausted
from benchmarks.gpu_suite import measuring
from benchmarks.gpu_suite.rows import ROWS
from benchmarks.profiling.counters import DRAM, L2, REACHED, TIME, Kernel, read
from benchmarks.profiling.exhausted import BAR, IN_WORDS, METRICS, MOVED, RESOURCES, STALLS, WAVES, told, verdict
from explorer.checkout import CHECKOUT

FMA, LONG = RESOURCES["FMA"], STALLS["loads through L1"]


def kernel(ms: float, values: Mapping[str, float], symbol: str = "k") -> Kernel:
    return Kernel(symbol, "rows", False, 128, {TIME: ms, **values})


def test_the_busiest_resource_weighed_by_time_is_exhausted_from_the_bar_on() -> None:
    long = kernel(0.3, {DRAM: 40, L2: 72, REACHED: 80, WAVES: 9})
    short = kernel(0.1, {DRAM: 90, L2: 32, REACHED: 10, WAVES: 0.5})
    found = verdict([long, short])
    assert (found.kind, found.resource) == ("exhausted", "L2")
    assert found.percent == pytest.approx((0.3 * 72 + 0.1 * 32) / 0.4)
    assert found.words == "exhausted: L2: 62 % of what it sustains"
    below = verdict([long, kernel(0.1, {DRAM: 45, L2: 23.6, REACHED: 10, WAVES: 0.5})])
    assert below.percent == pytest.approx(59.9)
    assert below.kind != "exhausted"
    assert "exhausted" not in below.words.replace("none is exhausted", "")


@pytest.mark.parametrize(("percent", "kind"), [(BAR, "exhausted"), (BAR - 0.1, "none")])
def test_nothing_below_the_bar_is_exhausted(percent: float, kind: str) -> None:
    assert verdict([kernel(1.0, {DRAM: percent, REACHED: 90, WAVES: 20})]).kind == kind


def test_short_rows_of_few_waves_and_warps_are_told_with_their_numbers() -> None:
    counted = {DRAM: 24.0, L2: 48.4, REACHED: 31.0, WAVES: 0.84, LONG: 55.0, STALLS["a barrier"]: 12.0}
    found = verdict([kernel(0.0081, counted)])
    assert found.kind == "latency"
    assert found.words == (
        "none is exhausted: latency (8.1 us in all, 0.8 waves of blocks, 31 % of the warps);"
        " L2 is the busiest with 48 %; warps wait for loads through L1 in 55 % of their cycles"
    )
    long = verdict([kernel(3.0, {DRAM: 24, L2: 48, REACHED: 80, WAVES: 30})])
    assert (long.kind, long.words) == ("none", "none is exhausted; L2 is the busiest with 48 %")
    assert verdict([kernel(3.0, {L2: 48, REACHED: 80, WAVES: 1.9})]).kind == "latency"
    assert verdict([kernel(3.0, {L2: 48, REACHED: 49, WAVES: 30})]).kind == "latency"
    assert verdict([kernel(0.019, {L2: 48, REACHED: 80, WAVES: 30})]).kind == "latency"


def test_kernels_that_exhaust_different_resources_do_so_in_turns() -> None:
    first, second = kernel(0.5, {DRAM: 90, FMA: 5}), kernel(0.4, {DRAM: 10, FMA: 85})
    found = verdict([first, second, kernel(0.1, {DRAM: 5, FMA: 5})])
    assert found.kind == "in turns"
    assert found.percent is not None
    assert found.percent < BAR
    assert found.words == (
        f"exhausted in turns: {IN_WORDS['memory']} 90 % for 50 % of the time,"
        f" {IN_WORDS['FMA']} 85 % for 40 % of the time"
    )
    too_little = verdict([first, kernel(0.5, {DRAM: 10, FMA: 40})])
    assert (too_little.kind, too_little.resource) == ("none", "memory")


def test_a_kernel_without_a_value_counts_as_idle() -> None:
    assert verdict([kernel(0.5, {L2: 90}), kernel(0.5, {DRAM: 50})]).kind == "none"
    found = verdict([kernel(0.5, {REACHED: 90})])
    assert (found.kind, found.resource, found.percent) == ("none", None, None)
    assert "no value of any resource" in found.words


HEADS = ["ID", "Process Name", "Kernel Name", *METRICS[:-1]]
UNITS = {TIME: "ns", WAVES: "", MOVED: "byte"}


def page(*launches: tuple[str, Mapping[str, str]]) -> str:
    """ncu's page of launches; a metric that is not given is one that it does not know."""
    rows = [HEADS, ["", "", "", *(UNITS.get(name, "%") for name in HEADS[3:])]]
    for number, (symbol, values) in enumerate(launches):
        rows.append([str(number), "python3", symbol, *(values.get(name, "n/a") for name in HEADS[3:])])
    lines = [",".join(f'"{cell}"' for cell in row) for row in rows]
    return "\n".join(["==PROF== a format sample of the tests, not measured", *lines])


PAGE = page(
    (
        "one_kernel(const int *)",
        {TIME: "12,000", L2: "71.50", DRAM: "20", REACHED: "61.25", WAVES: "3.5", MOVED: "1,500"},
    ),
    ("two_kernel", {TIME: "4,000", L2: "40", DRAM: "30", REACHED: "20", WAVES: "0.10", MOVED: "500"}),
)


def test_what_ncu_does_not_know_is_left_out() -> None:
    (_, first), (_, second) = read(PAGE.splitlines(), METRICS)
    assert first == {TIME: pytest.approx(0.012), L2: 71.5, DRAM: 20, REACHED: 61.25, WAVES: 3.5, MOVED: 1500}
    found = told([Kernel("a", "rows", False, 128, first), Kernel("b", "rows", False, 128, second)])
    assert found["of_peak"] == {"memory": 22.5, "L2": pytest.approx(63.62, abs=0.01)}
    assert (found["ms"], found["bytes"], found["stalled_on"]) == (0.016, 2000, {})
    assert found["waves"] == pytest.approx(0.75 * 3.5 + 0.25 * 0.1, abs=0.01)
    assert "bytes" not in told([kernel(1, {})])


NCU = """
import json, pathlib, sys
words = sys.argv[1:]
if "--version" in words:
    sys.exit(print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 1)"))
here = pathlib.Path(__file__).parent
if "--import" in words:
    sys.exit(print((here / "page").read_text()))
assert words[words.index("--clock-control") + 1] == "none"
assert "--cache-control" not in words, "by default ncu empties the caches"
assert words[words.index("--profile-from-start") + 1] == "off"
at = words.index("-m")
assert words[at + 1] == "benchmarks.gpu_exhausted"
name, into = (words[words.index(flag) + 1] for flag in ("--row", "--into"))
with (here / "begun").open("a") as file:
    print(name, file=file)
if (here / "refuses").exists():
    print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\\n==WARNING== No kernels were profiled.")
if (here / "crashes").exists() and name == "SLS RM1":
    sys.exit("ImportError\\n==ERROR== The application returned an error code (1).")
about = {"template": "rows", "backward": False, "threads": 128}
kernels = [about | {"symbol": f"{each}_kernel"} for each in ("one", "two")]
right = name != "SLS RM2" or not (here / "wrong").exists()
told = {"name": name, "launched": kernels, "right": right, "error": "", "device": "NVIDIA H200"}
pathlib.Path(into).write_text(json.dumps(told))
pathlib.Path(words[words.index("--export") + 1]).touch()
"""


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "ncu"
    file.write_text(f"#!{sys.executable}\n{NCU}")
    file.chmod(0o755)
    (tmp_path / "page").write_text(PAGE)
    monkeypatch.setattr(gpu_exhausted, "find_ncu", lambda: str(file))
    monkeypatch.setattr(gpu_exhausted, "missing_gpu", lambda: "")
    return file


def test_rows_are_counted_and_stand_beside_published_times(
    ncu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timed = tmp_path / "timed"
    lines = [{"device": "x"}, {"row": "SLS RM1", "ours": {"ms": 0.0157}}, {"row": "SLS RM2", "ours": {"error": "no"}}]
    timed.write_text("\n".join(["a table", *map(json.dumps, lines)]))
    assert gpu_exhausted.main(["--only", "sls rm,HGT fb15k inf", "--timed", str(timed)]) == 0
    out = capsys.readouterr().out
    rows = {row["row"]: row for row in map(json.loads, out.splitlines()[:4])}
    assert rows.keys() == {"HGT fb15k inference", "SLS RM1", "SLS RM2", "SLS RM3"}
    first = rows["SLS RM1"]
    assert (first["kind"], first["resource"], first["percent"]) == ("exhausted", "L2", 63.6)
    assert (first["source"], first["device"], first["tool"]) == ("measured", "NVIDIA H200", "ncu 2025.3.1.0")
    assert (first["hand_ms"], first["hand"]) == (0.0162, "published, on an H100")
    assert "hand_ms" not in rows["HGT fb15k inference"]
    assert [(each["symbol"], each["share"]) for each in first["kernels"]] == [("one_kernel", 75), ("two_kernel", 25)]
    assert first["kernels"][1]["of_peak"] == {"memory": 30, "L2": 40}
    table = [line.split() for line in out.splitlines()[4:]]
    heads = next(line for line in table if line[:1] == ["row"])
    assert heads[1:8] == ["timed", "ncu", "hand", "of", "hand", "kernels", "MB"]
    assert heads[8 : 8 + len(RESOURCES)] == [*RESOURCES]
    one = next(line for line in table if line[:2] == ["SLS", "RM1"])
    assert one[2:10] == ["0.0157", "0.0160", "0.0162", "0.97", "2", "0", "22.5", "63.6"]
    assert one[10] == "-", "ncu had no value"
    two = next(line for line in table if line[:2] == ["SLS", "RM2"])
    assert two[2:6] == ["-", "0.0160", "0.0235", "-"]
    assert "of 4 rows 4 exhaust a resource (from 60 % on; 0 from 80 %)" in out
    assert "hand-written kernels on an H100" in out


def test_a_row_that_fails_or_is_wrong_loses_no_other(ncu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (ncu.parent / "crashes").touch()
    (ncu.parent / "wrong").touch()
    assert gpu_exhausted.main(["--only", "SLS RM"]) == 1
    out = capsys.readouterr().out
    rows = {row["row"]: row for row in map(json.loads, out.splitlines()[:3])}
    assert "ImportError" in rows["SLS RM1"]["error"]
    assert rows["SLS RM2"]["error"] == "a result is not float64's"
    assert rows["SLS RM3"]["kind"] == "exhausted"
    assert "SLS RM2: a result is not float64's" in out
    assert "2 not measured" in out


def test_rows_that_there_is_no_time_for_are_named(ncu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_exhausted.main(["--only", "SLS RM", "--seconds", "1"]) == 1
    out = capsys.readouterr().out
    assert out.count("SLS RM3: there was no time left") == 1
    assert not (ncu.parent / "begun").exists()


def test_where_ncu_may_not_count_little_is_tried(ncu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (ncu.parent / "refuses").touch()
    assert gpu_exhausted.main(["--jobs", "1"]) == 2
    told = capsys.readouterr()
    assert "ERR_NVGPUCTRPERM" in told.err
    assert "what is exhausted" not in told.out
    assert len((ncu.parent / "begun").read_text().splitlines()) == gpu_exhausted.REFUSALS


def test_without_a_gpu_or_ncu_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_exhausted, "missing_gpu", lambda: "no driver")
    assert gpu_exhausted.main([]) == 2
    assert "there is no GPU to use: no driver" in capsys.readouterr().err
    monkeypatch.setattr(gpu_exhausted, "missing_gpu", lambda: "")
    monkeypatch.setattr(gpu_exhausted, "find_ncu", lambda: "")
    assert gpu_exhausted.main([]) == 2
    assert "there is no ncu" in capsys.readouterr().err


def test_what_is_asked_for_is_there(ncu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_exhausted.main(["--only", "no such"]) == 2
    assert f"there are {ROWS[0].name}," in capsys.readouterr().err
    with pytest.raises(SystemExit):
        gpu_exhausted.main(["--timed", "no such file"])


def test_a_row_is_checked_and_launched_alone(fake_cuda: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretended = measuring.outcome

    def outcome(problem: Any, bound: Any) -> Any:
        monkeypatch.setattr(torch, "from_dlpack", lambda array: torch.from_numpy(array.numpy.copy()))
        return pretended(problem, bound)

    monkeypatch.setattr(measuring, "outcome", outcome)
    monkeypatch.setattr(torch.cuda.profiler, "profile", nullcontext)
    monkeypatch.setattr(gpu_exhausted, "DEVICE", "cpu")
    into, lock = tmp_path / "told", tmp_path / "lock"
    given = ["--row", "RGCN fb15k inference", "--into", str(into), "--lock", str(lock), "--quick"]
    assert gpu_exhausted.main(given) == 0
    launched = json.loads(into.read_text())
    assert (launched["error"], launched["right"], launched["device"]) == ("", True, "Pretended GPU")
    symbols = [each["symbol"] for each in launched["launched"]]
    assert [name for name in fake_cuda.log if name in symbols][-len(symbols) :] == symbols
    fake_cuda.spoils = True
    gpu_exhausted.main(given)
    assert not json.loads(into.read_text())["right"]


HANGS = """
import pathlib, sys, time
from benchmarks.gpu_exhausted import alone
with alone(pathlib.Path(sys.argv[1]), 1):
    print("in", flush=True)
    time.sleep(60)
"""


def test_one_process_has_the_device_and_for_its_time_alone(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HANGS, str(lock)], stdout=subprocess.PIPE, text=True, cwd=CHECKOUT
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        with gpu_exhausted.alone(lock, 60):
            assert process.poll() is not None or process.wait(5) is not None
        assert process.wait() == -signal.SIGALRM
    assert signal.alarm(0) == 0, "no alarm is left"
