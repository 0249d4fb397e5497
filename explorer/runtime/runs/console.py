"""A run's events as a person reads them in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TextIO

from explorer.compiler.decisions import Schedule, printed_value
from explorer.compiler.ir.graph import plural
from explorer.compiler.language.diagnostics import with_article
from explorer.runtime.runs.events import GIVEN, OF_TEXT, Event

START_OF_LINE = "\r\x1b[K"
"""Goes back to the start of a terminal's line and clears it."""


def show(event: Event, stream: TextIO) -> None:
    """One event as a line of progress: a line that is written over on a terminal, brief anywhere else."""
    line = _progress_line(event)
    if stream.isatty():
        print(f"{START_OF_LINE}{line}", end="", file=stream, flush=True)
    elif event["event"] in ("started", "progress", "space", "trial"):
        print(line, file=stream, flush=True)


BAR = 30
"""Characters of a bar of progress."""


def show_bar(what: str, done: int, of: int) -> None:
    """How far something has come, on a terminal's line that is written over; nothing anywhere else."""
    if sys.stderr.isatty():
        share = done / max(1, of)
        bar = "█" * round(BAR * share)
        print(f"{START_OF_LINE}{bar:░<{BAR}} {share:4.0%} {what}", end="", file=sys.stderr, flush=True)


def clear_bar() -> None:
    """Leaves the terminal's line to what comes."""
    if sys.stderr.isatty():
        print(START_OF_LINE, end="", file=sys.stderr, flush=True)


def _progress_line(event: Event) -> str:
    match event["event"]:
        case "started":
            return f"{event['target']}: {event['device']} ({event['source']})"
        case "progress":
            return f"{event['what']} ..."
        case "space":
            return f"{_many(event['points'], 'point')} to choose from, of which {event['budget']:,} may be tried"
        case "trial":
            return f"trial {event['number']}: {_trial(event)}"
        case "sample" if "ms" in event:
            return f"repeat {event['index'] + 1}: {event['ms']:.3f} ms"
        case "sample":
            return f"cycle {event['cycle']:,.0f}: {event['triples']:,} done"
        case _:
            return ""


def _trial(event: Event) -> str:
    if event["value"] is None:
        return f"{event['status']}, {event['note']}"
    again = ", as one before" if event["status"] == "same" else ""
    return f"{_value(event['value'])}{again}; the best is {_value(event['best'])}"


def _value(value: float) -> str:
    """A trial's value: cycles are large, milliseconds are not whole."""
    return f"{value:,.0f}" if value >= 1e3 else _ms(value)


def summary(result: Mapping[str, Any]) -> str:
    """A result in a few lines."""
    if result["source"] == "replayed":
        told = f"{result['name']} on gpu: replayed, {result['device']}"
        return "\n".join([told, *_tuned_lines(result["tuned"])])
    lines = [
        f"{result['name']} on {result['target']}: {result['device']}, {result['source']} {result['date']}",
        f"  {_verdict(result)}",
        *_data_lines(result),
        *_rounding_lines(result),
    ]
    if not result["matches_reference"]:
        return "\n".join(lines)
    if result["source"] == "measured":
        lines.append(
            f"  time    median {_ms(result['median_ms'])} ms, 5 % {_ms(result['p5_ms'])}, 95 % {_ms(result['p95_ms'])},"
            f" least {_ms(result['least_ms'])}, of {_many(len(result['samples_ms']), 'repeat')}"
            f" with {result.get('cache', 'warm')} caches{_first(result)}"
        )
        form = f"; timed is its {result['form']} form" if result.get("form") else ""
        lines.append(f"  compile {result['compile_ms']:.0f} ms to machine code{form}")
        lines += _device_lines(result) if "launch_ms" in result else []
        lines += [f"  beside  {_peer(peer)}" for peer in result.get("peers", [])]
    else:
        lines.append(f"  cycles  {result['cycles']:,.0f} of the core, {result['microseconds']:,.1f} us")
        lines += [f"  {unit:7} {_shares(result[unit])}" for unit in ("access", "execute")]
        lines += _basis_lines(result)
    bounds = result["limits"]
    if kept := result.get("kept"):
        lines.append(
            f"  kept    as `explorer tune` found on {kept['at'][:10]}{on_part(kept)}:"
            f" {' '.join(flags(kept)) or 'a schedule'}"
        )
    lines += _tuned_lines(result["tuned"]) if result.get("tuned") else []
    lines.append(f"  limits  at least {bounds['compulsory_bytes']:,} bytes to move, {bounds['flop']:,} operations")
    return "\n".join(lines)


def flags(tuned: Mapping[str, Any]) -> list[str]:
    """What to give to the command line for what was chosen, but for the schedule, which is a file's."""
    given = [f"--option {name}={printed_value(value)}" for name, value in tuned["options"].items()]
    return given + [f"--machine {name}={value}" for name, value in tuned["machine"].items()]


def on_part(tuned: Mapping[str, Any]) -> str:
    """What follows a gain that was found on less than all of the data."""
    return f", on {tuned['part']}" if tuned["part"] else ""


def _tuned_lines(tuned: Mapping[str, Any]) -> list[str]:
    """What a search has found, how to ask for it, and why."""
    before, after = (f"{_value(tuned[name])} {tuned['metric']}" for name in ("usual", "best"))
    return [
        f"  tuned   {tuned['gain']:.3f} times as fast as usual{on_part(tuned)}: {after} instead of {before}, after"
        f" {_many(tuned['trials'], 'trial')} of {_many(tuned['points'], 'point')}",
        f"  give    {_given(tuned)}",
        *(f"  chosen  {line}" for line in str(Schedule.of(tuned["schedule"])).splitlines()),
        *(["  kept    for later runs of this model on this data and device, which say so"] if tuned["kept"] else []),
        *(f"  why     {sentence}" for sentence in tuned["why"]),
    ]


def _given(tuned: Mapping[str, Any]) -> str:
    """How to ask for what was chosen."""
    schedule = ["--schedule FILE, as `tune --schedule FILE` writes what is chosen below"] * bool(tuned["schedule"])
    return " ".join([*flags(tuned), *schedule]) or "nothing: the usual choice is the fastest that was found"


def _device_lines(result: Mapping[str, Any]) -> list[str]:
    """Of a run on a GPU: warm times, what the least takes, and the kernels."""
    note = f"; {result['launch_note']}" if result["launch_note"] else ""
    most = result["ceilings"]
    lines = [
        f"  warm    median {_ms(result['warm_ms'])} ms; an empty kernel {_ms(result['launch_ms'])}{note}",
        f"  least   {_ms(result['bytes_limit_ms'])} ms for the bytes at {most['bytes_per_s'] / 1e12:.2f} TB/s,"
        f" {_ms(result['flop_limit_ms'])} for the operations at {most['flop_per_s'] / 1e12:.1f} TFLOP/s, both measured"
        f" here: {result['limit_reached']:.0%} of what is possible",
    ]
    lines += [f"  kernel  {_kernel(kernel)}" for kernel in result["kernels"]]
    return lines


def _kernel(kernel: Mapping[str, Any]) -> str:
    grid = f"{kernel['name']}: {kernel['blocks']:,} x {kernel['columns']:,} blocks of {kernel['threads']} threads"
    if "registers" not in kernel:
        return grid
    spilled = kernel["spill_store_bytes"] + kernel["spill_load_bytes"]
    return (
        f"{grid}, {kernel['registers']} registers, {kernel['shared_bytes']:,} B shared,"
        f" {f'{spilled:,} B spilled' if spilled else 'no spills'}, {kernel['occupancy_warps']} of"
        f" {kernel['most_warps']} warps"
    )


def _peer(peer: Mapping[str, Any]) -> str:
    if peer["reason"]:
        return f"{peer['name']}: no time, {peer['reason']}"
    warm = "" if peer["warm_ms"] is None else f", warm {_ms(peer['warm_ms'])}"
    compiled = "" if peer["compile_ms"] is None else f"; {peer['compile_ms'] / 1e3:.1f} s to compile, not counted"
    return f"{peer['name']}: median {_ms(peer['median_ms'])} ms{warm}, {peer['ratio']:.2f} times as long{compiled}"


def _ms(milliseconds: float) -> str:
    """A time to the digits that matter: kernels take microseconds."""
    return f"{milliseconds:.4f}" if milliseconds < 0.1 else f"{milliseconds:.3f}"


def _data_lines(result: Mapping[str, Any]) -> list[str]:
    if result.get("family") == "op":
        return _list_lines(result)
    return _graph_lines(result) if "encodings" in result else _triple_lines(result)


def _list_lines(result: Mapping[str, Any]) -> list[str]:
    """An op's lists of indices, where its sizes are from, its pre-processing, and what was checked of the gradients."""
    data, length = result["data"], result["data"]["length"]
    steps = result["preprocessing"]
    lines = [
        f"  data    {data['name']} ({data['source']}): {data['entries']:,} entries in {data['lists']:,} lists"
        f" of {length['mean']:.1f}, at most {length['max']:,}, {length['empty']:,} empty; {data['rows']:,} rows",
        *([f"          {data['about']}"] if data["about"] else []),
        f"  sizes   {_sizes(result)}",
        f"  encoded in {sum(step['ms'] for step in steps):.1f} ms: {'; '.join(step['name'] for step in steps)}",
        *_gradient_lines(result),
    ]
    return lines


def _basis_lines(result: Mapping[str, Any]) -> list[str]:
    """Simulated speeds, and what each figure rests on."""
    rests, over = result["basis"], result.get("speedup_over") or {}
    lines = [f"  basis   {rests['cycles']}"]
    if over.get("compiled") is not None:
        lines.append(f"  speedup {over['compiled']:.2f} over compiled: {rests['opt0']}")
    if over.get("opt0") is not None:
        lines.append(f"  speedup {over['opt0']:.2f} over opt0: {rests['opt0']}")
    cores = {name: ratio for name, ratio in (over.get("core_alone") or {}).items() if ratio is not None}
    if cores:
        shown = ", ".join(f"{ratio:.2f} over {name} code" for name, ratio in cores.items())
        lines.append(f"  speedup {shown} on a core alone: {rests['core_alone']}")
    return lines


def _triple_lines(result: Mapping[str, Any]) -> list[str]:
    data = result["data"]
    return [
        f"  data    {data['name']} ({data['source']}): {_many(data['entities'], 'entity', 'entities')},"
        f" {_many(data['relations'], 'relation')}, {_many(data['triples'], 'triple')}",
        f"  batch   {_many(result['batch'], 'triple')}, negatives {result['negatives']}, {_sizes(result)}",
        *_chunks(result),
        *_inspected(result),
        *_inverses(result),
        *_gradient_lines(result),
    ]


def _chunks(result: Mapping[str, Any]) -> list[str]:
    """What chunks of edges share (cuKE Fig. 8)."""
    if "chunks" not in result:
        return []
    found = result["chunks"]
    return [
        f"  shared  in chunks of {found['edges']}: {found['entities']:,} entities and {found['relations']:,} relations,"
        f" each once a chunk; {found['relations_sorted']:,} relations where {_many(found['group'], 'chunk')}"
        f" {'are' if found['group'] > 1 else 'is'} sorted together (counted)"
    ]


def _inspected(result: Mapping[str, Any]) -> list[str]:
    """What each setting of the inspector asks memory for (cuKE Fig. 9)."""
    if "inspected" not in result:
        return []
    found = result["inspected"]
    settings = ", ".join(f"inspect={setting} {asked:,}" for setting, asked in found["bytes"].items())
    return [f"  traffic of {_many(found['triples'], 'triple')} on a GPU, before any cache: {settings} bytes (counted)"]


def _inverses(result: Mapping[str, Any]) -> list[str]:
    """What was computed of the batch before the run, for the backward pass."""
    steps = result["inverses"]["preprocessing"] if "inverses" in result else []
    names = "; ".join(f"{step['name']} ({step['found']})" for step in steps)
    return [f"  sorted  in {sum(step['ms'] for step in steps):.1f} ms: {names}"] if steps else []


def _gradient_lines(result: Mapping[str, Any]) -> list[str]:
    """What was checked of the gradients, and what they took."""
    lines = []
    for name, check in result.get("gradients", {}).items():
        lines.append(f"  d {name:5} {_error(check)}")
    if "peak_bytes" in result:
        lines.append(f"  memory  {result['peak_bytes']:,} bytes at the most, besides the inputs")
    return lines


def _graph_lines(result: Mapping[str, Any]) -> list[str]:
    """The graph, its pre-processing, and what was checked of the gradients."""
    data, encodings = result["data"], result["encodings"]
    degree, steps = encodings["in_degree"], encodings["preprocessing"]
    node = [*data.get("ends", ("node",))][-1]
    lines = [
        f"  data    {data['name']} ({data['source']}): {_nodes(data)},"
        f" {_many(data['edges'], 'edge')} of {_many(data['etypes'], 'type')}; {_sizes(result)}",
        f"  degree  {degree['mean']:.1f} in-edges {with_article(node)}, at most {degree['max']:,};"
        f" {_many(degree['without'], node, plural(node))} without",
        f"  pairs   {encodings['src_pairs']:,} of source and type: compaction ratio"
        f" {100 * encodings['compaction_ratio']:.1f} %; {encodings['dst_pairs']:,} of destination and type",
        f"  encoded in {sum(step['ms'] for step in steps):.0f} ms: {'; '.join(step['name'] for step in steps)}",
    ]
    return [*lines, *_gradient_lines(result)]


def _nodes(data: Mapping[str, Any]) -> str:
    """`12 nodes of 3 types`, or of a graph between two sets `3 users and 7 items`."""
    if "ends" in data:
        return " and ".join(_many(count, name, plural(name)) for name, count in data["ends"].items())
    return f"{_many(data['nodes'], 'node')} of {_many(data['ntypes'], 'type')}"


def _many(count: int, one: str, several: str = "") -> str:
    """`1 type`, `3 types`."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def _sizes(result: Mapping[str, Any]) -> str:
    return sizes_in_words(result["sizes"], result["sizes_from"]) or "no sizes"


def sizes_in_words(sizes: Mapping[str, int], sizes_from: Mapping[str, str]) -> str:
    """`D = 32, from RM1:L0; K = 8, given; M = 4`: the text's own need no word."""
    own = {GIVEN: ", given", OF_TEXT: ""}
    ends = {dim: own.get(source, f", from {source}") for dim, source in sizes_from.items()}
    return "; ".join(f"{dim} = {size}{ends[dim]}" for dim, size in sizes.items())


def _first(result: Mapping[str, Any]) -> str:
    return f"; the first run {result['first_ms']:.3f}" if "first_ms" in result else ""


def _verdict(result: Mapping[str, Any]) -> str:
    if not result["matches_reference"]:
        return f"WRONG   {result['message']}"
    where = " that was computed on the GPU" if result["reference_on"] == "gpu" else ""
    several = f"each of {len(result['results'])} results, " if "results" in result else ""
    return f"matches the float64 reference{where}: {several}{_rows_checked(result)}, {_error(result)}"


def _rows_checked(result: Mapping[str, Any]) -> str:
    """How many rows were held against the reference, and of how many where they were drawn."""
    sampled = result["sampled"]
    if sampled is None:
        return _many(result["rows_checked"], "row")
    hubs = f" and the {sampled['highest_degree']} of highest degree" if sampled["highest_degree"] else ""
    return f"{sampled['rows']:,} of {_many(sampled['of'], 'row')}, drawn with seed {sampled['seed']}{hubs}"


def _error(check: Mapping[str, Any]) -> str:
    """How large errors are beside what rounding to float32 may make."""
    ratio, error = check["error_over_bound"], check["max_relative_error"]
    if ratio is None:
        return "not a number where there should be one"
    relative = "" if error is None else f"; the largest relative error is {error:.1e}"
    return f"errors up to {ratio:.2g} of what rounding may make{relative}"


def _rounding_lines(result: Mapping[str, Any]) -> list[str]:
    """What tables stored in 16 bits change of the result, which all that is checked starts from."""
    rounding = result.get("rounding")
    if not rounding:
        return []
    names = ", ".join(f"{name}: {storage}" for name, storage in rounding["tensors"].items())
    share = rounding["root_mean_square"]
    told = "by what is no number" if share is None else f"by {share:.1e} of it, in the root mean square"
    return [f"  rounded {names}: against tables of float32, the result differs {told}"]


def _shares(unit: Mapping[str, Any]) -> str:
    """What a unit of the machine did with its cycles."""
    shares = {"busy": unit["busy"], **unit["stalls"]}
    return ", ".join(f"{name.replace('_', ' ')} {cycles / unit['cycles']:.0%}" for name, cycles in shares.items())
