"""Sends a server what no page would send: `python tests/sweep/hostile.py --count 100000`.

The server is a real one with its workers, for a class. It must answer each request with a status below 500 (503 and 504
are its word that it is busy, or that a run took too long), write no traceback, own up to no fault of its own, serve on
afterwards, and take no more memory in the last part than in the middle, but for what it keeps, nor more files. What
goes against that is printed with the seed that draws it; status 1 says that there was some.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from explorer.web.instructor.token import COOKIE  # noqa: E402
from explorer.web.monitoring.memory import tree_bytes  # noqa: E402
from tests.sweep.hostile_sending import AT_ONCE, PATIENCE, SLOW_SECONDS, Found, Server, answer, send  # noqa: E402

TOKEN = "a token of sixteen characters and more"
SETTLED, LATE = 0.4, 0.85
"""By that part of all, the server has loaded what it needs and has filled most of what it keeps; from that on it is
held against what it took between."""
MOST_GROWTH = 48 << 20
MOST_FILES = 100
"""Descriptors more than before, a moment after the last request."""
PYTHON_OF_JSON = 7
"""Bytes that Python takes for a byte of what is kept as JSON."""
SAMPLES = 24


@dataclass(frozen=True)
class Sample:
    """What a server takes at a moment: bytes of its own process, but for what it keeps, of its workers, and files."""

    seconds: float
    sent: int
    server: float
    workers: float
    kept: float
    files: int

    @property
    def besides(self) -> float:
        return self.server - PYTHON_OF_JSON * self.kept


@contextmanager
def started(folder: Path) -> Iterator[tuple[int, int]]:
    """The port and the process of a server, which writes its log to a file of the folder."""
    token = folder / "token"
    token.write_text(TOKEN)
    command = [sys.executable, "-m", "explorer.cli", "serve", "--port", "0", "--class"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with (
        (folder / "log").open("w") as written,
        subprocess.Popen(
            [*command, "--instructor-token-file", str(token), "--store", str(folder / "store.db")],
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
            env=environment,
        ) as process,
    ):
        assert process.stdout is not None
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found, (folder / "log").read_text()
        try:
            yield int(found[1]), process.pid
        finally:
            process.terminate()


async def ask(port: int, line: str, body: str = "") -> str:
    """An answer to a request that nothing is wrong with."""
    head = f"{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
    head += "Content-Type: application/x-www-form-urlencoded\r\n\r\n"
    return (await answer(Server(port), 0, (head + body).encode(), "whole")).decode()


async def look(port: int, pid: int, found: Found, began: float) -> Sample:
    text = await ask(port, "GET /metrics")
    kept = re.search(r"^explorer_compile_cache_bytes (\S+)", text, re.MULTILINE)
    memory = await asyncio.to_thread(tree_bytes, pid)
    files = len(os.listdir(f"/proc/{pid}/fd"))
    seconds = time.monotonic() - began
    return Sample(seconds, found.sent, memory["server"], memory["workers"], float(kept[1]) if kept else 0, files)


async def send_all(server: Server, pid: int, seeds: range, count: int, found: Found) -> list[Sample]:
    """Sends what these seeds draw until there were so many requests and frames; samples on the way and at the end."""
    began, samples = time.monotonic(), []
    under_way: set[asyncio.Task[None]] = set()
    for seed in seeds:
        if found.sent >= count:
            break
        if found.sent * SAMPLES >= count * len(samples):
            samples.append(await look(server.port, pid, found, began))
            print(told(samples[-1]), flush=True)
        task = asyncio.create_task(send(server, seed, found))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        while len(under_way) >= 2 * AT_ONCE:
            await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait(under_way, timeout=2 * PATIENCE)
    await asyncio.sleep(SLOW_SECONDS)
    samples.append(await look(server.port, pid, found, began))
    print(told(samples[-1]), flush=True)
    return samples


def told(sample: Sample) -> str:
    sizes = {"server": sample.server, "workers": sample.workers, "kept": sample.kept}
    shown = ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in sizes.items())
    return f"{sample.seconds:6.0f} s: {sample.sent:7,} sent; {shown}, {sample.files} files"


def growth(samples: Sequence[Sample]) -> list[str]:
    """What the server took more of in the last part than before."""
    whole = samples[-1].sent
    middle = [each for each in samples if SETTLED * whole <= each.sent < LATE * whole]
    last = [each for each in samples if each.sent >= LATE * whole]
    faults = []
    if middle:
        more = median(each.besides for each in last) - median(each.besides for each in middle)
        if more > MOST_GROWTH:
            faults.append(f"the server grew by {more / (1 << 20):.0f} MiB besides what it keeps")
    if samples[-1].files - samples[0].files > MOST_FILES:
        faults.append(f"{samples[-1].files - samples[0].files} files more are open than at first")
    return faults


async def campaign(port: int, pid: int, seeds: range, count: int, found: Found) -> None:
    entered = await ask(port, "POST /instructor/enter", f"token={TOKEN.replace(' ', '+')}")
    cookie = re.search(rf"{COOKIE}=([^;]+)", entered)
    assert cookie, entered
    samples = await send_all(Server(port, cookie[1]), pid, seeds, count, found)
    found.faults += growth(samples)
    alive = await ask(port, "GET /healthz")
    if " 200 " not in alive[:20]:
        found.faults.append(f"the server does not answer any more: {alive[:200]!r}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=2_000, help="requests and frames")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first")
    asked = parser.parse_args()
    found, began = Found(), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with started(folder) as (port, pid):
            asyncio.run(campaign(port, pid, range(asked.seed, asked.seed + asked.count), asked.count, found))
        log = (folder / "log").read_text()
    if log.strip():
        kinds = Counter(re.findall(r"^\w*(?:Error|Exception)\b.*", log, re.MULTILINE))
        found.faults.append(f"the server's log has {dict(kinds)}, and ends with\n{log[-3000:]}")
    print(*table(found), sep="\n")
    seconds = time.monotonic() - began
    print(f"{found.sent:,} sent in {seconds:.0f} s, {found.sent / seconds:.0f} a second; {len(found.faults)} faults")
    print(*found.faults, sep="\n")
    return bool(found.faults)


def table(found: Found) -> Iterator[str]:
    """A line of what came back for each kind of what was sent."""
    kinds: defaultdict[str, list[str]] = defaultdict(list)
    for (kind, what), number in sorted(found.answers.items(), key=lambda each: (each[0][0], -each[1])):
        kinds[kind].append(f"{what}: {number:,}")
    for kind, answers in kinds.items():
        yield f"{kind:30} {', '.join(answers)}"


if __name__ == "__main__":
    sys.exit(main())
