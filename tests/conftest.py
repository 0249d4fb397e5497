"""What all tests share: where things lie, and how Hypothesis draws."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

ROOT = Path(__file__).resolve().parents[1]

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
        assert path.is_file(), f"no {path.relative_to(ROOT)}: make it with --update-golden, and read it"
        assert text == path.read_text()

    return compare


@pytest.fixture
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A pretended GPU behind a pretended CuPy; tests change what it does through the `Device` that they get."""
    from explorer.runtime import gpu, gpu_device, gpu_timing

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
