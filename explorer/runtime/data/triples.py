"""Where a run's triples come from: generated presets, `.npz` archives and tab-separated text.

Every problem with a source is an InputError whose message names the file and the line or row, so that the
command line and the page can show it as it stands.
"""

from __future__ import annotations

import difflib
import gzip
import logging
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt

from explorer.compiler.kept import ByContent, content
from explorer.runtime.data.blocks import blocks_of
from explorer.runtime.data.triple_text import read_text

Ids = npt.NDArray[np.int32]
"""Ids of entities or relations, one a triple."""

MAX_FILE_BYTES = 1 << 30
"""The most that a file may hold once it is unpacked."""
MAX_COUNT = 2**31 - 1
"""The most entities or relations: ids are int32."""
TEXT_SUFFIXES = (".tsv", ".txt", ".tsv.gz", ".txt.gz")
SUFFIXES = (".npz", *TEXT_SUFFIXES)
SPLITS = ("train", "valid", "test")


class InputError(Exception):
    """A run's data cannot be used; the message is a sentence for the user."""


@dataclass(frozen=True)
class Preset:
    """The size of a published knowledge graph."""

    num_entities: int
    num_triples: int
    num_relations: int


PRESETS: dict[str, Preset] = {
    "FB15k": Preset(14_951, 592_213, 1_345),
    "FB15k-237": Preset(14_541, 310_116, 237),
    "BioKG": Preset(93_773, 5_088_434, 51),
    "WN18": Preset(40_943, 151_442, 18),
}
"""The knowledge graphs of cuKE's Table IV. Only the sizes are theirs: the triples are generated."""

# P(rank < x * n) = x ** (1 - skew). Chosen so that the busiest 1 % of heads, relations and tails come out as
# busy as in the real FB15k-237: 12, 10 and 30 % of its triples, counted in its three splits.
HEAD_SKEW, RELATION_SKEW, TAIL_SKEW = 0.53, 0.52, 0.74


@dataclass(frozen=True, eq=False)
class Triples:
    """A knowledge graph: triple i is (h[i], r[i], t[i])."""

    name: str
    source: str  # "preset, generated" or "file"
    num_entities: int
    num_relations: int
    h: Ids
    r: Ids
    t: Ids


def load_triples(source: str, data_dir: Path | None = None) -> Triples:
    """The triples of a preset or a file.

    With `data_dir`, `source` is a preset or the name of a file in that directory, and nothing else is looked
    up: what comes from a page must be loaded so. Without it, `source` is a preset or a path.
    Raises InputError.
    """
    presets = {name.lower(): name for name in PRESETS}
    if source.lower() in presets:
        return _preset(presets[source.lower()])
    if data_dir is None:
        with reading(source[:200]):
            missing = not Path(source).exists()
        if missing and is_plain_name(source):
            raise InputError(unknown_name(source, list(PRESETS)))
        return _read_file(Path(source), source)
    files = {path.name: path for path in data_files(data_dir)}
    if source not in files:
        raise InputError(unknown_name(source, [*PRESETS, *files]))
    return _read_file(files[source], source)


def available(data_dir: Path | None) -> list[dict[str, Any]]:
    """What a page may offer: what is real first, the readable files of `data_dir`, then the presets."""
    generated = [
        {
            "name": name,
            "label": f"{name} (generated)",
            "generated": True,
            "entities": preset.num_entities,
            "relations": preset.num_relations,
            "triples": preset.num_triples,
        }
        for name, preset in PRESETS.items()
    ]
    return [*available_files(data_dir), *generated]


def available_files(data_dir: Path | None) -> list[dict[str, Any]]:
    """The readable files of `data_dir` as `available` has them (others are logged)."""
    return summaries(data_dir, summary_of)


def summaries(data_dir: Path | None, summary_of: Callable[[Path], dict[str, Any]]) -> list[dict[str, Any]]:
    """An entry for each file of `data_dir` that can be read; others, for which it raises InputError, are logged."""
    found: list[dict[str, Any]] = []
    for path in data_files(data_dir) if data_dir is not None else ():
        status = path.stat()
        summary = _summarise(summary_of, path, status.st_mtime_ns, status.st_size)
        if summary is not None:
            found.append(dict(summary))
    return found


@lru_cache(maxsize=128)
def _summarise(
    summary_of: Callable[[Path], dict[str, Any]], path: Path, modified: int, size: int
) -> dict[str, Any] | None:
    """A file's entry, kept until its time or size changes; None where it cannot be read."""
    try:
        return summary_of(path)
    except InputError as error:
        logging.getLogger(__name__).warning("not offered: %s", error)
        return None


def summary_of(path: Path) -> dict[str, Any]:
    """A file's entry in `available`. Raises InputError."""
    triples = _read_file(path, path.name)
    return {
        "name": path.name,
        "label": f"{path.name} (file)",
        "generated": False,
        "entities": triples.num_entities,
        "relations": triples.num_relations,
        "triples": len(triples.h),
    }


def data_files(data_dir: Path) -> list[Path]:
    """The files of a directory with a known suffix, in order of name, less links that lead out of it."""
    root = data_dir.resolve()
    try:
        entries = sorted(root.iterdir())
    except OSError as error:
        raise InputError(f"the data directory cannot be read: {error.strerror}") from error
    return [
        path
        for path in entries
        if path.name.lower().endswith(SUFFIXES) and path.is_file() and path.resolve().parent == root
    ]


def is_plain_name(source: str) -> bool:
    """Whether this can only be meant as the name of a preset, not as a path."""
    return "/" not in source and "\\" not in source and not source.lower().endswith(SUFFIXES)


def unknown_name(source: str, names: list[str]) -> str:
    """The sentence for a name that is none of these, with the nearest of them."""
    lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(source.lower(), lower, n=1)
    hint = f": did you mean '{lower[close[0]]}'?" if close else "."
    return f"there is no data set named '{source[:80]}'{hint} Those there are: {', '.join(names)}"


def _preset(name: str) -> Triples:
    """A preset's triples, the same on every call, in arrays of the caller's own."""
    preset = PRESETS[name]
    found = _GENERATED.made(content(name, repr(preset)), lambda: _generate(name, preset))
    return replace(found, h=found.h.copy(), r=found.r.copy(), t=found.t.copy())


_GENERATED = ByContent[Triples](16 << 20, lambda triples: triples.h.nbytes + triples.r.nbytes + triples.t.nbytes)


def _generate(name: str, preset: Preset) -> Triples:
    """A preset's triples: each id occurs at least once, a few of them very often."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    entity_order = random.permutation(preset.num_entities).astype(np.int32)
    relation_order = random.permutation(preset.num_relations).astype(np.int32)
    draw = partial(skewed, random, preset.num_triples)
    return Triples(
        name=name,
        source="preset, generated",
        num_entities=preset.num_entities,
        num_relations=preset.num_relations,
        h=draw(entity_order, HEAD_SKEW),
        r=draw(relation_order, RELATION_SKEW),
        t=draw(entity_order, TAIL_SKEW),
    )


def skewed(random: np.random.Generator, count: int, order: Ids, skew: float) -> Ids:
    """`count` ids, the first of `order` the most frequent, each of them at least once, evenly spread."""
    ids = np.empty(count, dtype=order.dtype)
    for rows in blocks_of(count):
        ids[rows] = order[(len(order) * shares(random, rows.stop - rows.start, skew)).astype(np.int32)]
    ids[np.linspace(0, count, len(order), endpoint=False, dtype=np.int64)] = random.permutation(order)
    return ids


def shares(random: np.random.Generator, count: int, skew: float) -> npt.NDArray[np.float64]:
    """`count` numbers of [0, 1), P(share < x) = x ** (1 - skew).

    Powers in float32 differ from one processor's vector units to another's by so much that ids do; in float64 they
    differ by a thousand-millionth of that."""
    powers: npt.NDArray[np.float64] = random.random(count, dtype=np.float32).astype(np.float64) ** (1 / (1 - skew))
    return powers


def _read_file(path: Path, label: str) -> Triples:
    """The triples of a file; `label` is what messages call it."""
    with reading(label):
        if not path.exists():
            raise InputError(f"{label}: no such file")
        if not path.is_file():
            raise InputError(f"{label}: not a file")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(f"{label}: larger than the limit of {MAX_FILE_BYTES >> 20} MiB")
        if path.name.lower().endswith(".npz"):
            return _read_npz(path, label)
        return _read_text_file(path, label)


@contextmanager
def reading(label: str) -> Iterator[None]:
    """Turns what the system and the archive readers raise on unreadable files into an InputError."""
    try:
        yield
    except OSError as error:
        # Its own text may hold the whole path, which a page's reader has no business with.
        raise InputError(f"{label}: cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise InputError(f"{label}: cannot be read: {error}") from error
    except ValueError as error:
        raise InputError(f"{label}: {error}") from error


def _read_text_file(path: Path, label: str) -> Triples:
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    with cast(IO[bytes], opener(path, "rb")) as stream:
        columns = read_text(stream, MAX_FILE_BYTES)
    return Triples(
        name=path.name,
        source="file",
        num_entities=columns.num_entities,
        num_relations=columns.num_relations,
        h=columns.h,
        r=columns.r,
        t=columns.t,
    )


def _read_npz(path: Path, label: str) -> Triples:
    """All splits of an archive: `train`, and `valid` and `test` where it has them."""
    if not zipfile.is_zipfile(path):
        raise InputError(f"{label}: not an .npz file (a zip archive of arrays)")
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if sum(info.file_size for info in members.values()) > MAX_FILE_BYTES:
            raise InputError(f"{label}: larger than the limit of {MAX_FILE_BYTES >> 20} MiB once unpacked")
        for name in ("train", "num_entities", "num_relations"):
            if name not in members:
                held = ", ".join(sorted(members)) or "nothing"
                raise InputError(f"{label}: there is no array '{name}' (it holds {held[:200]})")
        read = partial(read_member, archive)
        limits = [_read_count(read, members[name], name) for name in ("num_entities", "num_relations")]
        splits = [
            _checked_split(read(members[name], name, (None, 3)), name, *limits) for name in SPLITS if name in members
        ]
    rows = np.concatenate(splits)
    if not len(rows):
        raise InputError(f"{label}: there are no triples in it")
    h, r, t = (np.ascontiguousarray(rows[:, column], dtype=np.int32) for column in range(3))
    return Triples(path.name, "file", limits[0], limits[1], h, r, t)


def read_member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, shape: tuple[int | None, ...], kinds: str = "iu"
) -> npt.NDArray[Any]:
    """One array of numbers of the `kinds` of NumPy, integers or with "iuf" any; type, shape and size are checked in
    its header, before anything is allocated."""
    with archive.open(info) as stream:
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        found, _, dtype = read_header(stream)
        if dtype.kind not in kinds:
            raise ValueError(f"array '{name}' holds {dtype}, not {'numbers' if 'f' in kinds else 'integers'}")
        wanted = f"[{', '.join('n' if extent is None else str(extent) for extent in shape)}]"
        same_rank = len(found) == len(shape)
        if not same_rank or any(want not in (None, got) for want, got in zip(shape, found, strict=True)):
            raise ValueError(f"array '{name}' has shape {list(found)}, not {wanted}")
        # A header may claim any size: believe it only where the archive holds as much.
        if int(np.prod([int(extent) for extent in found], dtype=object)) * dtype.itemsize > info.file_size:
            raise ValueError(f"array '{name}' is cut short")
    with archive.open(info) as stream:
        array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        return array


def _read_count(read: Callable[..., npt.NDArray[Any]], info: zipfile.ZipInfo, name: str) -> int:
    count = int(read(info, name, ()))
    if not 1 <= count <= MAX_COUNT:
        raise ValueError(f"'{name}' is {count}, not between 1 and {MAX_COUNT}")
    return count


def _checked_split(rows: npt.NDArray[Any], split: str, num_entities: int, num_relations: int) -> npt.NDArray[np.int32]:
    """The rows as int32; raises ValueError naming the first id that is out of range."""
    columns = (
        ("head", num_entities, "num_entities"),
        ("relation", num_relations, "num_relations"),
        ("tail", num_entities, "num_entities"),
    )
    for column, (role, limit, declared) in enumerate(columns):
        wrong = np.flatnonzero((rows[:, column] < 0) | (rows[:, column] >= limit))
        if len(wrong):
            row = int(wrong[0])
            raise ValueError(
                f"row {row} of '{split}' (counting from 0) has {role} {int(rows[row, column])},"
                f" but {declared} is {limit}"
            )
    return rows.astype(np.int32)
