"""How good the tuner is on spaces that it has not seen: its model, and the searches that it leads, on recorded spaces.

    python -m benchmarks.tuner --spaces DIR [--replays 500] [--weights FILE]      # no GPU; PyTorch trains

Each space is left out in turn, once alone, so that the other input of its kernel stays, and once with that. The times
are those that `benchmarks.record` measured; what is found here is replayed, and no time is taken. With --weights the
network is trained on all spaces and written down.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from explorer.tuner.held_out import HeldOut, Train, held_out
from explorer.tuner.model.inputs import recorded_inputs
from explorer.tuner.model.training import G_SPARSE, OURS, train
from explorer.tuner.recorded import Recorded
from explorer.tuner.replay import REPLAYS
from explorer.tuner.search import Breeding, Search, as_predicted, at_random, genetic, guided, sampled

BY_NAME_ONLY = "needs recorded spaces"
"""`explorer bench` runs this suite only where it is named."""

SEARCHES: Mapping[str, Search] = {
    "genetic": genetic,
    "genetic on": partial(genetic, breeding=Breeding(generations=0)),
    "random of 20": sampled,
    "as predicted": as_predicted,
    "guided": guided,
}


def models() -> dict[str, Train]:
    """What can be trained here, by name."""
    found: dict[str, Train] = {
        "ours": lambda spaces: train(spaces, OURS).predict,
        "G-Sparse": lambda spaces: train(spaces, G_SPARSE).predict,
    }
    if find_spec("sklearn"):
        from explorer.tuner.model.boosted import Boosted

        found["boosted trees"] = lambda spaces: Boosted(spaces).predict
    return found


def main(argv: Sequence[str]) -> int:
    """Prints a JSON line for each left-out space and model, then a table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="explorer bench tuner", description=__doc__)
    add = parser.add_argument
    add("--spaces", type=Path, required=True, help="the folder that `benchmarks.record pack` has written")
    add("--replays", type=int, default=REPLAYS, help=f"of each search; default {REPLAYS}")
    add("--weights", type=Path, help="where the network is written, trained on all spaces")
    arguments = parser.parse_args(argv)
    spaces = [Recorded.load(path) for path in sorted(arguments.spaces.glob("*.json.xz"))]
    if len(spaces) < 2:
        print(f"{arguments.spaces} has {len(spaces)} recorded spaces, and two are needed", file=sys.stderr)
        return 2
    judge = partial(held_out, spaces, replays=arguments.replays)
    told = {"no model": judge(None, {"random": at_random}, with_twins=False)}
    for name, training in models().items():
        for with_twins in (False, True):
            left_out = "kernels" if with_twins else "spaces"
            told[f"{name}, {left_out} left out"] = judge(training, SEARCHES, with_twins=with_twins)
    for name, found in told.items():
        for each in found:
            print(json.dumps({"model": name, **each.to_json()}))
    print("\n".join(row for name, found in told.items() for row in table(name, found)))
    if arguments.weights:
        train([(recorded_inputs(space), space.times()) for space in spaces], OURS).save(arguments.weights)
    return 0


def table(name: str, found: Sequence[HeldOut]) -> list[str]:
    """The figures for people: of the model, the least and the mean r; of each search, the least and the mean score."""
    r = [each.r for each in found]
    rows = [
        f"{name}: r {min(r):.2f} at least, {np.mean(r):.2f} in the mean;"
        f" {np.mean([each.recall for each in found]):.0%} of the best recalled; the first choice takes"
        f" {np.mean([each.first_choice for each in found]):.2f} times the best"
    ]
    for search in found[0].searches:
        judged = [each.searches[search] for each in found]
        score, trials = [each.score for each in judged], [each.score_of_trials for each in judged]
        rows.append(
            f"  {search:14} score {min(score):6.2f} at least, {np.mean(score):6.2f} in the mean; at 32 trials"
            f" {min(trials):6.2f} and {np.mean(trials):6.2f}; near the best in {np.mean([e.near for e in judged]):.0%}"
        )
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
