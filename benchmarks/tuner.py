"""How good the tuner is on spaces that it has not seen: its model, and the searches that it leads, on recorded spaces.

    python -m benchmarks.tuner [--spaces DIR] [--models ours,...] [--replays 5]   # no GPU; PyTorch trains networks
    python -m benchmarks.tuner --folds 4          # all models beside one another, each trained four times, not 56
    python -m benchmarks.tuner --write                                            # what comes with the explorer

Each space is left out in turn, once alone, so that the other input of its kernel stays, and once with that. The times
are those that `benchmarks.record` measured; what is found here is replayed, and no time is taken. With --write ours is
trained on all spaces, and what it predicts of each without having seen it, or its kernel, is written beside them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from explorer.tuner import shipped
from explorer.tuner.held_out import HeldOut, Train, bar_of, departures, held_out, kernel_of, others_of
from explorer.tuner.model.choices import Model, expected, recorded_choices
from explorer.tuner.model.inputs import recorded_inputs
from explorer.tuner.model.learning import learn
from explorer.tuner.model.metrics import nine, six
from explorer.tuner.model.training import G_SPARSE, OURS, train
from explorer.tuner.recorded import Recorded
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


REPLAYS = 5
"""Those that a model leads are all the same but for what a genetic search draws."""
Trained = tuple[Callable[[Recorded], NDArray[np.float32]], Train]
"""What is given of a space, and what is trained on that."""


def models() -> dict[str, Trained]:
    """What can be trained here, by name. All but ours have features of the machine code: all of them, or G-Sparse's own
    nine, or six raw ones."""
    found: dict[str, Trained] = {"ours": (recorded_choices, lambda spaces: partial(expected, learn(spaces)))}
    if find_spec("torch"):
        found["pairwise network"] = recorded_inputs, lambda spaces: train(spaces, OURS).predict
        found["G-Sparse"] = recorded_inputs, lambda spaces: train(spaces, G_SPARSE).predict
        found["G-Sparse of nine"] = nine, lambda spaces: train(spaces, G_SPARSE).predict
        found["G-Sparse of six raw"] = six, lambda spaces: train(spaces, G_SPARSE).predict
    if find_spec("sklearn"):
        from explorer.tuner.model.boosted import Boosted

        found["scikit-learn's trees"] = recorded_inputs, lambda spaces: Boosted(spaces).predict
    return found


def main(argv: Sequence[str]) -> int:
    """Prints a JSON line for each left-out space and model, then a table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="explorer bench tuner", description=__doc__)
    add = parser.add_argument
    add("--spaces", type=Path, default=shipped.FOLDER, help="the folder that `benchmarks.record pack` has written")
    add("--models", default="", help="those that are trained, by name; default all that can be")
    add("--replays", type=int, default=REPLAYS, help=f"of each search; default {REPLAYS}")
    add("--folds", type=int, default=0, help="train so many times, leaving out as many spaces together; default: each")
    add("--write", action="store_true", help="train what comes with the explorer, and say nothing")
    arguments = parser.parse_args(argv)
    spaces = {name: Recorded.load(path) for name, path in shipped.files(arguments.spaces).items()}
    if len(spaces) < 2:
        print(f"{arguments.spaces} has {len(spaces)} recorded spaces, and two are needed", file=sys.stderr)
        return 2
    if arguments.write:
        return write(arguments.spaces, spaces)
    judge = partial(held_out, list(spaces.values()), replays=arguments.replays, folds=arguments.folds)
    told = {"no model": judge(None, {"random": at_random}, with_twins=False)}
    wanted = [name for name in models() if not arguments.models or name in arguments.models.split(",")]
    for name, (inputs, training) in ((name, models()[name]) for name in wanted):
        for with_twins in (False,) if arguments.folds else (False, True):
            left_out = "kernels" if with_twins else "a fold" if arguments.folds else "spaces"
            told[f"{name}, {left_out} left out"] = judge(training, SEARCHES, with_twins=with_twins, inputs=inputs)
    for name, found in told.items():
        for each in found:
            print(json.dumps({"model": name, **each.to_json()}))
    print("\n".join(row for name, found in told.items() for row in table(name, found)))
    return 0


def write(folder: Path, spaces: Mapping[str, Recorded]) -> int:
    """Writes the model trained on all spaces, and what is predicted of each that is left out; the exit status."""
    single = [space.without_repeats() for space in spaces.values()]
    examples = [(recorded_choices(space), space.times()) for space in single]
    learn(examples).save()
    for with_twins, name in ((False, shipped.LEFT_OUT), (True, shipped.KERNEL_LEFT_OUT)):
        found, models = {}, dict[str, Model]()
        for key, space, (inputs, _) in zip(spaces, single, examples, strict=True):
            left_out = kernel_of(space) if with_twins else key
            if left_out not in models:
                models[left_out] = learn(others_of(space, single, examples, with_twins=with_twins))
            found[key] = models[left_out].predict(inputs).astype(np.float16)
        np.savez_compressed(folder / name, **found)
    return 0


def table(name: str, found: Sequence[HeldOut]) -> list[str]:
    """The figures for people: of the model, the least and the mean r; of each search, the least and the mean score."""
    r = [each.r for each in found]
    rows = [
        f"{name}: r {min(r):.2f} at least, {np.mean(r):.2f} in the mean;"
        f" {np.mean([each.recall for each in found]):.0%} of the best recalled; the first choice takes"
        f" {np.mean([each.first_choice for each in found]):.2f} times the best",
        f"  first choice: {_gains(found, 1.0)}; where over {bar_of(found):.2f} is promised, {_gains(found, None)}",
    ]
    for search in found[0].searches:
        judged = [each.searches[search] for each in found]
        score, trials = [each.score for each in judged], [each.score_of_trials for each in judged]
        rows.append(
            f"  {search:14} score {min(score):6.2f} at least, {np.mean(score):6.2f} in the mean; at 32 trials"
            f" {min(trials):6.2f} and {np.mean(trials):6.2f}; near the best in {np.mean([e.near for e in judged]):.0%}"
        )
    return rows


def _gains(found: Sequence[HeldOut], bar: float | None) -> str:
    """What first choices gain over the usual points where a bar, or else the one that other spaces set, lets them."""
    taken = departures(found, bar)
    return f"{len(taken.gains)} of {len(found)} spaces, {taken.losses} slower, {taken.mean:.3f} times as fast"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
