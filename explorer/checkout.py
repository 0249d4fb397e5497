"""Where the files lie that are not Python: the checkout that this package was installed from."""

from __future__ import annotations

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
"""The folder that holds `static/`, `examples/` and `benchmarks/`."""
