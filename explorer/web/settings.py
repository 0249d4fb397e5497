"""What a reader can set, as the page offers it: the compiler's options, the simulated machine's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from explorer.compiler.options import OPT_LEVELS
from explorer.machine.parameters import MachineParameters


@dataclass(frozen=True)
class Switch:
    """An option that is on or off: its name, its label, and what it bears on."""

    name: str
    label: str
    bears_on: str


SWITCHES = (
    Switch("reorder", "reorder linear operators", "layers, graph onward"),
    Switch("compact", "compact values", "layers, graph onward"),
    Switch("aggregate", "add up before products", "layers, graph onward"),
    Switch("grad", "backward pass", "graph onward"),
    Switch("interchange", "interchange loops", "loops onward"),
    Switch("online", "online softmax", "layers, loops onward"),
    Switch("inspect", "inspector", "scores and layers, kernels onward"),
    Switch("address_streams", "address streams", "slc.opt3 onward"),
    Switch("store_streams", "store streams", "slc.opt1 onward"),
    Switch("level_hints", "cache-level hints", "slc onward"),
    Switch("accumulate_streams", "accumulate streams", "slc onward"),
    Switch("toggle_callbacks", "toggle callbacks", "slc onward"),
)
LEVELS = tuple(f"opt{level}" for level in range(OPT_LEVELS))
"""Ember's optimisation levels; `dlc`, and so the machine, takes one of them."""

SLIDERS = {"queue_bytes": "queue", "mshrs": "misses", "hbm_ns": "latency", "hbm_gbs": "memory", "cores": "cores"}
"""The parameters that have a slider, with its label; all others wait in a list."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of the machine with its usual value and its bounds."""

    name: str
    label: str
    value: float
    unit: str
    least: float
    most: float
    whole: bool
    about: str

    @property
    def slides(self) -> bool:
        """Whether the page gives it a slider."""
        return self.name in SLIDERS


def machine_parameters() -> tuple[Parameter, ...]:
    """Every parameter of the machine, those with sliders first and in their order."""
    found = {entry.name: _parameter(entry.name, entry.default, entry.metadata) for entry in fields(MachineParameters)}
    first = [found.pop(name) for name in SLIDERS if name in found]
    return (*first, *found.values())


def _parameter(name: str, value: Any, note: Mapping[str, Any]) -> Parameter:
    label = SLIDERS.get(name, name.replace("_", " "))
    about = f"{note['meaning']} ({note['source']})"
    unit = note["unit"].removesuffix(" a core")
    return Parameter(name, label, value, unit, note["least"], note["most"], isinstance(value, int), about)


def effects(compiled: Mapping[str, Any]) -> dict[str, str]:
    """What each option that is on does to this program, by the option's name: a pass of that name has told it."""
    told: dict[str, str] = {}
    names = {switch.name for switch in SWITCHES if compiled["options"][switch.name]}
    for stage in compiled["stages"]:
        for report in stage["passes"]:
            if report["name"] in names:
                told[report["name"]] = _effect(stage["name"], report)
    return told


def _effect(stage: str, report: Mapping[str, Any]) -> str:
    if report["changed"]:
        return f"changes {stage}"
    return "refused, see its pass" if report["refusals"] else "nothing to do here"
