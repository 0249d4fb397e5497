"""Hector's and PIGEON's figures that need a GPU: which of them there are, on which graphs, and what is published."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product

from benchmarks.paper.figure import NEEDS_GPU, Figure, Programs, Table
from benchmarks.paper.measured import beside, breakdown, memory, on_gpu
from benchmarks.paper.measured.ahead import Code

FIGURE_3, FIGURE_9, COMPILED = ("fb15k", "mutag"), ("fb15k", "am"), "aifb"
BEST, PLAIN = "C+R", "U"
SPEEDS: dict[str, beside.Told] = {
    "rgcn": {
        ("Hector", "inference"): {BEST: (1.51, 1.91, 3.2), PLAIN: (1.51, 1.79, 2.19)},
        ("PIGEON", "inference"): {PLAIN: (0.97, 1.44, 3.7)},
        ("Hector", "training"): {BEST: (2.02, 2.76, 3.48), PLAIN: (2.02, 2.59, 3.47)},
        ("PIGEON", "training"): {PLAIN: (0.93, 1.64, 3.8)},
    },
    "rgat": {
        ("Hector", "inference"): {BEST: (5.29, 8.56, 15.5), PLAIN: (1.41, 5.02, 9.89)},
        ("PIGEON", "inference"): {PLAIN: (5.3, 6.39, 7.8)},
        ("Hector", "training"): {BEST: (4.61, 11.3, 55.4), PLAIN: (1.72, 9.14, 43.7)},
        ("PIGEON", "training"): {PLAIN: (4.4, 4.93, 5.6)},
    },
    "hgt": {
        ("Hector", "inference"): {BEST: (1.4, 2.87, 7.42), PLAIN: (1.2, 1.9, 4.31)},
        ("PIGEON", "inference"): {PLAIN: (0.77, 1.19, 2.0)},
        ("Hector", "training"): {BEST: (2.17, 8.02, 43.1), PLAIN: (1.53, 6.62, 28.3)},
        ("PIGEON", "training"): {PLAIN: (0.98, 1.88, 3.3)},
    },
}
"""Hector's Table 4 and PIGEON's Table 6: worst, mean and best over the best of the other systems."""


PIGEON_5: dict[tuple[str, str], dict[str, tuple[float, float, float]]] = {
    ("rgat", "training"): {
        "aifb": (0.84, 1.17, 0.85),
        "mutag": (0.76, 1.14, 0.80),
        "bgs": (0.94, 1.20, 1.06),
        "am": (0.85, 1.15, 0.93),
        "fb15k": (1.29, 1.25, 1.40),
        "biokg": (2.16, 1.26, 2.20),
    },
    ("rgat", "inference"): {
        "aifb": (1.04, 1.24, 1.12),
        "mutag": (1.16, 1.25, 1.33),
        "bgs": (1.17, 1.38, 1.41),
        "am": (0.94, 1.34, 1.08),
        "fb15k": (1.58, 1.40, 1.79),
        "biokg": (1.93, 1.41, 1.97),
    },
    ("hgt", "training"): {
        "aifb": (1.88, 1.26, 1.86),
        "mutag": (1.28, 1.16, 1.32),
        "bgs": (1.20, 1.13, 1.19),
        "am": (1.11, 1.10, 1.07),
        "mag": (1.08, 1.08, 1.14),
        "wikikg2": (1.10, 1.09, 1.20),
        "fb15k": (1.24, 1.14, 1.31),
        "biokg": (1.04, 1.02, 1.15),
    },
    ("hgt", "inference"): {
        "aifb": (1.80, 1.82, 1.61),
        "mutag": (1.46, 1.54, 1.36),
        "bgs": (1.27, 1.26, 1.07),
        "am": (1.29, 1.30, 0.93),
        "mag": (1.11, 1.11, 0.90),
        "wikikg2": (1.13, 1.13, 0.99),
        "fb15k": (1.29, 1.29, 1.20),
        "biokg": (1.05, 1.05, 0.95),
    },
}
"""PIGEON's Table 5, of C, F (which Hector calls R) and C+F over its unoptimised code. RGAT on mag and wikikg2 is left
out: the draft's numbers there are over C, since its plain code runs out of memory."""


def figures(
    sizes: Mapping[str, Mapping[str, int]],
    settings: Mapping[str, on_gpu.Options],
    small_first: Sequence[str],
    counted: Callable[[str, str, str, bool], int],
) -> tuple[Figure, ...]:
    """Those of layers of these sizes, under settings by name, on graphs in this order; `counted` has the bytes of a
    layer on a graph under a setting, with gradients or without."""
    chosen = {name: settings[name] for name in (BEST, PLAIN)}
    inference, both_passes = (False,), (False, True)

    def code(layers: Sequence[str], names: Sequence[str], passes: Sequence[bool]) -> list[Code]:
        """Layers' programs under settings, with gradients or without."""
        every = product(layers, names, passes)
        return [partial(on_gpu.layer_code, layer, sizes[layer], grad, settings[name]) for layer, name, grad in every]

    def modules() -> list[Code]:
        """What the peaks are of."""
        every = product(settings.values(), both_passes)
        return [partial(on_gpu.module_code, "rgnn/hgt", sizes["hgt"], grad, options) for options, grad in every]

    peaks = partial(memory.figure_10, "hgt", sizes["hgt"], small_first, settings, partial(counted, "hgt"))
    figure_9 = partial(breakdown.figure_9, "rgat", sizes["rgat"], FIGURE_9, settings)
    return (
        _figure(
            "fig3",
            "Figure 3: time by kernel, launching, preparation",
            [24],
            partial(breakdown.figure_3, sizes, FIGURE_3),
            partial(code, [*sizes], (BEST,), both_passes),
        ),
        _figure(
            "fig9",
            "Figure 9: GEMM and traversal of RGAT by setting",
            [24],
            figure_9,
            partial(code, ("rgat",), [*settings], inference),
        ),
        *(
            _figure(
                f"fig8-{layer}",
                f"Figure 8, Hector's Table 4 and PIGEON's Table 6: {layer.upper()} beside others",
                [19, 20, 21],
                partial(beside.layers_table, layer, sizes[layer], small_first, chosen, told),
                partial(code, (layer,), [*chosen], both_passes),
            )
            for layer, told in SPEEDS.items()
        ),
        _figure(
            "fig8-compiled",
            "Figure 8: beside torch.compile",
            [19, 20],
            partial(beside.compiled_table, sizes, COMPILED),
            partial(code, [*sizes], (BEST,), both_passes),
        ),
        _figure("fig10-measured", "Figure 10: memory of HGT as measured", [25], peaks, modules),
    )


def _figure(name: str, title: str, entries: Sequence[int], on_device: Callable[[], Table], ahead: Programs) -> Figure:
    return Figure.of("hector", name, title, entries, None, NEEDS_GPU, on_device, ahead)
