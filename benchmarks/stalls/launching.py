"""Launches the kernels of one prepared case, on the machine with the GPU: needs NumPy and CuPy, and nothing of ours.

Index arrays are those of the data; floats are drawn anew with the mean and the spread that they have, since where warps
wait does not depend on them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 5
"""Times that all kernels are launched: a short one gets few samples at a time."""


def launch(folder: Path, case: str, rounds: int = ROUNDS) -> str:
    """Launches all kernels in their order, several times; gives the device's name."""
    import cupy

    plan: Mapping[str, Any] = json.loads((folder / f"{case}.json").read_text())
    arrays = {name: cupy.asarray(values) for name, values in _arrays(folder, case, plan).items()}
    module = cupy.cuda.function.Module()  # after arrays: loading needs the context that the first of them makes
    module.load((folder / f"{case}.cubin").read_bytes())
    counted: dict[str, int] = {}
    for _ in range(rounds):
        for each in plan["launches"]:
            _launch(cupy, module, each, arrays, counted)
            if each["once"]:
                cupy.cuda.get_current_stream().synchronize()
                busy = {other["busy"] for other in plan["launches"]} & set(each["writes"])
                counted.update({name: int(cupy.asnumpy(arrays[name])[0]) for name in busy})
    cupy.cuda.get_current_stream().synchronize()
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def _launch(
    cupy: Any, module: Any, each: Mapping[str, Any], arrays: Mapping[str, Any], counted: Mapping[str, int]
) -> None:
    """One launch, of no more blocks than are known to have something to do."""
    blocks, columns = each["grid"]
    blocks = min(blocks, counted.get(each["busy"], blocks))
    if not blocks:
        return
    function = module.get_function(each["symbol"])
    if each["shared"]:
        driver = cupy.cuda.driver
        driver.funcSetAttribute(function.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, each["shared"])
    values = tuple(arrays[value] if isinstance(value, str) else np.int32(value) for value in each["arguments"])
    function((blocks, columns), (each["threads"],), values, shared_mem=each["shared"])


def _arrays(folder: Path, case: str, plan: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """What the kernels read and make, by name."""
    random = np.random.default_rng(0)
    found: dict[str, np.ndarray[Any, Any]] = {}
    with np.load(folder / f"{case}.npz") as indices:
        for name, about in plan["arrays"].items():
            if name in indices:
                found[name] = indices[name]
            elif about["made"]:
                found[name] = np.zeros(about["shape"], about["dtype"])
            else:
                drawn = random.standard_normal(about["shape"], dtype=np.float32)
                found[name] = drawn * np.float32(about["spread"]) + np.float32(about["mean"])
    return found
