"""What docs/MAP.md says of the folders holds: imports point down its layers, and what the pages name is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from explorer.arguments import benchmark_suites

ROOT = Path(__file__).parents[1]
MAP = (ROOT / "docs" / "MAP.md").read_text()
PAGES = ("README.md", "CONTRIBUTING.md", "docs/MAP.md", "docs/LANGUAGE.md", "benchmarks/NOTES.md")
SHOWN = {
    "explorer/compiler/passes/graph/times_one.py",
    "tests/compiler/passes/test_times_one.py",
    "explorer/compiler/schedule/threads/strategy.py",
    "tests/compiler/schedule/test_threads.py",
}
"""Files that a walkthrough has its reader write."""
MOST_FILES = 15
"""A folder is a room with one purpose: one with more files is missing a room."""
MOST_INDENTED = 6
"""Deeper lines of a tree go on with what is said of an entry."""

Import = tuple[str, str]
"""Who imports, and what: modules by their dotted names."""


def layers_of(page: str) -> dict[str, list[list[str]]]:
    """The table of layers, from the top: by folder, dotted, the names in each."""
    (table,) = re.findall(r"## The layers.*?```\n(.*?)```", page, re.DOTALL)
    lines = re.sub(r"\n +>", " >", table).splitlines()
    rows = (line.split(maxsplit=1) for line in lines)
    names = (("explorer" if of == "explorer" else f"explorer.{of.replace('/', '.')}", row) for of, row in rows)
    return {of: [layer.split() for layer in row.split(">")] for of, row in names}


LAYERS = layers_of(MAP)


def imports_at_run_time(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """The modules and names that are imported when these are loaded or run, but not those for types alone."""
    for node in nodes:
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from imports_at_run_time(node.orelse)
            case ast.ImportFrom(module=str() as module, level=0):
                yield from ((module, alias.name) for alias in node.names)
            case ast.Import():
                yield from ((alias.name, "") for alias in node.names)
            case ast.stmt() | ast.excepthandler() | ast.match_case():
                yield from imports_at_run_time(ast.iter_child_nodes(node))


@cache
def modules() -> dict[str, Path]:
    """The files of the package by the dotted names of their modules."""
    files = sorted((ROOT / "explorer").rglob("*.py"))
    dotted = (".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files)
    return dict(zip(dotted, files, strict=True))


@cache
def imports() -> frozenset[Import]:
    """Who imports whom in the package at run time, also in functions."""
    found = set()
    for name, file in modules().items():
        for module, imported in imports_at_run_time(ast.parse(file.read_text()).body):
            inner = f"{module}.{imported}"
            target = inner if inner in modules() else module
            if target in modules() and target != name:
                found.add((name, target))
    return frozenset(found)


def within(module: str, folder: str) -> str:
    """What a folder calls the room or file that a module is in; "" for the folder's own and all outside."""
    return module.removeprefix(f"{folder}.").split(".")[0] if module.startswith(f"{folder}.") else ""


def pointing_up(found: Iterable[Import], layers: dict[str, list[list[str]]]) -> list[Import]:
    """The imports between two of a folder that do not go from a layer to a lower one."""
    depths = {of: {name: depth for depth, layer in enumerate(rows) for name in layer} for of, rows in layers.items()}
    wrong = []
    for above, below in found:
        for folder, depth in depths.items():
            one, other = within(above, folder), within(below, folder)
            if one and other and one != other and depth[one] >= depth[other]:
                wrong.append((above, below))
    return sorted(wrong)


def circle(found: Iterable[Import]) -> list[str]:
    """The modules of one circle, in the order of their imports; none where there is no circle."""
    targets: dict[str, list[str]] = {}
    for above, below in sorted(found):
        targets.setdefault(above, []).append(below)
    path: list[str] = []
    done: set[str] = set()

    def from_here(module: str) -> list[str]:
        if module in path:
            return path[path.index(module) :]
        if module in done:
            return []
        path.append(module)
        around = next(filter(None, map(from_here, targets.get(module, []))), [])
        path.pop()
        done.add(module)
        return around

    return next(filter(None, map(from_here, list(targets))), [])


def test_imports_point_down() -> None:
    assert pointing_up(imports(), LAYERS) == []


def test_there_is_no_circle_of_modules() -> None:
    assert circle(imports()) == []


@pytest.mark.parametrize("folder", LAYERS)
def test_the_layers_have_all_that_is_in_a_folder(folder: str) -> None:
    named = [name for layer in LAYERS[folder] for name in layer]
    assert sorted(named) == sorted({within(module, folder) for module in modules()} - {"", "__init__"})


@pytest.mark.parametrize(
    "planted",
    [
        ("explorer.compiler.ir.kernels", "explorer.compiler.schedule.program"),
        ("explorer.compiler.schedule.edit.nests", "explorer.compiler.schedule.gemm.tiling"),
        ("explorer.compiler.schedule.gemm.tiling", "explorer.compiler.schedule.chunks.plan"),
        ("explorer.machine.memory.caches", "explorer.runtime.run"),
    ],
)
def test_a_planted_import_is_found(planted: Import) -> None:
    """From a layer to one above it, or to another of the same."""
    assert pointing_up({*imports(), planted}, LAYERS) == [planted]


def test_a_planted_circle_is_found() -> None:
    """Within one layer too: of files that no table sorts."""
    one, other = "explorer.compiler.schedule.edit.builder", "explorer.compiler.ir.kernels"
    assert (one, other) in imports()
    assert sorted(circle({*imports(), (other, one)})) == sorted((one, other))
    assert circle({("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")}) in (["b", "c"], ["c", "b"])
    assert circle({("a", "b"), ("b", "c"), ("a", "c")}) == []


def test_imports_in_functions_count_and_those_for_types_do_not() -> None:
    text = "import a\nif TYPE_CHECKING:\n    import b\ndef f():\n    if f:\n        from c import d\n"
    assert list(imports_at_run_time(ast.parse(text).body)) == [("a", ""), ("c", "d")]


@pytest.mark.parametrize("top", ["explorer", "benchmarks"])
def test_no_folder_has_more_files_than_a_room(top: str) -> None:
    folders = [folder for folder in (ROOT / top).rglob("*") if folder.is_dir() and folder.name != "__pycache__"]
    counted = {str(folder.relative_to(ROOT)): sum(file.is_file() for file in folder.iterdir()) for folder in folders}
    assert len(counted) > 5
    assert {folder: files for folder, files in counted.items() if files > MOST_FILES} == {}


def test_beside_the_rooms_of_benchmarks_lie_only_commands() -> None:
    """`explorer bench` finds them by the names of their files; what they share lies in the rooms."""
    folder = ROOT / "benchmarks"
    commands = {f"{name}.py" for name in benchmark_suites()}
    assert {file.name for file in folder.iterdir() if file.is_file()} - commands == {
        "__init__.py",
        "README.md",
        "NOTES.md",
    }
    assert {name for name in commands if not has_main(ast.parse((folder / name).read_text()))} == set()
    assert not has_main(ast.parse("def other() -> None: ..."))


def has_main(module: ast.Module) -> bool:
    """Whether a module has what `explorer bench` calls."""
    return any(isinstance(each, ast.FunctionDef) and each.name == "main" for each in module.body)


def paths_in_tree(block: str) -> Iterator[str]:
    """The paths that a drawn tree names: an entry lies in the nearest one above it that is indented less."""
    folders: list[tuple[int, str]] = []
    for line in block.splitlines():
        found = re.match(r"( *)([\w.-]+(?:/|\.\w+))(?:  +|,|$)", line)
        if found is None or len(found[1]) > MOST_INDENTED:
            continue
        depth = len(found[1])
        folders = [(at, folder) for at, folder in folders if at < depth]
        path = "".join((*(folder for _, folder in folders), found[2]))
        yield path
        if path.endswith("/"):
            folders.append((depth, found[2]))


def named_paths(page: str) -> set[str]:
    """The paths that a page names in full: between backticks, from the root's folders."""
    return set(re.findall(r"`((?:explorer|tests|docs|examples|benchmarks|static|\.ci)/[\w./-]+)`", page))


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page: str) -> None:
    named = {path for path in named_paths((ROOT / page).read_text()) - SHOWN if not (ROOT / path).exists()}
    assert {path for path in named if not (ROOT / re.sub(r"\.\w+$", ".py", path)).exists()} == set()


def test_the_map_names_what_is_there() -> None:
    tree, scheduler, *_ = re.findall(r"```\n(.*?)```", MAP, re.DOTALL)
    paths = [*paths_in_tree(tree), *(f"explorer/compiler/{path}" for path in paths_in_tree(scheduler))]
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_a_path_that_is_not_there_is_found() -> None:
    tree = "explorer/\n  cli.py     what\n  gone/      that\n             goes on\n    inner.py   more\n"
    assert list(paths_in_tree(tree)) == ["explorer/", "explorer/cli.py", "explorer/gone/", "explorer/gone/inner.py"]
    assert named_paths("in `explorer/gone.py`, `x/y`") == {"explorer/gone.py"}
