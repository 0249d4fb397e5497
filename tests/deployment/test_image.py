"""The image as compose.yaml runs it, without Docker: built by the Dockerfile's own steps on Debian (`image.py`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deployment.image import ROOT, Image, cannot, follow, instructions

DOCKERFILE = """# a comment
FROM a AS b
RUN one \\
    # in between
    two
ENV A="1 2" \\
    PATH="/x:$PATH"
"""


def test_a_dockerfile_is_read_as_docker_does() -> None:
    found = [(name, " ".join(rest.split())) for name, rest in instructions(DOCKERFILE)]
    assert found == [("FROM", "a AS b"), ("RUN", "one two"), ("ENV", 'A="1 2" PATH="/x:$PATH"')]
    image = Image(Path("/nowhere"))
    follow(image, *found[2], {})
    assert image.environment["A"] == "1 2"
    assert image.environment["PATH"].startswith("/x:/usr/local/sbin:")
    with pytest.raises(ValueError, match="ADD is no instruction"):
        follow(image, "ADD", "x y", {})


def test_every_instruction_of_ours_is_known() -> None:
    named = {name for name, _ in instructions((ROOT / "Dockerfile").read_text())}
    assert named == {"FROM", "WORKDIR", "COPY", "RUN", "ARG", "ENV", "USER", "EXPOSE", "HEALTHCHECK", "CMD"}


@pytest.mark.sweep
def test_the_image_serves_with_as_little_as_compose_gives_it(tmp_path: Path) -> None:
    why = cannot()
    if why:
        pytest.skip(why)
    command = [sys.executable, str(ROOT / "tests" / "deployment" / "image.py"), str(tmp_path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=os.environ)
    assert done.returncode == 0
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["health"]["status"] == "ok"
    assert found["uid"] == "10001"
    assert found["capabilities"] == [0, 0, 0, 0]
    assert found["no_new_privileges"] == "1"
    read_only = dict.fromkeys(("/", "/app", "/home/explorer", "/opt/explorer"), "Read-only file system")
    writable = dict.fromkeys(("/tmp", "/home/explorer/.cache", "/home/explorer/numba"))
    assert found["refused"] == read_only | writable
    assert found["right"] == {"cpu": True, "dae": True}
    assert found["seconds"] < 40, "the simulator's machine code is made anew"
    assert found["compiled"]
    assert found["page"]
