"""A program meets its inputs: sizes become numbers, and the read-only buffers one image of memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.ir.access.dlc import DlcProgram
from explorer.compiler.ir.access.lengths import with_lengths
from explorer.compiler.ir.index_sets import ENDS, counted
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent
from explorer.compiler.stored import rounded
from explorer.machine.parameters import LINE_BYTES, WORD_BYTES

LINE_WORDS = LINE_BYTES // WORD_BYTES


class InputError(ValueError):
    """Inputs that do not fit the program; the message is a sentence for the user."""


@dataclass(frozen=True)
class Binding:
    """Sizes by name, and where each read-only buffer lies in the image (first word, length, elements a word), lines
    apart. The image has a word for each element, what a load of it gives; of elements that are stored in less, memory
    has several in a word, from the same first one on, and that is what addresses count."""

    sizes: dict[str, int]
    places: dict[str, tuple[int, int, int]]
    image: NDArray[np.int32]

    def number(self, extent: Extent) -> int:
        """The number that an extent stands for."""
        if isinstance(extent, int):
            return extent
        if extent not in self.sizes:
            raise InputError(f"the size {extent} is known neither to the program nor from its inputs")
        return self.sizes[extent]

    def shape(self, buffer: Buffer) -> tuple[int, ...]:
        """The extents of a buffer as numbers."""
        return tuple(self.number(extent) for extent in buffer.extents)


def bind(program: DlcProgram, inputs: Mapping[str, NDArray[np.generic]]) -> Binding:
    """Reads the sizes that only the inputs know off their shapes, and copies the inputs into an image.

    A number among the inputs is the size of that name.

    Raises InputError for a missing input, one of the wrong shape, or indices that do not fit 32 bits.
    """
    inputs = with_lengths([buffer.name for buffer in program.buffers], inputs)
    sizes = _given_sizes(program, inputs)
    arrays = {}
    for buffer in program.buffers:
        if buffer.kind == "output":
            continue
        if buffer.name not in inputs:
            raise InputError(f"the input {buffer.name} is missing")
        array = np.asarray(inputs[buffer.name])
        _fit(buffer, array, sizes)
        arrays[buffer.name] = _words(buffer, array)
    _derive_ends(sizes)
    stored = {buffer.name: buffer.element_bytes for buffer in program.buffers}
    places, total = {}, 0
    for name, words in arrays.items():
        places[name] = (total, words.size, WORD_BYTES // stored[name])
        total += -(-words.size // LINE_WORDS) * LINE_WORDS
    image = np.zeros(total, np.int32)
    for name, (first, length, _) in places.items():
        image[first : first + length] = arrays[name]
    return Binding(sizes, places, image)


def _given_sizes(program: DlcProgram, inputs: Mapping[str, NDArray[np.generic]]) -> dict[str, int]:
    extents = {extent for buffer in program.buffers for extent in buffer.extents if isinstance(extent, str)}
    given = {extent: int(inputs[extent]) for extent in extents if extent in inputs and np.ndim(inputs[extent]) == 0}
    return given | dict(program.sizes)


def _derive_ends(sizes: dict[str, int]) -> None:
    """The array of where a set's segments begin has one element more than the set: `node_ends` is `nodes` + 1."""
    for name in [name for name in sizes if name.endswith(ENDS)]:
        count, ends = counted(name), sizes[name]
        if sizes.setdefault(count, ends - 1) != ends - 1:
            raise InputError(f"there are {sizes[count]:,} {count}, but {ends:,} ends of their segments, not one more")


def _fit(buffer: Buffer, array: NDArray[np.generic], sizes: dict[str, int]) -> None:
    """Checks a shape against the extents; extents not known yet become known."""
    if array.ndim != len(buffer.extents):
        raise InputError(f"{buffer.name} has {array.ndim} dimensions, but the program reads {len(buffer.extents)}")
    for axis, (extent, have) in enumerate(zip(buffer.extents, array.shape, strict=True)):
        want = extent if isinstance(extent, int) else sizes.setdefault(extent, have)
        if want != have:
            known = extent if isinstance(extent, int) else f"{extent} = {want:,}"
            raise InputError(f"dimension {axis} of {buffer.name} is {have:,}, but should be {known}")


def _words(buffer: Buffer, array: NDArray[np.generic]) -> NDArray[np.int32]:
    """The elements as 32-bit words, flat."""
    if buffer.type == "f32":
        return np.ascontiguousarray(rounded(array, buffer.storage)).reshape(-1).view(np.int32)
    if not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"{buffer.name} holds {array.dtype}, but must hold whole numbers")
    limits = np.iinfo(np.int32)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        raise InputError(f"{buffer.name} holds indices that do not fit 32 bits")
    return np.ascontiguousarray(array, np.int32).reshape(-1)


def outputs(program: DlcProgram) -> Iterator[Buffer]:
    """The buffers that the execute unit writes."""
    return (buffer for buffer in program.buffers if buffer.kind == "output")
