"""Segments by their lengths (Ember §7.4)."""

from explorer.compiler.ir.access.dlc import AccStream, MemStream
from explorer.compiler.ir.node import walk
from tests.compiler import ops


def compiled(name, **options):
    compilation = ops.compiled((ops.FOLDER / f"{name}.emb").read_text(), accumulate_streams=True, **options)
    return compilation, compilation.stages["dlc"].program.programs[0]


def test_one_load_a_segment_instead_of_two():
    compilation, program = compiled("sls")
    assert [node.buffer for node in walk(program) if isinstance(node, MemStream)] == ["bag_len", "idx", "T"]
    assert [node.start for node in walk(program) if isinstance(node, AccStream)] == [0]
    assert {buffer.name for buffer in program.buffers} == {"bag_len", "idx", "T", "out"}
    report = next(r for r in compilation.stages["slc"].passes if r.name == "accumulate_streams")
    assert report.summary == "SLS_0: bag_len instead of bag_ptr, one load a segment"


def test_an_op_without_segments_stays():
    compilation, _ = compiled("spmm_coo")
    assert not next(r for r in compilation.stages["slc"].passes if r.name == "accumulate_streams").changed
