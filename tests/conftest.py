"""What all tests share: where things lie, and how Hypothesis draws."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]

# A machine under load must not fail a property for its pace; the timeout of pytest bounds each test.
settings.register_profile("explorer", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("explorer")


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
