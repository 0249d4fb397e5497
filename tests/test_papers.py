"""docs/PAPERS.md holds: every entry of the five papers, and each command prints what the table says of it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from explorer.arguments import benchmark_suites
from explorer.cli import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "PAPERS.md").read_text()
ENTRIES = {"cuKE": 25, "PIGEON and Hector": 28, "G-Sparse": 10, "Ember": 19}
"""How many features each paper describes."""
STATES = ("whole", "in part: ", "outside: ")
NAMES = {"cuKE": "cuke", "PIGEON and Hector": "hector", "G-Sparse": "gsparse", "Ember": "ember"}
NOTHING = "-"
SLOW = (
    "explorer bench papers",
    "explorer bench training",
    "explorer run examples/rgnn/hgt.emb --on cpu --grad",
    "explorer space examples/embedding/sddmm.emb",
)
"""What the sweep runs: figures, and what takes longer than others of its kind."""


@dataclass(frozen=True)
class Entry:
    """A line of a table."""

    paper: str
    number: int
    state: str
    command: str
    prints: tuple[str, ...]

    @property
    def on_gpu(self) -> bool:
        return "GPU" in self.state and not self.prints

    @property
    def slow(self) -> bool:
        return self.command.startswith(SLOW)


def entries_of(page: str) -> list[Entry]:
    """The lines of all tables; code between backticks is taken as it stands."""
    found = []
    for section in page.split("\n## ")[1:]:
        paper, _, rest = section.partition("\n")
        for line in rest.splitlines():
            if not re.match(r"\| \d", line):
                continue
            number, _, state, command, prints = (cell.strip() for cell in line.strip("|").split(" | "))
            (command,) = re.findall(r"^`([^`]+)`$", command)
            texts = () if prints == NOTHING else tuple(re.findall(r"`([^`]+)`", prints))
            assert texts or prints == NOTHING, line
            found.append(Entry(paper, int(number), state, command, texts))
    return found


ALL = entries_of(PAGE)
RUN = {
    command: [e for e in ALL if e.command == command] for command in dict.fromkeys(e.command for e in ALL if e.prints)
}


def words(text: str) -> str:
    return " ".join(text.split())


def printed(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints, run in this process."""
    try:
        status = main(shlex.split(command)[1:])
    except SystemExit as ended:  # of --help
        status = int(ended.code or 0)
    shown = capsys.readouterr()
    assert status == 0, shown.err
    return shown.out


def test_every_feature_has_a_line() -> None:
    numbers = {paper: [entry.number for entry in ALL if entry.paper == paper] for paper in ENTRIES}
    assert numbers == {paper: list(range(1, count + 1)) for paper, count in ENTRIES.items()}
    assert sum(ENTRIES.values()) == 82


@pytest.mark.parametrize("entry", ALL, ids=lambda entry: f"{NAMES[entry.paper]}-{entry.number}")
def test_a_line_says_how_far_it_goes(entry: Entry) -> None:
    assert entry.state.startswith(STATES), entry.state
    if entry.state.startswith("whole"):
        assert re.fullmatch("whole(; GPU: .*)?", entry.state), "what is generated or simulated instead is in part"
    assert entry.prints or entry.on_gpu, "what no test runs needs a GPU, and says so"
    program, name, *rest = shlex.split(entry.command)
    assert program == "explorer"
    if name == "bench":
        assert rest[0] in benchmark_suites()


def test_the_figures_say_which_lines_they_show() -> None:
    from benchmarks.papers import PAPERS

    known = {f"{NAMES[entry.paper]} {entry.number}" for entry in ALL}
    assert {entry for paper in PAPERS.values() for figure in paper.figures for entry in figure.entries} <= known


def checked(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = words(printed(command, capsys))
    missing = [(e.number, text) for e in RUN[command] for text in e.prints if words(text) not in shown]
    assert missing == [], shown[:2000]


@pytest.mark.parametrize("command", [command for command, found in RUN.items() if not found[0].slow])
def test_a_command_prints_what_the_table_says(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(command, capsys, monkeypatch)


@pytest.mark.sweep
@pytest.mark.parametrize("command", [command for command, found in RUN.items() if found[0].slow])
def test_a_slow_command_prints_what_the_table_says(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(command, capsys, monkeypatch)
