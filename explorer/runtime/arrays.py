"""The arrays of a program: from what a caller gives, by name, to what machine code may read without checking.

Machine code checks nothing itself, so everything that it uses as an index or as a bound of a loop is checked here,
each array once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.codegen.text import Code
from explorer.compiler.ir.bounds.lookups import ends_in, lookups_of
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.index_sets import ENDS, SetNames, counted, ends_of, with_products
from explorer.compiler.ir.loops import Buffer, Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Extent
from explorer.compiler.stored import packed
from explorer.runtime.data.triples import InputError

Arrays = dict[str, npt.NDArray[Any]]
Extents = dict[Extent, int]


def kernels_of(program: Kernel | Module) -> tuple[Kernel, ...]:
    """The kernels in the order in which they run."""
    if isinstance(program, Kernel):
        return (program,)
    return tuple(kernel for kernel in program.programs if isinstance(kernel, Kernel))


def as_declared(code: Code, program: Kernel | Module) -> Code:
    """A GPU's code with the buffers that the loops have too as they are declared there: kernels may see the first two
    dimensions of an array as one."""
    declared = {buffer.name: buffer for kernel in kernels_of(program) for buffer in kernel.buffers}
    buffers = tuple(replace(b, extents=declared.get(b.name, b).extents) for b in code.buffers)
    return replace(code, buffers=buffers)


def extents_of(graph: Graph, program: Kernel | Module, counts: Mapping[str, int]) -> Extents:
    """The size of every extent of a program's buffers where the graph's sets have these sizes."""
    names, counts = SetNames.of(graph).counts, with_products(graph, counts)
    extents: Extents = {names[index_set]: size for index_set, size in counts.items() if index_set in names}
    extents |= {ends_of(index_set): size + 1 for index_set, size in counts.items()}
    for kernel in kernels_of(program):
        extents |= dict(kernel.sizes)
        extents |= {e: e for buffer in kernel.buffers for e in buffer.extents if isinstance(e, int)}
    return extents


def check_inputs(program: Kernel | Module, inputs: Mapping[str, Any]) -> tuple[Arrays, Extents]:
    """The arrays that the program reads, contiguous and of their element types, and the size of every extent.

    A number in `inputs` is the size of the set of that name; other sizes are read off the arrays. Raises InputError
    for missing arrays, shapes that do not fit, sizes that nothing tells, and indices out of range.
    """
    kernels = kernels_of(program)
    extents = _first_extents(kernels, inputs)
    arrays: Arrays = {}
    for buffer in inputs_of(kernels):
        arrays[buffer.name] = _array(buffer, inputs, extents)
        _learn_ends(buffer.extents, extents)
    for kernel in kernels:
        for buffer in kernel.buffers:
            _require_sizes(buffer, extents)
    _check_indices(kernels, arrays, extents)
    return arrays, extents


def inputs_of(kernels: Iterable[Kernel]) -> Iterator[Buffer]:
    """The buffers that a caller provides, each once: pointers last, whose extents the others' tell."""
    given = {b.name: b for kernel in kernels for b in kernel.buffers if b.kind not in ("output", "temporary")}
    yield from sorted(given.values(), key=lambda buffer: any(_is_ends(extent) for extent in buffer.extents))


def _first_extents(kernels: tuple[Kernel, ...], inputs: Mapping[str, Any]) -> Extents:
    named = {extent for kernel in kernels for buffer in kernel.buffers for extent in buffer.extents}
    extents: Extents = {extent: extent for extent in named if isinstance(extent, int)}
    for kernel in kernels:
        extents |= kernel.sizes
    for extent in named - extents.keys():
        if extent in inputs and np.ndim(inputs[str(extent)]) == 0:
            extents[extent] = int(inputs[str(extent)])
    return extents


def _array(buffer: Buffer, inputs: Mapping[str, Any], extents: Extents) -> npt.NDArray[Any]:
    """One array, contiguous and of the buffer's element type; learns the extents that only the arrays know."""
    if buffer.name not in inputs:
        raise InputError(f"There is no array for {buffer.name}.")
    array = np.asarray(inputs[buffer.name])
    wanted = [_size(extent, extents) for extent in buffer.extents]
    if array.ndim != len(wanted) or _differs(wanted, array.shape):
        pairs = zip(buffer.extents, wanted, strict=True)
        shape = ", ".join(str(extent) if size in (None, extent) else f"{extent} = {size}" for extent, size in pairs)
        raise InputError(f"{buffer.name} has the shape {list(array.shape)}, but is declared [{shape}].")
    extents.update(zip(buffer.extents, array.shape, strict=True))
    if buffer.kind != "index":
        return _stored(buffer, array)
    if not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"{buffer.name} holds {array.dtype} where indices are whole numbers.")
    if array.dtype != np.int32 and array.size and (array.min() < 0 or array.max() >= 2**31):
        raise InputError(f"{buffer.name} holds indices outside 0 to 2147483647.")
    return np.ascontiguousarray(array, np.int32)


def _stored(buffer: Buffer, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The bits of numbers, as the buffer has them; raises InputError for what 8-bit whole numbers are not."""
    if buffer.storage == "i8" and array.dtype != np.int8:
        inside = (array >= -128) & (array <= 127) & (array == np.rint(array))
        if not inside.all():
            wrong = array[~inside].flat[0]
            raise InputError(f"{buffer.name} holds {wrong}, but its elements are whole numbers from -128 to 127.")
    return np.ascontiguousarray(packed(array, buffer.storage))


def _size(extent: Extent, extents: Extents) -> int | None:
    if extent not in extents and _is_ends(extent):
        count = extents.get(counted(extent))
        return None if count is None else count + 1
    return extents.get(extent)


def _is_ends(extent: Extent) -> bool:
    return isinstance(extent, str) and extent.endswith(ENDS)


def _differs(wanted: list[int | None], shape: tuple[int, ...]) -> bool:
    return any(size is not None and size != given for size, given in zip(wanted, shape, strict=True))


def _learn_ends(given: tuple[Extent, ...], extents: Extents) -> None:
    """A set of which only the pointers are given has one element less."""
    for extent in given:
        if _is_ends(extent):
            extents.setdefault(counted(extent), extents[extent] - 1)


def _require_sizes(buffer: Buffer, extents: Extents) -> None:
    for extent in buffer.extents:
        if extents.get(extent, -1) < 0:
            raise InputError(f"Nothing tells the size {extent} of {buffer.name}.")


def _check_indices(kernels: tuple[Kernel, ...], arrays: Arrays, extents: Extents) -> None:
    lookups = {lookup: None for kernel in kernels for lookup in lookups_of(kernel)}
    highest: dict[str, int] = {}
    for name in dict.fromkeys(lookup.index for lookup in lookups):
        array = arrays[name]
        highest[name] = int(array.max()) if array.size else 0
        if array.size and array.min() < 0:
            raise InputError(f"{name} holds indices outside 0 to 2147483647.")
    _check_ends(kernels, arrays, extents)
    for lookup in lookups:
        array, rows = arrays[lookup.index], extents[lookup.extent] - lookup.after
        if array.size and highest[lookup.index] // lookup.every >= rows + lookup.exclusive:
            place = np.unravel_index(int(array.argmax()), array.shape)
            at = ", ".join(str(int(position)) for position in place)
            worst = f"{lookup.index}[{at}] is {highest[lookup.index]}"
            raise InputError(f"{worst}, but {lookup.table} has {rows:,} rows.")


def _check_ends(kernels: tuple[Kernel, ...], arrays: Arrays, extents: Extents) -> None:
    """Where segments begin: the first at 0, each behind the one before, and the last ends with the elements."""
    for name, elements in dict.fromkeys(ends for kernel in kernels for ends in ends_in(kernel)):
        array = arrays[name]
        if array.size and (array[0] != 0 or np.any(array[1:] < array[:-1])):
            raise InputError(f"{name} holds where segments begin, so it begins with 0 and nowhere falls.")
        if array.size and array[-1] < extents[elements]:
            raise InputError(f"{name} ends with {array[-1]}, but there are {extents[elements]:,} elements.")
