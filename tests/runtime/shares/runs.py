"""Runs of three models, one of each family, and what their columns add up to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from explorer.runtime.run import RunRequest, execute

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
TRIPLES = "".join(f"e{n % 7}\tr{n % 3}\te{n * n % 11}\n" for n in range(40))
MODELS: dict[str, tuple[str, dict[str, int | str | bool]]] = {
    "transr": ("kge/transr.emb", {}),
    "sls": ("embedding/sls.emb", {"opt": 3}),
    "rgat": ("rgnn/rgat.emb", {"grad": True}),
}
SMALL = {"D": 19, "K": 5, "F": 6, "G": 17, "H": 2}


def run(path: str, options: dict[str, Any], folder: Path, **fields: Any) -> dict[str, Any]:
    text = (EXAMPLES / path).read_text()
    (folder / "triples.tsv").write_text(TRIPLES)
    np.savez(folder / "bags.npz", ptr=[0, 0, 3, 4, 20, 20], idx=np.arange(20) * 7 % 9, num_rows=9)
    data = {"kge": str(folder / "triples.tsv"), "rgnn": "tiny", "embedding": "bags.npz"}[path.partition("/")[0]]
    sizes = {name: size for name, size in SMALL.items() if f" {name} =" in text}
    more = {"data_dir": str(folder)} if path.startswith("embedding") else {}
    fields = {"data": data, "sizes": sizes, "options": options, "batch": 7, "repeat": 3, **more, **fields}
    last = list(execute(RunRequest(text=text, **fields)))[-1]
    assert last["event"] == "result", last
    assert last["matches_reference"]
    return last


def columns(spent: dict[str, Any]) -> list[float]:
    rows = [row["amounts"] for row in (*spent["operations"], *spent["rest"])]
    assert all(amount >= -1e-6 * spent["whole"] for row in rows for amount in row)
    return [sum(column) for column in zip(*rows, strict=True)]
