"""What machine code is made of is what nvdisasm prints, and what launches take is what NVRTC says."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.compiler.codegen.binary.instructions import OPERATIONS, Instructions, read_instructions
from explorer.compiler.codegen.binary.nvdisasm import disassemble
from explorer.compiler.codegen.binary.sass import INSTRUCTION, LABEL, SECTION
from explorer.compiler.codegen.text import Code
from explorer.compiler.decisions import Value
from explorer.tuner.features.launches import KINDS, NAMES, digest_parts, launch_features, total

EXAMPLES = Path(__file__).parents[3] / "examples"
MODELS = [
    ("embedding/spmm", {}),
    ("kge/transr", {"precision": "tf32"}),
    ("kge/transf", {"inspect": "chunks"}),
    ("rgnn/rgat", {"arch": "sm_80"}),
    ("rgnn/hgt", {"grad": True}),
]


def machine_code(example: str, schedule: dict[str, Value] | None = None, **options: str | int | bool) -> Code:
    text = (EXAMPLES / f"{example}.emb").read_text()
    program = explorer.compile(text, options=options, schedule=schedule or {}, on_demand=True).stages["ptx"].program
    assert isinstance(program, Code)
    return program


def printed(cubin: bytes) -> dict[str, list[tuple[str, str]]]:
    """By kernel its instructions as nvdisasm prints them: the operation, and where a branch of it goes."""
    found: dict[str, list[tuple[str, str]]] = {}
    labels: dict[str, dict[str, int]] = {}
    kernel, waiting = "", list[str]()
    for line, _ in pairwise([*disassemble(cubin).splitlines(), ""]):
        if section := SECTION.match(line):
            kernel = section[1]
            found[kernel], labels[kernel], waiting = [], {}, []
        elif label := LABEL.fullmatch(line):
            waiting.append(label[1])
        elif instruction := INSTRUCTION.fullmatch(line):
            labels[kernel].update(dict.fromkeys(waiting, len(found[kernel])))
            waiting = []
            to = re.search(r"`\((\.L_\w+)\)", instruction[3])
            found[kernel].append((instruction[3].split()[0], to[1] if to else ""))
    return {
        name: [(word, str(labels[name].get(to, ""))) for word, to in instructions]
        for name, instructions in found.items()
    }


@pytest.mark.parametrize(
    ("example", "options"),
    [pytest.param(*each, marks=pytest.mark.sweep if each[0] == "rgnn/hgt" else ()) for each in MODELS],
    ids=[example for example, _ in MODELS],
)
def test_instructions_are_those_that_nvdisasm_prints(example: str, options: dict[str, str | bool]) -> None:
    code = machine_code(example, **options)
    assert code.binary is not None
    read = read_instructions(code.binary.cubin)
    assert read.keys() == {launch.symbol for launch in code.launches}
    shown = printed(code.binary.cubin)
    widths = {"": 4, "64": 8, "128": 16}
    seen: Counter[str] = Counter()
    for kernel, instructions in read.items():
        known = [OPERATIONS.get(each, "") for each in instructions.codes.tolist()]
        for number, (operation, (word, to)) in enumerate(zip(known, shown[kernel], strict=False)):
            first, *behind = word.split(".")
            assert operation == (first if first in OPERATIONS.values() else ""), word
            if first in ("LDG", "STG", "LDS", "STS", "LDGSTS"):
                wide = next((part for part in behind if part in widths), "")
                assert instructions.widths[number] == widths[wide], word
            if first == "BRA" and to:
                assert instructions.targets[number] == int(to), (kernel, number)
            seen[first] += 1
        assert {word for word, _ in shown[kernel][len(instructions) :]} <= {"NOP"}
    assert seen["BRA"] > 10
    assert seen["LDG"] > 10


def of(*operations: int, back: dict[int, int]) -> Instructions:
    """Instructions that do this, of which some branch back to others."""
    words = np.zeros((len(operations), 2), np.uint64)
    words[:, 0] = operations
    for own, to in back.items():
        distance = (to - own - 1) * 4
        words[own, 0] = 0x147 | (distance & 0xFF) << 16 | (distance >> 8 & 0x3FFFFFFF) << 34
        words[own, 1] = distance >> 38 & 0x3FFFF
    return Instructions(words, 90)


def test_loops_are_found_by_the_branches_that_go_back() -> None:
    load, add, branch = 0x181, 0x021, 0x147
    code = of(load, load, add, branch, branch, add, branch, back={3: 1, 4: 0, 6: 6})
    assert code.loops().tolist() == [[0, 4], [1, 3]], "and no trap behind the end"
    assert code.targets.tolist() == [1, 2, 3, 1, 0, 6, 6]


def test_launches_take_what_nvrtc_says() -> None:
    code = machine_code("kge/transr")
    assert code.binary is not None
    sizes = {"B": 1_000, "num_entities": 500, "num_relations": 20}
    extents = {name for launch in code.launches for name in launch.arguments} | set(sizes)
    found = launch_features(code, {name: sizes.get(name, 1_000) for name in extents})
    assert found.shape == (len(code.launches), len(NAMES))
    by_name = dict(zip(NAMES, found.T, strict=True))
    taken = {each.kernel: each for each in code.binary.resources}
    for number, launch in enumerate(code.launches):
        resources = taken[launch.symbol]
        assert by_name["registers"][number] == resources.registers
        assert by_name["threads"][number] == launch.threads == resources.block_threads
        assert by_name["shared_bytes"][number] == resources.shared_bytes + launch.shared_bytes
        assert 0 <= by_name["tail"][number] < 1
    product = max(range(len(code.launches)), key=lambda number: by_name["multiply_adds"][number])
    assert by_name["inner_multiply_adds"][product] > 16, "a product of matrices multiplies in its inner loop"
    assert by_name["inner_instructions"][product] < by_name["instructions"][product]
    assert all((by_name[f"inner_{kind}"] <= by_name[kind]).all() for kind in KINDS)


def test_a_kernel_that_ptxas_says_nothing_of_is_told() -> None:
    code = machine_code("embedding/spmm")
    assert code.binary is not None
    silent = replace(code, binary=replace(code.binary, resources=code.binary.resources[1:]))
    with pytest.raises(ValueError, match=f"ptxas has not said what {code.launches[0].symbol} takes"):
        launch_features(silent, {"rows": 10, "cols": 10, "nonzeros": 20})


def test_another_schedule_has_other_machine_code_and_the_same_one_the_same() -> None:
    usual = machine_code("embedding/spmm")
    same = machine_code("embedding/spmm", {"SpMM_0.strategy": "nonzeros"})
    other = machine_code("embedding/spmm", {"SpMM_0.strategy": "nonzeros", "SpMM_0.lanes": 8})
    parts = [b"".join(digest_parts(each)) for each in (usual, same, other)]
    assert parts[0] == parts[1] != parts[2]


def test_programs_add_up_their_launches_but_those_that_run_once() -> None:
    launches = np.arange(3 * len(NAMES), dtype=np.float32).reshape(3, -1)
    launches[:, 0] = (1, 0, 0)
    (found,) = total([launches])
    assert found[-1] == 2
    assert found[1] == launches[1:, 1].sum()
    assert found[len(NAMES) + 1] == launches[2, 1]
