"""What `image.py` has done in new namespaces: enters the image, and runs a line in it or tries out its command."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

DEVICES = ("null", "zero", "random", "urandom")
CACHE, VOLUME = "home/explorer/.cache", "home/explorer/numba"
"""What compose.yaml gives the container to write to, besides /tmp. Where the volume cannot be written to, Numba makes
the simulator's machine code anew in every process: 97 s in the place of 2.5."""
CONTAINED = ("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs")
PATIENCE = 120.0
SIOCSIFFLAGS, UP, RUNNING = 0x8914, 1, 64
PROBE = """
import json, pathlib, time, urllib.request
WRITABLE = ("/tmp", "/home/explorer/.cache", "/home/explorer/numba")
def asked(path, body=None):
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request("http://127.0.0.1:8000" + path, body and json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=110) as answer:
        return json.load(answer)
def refused(path):
    try:
        pathlib.Path(path, "probe").write_text("x")
    except OSError as error:
        return error.strerror
status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
text = pathlib.Path("examples/kge/transe_l1.emb").read_text()
run = {"text": text, "batch": 8, "repeat": 1, "peers": False}
begun = time.monotonic()
found = {
    "health": asked("/healthz"),
    "uid": status["Uid"].split()[0],
    "capabilities": [int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapInh")],
    "no_new_privileges": status["NoNewPrivs"],
    "refused": {path: refused(path) for path in ("/", "/app", "/home/explorer", "/opt/explorer", *WRITABLE)},
    "compiled": asked("/api/compile", {"text": text, "stages": ["cuda", "sass"]})["stages"][1]["available"],
    "right": {on: asked("/api/run", {**run, "on": on})["matches_reference"] for on in ("cpu", "dae")},
    "seconds": round(time.monotonic() - begun, 1),
    "page": len(urllib.request.urlopen("http://127.0.0.1:8000/static/dist/main.js", timeout=9).read()) > 100_000,
}
print(json.dumps(found))
"""


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def enter(root: Path, is_run: bool) -> None:
    """Mount what every container has, and make the image the root: for a run one that nobody can write to."""
    mount("--make-rprivate", "/")
    mount("--bind", str(root), str(root))
    mount("-t", "proc", "proc", str(root / "proc"))
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", str(root / "tmp"))
    for name in DEVICES:
        (root / "dev" / name).touch()
        mount("--bind", f"/dev/{name}", str(root / "dev" / name))
    if is_run:
        (root / CACHE).mkdir(exist_ok=True)
        mount("-t", "tmpfs", "-o", "mode=0700,uid=10001", "tmpfs", str(root / CACHE))
        mount("--bind", str(root / VOLUME), str(root / VOLUME))
        mount("-o", "remount,ro,bind", str(root))
    os.chroot(root)


def as_user(user: str, command: list[str], *more: str) -> list[str]:
    """A command by a user, who is named by number."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *more, *command]


def bring_up_loopback() -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", UP | RUNNING))


def try_out(asked: dict[str, Any], environment: dict[str, str]) -> None:
    """Start the command, wait until its health check agrees, and probe it; the last line out is what was found."""
    bring_up_loopback()
    settings: dict[str, Any] = {"cwd": asked["folder"], "env": environment}
    server = subprocess.Popen(as_user(asked["user"], asked["command"], *CONTAINED), stdout=sys.stderr, **settings)
    until = time.monotonic() + PATIENCE
    try:
        while subprocess.run(
            as_user(asked["user"], asked["check"], *CONTAINED), capture_output=True, **settings
        ).returncode:
            assert server.poll() is None, "the command ended"
            assert time.monotonic() < until, "the health check never agreed"
            time.sleep(0.5)
        subprocess.run(as_user(asked["user"], ["python", "-c", PROBE], *CONTAINED), check=True, **settings)
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    asked = json.loads(sys.argv[1])
    enter(Path(asked["root"]), "command" in asked)
    home = (
        "/root"
        if asked["user"] == "0"
        else next(
            line.split(":")[5]
            for line in Path("/etc/passwd").read_text().splitlines()
            if line.split(":")[2] == asked["user"]
        )
    )
    environment = {"HOME": home, **asked["environment"]}
    os.environ["PATH"] = environment["PATH"]
    if "command" in asked:
        try_out(asked, environment)
    else:
        subprocess.run(as_user(asked["user"], asked["script"]), cwd=asked["folder"], env=environment, check=True)


if __name__ == "__main__":
    main()
