"""Extensions of layers whose edges lead from one set to another: what they are told, and their own test."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.runtime.export.folder import export, package_of
from tests.between_sets import LIKES, SHAPES, given
from tests.compiler.models import compiled

torch = pytest.importorskip("torch", reason="extensions are PyTorch's, which this machine does without")


def test_an_extension_between_sets_passes_its_own_test_on_the_emulator(tmp_path: Path) -> None:
    from tests.runtime.export.emulated import build, tried

    compilation = compiled(LIKES, on_demand=True)
    export(compilation, tmp_path, grad=True)
    build(tmp_path, package_of(compilation.name))
    done = tried(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "5 inputs match the float64 reference" in done.stdout


def test_a_module_is_told_of_both_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.runtime.export.imported import imported

    compilation = compiled(LIKES, on_demand=True)
    export(compilation, tmp_path, grad=True)
    package = imported(tmp_path, package_of(compilation.name), monkeypatch)
    model = package.Likes(user=3, item=7, etype=2)
    assert {name: tuple(parameter.shape) for name, parameter in model.named_parameters()} == SHAPES
    src, dst, etype = (torch.from_numpy(given()[name]) for name in ("src", "dst", "etype"))
    assert {name: model.prepare(src, dst, etype).counts[name] for name in ("user", "item", "edge")} == {
        **{"user": 3, "item": 7},
        **{"edge": 9},
    }
    free = package.Likes()
    assert free.prepare(src, dst).counts["item"] == 6  # the least that holds the ids
    assert free.prepare(src, dst, num_users=5).counts["user"] == 5
    with pytest.raises(ValueError, match="dst holds ids that are not in 0 to 4"):
        free.prepare(src, dst, etype, num_items=5)
    with pytest.raises(ValueError, match="Likes takes src, dst, and etype where there are types"):
        free.prepare(src, dst, etype, num_nodes=5)
    with pytest.raises(ValueError, match="is not told how many node there are"):
        package.Likes(node=3)
