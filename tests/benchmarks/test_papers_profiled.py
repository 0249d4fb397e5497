"""The papers' figures that need a profiler: ncu's page of counters is read, and told by kernel, template and pass.

No GPU and no ncu here: `PAGE` is a sample of the format, a pretended CuPy launches the kernels, and a script stands in
for ncu's command line."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from benchmarks import papers
from benchmarks.gpu_suite import measuring
from benchmarks.paper import cuke, hector
from benchmarks.paper.figure import Figure, as_text
from benchmarks.paper.measured import ahead, counters, launched, on_gpu, profiled
from benchmarks.paper.measured.counters import Case, Counted
from benchmarks.paper.page import page
from benchmarks.profiling import counters as ncu_counters
from benchmarks.profiling.counters import DRAM, FITS, IPC, REACHED, REGISTERS, SHARED, TIME, FormatError, Kernel
from benchmarks.profiling.ncu import Failed, NoCounters, end_of

PAGE = """==PROF== a format sample of the tests, not measured
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum","launch__registers_per_thread","launch__shared_mem_per_block_dynamic",\
"launch__shared_mem_per_block_static","sm__inst_executed.avg.per_cycle_active","sm__maximum_warps_per_active_cycle_pct",\
"sm__warps_active.avg.pct_of_peak_sustained_active"
"","","","","","","","","","","","%","ns","register/thread","byte/block","byte/block","inst/cycle","%","%"
"0","4711","python3","127.0.0.1","one_kernel(const int *, float *)","1","7","(128, 1, 1)","(1,024, 1, 1)","0","9.0",\
"30.5","2,000","40","0","33,216","1.50","75","61.25"
"1","4711","python3","127.0.0.1","two_kernel","1","7","(128, 1, 1)","(8, 1, 1)","0","9.0",\
"n/a","6,000","64","68,544","0","0.50","50","nan"
"""
ALL = (DRAM, FITS, IPC, REACHED, REGISTERS, *SHARED, TIME)


def test_a_page_of_counters_is_read() -> None:
    (one, first), (two, second) = ncu_counters.read(PAGE.splitlines(), ALL)
    assert (one, two) == ("one_kernel", "two_kernel")
    assert first == {
        DRAM: 30.5,
        TIME: pytest.approx(0.002),
        "launch__registers_per_thread": 40,
        "launch__shared_mem_per_block_dynamic": 0,
        "launch__shared_mem_per_block_static": 33_216,
        IPC: 1.5,
        "sm__maximum_warps_per_active_cycle_pct": 75,
        REACHED: 61.25,
    }
    assert second.keys() == first.keys() - {DRAM, REACHED}, "what ncu has no value of is left out"
    scaled = ncu_counters.read(PAGE.replace('"ns"', '"us"').replace('"byte/block"', '"Kbyte/block"').splitlines(), ALL)
    assert scaled[0][1] == first | {TIME: pytest.approx(2), "launch__shared_mem_per_block_static": 33_216e3}


@pytest.mark.parametrize("text", ["", "==WARNING== No kernels were profiled", PAGE.replace('"ns"', '"fortnight"')])
def test_what_is_no_page_of_counters_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        ncu_counters.read(text.splitlines(), ALL)


METRICS = (REACHED, IPC)


def kernel(symbol: str, template: str, backward: bool = False) -> dict[str, Any]:
    return {"symbol": symbol, "template": template, "backward": backward, "threads": 128}


def test_rows_belong_to_the_launches_in_their_order() -> None:
    rows = ncu_counters.read(PAGE.splitlines(), ALL)
    told = [
        {"name": "a", "launched": [kernel("one_kernel", "gemm")]},
        {"name": "b", "launched": []},
        {"name": "c", "launched": [kernel("two_kernel", "rows", True)]},
    ]
    found = ncu_counters.joined(told, rows)
    assert {name: [each.symbol for each in kernels] for name, kernels in found.items()} == {
        "a": ["one_kernel"],
        "b": [],
        "c": ["two_kernel"],
    }
    assert found["c"][0] == Kernel("two_kernel", "rows", True, 128, rows[1][1])
    with pytest.raises(FormatError, match="2 kernels of 2"):
        ncu_counters.joined(told, rows[::-1])
    with pytest.raises(FormatError, match="1 kernels of 2"):
        ncu_counters.joined(told, rows[:1])


def found_of(**kernels: list[Kernel]) -> Counted:
    return Counted(kernels, {}, [], "a device with ncu 2025.3.1.0")


def test_instructions_per_cycle_are_weighted_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [values for _, values in ncu_counters.read(PAGE.splitlines(), ALL)]
    own = [Kernel("a", "gemm", False, 128, values[0]), Kernel("b", "rows", False, 128, values[1])]
    own.append(Kernel("c", "outer_products", True, 128, values[1]))
    asked = []

    def counted(cases: Any, metrics: Any, seconds: float) -> Counted:
        assert metrics[:2] == (IPC, TIME)
        asked.extend(cases)
        return found_of(**{"C, 64": own, "U, 64": []})

    monkeypatch.setattr(on_gpu, "give_back", lambda: None)
    monkeypatch.setattr(counters, "counted", counted)
    table = hector.figure_12("rgat", "bgs")
    assert [(case.name, case.size) for case in asked[:3]] == [("U, 32", 32), ("C, 32", 32), ("U, 64", 64)]
    assert {case.data for case in asked} == {"bgs"}
    forward, backward = table.rows
    assert (forward.label, backward.label) == ("C, 64, forward", "C, 64, backward")
    assert forward.ours == {
        "ms": pytest.approx(0.008),
        "IPC": pytest.approx((2 * 1.5 + 6 * 0.5) / 8),
        "IPC, GEMM": pytest.approx(1.5),
        "IPC, traversal": pytest.approx(0.5),
        "GEMM, % of the time": pytest.approx(25),
        "DRAM, %": pytest.approx(30.5),
    }
    assert "IPC, traversal" not in backward.ours
    assert backward.ours["GEMM, % of the time"] == 100, "outer products are GEMM's"
    assert {column for row in table.rows for column in row.ours} <= set(table.columns)
    assert table.source == "measured"
    assert "Measured on a device with ncu 2025.3.1.0." in table.note


def test_occupancy_stands_beside_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [values for _, values in ncu_counters.read(PAGE.splitlines(), ALL)]
    own = [Kernel("a", "chunks", False, 512, values[0]), Kernel("b", "inspector", False, 128, values[1])]
    failed = Counted({"x": own}, {"y": "ValueError: no"}, ["z"], "a device with ncu")
    monkeypatch.setattr(on_gpu, "give_back", lambda: None)
    monkeypatch.setattr(counters, "counted", lambda cases, metrics, seconds: failed)
    table = cuke.occupancy()
    most, score, inspector = table.rows
    assert score.ours == {
        "registers, B a thread": 160,
        "shared memory, B a thread": 33_216 / 512,
        "theoretical occupancy, %": 75,
        "achieved occupancy, %": 61.25,
    }
    assert score.published == {"achieved occupancy, %": (75, 93)}
    assert not inspector.published
    assert "achieved occupancy, %" not in inspector.ours
    assert most.ours == {"registers, B a thread": 256, "shared memory, B a thread": 68_544 / 128}
    assert most.published == {"registers, B a thread": 160, "shared memory, B a thread": 36}
    assert not table.right
    assert "Failed: y: ValueError: no." in table.note
    assert "Left out, after 120 s: z." in table.note


def test_without_counters_a_table_says_why(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(papers, "missing_gpu", lambda: "")
    monkeypatch.setattr(on_gpu, "give_back", lambda: None)
    monkeypatch.setattr(counters, "find_ncu", lambda: "")
    assert papers.main(["hector", "fig12-rgat-bgs", "table3"]) == 0
    text = capsys.readouterr().out
    assert "Not measured: there is no ncu on the path" in text
    assert "Table 3: data sets" in text
    table = cuke.occupancy()
    assert not table.rows
    figure = Figure("f", "", ("cuke 24",))
    assert "Not measured" in page([(papers.PAPERS["cuke"], [(figure, table)])], "today", "bench")
    assert "Not measured" in as_text(figure, table)


SMALL = [
    Case("TransR", "kge/transr", 8, "WN18", cuke.INSPECTORS["cuKE's chunks"], 48),
    Case("TransH", "kge/transh", 8, "WN18", {}, 4, 3),
    Case("RGAT", "rgnn/rgat", 4, "tiny", {"reorder": False, "compact": True, "grad": True}),
]


@pytest.fixture
def device(fake_cuda: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The pretended device, with what PyTorch's tensors would have on one."""
    pretended = measuring.outcome

    def outcome(problem: Any, bound: Any) -> Any:
        monkeypatch.setattr(torch, "from_dlpack", lambda array: torch.from_numpy(array.numpy.copy()))
        return pretended(problem, bound)

    monkeypatch.setattr(on_gpu, "DEVICE", "cpu")
    monkeypatch.setattr(on_gpu, "give_back", lambda: None)
    monkeypatch.setattr(measuring, "outcome", outcome)
    monkeypatch.setattr(torch.cuda.profiler, "profile", nullcontext)
    on_gpu.layer_program.cache_clear()
    yield fake_cuda
    on_gpu.layer_program.cache_clear()


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_a_case_is_checked_and_launched_once_more(device: Any, case: Case) -> None:
    told = launched.launched(case)
    assert told["error"] == ""
    assert told["right"]
    assert told["device"] == "Pretended GPU"
    symbols = [each["symbol"] for each in told["launched"]]
    assert [name for name in device.log if name in symbols][-len(symbols) :] == symbols
    assert len(set(symbols)) == len(symbols)
    passes = [each["backward"] for each in told["launched"]]
    assert passes == sorted(passes), "forward comes first"
    assert any(passes) == bool(case.options.get("grad"))
    if case.name == "RGAT":
        templates = {each["symbol"]: each["template"] for each in told["launched"]}
        assert "gemm" in templates.values()
        assert "inspector" not in templates.values(), "what runs once has run before"
    device.spoils = True
    assert not launched.launched(case)["right"]


def test_a_case_that_fails_says_so_and_the_others_are_launched(device: Any, tmp_path: Path) -> None:
    cases = [{"name": "none", "model": "kge/none", "size": 4, "data": "WN18"}, vars(SMALL[1]) | {"name": "one"}]
    (tmp_path / "cases.json").write_text(json.dumps([*cases, vars(SMALL[1])]))
    launched.main([str(tmp_path), "600"])
    none, *others = map(json.loads, (tmp_path / "launched.jsonl").read_text().splitlines())
    assert none["error"].startswith("FileNotFoundError")
    assert not none["right"]
    assert [(each["name"], each["right"]) for each in others] == [("one", True), ("TransH", True)]
    launched.main([str(tmp_path), "-1"])
    assert not (tmp_path / "launched.jsonl").read_text(), "no time is left for any"


NCU = """
import json, pathlib, sys
words = sys.argv[1:]
if "--version" in words:
    sys.exit(print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 1)"))
here = pathlib.Path(__file__).parent
if "--import" in words:
    sys.exit(print((here / "page").read_text()))
assert words[words.index("--clock-control") + 1] == "none"
assert words[words.index("--profile-from-start") + 1] == "off"
assert "sm__warps_active.avg.pct_of_peak_sustained_active" in words[words.index("--metrics") + 1]
at = words.index("-m")
assert words[at + 1] == "benchmarks.paper.measured.launched"
folder = pathlib.Path(words[at + 2])
if (here / "refuses").exists():
    print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\\n==WARNING== No kernels were profiled.")
if (here / "crashes").exists():
    sys.exit("ImportError\\n==ERROR== The application returned an error code (1).")
name = json.loads((folder / "cases.json").read_text())[0]["name"]
about = {"template": "rows", "backward": False, "threads": 128}
kernels = [about | {"symbol": f"{each}_kernel"} for each in ("one", "two")]
case = {"name": name, "launched": kernels, "right": True, "error": "", "device": "NVIDIA H200"}
(folder / "launched.jsonl").write_text(json.dumps(case) + "\\n")
if (here / "silent").exists():
    sys.exit(print("==WARNING== No kernels were profiled."))
pathlib.Path(words[words.index("--export") + 1]).touch()
"""


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "ncu"
    file.write_text(f"#!{sys.executable}\n{NCU}")
    file.chmod(0o755)
    (tmp_path / "page").write_text(PAGE)
    monkeypatch.setattr(counters, "find_ncu", lambda: str(file))
    return file


def test_cases_are_launched_under_ncu(ncu: Path) -> None:
    found = counters.counted(SMALL[:2], METRICS, 20)
    assert [each.symbol for each in found.kernels["TransR"]] == ["one_kernel", "two_kernel"]
    assert found.late == ["TransH"]
    assert found.on == "NVIDIA H200 with ncu 2025.3.1.0"
    assert not found.failed
    script = ncu.read_text()
    ncu.write_text(script.replace('"right": True', '"right": False'))
    assert counters.counted(SMALL[:1], METRICS, 20).failed == {"TransR": ncu_counters.WRONG}


def test_counters_without_a_value_are_none(ncu: Path) -> None:
    (ncu.parent / "page").write_text(PAGE.replace('"61.25"', '"n/a"'))
    with pytest.raises(NoCounters, match="no value of sm__warps_active"):
        counters.counted(SMALL[:1], METRICS, 20)
    assert not counters.counted(SMALL[:1], METRICS[::-1], 20).failed


def test_what_ncu_refuses_is_told_apart_from_a_crash(ncu: Path) -> None:
    (ncu.parent / "refuses").touch()
    with pytest.raises(NoCounters, match="ERR_NVGPUCTRPERM"):
        counters.counted(SMALL, METRICS, 20)
    (ncu.parent / "refuses").unlink()
    (ncu.parent / "silent").touch()
    with pytest.raises(NoCounters, match="no report: ==WARNING== No kernels"):
        counters.counted(SMALL, METRICS, 20)
    (ncu.parent / "crashes").touch()
    with pytest.raises(Failed, match="ImportError") as error:
        counters.counted(SMALL, METRICS, 20)
    assert not isinstance(error.value, NoCounters)


def test_compiling_ahead_fills_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path / "kept"))
    (tmp_path / "kept").mkdir()
    told = list[tuple[int, int]]()
    wrong = Case("none", "kge/none", 4, "WN18")
    asked = counters.code([SMALL[0], wrong, SMALL[0]])
    ahead.compile_all(asked, lambda done, of: told.append((done, of)))
    assert told == [(1, 2), (2, 2)], "each once, and one that fails loses no other"
    kept = [each for each in (tmp_path / "kept").rglob("*") if each.is_file()]
    assert len(kept) == 1
    assert asked[0]().stages["ptx"].available
    assert [each for each in (tmp_path / "kept").rglob("*") if each.is_file()] == kept, (
        "what is measured is found there"
    )


def test_kernels_are_counted_without_a_gpu() -> None:
    table = profiled.resources({"TransR": cuke.model("TransR", "none", "cuKE's chunks")})
    most, score = table.rows
    assert table.source == "counted"
    assert score.ours["theoretical occupancy, %"] == 50
    assert most.ours["shared memory, B a thread"] == score.ours["shared memory, B a thread"] == 68_544 / 512


def test_the_end_of_what_was_said_is_ncus_complaint() -> None:
    text = "a\n==ERROR== Failed to initialize the profiler\nb\n==ERROR== The application returned an error code (1).\n"
    assert end_of(text) == "==ERROR== Failed to initialize the profiler"
    assert end_of("a\n b") == "a b"
