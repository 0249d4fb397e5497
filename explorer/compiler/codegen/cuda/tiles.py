"""Where tiles live in CUDA: what each thread has of a register tile, and the shared memory that a block has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from explorer.compiler.codegen.cuda.sharing import Share
from explorer.compiler.codegen.cuda.vectors import Vectors
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.kernels import Copy, Loop, Multiply, ScheduledKernel, Statement, Tile, Where
from explorer.compiler.ir.loops import Accumulate, Load, Store
from explorer.compiler.ir.node import Atom, walk
from explorer.compiler.target import FLOAT_BYTES, STATIC_SHARED_BYTES, GpuTarget
from explorer.compiler.unsupported import Unsupported

VECTOR_FLOATS = 4
SWIZZLED_FLOATS = 256
"""What 8 rows of a swizzled tile are: it begins at a multiple of that."""


@dataclass(frozen=True)
class RegisterTile:
    """What a thread has of a tile: an array of `extents`, those of 1 left out where the dimension is shared, or always
    indexed by 0. `shared` says so by dimension; elements are of `width` floats where all accesses are."""

    shared: tuple[bool, ...]
    rounds: tuple[int, ...]
    width: int

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of the array, without the dimensions that vanish."""
        return tuple(
            rounds for shared, rounds in zip(self.shared, self.rounds, strict=True) if not shared or rounds > 1
        )


def accesses(kernel: ScheduledKernel) -> dict[str, list[tuple[Atom, ...]]]:
    """The indices by which each tile and each buffer is accessed."""
    found: dict[str, list[tuple[Atom, ...]]] = {}
    for node in walk(kernel):
        match node:
            case Load():
                found.setdefault(node.buffer, []).append(node.indices)
            case Store() | Accumulate() if node.indices:
                found.setdefault(node.target, []).append(node.indices)
                if isinstance(node, Copy):
                    found.setdefault(node.buffer, []).append(node.buffer_indices)
    return found


def register_tiles(
    kernel: ScheduledKernel,
    found: Mapping[str, list[tuple[Atom, ...]]],
    shares: Mapping[str, Share],
    vectors: Vectors,
) -> dict[str, RegisterTile]:
    """The register tiles by name, of a kernel in which these `accesses` were found."""
    tiles = [tile for tile in walk(kernel) if isinstance(tile, Tile) and tile.memory == "register"]
    multiplied = {node.target for node in walk(kernel) if isinstance(node, Multiply)}
    return {
        tile.name: _register_tile(
            kernel, tile, found.get(tile.name, []), shares, vectors, multiplied=tile.name in multiplied
        )
        for tile in tiles
    }


def _register_tile(
    kernel: ScheduledKernel,
    tile: Tile,
    places: list[tuple[Atom, ...]],
    shares: Mapping[str, Share],
    vectors: Vectors,
    *,
    multiplied: bool,
) -> RegisterTile:
    widths = {vectors.width(indices[-1]) for indices in places}
    width = widths.pop() if len(widths) == 1 else 1
    shared, rounds = [], []
    for dimension, extent in enumerate(tile.extents):
        over = [share for indices in places if (share := shares.get(str(indices[dimension])))]
        size = kernel.size(extent)
        if over and over[0].rounds is None:
            raise Unsupported(f"The register tile {tile.name} is shared over a loop of unknown length.")
        single = size == 1 and not multiplied and all(indices[dimension] == 0 for indices in places)
        shared.append(bool(over) or single)
        last = dimension == len(tile.extents) - 1
        rounds.append((over[0].rounds or 0) if over else size // width if last else size)
    return RegisterTile(tuple(shared), tuple(rounds), width)


@dataclass(frozen=True)
class SharedTile:
    """A tile in shared memory: how many slices of how many floats each, which is a thread's own, of what members, and
    of how many floats the multiples are that it may begin at."""

    slices: int
    own: str
    levels: tuple[str, ...]
    floats: int
    aligned: int = VECTOR_FLOATS

    @property
    def alignment(self) -> int:
        """That in bytes."""
        return self.aligned * FLOAT_BYTES


class SharedMemory:
    """All of a kernel's shared memory: tiles are declared one by one, or, where they are too large for that, carved
    out of one array that the launch gives."""

    def __init__(self, kernel: ScheduledKernel, tiles: Mapping[str, SharedTile], target: GpuTarget) -> None:
        self.offsets: dict[str, int] = {}
        end = 0
        for name, tile in tiles.items():
            end = -(-end // tile.aligned) * tile.aligned
            self.offsets[name] = end
            end += -(-tile.slices * tile.floats // VECTOR_FLOATS) * VECTOR_FLOATS
        needed = end * FLOAT_BYTES
        aligned = max((tile.alignment for tile in tiles.values()), default=0)
        self.alignment = f"__align__({aligned}) " if aligned > VECTOR_FLOATS * FLOAT_BYTES else ""
        self.launch_bytes = needed if needed > STATIC_SHARED_BYTES else 0
        if needed > target.shared_most:
            raise Unsupported(
                f"The tiles of {kernel.name} ({kernel.template}) take {needed:,} bytes of shared memory, and a block of"
                f" {target.arch} has {target.shared_most:,}."
            )


def floats_of(kernel: ScheduledKernel, tile: Tile) -> int:
    """The floats of a tile in shared memory, padding included."""
    *outer, last = (kernel.size(extent) for extent in tile.extents)
    return prod(outer) * (last + tile.padding)


def shared_tiles(kernel: ScheduledKernel, shares: dict[str, Share]) -> dict[str, SharedTile]:
    """The tiles in shared memory by name, in order: one a block, or a slice for each member of the loops around."""
    return {tile.name: _shared_tile(kernel, tile, around) for tile, around in _in_shared(kernel.body, shares, ())}


def _in_shared(
    body: Sequence[Statement], shares: dict[str, Share], around: tuple[Share, ...]
) -> Iterator[tuple[Tile, tuple[Share, ...]]]:
    """The tiles in shared memory of some statements, with how the loops around each are shared."""
    for statement in body:
        if isinstance(statement, Tile) and statement.memory == "shared":
            yield statement, around
        elif isinstance(statement, (Loop, Where)):
            share = shares.get(statement.variable) if isinstance(statement, Loop) else None
            yield from _in_shared(statement.body, shares, (*around, share) if share else around)


def _shared_tile(kernel: ScheduledKernel, tile: Tile, around: tuple[Share, ...]) -> SharedTile:
    """Slices are numbered by the warp, or the lane within it, or the thread, above the smallest stride of the loops."""
    slices, own = 1, ""
    levels: list[str] = []
    for level in ("thread", "warp", "lane"):
        shares = [share for share in around if share.loop.bind == level]
        if not shares:
            continue
        members, stride = shares[0].members, min(share.stride for share in shares)
        count = members // stride
        number = f"{level} / {stride}" if stride > 1 else level
        own = f"({own} * {count} + {number})" if own else number
        slices *= count
        levels.append(level)
    aligned = SWIZZLED_FLOATS if tile.swizzled else VECTOR_FLOATS
    return SharedTile(slices, own, tuple(levels), floats_of(kernel, tile), aligned)
