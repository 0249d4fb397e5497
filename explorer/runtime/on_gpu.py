"""A run on a GPU: the generated kernels, checked, then timed with cold caches and with warm ones, beside PyTorch.

Ours and the peers take turns, so that neither has a hotter or a faster-clocked device than the other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from explorer.compiler.codegen.resources import Resources, occupancy
from explorer.runtime import against
from explorer.runtime.arrays import check_inputs, kernels_of
from explorer.runtime.peers.compiled import compiled_peer, setting_up
from explorer.runtime.peers.timed import Peer, peers_of
from explorer.runtime.peers.turns import SIDE_A, Contender, by_turns
from explorer.runtime.reference.compare import Check
from explorer.runtime.runs.events import Event, failed, progress, result, started, timed_sample
from explorer.runtime.runs.request import CHECKING, PREPARING, RUNNING, STEPS, RunRequest, Setup, worse
from explorer.runtime.shares.nests import of_launches
from explorer.runtime.shares.times import APPORTIONED, of_times
from explorer.runtime.targets.gpu.device import DeviceFault, current_device
from explorer.runtime.targets.gpu.program import BoundLaunch, BoundProgram, GpuProgram
from explorer.runtime.targets.gpu.timing import SHORT_MS, WARM_UPS, Stopwatch, Times, ceilings

PEER_SAMPLES = 30
"""A peer is timed so many times at most, spread over our repeats."""
WARM_SAMPLES = 20
PASSES = 3
"""In which each kernel is timed by itself."""
SETTING_UP_PEERS = "setting up PyTorch beside it"
"""The step from which on nothing else should use the device."""
FAULT_HINT = (
    "This is a fault in the explorer's kernel or in the device, not in the model: please report it with the model's"
    " text. The process that ran it has ended; the next run starts in a new one."
)


def ready(request: RunRequest) -> RunRequest:
    """The request with the device's architecture to compile for. Raises NoGpu."""
    return replace(request, options={**request.options, "arch": current_device().compile_for})


def run(setup: Setup) -> Iterator[Event]:
    """Runs and times what is set up; the last event is `result`, or `failed` where a kernel broke the device's
    context: then this process is of no more use. Raises Refused and InputError."""
    try:
        yield from _run(setup)
    except DeviceFault as fault:
        yield failed("crashed", str(fault), FAULT_HINT)


def _run(setup: Setup) -> Iterator[Event]:
    device = current_device()
    yield started(setup.request.on, device.described)
    yield progress("loading the kernels and their arrays", PREPARING, STEPS)
    loops, program = setup.program("loops"), GpuProgram.of(setup.compilation)
    began = perf_counter()
    bound = program.bind(*check_inputs(loops, setup.inputs()))
    bind_ms = (perf_counter() - began) * 1e3  # in which CuPy compiles what no stage has compiled
    yield progress("checking the result against that in float64", CHECKING, STEPS)
    check, gradients = _checked(setup, bound)
    if check.matches and gradients:
        yield progress("checking the gradients against those in float64", CHECKING, STEPS)
        setup.check_gradients(gradients, lambda arrays: program.bind(*check_inputs(loops, arrays)).run())
    times, peers, figures = Times(), list[Peer](), dict[str, Any]()
    other: Peer | None = None
    if setup.right(check):
        watch = Stopwatch(device)
        if setup.against is None:
            yield from _first(watch, bound, times)
        if setup.request.beside_peers:
            yield progress(SETTING_UP_PEERS, RUNNING, STEPS)
            peers = peers_of(setup)
        if setup.request.compile_seconds is not None:
            yield progress(setting_up(setup.request.compile_seconds), RUNNING, STEPS)
            peers.append(compiled_peer(setup, "cuda", setup.request.compile_seconds))
        if setup.against is not None:
            yield progress("setting up side A beside it", RUNNING, STEPS)
            other = _side_a(setup.against)
        yield progress("measuring what the device can do", RUNNING, STEPS)
        figures["ceilings"] = ceilings(device)
        figures["launch_ms"] = watch.launch_ms()
        yield progress("running", RUNNING, STEPS)
        yield from _timed(watch, bound, times, [*([other] if other else []), *peers], setup.request.repeat)
        check = worse(check, _checked(setup, bound)[0])
        if setup.right(check):
            figures["spent"] = _spent(watch, setup, bound)
    described = setup.description(check, device.described)
    if setup.right(check):
        figures |= _held_against(figures, described["limits"], times)
    else:
        times, peers, figures = Times(), [], {}
    if other is not None and setup.against is not None:
        figures["against"] = against.timed(setup.against, other.reason, other.times.cold, times.cold)
    yield result(
        {
            **described,
            **times.to_json(),
            **figures,
            "cache": "cold",
            "repeat": setup.request.repeat,
            "form": _form(setup, program),
            "compile_ms": setup.compilation.stages["ptx"].ms if program.code.binary else bind_ms,
            "peak_bytes": bound.made_bytes,
            "input_bytes": bound.given_bytes,
            "kernels": [_kernel(launch, program) for launch in bound.launches],
            "peers": [peer.to_json(times.cold) for peer in peers],
        }
    )


def _spent(watch: Stopwatch, setup: Setup, bound: BoundProgram) -> dict[str, Any] | None:
    """What a run spends by kernel and by operation: every kernel timed by itself, in order, with warm caches. An extra,
    and the last that is measured: no fault of it loses the run."""
    try:
        passes = [[watch.warm(partial(each.run, None)) for each in bound.launches] for _ in range(PASSES)]
        times = sorted(passes, key=sum)[PASSES // 2]
        named = [(each.launch.symbol, ms) for each, ms in zip(bound.launches, times, strict=True)]
        loops = setup.program("loops")
        timed = of_launches(named, kernels_of(loops), *check_inputs(loops, setup.inputs()))
        part, work = "kernel, by itself and with warm caches,", "each load, computation and store of its nest"
        how = APPORTIONED.format(part=part, work=work)
        return of_times(timed, sum(times), how, {}).to_json(setup.compilation.operations)
    except Exception as error:
        logging.getLogger(__name__).warning("what its kernels spend is not known: %s", error)
        return None


def _form(setup: Setup, program: GpuProgram) -> str:
    """Which form of the machine code is timed: the best, but for a compilation that is in its first; "" for what CuPy
    compiles, which has one."""
    if program.code.binary is None:
        return ""
    return "first" if setup.compilation.first else "best"


def _checked(setup: Setup, bound: BoundProgram) -> tuple[Check, Mapping[str, Any]]:
    """The check of what the kernels give, and the gradients."""
    got, gradients = setup.finished(*bound.run())
    return setup.check(got), gradients


def _side_a(setup: Setup) -> Peer:
    """The other side of a comparison as one more that is timed beside ours; checked."""
    loops, program = setup.program("loops"), GpuProgram.of(setup.compilation)
    bound = program.bind(*check_inputs(loops, setup.inputs()))
    return Peer(SIDE_A, bound.launch, bound.run).checked(setup)


def _first(watch: Stopwatch, bound: BoundProgram, times: Times) -> Iterator[Event]:
    """The first time of ours, before what it is timed beside is set up, which takes a second or more."""
    yield progress("running", RUNNING, STEPS)
    for _ in range(WARM_UPS):
        watch.warm(bound.launch)
    times.cold.append(watch.cold(bound.launch))
    yield timed_sample(0, times.cold[0])


def _timed(watch: Stopwatch, bound: BoundProgram, times: Times, peers: list[Peer], repeat: int) -> Iterator[Event]:
    """Fills in all times: ours and the peers' by turns with cold caches, then each by itself with warm ones."""
    for _ in range(WARM_UPS):
        watch.warm(bound.launch)
        for peer in peers:
            peer.measure(watch.warm)
    contenders = [Contender("", lambda: watch.cold(bound.launch), samples=times.cold)]
    for peer in peers:
        most = repeat if peer.name == SIDE_A else PEER_SAMPLES
        contenders.append(Contender(peer.name, partial(peer.measure, watch.cold), most, peer.times.cold))
    yield from by_turns(contenders, repeat)
    watch.warm(bound.launch)
    times.warm += [watch.warm(bound.launch) for _ in range(min(repeat, WARM_SAMPLES))]
    for peer in peers:
        peer.measure(watch.warm)
        measured = [peer.measure(watch.warm) for _ in range(min(repeat, WARM_SAMPLES))]
        peer.times.warm += [ms for ms in measured if ms is not None]


def _held_against(figures: Mapping[str, Any], limits: Mapping[str, Any], times: Times) -> dict[str, Any]:
    """The least time that the device's ceilings allow, the share of it that was reached, and what a short time holds
    besides the kernels."""
    most, median = figures["ceilings"], times.median
    bytes_ms = 1e3 * limits["compulsory_bytes"] / most["bytes_per_s"]
    flop_ms = 1e3 * limits["flop"] / most["flop_per_s"]
    note = f"times of less than {SHORT_MS * 1e3:g} us are mostly those of launching" if median < SHORT_MS else ""
    return {
        "bytes_limit_ms": bytes_ms,
        "flop_limit_ms": flop_ms,
        "limit_reached": max(bytes_ms, flop_ms) / median,
        "launch_note": note,
    }


def _kernel(bound: BoundLaunch, program: GpuProgram) -> dict[str, Any]:
    """A launch: its grid, and what each block takes where that is known of its machine code."""
    launch, binary = bound.launch, program.code.binary
    described = {
        "name": launch.symbol,
        "blocks": bound.grid[0],
        "columns": bound.grid[1],
        "threads": launch.threads,
        "dynamic_shared_bytes": launch.shared_bytes,
    }
    found: dict[str, Resources] = {each.kernel: each for each in binary.resources} if binary else {}
    if launch.symbol not in found:
        return described
    taken = found[launch.symbol]
    shared = taken.shared_bytes + launch.shared_bytes
    fits = occupancy(taken.arch, launch.threads, taken.registers, shared)
    return described | {
        "registers": taken.registers,
        "shared_bytes": shared,
        "spill_store_bytes": taken.spill_store_bytes,
        "spill_load_bytes": taken.spill_load_bytes,
        "occupancy_warps": fits.warps,
        "most_warps": fits.most_warps,
        "limited_by": list(fits.limited_by),
    }
