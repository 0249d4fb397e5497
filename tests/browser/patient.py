"""`explorer serve` on a host that other tests keep busy: there its runs, which make way for everything else, would have
a tenth of a core, and one that takes ten seconds no end within its time."""

from __future__ import annotations

import sys

from explorer.runtime.workers import pool
from explorer.web import limits

RUN_SECONDS = 120.0


def main() -> int:
    limits.RUN_SECONDS = RUN_SECONDS  # before what takes it as its usual limit is imported
    pool._NICENESS.update(dict.fromkeys(pool._NICENESS, 0))
    from explorer.cli import main as explorer

    return explorer(["serve", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
