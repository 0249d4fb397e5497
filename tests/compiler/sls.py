"""Ember's running example (Fig. 2 and 10): the sum of each bag's rows, as loops, with its data."""

import numpy as np

from explorer.compiler.ir.parse import parse_kernel
from explorer.compiler.options import Options
from explorer.compiler.passes.access.align_queues import align_queues
from explorer.compiler.passes.access.bufferize import bufferize
from explorer.compiler.passes.access.decouple import decouple
from explorer.compiler.passes.access.separate import separate
from explorer.compiler.passes.access.vectorize import vectorize
from explorer.compiler.report import Report

SLS = """kernel sls  template traversal
  size L = {length}
  index ptrs[bag_ends]
  index idxs[entries]
  param vals[rows, L]
  output out[bags, L]
  parallel for b in 0..bags
    beg = ptrs[b]
    index b1 = b + 1
    end = ptrs[b1]
    for p in beg..end
      i = idxs[p]
      for e in 0..L
        v = vals[i, e]
        out[b, e] += v
"""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWX"


def sls(length=4):
    """The kernel, for rows of that length."""
    return parse_kernel(SLS.format(length=length))


def bags(pointers, indices, length=4, rows=6):
    """Arrays for the kernel; row 0 holds 0, 1, 2, 3, which the figures call A, B, C, D, and so on."""
    values = np.arange(rows * length, dtype=np.float32).reshape(rows, length)
    return {
        "ptrs": np.array(pointers, dtype=np.int32),
        "idxs": np.array(indices, dtype=np.int32),
        "vals": values,
        "bags": len(pointers) - 1,
    }


def lettered(records):
    """Records as the figures write them: tokens, and operands with letters for numbers of the table."""
    return [
        (token, "".join(LETTERS[int(word)] if isinstance(word, np.float32) else f"{word}," for word in words))
        for token, words in records
    ]


def levels(kernel, vlen=16):
    """The kernel's SLC at opt0, opt1, opt2 and opt3."""
    report = Report(Options(vlen=vlen))
    programs = [decouple(kernel, report)]
    for step in (vectorize, bufferize, align_queues):
        programs.append(step(programs[-1], report))
    return programs


def separated(kernel, vlen=16):
    """The kernel's DLC at opt0, opt1, opt2 and opt3."""
    return [separate(program, Report(Options(vlen=vlen))) for program in levels(kernel, vlen)]
