"""What all tests share: where things lie, and how Hypothesis draws."""

import gc
import os
import re
import sys
from collections.abc import Callable, Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.sampling import mark_the_rest

ROOT = Path(__file__).resolve().parents[1]
# PyTorch's threads would wait for each other by spinning, on the cores that the other workers' tests need.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# A machine under load must not fail a property for its pace; the timeout of pytest bounds each test. CI draws the same
# examples each time, so that it fails for a change and not by chance, and does not spend minutes on a smaller one that
# fails; everywhere else new ones are drawn.
IN_CI = "CI" in os.environ
settings.register_profile(
    "explorer",
    deadline=None,
    derandomize=IN_CI,
    phases=[phase for phase in Phase if not (IN_CI and phase is Phase.shrink)],
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("explorer")
# The compiler raises the limit for deep models, at its first: Hypothesis warns where a test changes it.
sys.setrecursionlimit(20_000)


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's root folder."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real knowledge graphs beside the project."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs ../shared/data, which is not on this machine")
    return folder


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Which worker gets what: `tests.distributing`."""
    if config.getvalue("dist") != "loadscope":
        return None
    from tests.distributing import InOrder

    return InOrder(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """What is not drawn goes to the sweep, before `-m` looks; a worker has its tests in the order of their hand-out."""
    mark_the_rest(items)
    yield
    if hasattr(config, "workerinput"):
        from tests.distributing import sort_by_length

        sort_by_length(items)


def pytest_collection_finish() -> None:
    """What collecting has made stays until the end: the garbage collector, a tenth of the time, need not look at it,
    and compiling makes many objects, few of them in cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def _machine_code_once() -> Iterator[None]:
    """What Numba, NVRTC and nvdisasm make is kept by content, for all workers and the servers that they start, and for
    later runs of the tests: Numba alone takes a quarter of their time, and most texts are those of the run before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXPLORER_CACHE", str(ROOT / "build" / "tests"))
        yield


@pytest.fixture(autouse=True)
def _drawn_alike() -> None:
    """A test draws what it draws alone, whichever tests the worker ran before it; where one imports PyTorch itself,
    it has the seed that PyTorch begins with."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(0)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` rewrites the expected texts instead of comparing with them."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the texts under tests/golden")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compares a text with `tests/golden/<test file>/<test name>.txt`."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.name).strip("-")
    path = ROOT / "tests" / "golden" / Path(request.node.path).stem / f"{name}.txt"

    def compare(text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        known = path.relative_to(ROOT)
        assert path.is_file(), f"no {known}: make it with --update-golden, and read it"
        lines = unified_diff(path.read_text().splitlines(), text.splitlines(), str(known), "now", lineterm="", n=0)
        changed = "\n".join(lines)
        assert not changed, f"not what is recorded (--update-golden records it on purpose):\n{changed}"

    return compare


@pytest.fixture
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A pretended GPU behind a pretended CuPy; tests change what it does through the `Device` that they get."""
    from explorer.runtime.targets.gpu import device as gpu_device
    from explorer.runtime.targets.gpu import program as gpu
    from explorer.runtime.targets.gpu import timing as gpu_timing

    remembered = (gpu_device.missing, gpu_device._device, gpu._loaded, gpu_timing._module, gpu_timing.ceilings)
    monkeypatch.setattr(gpu.GpuProgram, "of", gpu.GpuProgram.of)  # which the pretended CuPy replaces
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "fake_cuda"))
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    for cached in remembered:
        cached.cache_clear()
    import cupy

    yield cupy.DEVICE
    for cached in remembered:
        cached.cache_clear()
    del sys.modules["cupy"]
