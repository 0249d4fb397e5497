"""Recording stall samples: the source page of ncu is read, and what is measured belongs to the kernels of the plan.

No GPU and no ncu here: `PAGE` is a sample of the format, and a script stands in for ncu's command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.stalls import launching, source_page
from benchmarks.stalls.collecting import collect
from benchmarks.stalls.prepare import Case, cases, prepare, set_up
from benchmarks.stalls.profiling import Failed, Settings, kernels_of, profile
from benchmarks.stalls.source_page import FormatError, Launch
from explorer.compiler.heat.machine_code import kernels_in
from explorer.compiler.heat.recordings import REASONS, recording_of
from explorer.runtime.runs.fitting import fit
from explorer.runtime.runs.request import ModelRequest

PAGE = """==PROF== a format sample of the tests, not measured
"Kernel Name","one_kernel(const int *, float *)"
"#","Address","Source","Warp Stall Sampling (All Samples)","Warp Stall Sampling (Not-issued Samples)","# Samples",\
"Instructions Executed","stall_long_sb","stall_selected","stall_long_sb_not_issued","stall_long_sb"
"1","0x7f5b24fa0100","      LDC R1, c[0x0][0x28]","12","10","12","96","0","12","0","7"
"2","0x7f5b24fa0110","@!P0  IMAD.WIDE R2, R3, 0x4, R4","1,030","9","1,030","96","1,000","30","9","7"
"3","0x7f5b24fa0120","      EXIT","5","","5","96","","2","",""
"Kernel Name","one_kernel(const int *, float *)"
"#","Address","Source","Warp Stall Sampling (All Samples)","stall_long_sb","stall_selected"
"1","0x7f5b30000000","      LDC R1, c[0x0][0x28]","1","0","1"
"2","0x7f5b30000010","@!P0  IMAD.WIDE R2, R3, 0x4, R4","0","0","0"
"3","0x7f5b30000020","      EXIT","0","0","0"
"""


def test_a_source_page_is_read() -> None:
    launches = source_page.read(PAGE.splitlines())
    instructions = [(0, "LDC"), (16, "IMAD"), (32, "EXIT")]
    assert launches == [
        # What does not add up to all samples of a row, 2 of 5 at the end, is not told apart.
        Launch("one_kernel", instructions, {"selected": {0: 12, 16: 30}, "long_sb": {16: 1000}, "unknown": {32: 5}}),
        Launch("one_kernel", instructions, {"selected": {0: 1}}),
    ]
    together = source_page.added(launches)
    assert together == {"selected": {0: 13, 16: 30}, "long_sb": {16: 1000}, "unknown": {32: 5}}
    assert together.keys() <= REASONS.keys()


@pytest.mark.parametrize("page", ["", "==ERROR== no kernels were profiled", PAGE.replace('"1,030"', '"many"')])
def test_what_is_no_source_page_is_refused(page: str) -> None:
    with pytest.raises(FormatError):
        source_page.read(page.splitlines())


def test_samples_of_other_instructions_are_refused() -> None:
    kernel = {"digest": "d" * 64, "instructions": [[0, "LDC"], [16, "IMAD"], [32, "EXIT"], [48, "NOP"]]}
    plan = {"model": "m", "data": "here", "kernels": {"one_kernel": kernel}}
    launches = source_page.read(PAGE.splitlines())
    (found,) = kernels_of(launches, plan).values()
    assert found["samples"]["long_sb"] == {"10": 1000}
    assert found["launches"] == 2
    plan["kernels"]["idle_kernel"] = {"digest": "e" * 64, "instructions": [[0, "EXIT"]]}
    idle = kernels_of(launches, plan)["e" * 64]
    assert (idle["launches"], idle["samples"]) == (0, {})
    kernel["instructions"][1] = [16, "FFMA"]
    with pytest.raises(Failed, match="IMAD at 10, not FFMA at 10"):
        kernels_of(launches, plan)


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plans")
    wanted = [Case("embedding/sls", "sm_90"), Case("kge/transr", "sm_90")]
    assert [count for _, count in prepare(folder, wanted, again=True)] == [1, 3]
    return folder


def test_every_example_is_a_case() -> None:
    found = cases()
    assert len(found) == 2 * len(list((Path(__file__).parents[2] / "examples").glob("*/*.emb")))
    assert {case.name for case in cases("sls-")} == {"embedding-sls-sm_90", "embedding-sls-sm_90a"}


def test_a_plan_is_of_the_kernels_that_the_page_shows(plans: Path, root: Path) -> None:
    for model in ("embedding/sls", "kge/transr"):
        plan = json.loads((plans / f"{Case(model, 'sm_90').name}.json").read_text())
        text = (root / "examples" / f"{model}.emb").read_text()
        shown = fit(ModelRequest(text=text), or_usual=True).compilation.stages["sass"].lines
        assert [kernel["digest"] for kernel in plan["kernels"].values()] == [each.digest for each in kernels_in(shown)]


def test_kernels_are_launched_as_a_run_launches_them(plans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, log = Case("kge/transr", "sm_90"), []

    class Function:
        ptr = 7

        def __init__(self, symbol: str) -> None:
            self.symbol = symbol

        def __call__(self, grid: Any, block: Any, values: Any, shared_mem: int) -> None:
            log.append((self.symbol, grid, block, values, shared_mem))

    class Module:
        def load(self, image: bytes) -> None:
            assert image == (plans / f"{case.name}.cubin").read_bytes()

        def get_function(self, symbol: str) -> Function:
            return Function(symbol)

    driver = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8, funcSetAttribute=lambda *_: None)
    cuda = SimpleNamespace(
        function=SimpleNamespace(Module=Module),
        driver=driver,
        get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None),
        runtime=SimpleNamespace(getDeviceProperties=lambda _: {"name": b"a device"}),
    )
    fake = SimpleNamespace(cuda=cuda, asarray=np.asarray, asnumpy=np.asarray)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    assert launching.launch(plans, case.name, rounds=2) == "a device"
    setup = set_up(case)
    launches = setup.compilation.stages["ptx"].program.launches
    assert [entry[0] for entry in log] == [launch.symbol for launch in launches] * 2
    for launch, (_, grid, block, values, shared) in zip([*launches, *launches], log, strict=True):
        assert (grid[1], block, shared) == (launch.columns, (launch.threads,), launch.shared_bytes)
        given = dict(zip(launch.arguments, values, strict=True))
        for name, value in setup.inputs().items():
            if name in given and np.ndim(value):
                assert given[name].size == np.size(value)
                if given[name].dtype == np.int32:
                    np.testing.assert_array_equal(given[name].ravel(), np.ravel(value))
        assert all(isinstance(value, np.int32 | np.ndarray) for value in values)


NCU = """
import json, pathlib, subprocess, sys
words = sys.argv[1:]
if "--version" in words:
    sys.exit(print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 1)"))
if "--import" in words:
    plan = json.loads(pathlib.Path(words[words.index("--import") + 1]).read_text())
    for symbol, kernel in plan["kernels"].items():
        print(f'"Kernel Name","{symbol}"')
        print('"Address","Source","Warp Stall Sampling (All Samples)","stall_wait"')
        for address, opcode in kernel["instructions"]:
            print(f'"0x{address + 4096:x}","{opcode}.X R1","2","2"')
    sys.exit()
folder, case = words[-2:]
if (pathlib.Path(folder) / f"{case}.sleeps").exists():
    subprocess.run(["sleep", "600"])
if (pathlib.Path(folder) / f"{case}.fails").exists():
    sys.exit("==ERROR== ERR_NVGPUCTRPERM")
assert words[words.index("--clock-control") + 1] == "none"
pathlib.Path(words[words.index("--export") + 1]).write_text((pathlib.Path(folder) / f"{case}.json").read_text())
print("==PROF== connected\\ndevice: NVIDIA H200")
"""


@pytest.fixture
def ncu(tmp_path: Path) -> str:
    file = tmp_path / "ncu"
    file.write_text(f"#!{sys.executable}\n{NCU}")
    file.chmod(0o755)
    return str(file)


def test_a_recording_can_be_gone_on_with_and_is_what_the_page_reads(plans: Path, tmp_path: Path, ncu: str) -> None:
    out, said = tmp_path / "out", list[str]()
    settings = Settings(plans, out, ncu, seconds=200, until=monotonic() + 600)
    names = ["embedding-sls-sm_90", "kge-transr-sm_90"]
    (plans / f"{names[1]}.fails").touch()
    assert profile(settings, names, 2, said.append) == 1
    assert any("ERR_NVGPUCTRPERM" in line for line in said)
    (plans / f"{names[1]}.fails").unlink()
    before = (out / f"{names[0]}.json").stat().st_mtime_ns
    assert profile(settings, names, 2, said.append) == 0
    assert (out / f"{names[0]}.json").stat().st_mtime_ns == before
    assert not list(out.glob("*.ncu-rep"))
    for _ in range(2):  # what is there is added to
        (file,) = collect(out, tmp_path / "recorded")
    assert file.name.startswith("nvidia-h200-")
    plan = json.loads((plans / f"{names[1]}.json").read_text())
    for kernel in plan["kernels"].values():
        recording = recording_of(kernel["digest"], tmp_path / "recorded")
        assert recording is not None
        assert recording.tool == "ncu 2025.3.1.0"
        assert recording.samples == {"wait": {address: 2 for address, _ in kernel["instructions"]}}
        assert recording.label.startswith("measured on NVIDIA H200 with ncu 2025.3.1.0, 20")


def test_profiling_needs_nothing_of_the_compiler() -> None:
    loads = "import benchmarks.stalls.__main__, benchmarks.stalls.profiling, benchmarks.stalls.launching"
    without = "import sys; sys.modules.update({'explorer': None, 'lark': None})"
    subprocess.run([sys.executable, "-c", f"{without}; {loads}"], check=True, timeout=250)


def test_a_case_that_takes_too_long_is_given_up(plans: Path, tmp_path: Path, ncu: str) -> None:
    said = list[str]()
    name = "embedding-sls-sm_90"
    (plans / f"{name}.sleeps").touch()
    try:
        settings = Settings(plans, tmp_path / "out", ncu, seconds=6, until=monotonic() + 600)
        assert profile(settings, [name], 1, said.append) == 1
    finally:
        (plans / f"{name}.sleeps").unlink()
    assert "took longer than 6 s" in said[0]
    late = Settings(plans, tmp_path / "out", ncu, seconds=20, until=monotonic())
    assert profile(late, [name], 1, said.append) == 1
    assert "no time left" in said[1]
