"""Compiles mutated texts through every stage to CUDA, as the page's workers do and under their limits. Each must end in
stages, in diagnostics, in a stage's reason for not being made, or at a limit; an exception, or a process that ends, is
a fault, and is printed with the seed that draws the text again.

    python tests/sweep/fuzz.py --count 100000 --jobs 2 --seconds 3000
    python tests/sweep/fuzz.py --show 4711
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from explorer.compiler.pipeline import STAGES
from explorer.runtime.workers.worker import compile_model, limit_memory, line_of
from explorer.web import limits
from tests.sweep import mutating

TO_CUDA = [spec.name for spec in STAGES if not spec.on_demand]
CHUNK = 250
"""Texts of one process: what a compilation leaves behind goes with it."""
SILENCE = 4 * limits.COMPILE_SECONDS
"""Seconds after which a text that has not ended is a fault: its limit did not stop it."""
DATA = {"layer": ("", "small", "aifb"), "op": ("", "RM1:L0", "BigBird:1", "wiki-Talk")}


def request(seed: int) -> dict[str, Any]:
    """What a worker is asked to compile, of that number."""
    source = Random(seed)
    text, _ = mutating.mutated(source)
    return {
        "text": text,
        "name": None,
        "sizes": mutating.sizes(source),
        "default_sizes": {},
        "options": mutating.options(source),
        "schedule": {},
        "data": source.choice(next((DATA[family] for family in DATA if f"\n{family} " in text), [""])),
        "data_dir": None,
        "stages": TO_CUDA,
        "snapshots": TO_CUDA if source.random() < 0.05 else [],
        "costs": None,
        "first": False,
        "seconds": limits.COMPILE_SECONDS * limits.STAGES_SHARE,
    }


def outcome(seed: int) -> tuple[str, str]:
    """What came of a text in one word, and where that is a fault, what happened."""
    try:
        (event,) = compile_model(request(seed))
        line_of(event, "compile")
    except MemoryError:
        return "stopped by memory", ""
    except Exception:
        return "fault", traceback.format_exc(limit=-4)
    if event["event"] == "failed":
        return f"{event['kind']}: {event['message'][:30]}", ""
    if not event["ok"]:
        told = all(each["message"].strip() for each in event["diagnostics"])
        return ("diagnostics", "") if event["diagnostics"] and told else ("fault", "refused without a word")
    if event["stopped"]:
        return f"stopped in {event['stopped']}", ""
    refused = [stage for stage in event["stages"] if not stage["available"]]
    if any(not stage["reason"].strip() for stage in refused):
        return "fault", f"no reason for {[stage['name'] for stage in refused]}"
    return ("refused by a stage" if refused else "all stages"), ""


def work(seeds: range, out: Connection) -> None:
    """Tells of each text its seed, and then what came of it."""
    limit_memory(limits.COMPILE_MEMORY)
    for seed in seeds:
        out.send(seed)
        began = time.monotonic()
        out.send((*outcome(seed), time.monotonic() - began))
    out.close()


class Hand:
    """A process that compiles a chunk of texts."""

    def __init__(self, seeds: range) -> None:
        self.seeds = seeds
        self.at = seeds.start
        self.since = time.monotonic()
        self.out, into = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.get_context("fork").Process(target=work, args=(seeds, into))
        self.process.start()
        into.close()

    def heard(self) -> Iterator[tuple[str, str, float]]:
        """What it has told. Raises EOFError once it has ended."""
        while self.out.poll():
            told = self.out.recv()
            self.since = time.monotonic()
            if isinstance(told, int):
                self.at = told
            else:
                yield told

    def end(self) -> range:
        """The seeds that it has not come to."""
        self.process.kill()
        self.process.join()
        self.out.close()
        return range(self.at + 1, self.seeds.stop)


class Campaign:
    """Texts of many seeds, so many at a time."""

    def __init__(self, seeds: range, jobs: int, until: float) -> None:
        self.counted: Counter[str] = Counter()
        self.faults: list[str] = []
        self.slowest = (0.0, 0)
        self._left = [range(at, min(at + CHUNK, seeds.stop)) for at in reversed(range(seeds.start, seeds.stop, CHUNK))]
        self._jobs, self._until = jobs, until

    def run(self) -> None:
        hands: list[Hand] = []
        while (self._left or hands) and time.monotonic() < self._until:
            while self._left and len(hands) < self._jobs:
                hands.append(Hand(self._left.pop()))
            wait([hand.out for hand in hands], timeout=1.0)
            hands = [hand for hand in hands if self._goes_on(hand)]
        for hand in hands:
            hand.end()

    def _goes_on(self, hand: Hand) -> bool:
        try:
            for what, why, seconds in hand.heard():
                self._count(what, why, hand.at)
                self.slowest = max(self.slowest, (seconds, hand.at))
        except EOFError:
            hand.process.join()
            if hand.process.exitcode:
                self._count("fault", f"the process ended with {hand.process.exitcode}", hand.at)
                self._leave(hand.end())
            return False
        if time.monotonic() - hand.since < SILENCE:
            return True
        self._count("fault", f"nothing stopped it for {SILENCE:.0f} s", hand.at)
        self._leave(hand.end())
        return False

    def _leave(self, seeds: range) -> None:
        if seeds:
            self._left.append(seeds)

    def _count(self, what: str, why: str, seed: int) -> None:
        self.counted[what] += 1
        if why:
            self.faults.append(f"seed {seed}: {why}")
            print(self.faults[-1], flush=True)
        if self.counted.total() % 1_000 == 0:
            print(self.told(), flush=True)

    def told(self) -> str:
        return f"{self.counted.total()} texts: {dict(self.counted.most_common())}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first text")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3e7, help="compiles no more texts after so long")
    parser.add_argument("--show", type=int, help="only prints the request of that number")
    given = parser.parse_args()
    if given.show is not None:
        asked = request(given.show)
        print(asked.pop("text"), asked, sep="\n")
        return 0
    began = time.monotonic()
    campaign = Campaign(range(given.seed, given.seed + given.count), given.jobs, began + given.seconds)
    campaign.run()
    seconds, slowest = time.monotonic() - began, campaign.slowest
    print(f"{campaign.told()}\nin {seconds:.0f} s; the slowest took {slowest[0]:.1f} s, seed {slowest[1]}")
    return bool(campaign.faults)


if __name__ == "__main__":
    sys.exit(main())
