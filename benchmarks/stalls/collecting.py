"""Puts what was measured into the file of its device that the page reads: `compiler/heat/recorded`."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

from explorer.compiler.heat.recordings import FOLDER, SUFFIX

Json = dict[str, Any]


def collect(out: Path, folder: Path = FOLDER) -> dict[Path, int]:
    """Adds the kernels of all files of `out` to those that are recorded, in a file a device, day and version of ncu;
    gives how many kernels each file has now."""
    found: dict[Path, Json] = {}
    for file in sorted(out.glob("*.json")):
        body = json.loads(file.read_text())
        about = {name: body[name] for name in ("device", "date", "tool")}
        target = folder / f"{_slug(*about.values())}{SUFFIX}"
        if target not in found:
            found[target] = _known(target) or about | {"kernels": {}}
        found[target]["kernels"].update(body["kernels"])
    folder.mkdir(parents=True, exist_ok=True)
    for target, body in found.items():
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        target.write_bytes(gzip.compress(text.encode(), mtime=0))
    return {target: len(body["kernels"]) for target, body in found.items()}


def _known(file: Path) -> Json:
    """What has been collected of a device before; nothing where there is no such file."""
    found: Json = json.loads(gzip.decompress(file.read_bytes())) if file.exists() else {}
    return found


def _slug(*words: str) -> str:
    return "-".join(re.sub(r"[^a-z0-9.]+", "-", word.lower()).strip("-") for word in words)
