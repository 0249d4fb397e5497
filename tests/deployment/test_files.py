"""compose.yaml and the Dockerfile: what their formats ask for, and what each container is kept to."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from explorer.arguments import make_parser

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = YAML(typ="safe").load(ROOT / "compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PROFILES = {"demo": {"demo"}, "class": {"web", "valkey", "worker"}, "gpu": {"web", "valkey", "worker-gpu"}}
BIN = Path(sys.executable).parent


def schema_says(file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]
    return subprocess.run(command, capture_output=True, text=True)


def test_compose_is_as_its_specification_says(tmp_path: Path) -> None:
    said = schema_says(ROOT / "compose.yaml")
    assert said.returncode == 0, said.stdout + said.stderr
    (tmp_path / "wrong.yaml").write_text((ROOT / "compose.yaml").read_text().replace("cap_drop: [ALL]", "cap_drop: 1"))
    assert "cap_drop" in schema_says(tmp_path / "wrong.yaml").stdout


def test_the_dockerfile_has_none_of_the_known_faults(tmp_path: Path) -> None:
    for name, text, fine in (("as_it_is", DOCKERFILE, True), ("as_root", f"{DOCKERFILE}\nUSER root\n", False)):
        (tmp_path / name).write_text(text)
        said = subprocess.run([BIN / "hadolint", "--failure-threshold=style", tmp_path / name], capture_output=True)
        assert (said.returncode == 0) == fine, said.stdout.decode()


def test_there_are_three_profiles() -> None:
    asked = {profile for service in SERVICES.values() for profile in service["profiles"]}
    assert {name: {each for each in SERVICES if name in SERVICES[each]["profiles"]} for name in asked} == PROFILES


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_is_kept_to_what_it_needs(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "pid", "ipc", "network_mode", "devices"} & service.keys()
    limits = service["deploy"]["resources"]["limits"]
    assert re.fullmatch(r"\d+[gm]", limits["memory"])
    assert limits["pids"] <= 512
    assert all(each.split(":")[0] in COMPOSE["volumes"] for each in service.get("volumes", ())), "no folder of the host"


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "valkey"])
def test_the_image_has_what_the_containers_write_to(name: str) -> None:
    """By the user that it names: the volume begins as the image's folder, the others are of the user's number."""
    (user,) = re.findall(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE)
    assert f"--uid {user} " in DOCKERFILE
    numba, *store = SERVICES[name]["volumes"]
    assert numba == "numba:/home/explorer/numba"
    serves = "serve" in SERVICES[name]["command"]
    assert store == (["store:/home/explorer/store"] if serves else [])
    assert not serves or "/home/explorer/store/explorer.db" in SERVICES[name]["command"]
    assert "mkdir -m 700 /home/explorer/store" in DOCKERFILE
    assert "NUMBA_CACHE_DIR=/home/explorer/numba" in DOCKERFILE
    tmp, cache = SERVICES[name]["tmpfs"]
    assert tmp.startswith("/tmp:")
    assert cache.startswith("/home/explorer/.cache:")
    assert f"uid={user}," in cache


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "valkey"])
def test_what_a_container_runs_is_a_command_of_ours(name: str) -> None:
    words = (re.sub(r"\$\{\w+:-(\w+)\}", r"\1", word) for word in SERVICES[name]["command"])  # as where nothing is set
    program, *arguments = words
    assert program == "explorer"
    asked = make_parser().parse_args(arguments)
    if asked.command == "serve":
        assert "HEALTHCHECK" in DOCKERFILE
        assert "healthcheck" not in SERVICES[name]
        assert all(port.endswith(f":{asked.port}") for port in SERVICES[name]["ports"])
    else:
        assert SERVICES[name]["healthcheck"] == {"disable": True}
        assert SERVICES[name]["networks"] == ["queue"], "a worker reaches the queue, and no network besides"
    if name != "demo":
        assert asked.queue == "redis://valkey:6379"
        assert COMPOSE["networks"]["queue"] == {"internal": True}


def test_the_gpu_is_reserved_as_the_specification_says() -> None:
    (device,) = SERVICES["worker-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}
    reserving = [name for name in SERVICES if "reservations" in SERVICES[name]["deploy"]["resources"]]
    assert reserving == ["worker-gpu"]
