"""Tiles of scalars: what the elements of a warp's piece have in shared memory, an array for each scalar."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import Atom, Origin
from explorer.compiler.schedule.edit.nests import element_type

Scalar = loops.Load | loops.Index | loops.Compute


@dataclass(frozen=True)
class ScalarTiles:
    """The tiles of scalars that are `kept` of a kernel's elements, each [size]; `names` are the tiles' by scalar."""

    kernel: loops.Kernel
    kept: tuple[Scalar, ...]
    names: Mapping[str, str]
    size: int

    @property
    def arrays(self) -> tuple[loops.Buffer, ...]:
        """The tiles as arrays that the kernel reads."""
        kinds: dict[kernels.ElementType, str] = {"i32": "index", "f32": "temporary"}
        return tuple(
            loops.Buffer(
                name=self.names[each.result],
                kind=kinds[element_type(self.kernel, each)],
                extents=(self.size,),
                origin=each.origin,
            )
            for each in self.kept
        )

    def declared(self, origin: Origin = ()) -> tuple[kernels.Tile, ...]:
        """The tiles, of a warp, of one origin or of the scalars' own."""
        return tuple(
            kernels.Tile(
                name=self.names[each.result],
                extents=(self.size,),
                memory="shared",
                type=element_type(self.kernel, each),
                origin=origin or each.origin,
            )
            for each in self.kept
        )

    def loads(self, place: Atom, wanted: Collection[str] | None = None) -> tuple[loops.Load, ...]:
        """What loads the scalars, or those that are `wanted`, from a place of their tiles."""
        return tuple(
            loops.Load(result=each.result, buffer=self.names[each.result], indices=(place,), origin=each.origin)
            for each in self.kept
            if wanted is None or each.result in wanted
        )
