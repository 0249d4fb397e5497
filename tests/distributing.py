"""In which order, and how together, the workers of pytest-xdist get the modules of tests."""

from __future__ import annotations

from collections import Counter

import pytest
from xdist.scheduler import LoadScopeScheduling

BROWSER = "tests/browser"
LONG = (
    BROWSER,
    "tests/runtime/export/test_export.py",
    "tests/runtime/test_storage.py",
    "tests/runtime/peers/test_compiled.py",
    "tests/examples/test_train_traced.py",
    "tests/runtime/export/test_names.py",
    "tests/runtime/export/test_several.py",
    "tests/runtime/export/test_maps.py",
    "tests/tuner/test_held_out.py",
    "tests/tuner/test_recordings.py",
    "tests/runtime/test_traced.py",
    "tests/tuner/tune/test_on_gpu.py",
    "tests/runtime/torch/test_module.py",
    "tests/runtime/workers/test_jobs.py",
    "tests/sweep/test_hostile.py",
    "tests/sweep/test_fuzz.py",
    "tests/sweep/test_quiet.py",
    "tests/emulator/test_chunked_gradients.py",
    "tests/compiler/schedule/test_texts_in_turn.py",
    "tests/compiler/schedule/test_examples_kept.py",
    "tests/tuner/tune/test_on_cpu.py",
    "tests/cli/test_run.py",
    "tests/benchmarks/test_suites.py",
    "tests/emulator/test_gradients.py",
    "tests/queue/test_class.py",
    "tests/queue/test_page.py",
    "tests/web/test_socket.py",
    "tests/web/processes/test_several.py",
    "tests/tuner/tune/test_on_dae.py",
    "tests/web/test_description.py",
    "tests/benchmarks/test_record.py",
    "tests/compiler/test_random_layers.py",
    "tests/compiler/ir/test_round_trip.py",
    "tests/compiler/by_form/test_forms.py",
    "tests/compiler/codegen/test_sass.py",
)
"""What takes ten seconds or more with few tests, here or in the sweep."""


def scope_of(test: str) -> str:
    """What a worker gets at a time: a test's module, but all browser tests together."""
    return BROWSER if test.startswith(f"{BROWSER}/") else test.split("::")[0]


def sort_by_length(items: list[pytest.Item]) -> None:
    """What is long comes first, then the modules with the most tests: so no worker is left with a long one alone."""
    counts = Counter(scope_of(item.nodeid) for item in items)

    def place(item: pytest.Item) -> tuple[int, int, str]:
        scope = scope_of(item.nodeid)
        return (LONG.index(scope) if scope in LONG else len(LONG), -counts[scope], scope)

    items.sort(key=place)


class InOrder(LoadScopeScheduling):  # type: ignore[misc]
    """`--dist=loadscope` in the order of `sort_by_length`, and with all browser tests in one worker.

    Two workers with a browser each, a server and its processes starve each other where there are two cores."""

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)
