"""Where loads look first, and what they leave behind (Ember §7.4)."""

from explorer.compiler.ir.access.dlc import MemStream
from explorer.compiler.ir.node import walk
from tests.compiler import ops


def hints(name, **options):
    """By array, the hints of its loads; all loads of one have the same."""
    compilation = ops.compiled((ops.FOLDER / f"{name}.emb").read_text(), **options)
    (program,) = compilation.stages["dlc"].program.programs
    loads = [node for node in walk(program) if isinstance(node, MemStream)]
    found = {node.buffer: (node.level, node.temporal) for node in loads}
    assert all(found[node.buffer] == (node.level, node.temporal) for node in loads)
    return found


def test_blocks_are_looked_for_in_l2_and_indices_are_read_once():
    assert hints("spattn", level_hints=True) == {"idx": ("", False), "K": ("L2", True)}


def test_offsets_are_read_twice_and_keep_their_lines():
    assert hints("sls", level_hints=True) == {"bag_ptr": ("", True), "idx": ("", False), "T": ("L2", True)}


def test_without_the_option_nothing_is_hinted():
    assert set(hints("spattn").values()) == {("", True)}
