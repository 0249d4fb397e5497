"""A decoupled access-execute machine that runs DLC: an access unit and an execute unit, each with its own code,
and bounded control and data queues between them (Ember §3.1, Fig. 5).

`assemble` turns a `DlcProgram` into compact integer code; `simulation` interprets it with one compiled interpreter,
really pushing and popping every value, and keeps a clock for each unit.
"""
