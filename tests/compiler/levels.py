"""Options that choose how a program is decoupled, at random."""

from hypothesis import strategies as st

SLC_STAGES = ("slc", "slc.opt1", "slc.opt2", "slc.opt3")
SWITCHES = ("address_streams", "store_streams", "level_hints", "accumulate_streams", "toggle_callbacks")

LEVEL_OPTIONS = st.fixed_dictionaries(
    {"opt": st.integers(0, 3), "vlen": st.sampled_from([1, 2, 3, 4, 16])},
    optional={switch: st.booleans() for switch in SWITCHES},
)
