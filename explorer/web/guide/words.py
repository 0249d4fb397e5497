"""What every pass, option, control and word of an IR means, in a sentence each: shown on hover and on focus.

`tests/web/guide/test_words.py` holds the table against the pipeline, the options and the grammars of the IRs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from hashlib import sha256

from explorer.compiler.ir.functions import TABLE
from explorer.compiler.ir.storage import NARROW, STORAGES
from explorer.compiler.language.names.builtins import BUILTINS

PASSES: Mapping[str, str] = {
    "common_subexpressions": "Merges values that compute the same: a row gathered twice is gathered once.",
    "late_reshapes": "Takes products of values as they lie in memory, and reshapes what comes out.",
    "reassociate": "Regroups sums and products so that what the negatives of a triple share is computed once.",
    "combine_last": "Multiplies a row with each of some matrices before these are combined.",
    "reorder": "Multiplies weights with weights first, where that leaves less to do for each edge (Hector §3.2.3).",
    "aggregate_first": "Adds up the edges of a node and type before the product with the type's matrix.",
    "compact": "Moves a value from each edge to each distinct pair that it depends on (Hector §3.2.2).",
    "divide_last": "Divides a sum once, instead of each of its terms.",
    "differentiate": "Adds the backward pass: the gradient of every parameter, in the same graph.",
    "folded_stacks": "Takes a reduction across a stack element by element of what is stacked.",
    "dead_values": "Drops values that neither the result nor a gradient needs.",
    "fuse": "Turns operators into loop nests that compute all a row needs in one visit (cuKE §V-B).",
    "interchange": "Exchanges two loops of a product, so that the inner one walks a matrix along its rows.",
    "online": "Takes a softmax's maximum and its sums in one visit of the elements instead of three.",
    "hoist": "Moves what does not change in a loop in front of it.",
    "share_rows": "Reads a table's row once where several loops want it.",
    "pack": "Stores scalars of a row as columns of the vector that is read with them (Hector §6).",
    "pad": "Lays the rows of arrays between kernels further apart, to begin at vectors, sectors or lines (PIGEON"
    " §3.1.3).",
    "in_place": "Sums in the output itself what was only going to be copied there.",
    "decouple": "Splits loops into lookups for the access unit and compute for the execute unit (Ember §6.2).",
    "accumulate_streams": "Reads the length of a segment instead of two offsets (Ember §7.4).",
    "toggle_callbacks": "Sends a coordinate when it changes, not with every nonzero (Ember §7.4).",
    "store_streams": "Lets the access unit write what is only copied: it crosses no queue (Ember §7.4).",
    "level_hints": "Tells the caches which loads are worth keeping (Ember §7.4).",
    "vectorize": "Lets the innermost loops take a vector of positions at a time (Ember §7.1).",
    "bufferize": "Sends the vectors of a row as one record with one token (Ember §7.2).",
    "address_streams": "Sends one address in place of several indices (Ember §7.3).",
    "align_queues": "Counts positions and pads scalars, so that no vector lies across two lines (Ember §7.3).",
    "separate": "Takes the structured program apart into access code and execute code (Ember §6.3).",
    "unpack": "Gives packed scalars arrays of their own, without padding, until their kernels are scheduled.",
    "split_products": "Gives products of rows and matrices kernels of their own (Hector §3.3).",
    "schedule": "Says who does each iteration on a GPU, where tiles live and what waits for what.",
    "generate_cuda": "Writes the scheduled kernels as CUDA C++.",
    "generate_ptx": "Has NVRTC compile the CUDA.",
    "generate_sass": "Takes the machine code that NVRTC's ptxas makes, as nvdisasm writes it.",
}
"""By the name of a pass what it does."""

OPTIONS: Mapping[str, str] = {
    "negatives": "So many corrupted triples for each true one, with another head or tail (cuKE §VII-B); one list of"
    " them may be shared by a chunk of triples.",
    "grad": "Adds the gradients of all parameters to the program.",
    "apart": "Keeps the kernels of results free of gradients, as a training step runs them, in two parts.",
    "reorder": "Permits linear operators to change their order (Hector §3.2.3).",
    "compact": "Permits values of edges to be computed once a distinct pair (Hector §3.2.2).",
    "edges": "The end that a layer's edges are sorted by in memory: destinations, or sources (PIGEON §3.3.5).",
    "aggregate": "Permits sums to be taken before products, where that is less work.",
    "interchange": "Permits loops to be exchanged, so that matrices are read along their rows.",
    "online": "Permits a softmax in one visit of its elements.",
    "pack": "Permits attention to be a further column of the message, in one array (Hector §6).",
    "pad": "Rows that kernels make for one another begin at multiples of so many numbers: 4 are a vector, 8 a sector,"
    " 32 a line of a cache (PIGEON §3.1.3).",
    "encoding": "How kernels find an edge's destination or a nonzero's row: read, or searched for (PIGEON §3.3.5).",
    "inspect": "What a GPU's kernels find out about a batch or graph at run time, to group what is alike (cuKE §VI).",
    "inspect_edges": "Edges of a chunk: cuKE's C.",
    "inspect_cached": "Matrices that a block keeps in shared memory: cuKE's C1.",
    "inspect_block": "Elements of a row that are in shared memory at a time: cuKE's D.",
    "inspect_group": "Chunks whose edges are sorted together: cuKE's p, where 1 is no sorting.",
    "inspect_reload": "Stores a product's rows at its first block of columns, and reloads them for the others (cuKE"
    " Listing 6).",
    "inspect_shuffle": "Has lanes hand a product's rows on by shuffles, in place of shared memory (cuKE §V-B).",
    "precision": "What a GPU multiplies rows and matrices in. Sums are always in float32.",
    "arch": "The GPU that PTX and SASS are made for.",
    "split": "What warps share out of a sum: its rows, or its nonzeros (G-Sparse §III).",
    "chunk": "Nonzeros that a warp takes: G-Sparse's kNnzTile.",
    "lanes": "Lanes of a warp that share a row of a table: G-Sparse's kLaneWidth.",
    "lane_vectors": "Vectors of a row that a lane has at most: G-Sparse's kNRegTile.",
    "block_rows": "Rows of the output that a block computes: G-Sparse's kMTile.",
    "block_columns": "Columns of the output that a block computes: G-Sparse's kNTile.",
    "preload": "Nonzeros of a row that are fetched into shared memory at a time.",
    "balance": "Sorts rows by length, so that warps of a block have like work (G-Sparse §III-D).",
    "popular": "Has the L2 cache keep the rows that are gathered most often.",
    "opt": "Ember's level that the machine's program is made of: 0 none, 1 vectors, 2 records, 3 aligned queues.",
    "vlen": "Elements of a vector of the simulated machine.",
    "address_streams": "Sends addresses in place of indices (Ember §7.3).",
    "store_streams": "Lets the access unit write what is only copied (Ember §7.4).",
    "level_hints": "Marks loads with the cache that they look in first (Ember §7.4).",
    "accumulate_streams": "Reads segments by their lengths (Ember §7.4).",
    "toggle_callbacks": "Sends a nonzero's row when it changes (Ember §7.4).",
}
"""By the name of an option what it does."""

CONTROLS: Mapping[str, str] = {
    "tune": "Tries other options, decisions of kernels and parameters of the machine on these data, the usual ones"
    " first, and says which are fastest. Nothing of the page changes until you use what it has found.",
    "trials": "How many points are tried at most. The usual one is among them, so what is found is never slower.",
    "recording": "Without a GPU, a space of schedules can be searched that was measured whole on one: Tune asks for"
    " points of it as it would on the device, and has the times that were recorded. Nothing runs. Offered are those of"
    " the editor's model, each with sizes and data of its own.",
    "search": "Which point is tried next: guided learns from those that were tried, and from what is predicted, where"
    " something is; genetic crosses the fastest (G-Sparse §III-D); random draws, and is what the others are to beat.",
}
"""By the name of a control of the page what it does, where its label does not say enough."""

_EXECUTE = {
    "size": "A size that is known now: the number that a letter in shapes stands for.",
    "row": "A row of numbers that a nest keeps while it works on it; its contents start undefined.",
    "acc": "An accumulator: a number that a loop adds to.",
    "for": "A loop over the positions from the first bound up to, and without, the second.",
    "in": "Between a loop's variable and its bounds.",
    "parallel": "The iterations of this loop need nothing of each other.",
    "step": "How far the loop goes on at a time: the width of its vectors.",
    "param": "A table or matrix that is learned: it gets a gradient.",
    "input": "An array that is given with each run, and gets no gradient.",
    "structure": "An array that the graph or the lists bring with them.",
    "upstream": "The gradient of the result, where the backward pass begins.",
    "temporary": "An array that one kernel writes for another.",
    "output": "An array that the kernel writes: a result or a gradient.",
    "index": "A whole number that says where something lies; or an array of such.",
    "template": "The kind of work of this nest: traversal, gemm, rows and so on.",
    "max": "Keeps the larger of both.",
    "min": "Keeps the smaller of both.",
}
_MODULE = {
    "module": "Several kernels, run one after the other.",
    "kernel": "A loop nest that is run as one.",
    "result": "The array that holds what the model returns.",
    "gradient": "The value or array that is the gradient of this parameter.",
    "inverse": "The array is derived: where each element of another one stands.",
    "product": "An array as long as a product of sizes.",
    "packed": "The array's rows have so many numbers of its own, then one of each array that is named.",
    "stride": "So many numbers lie from where a row begins to where the next one does: what is behind its own is"
    " padding.",
    "of": "Between a size and what it is the size of.",
}
_STREAMS = {
    "slc": "The structured program of both units.",
    "from": "The loop's first position.",
    "to": "The position before which the loop ends.",
    "mem_str": "A stream of loads from memory that nobody writes, as in slc.mem_str(E[%i, %d]).",
    "alu_str": "A stream of whole numbers computed from other streams, such as addresses.",
    "acc_str": "A running sum of a stream: where each segment begins, from the lengths.",
    "buf_str": "A buffer that a loop fills, and that crosses the queue as one record.",
    "push": "Puts an element of a stream into a buffer.",
    "store_str": "The access unit writes a stream to an output: nothing of it crosses the queues.",
    "callback": "What the execute unit does each time the access unit gets here.",
    "to_val": "Takes the next value of a stream out of the data queue: this is what crosses between the units.",
    "toggle": "The callback runs only when this stream's value changes.",
    "splat": "One number in all lanes of a vector: padding that keeps the queue aligned.",
    "lanes": "Done for all lanes of a vector at once, those at or above the bound left out.",
    "below": "The bound above which lanes are left out.",
    "L2": "The load looks in the L2 cache first.",
    "LLC": "The load looks in the last-level cache first.",
    "HBM": "The load goes to memory at once.",
    "non_temporal": "What is loaded is read once: caches need not keep it.",
}
_DLC = {
    "dlc": "The program of the decoupled machine: access code, then execute code.",
    "access": "The dataflow code of the access unit: loops, loads and what is pushed.",
    "execute": "The program of the execute unit: it takes tokens and operands from the queues.",
    "loop_tr": "A loop of the access unit: it drives the streams that name it.",
    "push_op": "Puts the next value of a stream into the data queue, at this event of a loop.",
    "beg": "When the loop begins.",
    "ite": "At each iteration of the loop.",
    "end": "When the loop ends.",
    "if": "The case of a token.",
    "else": "The next case of a token.",
    "while": "The execute unit goes on until the token says that all is done.",
    "token": "What the control queue gave: which callback is next.",
    "done": "The last token.",
    "ctrlQ": "The control queue: tokens that say which callback is next.",
    "dataQ": "The data queue: the values that callbacks take.",
    "pop": "Takes the next entry of a queue; it waits while there is none.",
    "i32": "A whole number of 32 bits.",
    "f32": "A floating-point number of 32 bits.",
    "x": "Between the counts of a shape or of a vector.",
}
_STORED = {name: f"Stored in memory as {STORAGES[name].about}; a load makes float32 of them." for name in NARROW}
_GRAPH = {
    "score": "A model that gives one number a triple.",
    "layer": "A model that gives rows for nodes or edges of a graph.",
    "op": "A model over bags, blocks or a sparse matrix.",
    "over": "The sets that the model has one row each for.",
    "dim": "A size that shapes are written in.",
    "edges": "The end that the edges of the graph are sorted by in memory, where it is not their destination.",
    "map": "A function from the elements of one set to those of another: each edge's source.",
    "sharing": "How many triples, one behind another, share a list of negatives.",
    "return": "The value that is the result.",
    "by": "The map whose segments are taken together.",
}
_KERNELS = {
    "scheduled": "A nest with the word of who does each iteration on a GPU.",
    "threads": "Threads of a block.",
    "resident": "Blocks that a multiprocessor is to have at a time, which bounds their registers.",
    "once": "The kernel reads only what is fixed with the graph: it runs once, not with each run.",
    "streamed": "These arrays are read or written but once: caches need not keep them.",
    "busy": "Names the count of blocks that have work; the others end at once.",
    "chosen": "A decision for this kernel, which may be changed beside the text.",
    "schedule": "A step by which this kernel came about.",
    "count": "A number that is known when the kernel is launched.",
    "unroll": "So many iterations are written out one beside the other; unroll all has all of them.",
    "all": "All iterations are written out.",
    "rolled": "The compiler must not unroll this loop.",
    "where": "The body is done only where this holds.",
    "block": "Shared out over the blocks of the grid; a barrier of it waits for a block's threads.",
    "column": "Shared out over the blocks of the grid's second dimension.",
    "warp": "Shared out over the warps of a block; a barrier of it waits for 32 threads.",
    "lane": "Shared out over the 32 lanes of a warp.",
    "thread": "Shared out over all threads of a block.",
    "apart": "How far from each other the lanes or threads are that share this.",
    "shared": "A tile in shared memory: all threads of the block see it.",
    "register": "A tile in registers: each thread has its own part.",
    "padded": "Elements behind each row, so that rows begin in other banks of shared memory.",
    "swizzled": "Columns are permuted row by row, so that they lie in different banks.",
    "reduce": "Puts the parts that neighbouring lanes hold together, in all of them.",
    "sum": "The parts are added up.",
    "barrier": "All wait here, and then see what the others have stored.",
    "after": "The barrier waits for copies too.",
    "copies": "Fetches into shared memory that go on while the threads work.",
    "copy": "Fetches from memory into shared memory while the thread goes on.",
    "atomic": "Adds to an element that other threads add to as well.",
    "kept": "A load that tells the cache which rows to keep longest.",
    "checked": "A load that gives 0 where an index is outside.",
    "shuffled": "A load of what another lane of the warp has in a register: the lane of the last index.",
    "last": "The last place of ascending offsets that holds at most this value.",
    "multiply": "Adds a product of two matrices to a tile, on tensor cores.",
    "warps": "How many warps of the block share the product.",
    "tf32": "Factors are rounded to TF32's 11 bits.",
    "tf32x3": "Each factor is the sum of two TF32 numbers, multiplied in three passes.",
    "ceil": "Rounded up.",
    "select": "One of two, by a condition.",
    "mod": "What is left of a division.",
    "div": "A division; of whole numbers, rounded down.",
}
_OPERATORS = {
    "gather": "Picks an element or block of a value by an index.",
    "gather_vec": "Picks a row of a table by an index.",
    "gather_mat": "Picks a matrix of a table by an index.",
    "bmv": "Vector times matrix, one matrix a row (cuKE, Table III).",
    "bvv": "Dot product of two vectors a row.",
    "bsv": "Scalar times vector a row.",
    "bmv_t": "A row's vector times its matrix transposed.",
    "bov": "Outer product of two vectors a row.",
    "bov_t": "Outer product of two vectors a row, transposed.",
    "bmm": "Matrix times matrix a row.",
    "contract": "A sum of products: the letters say which dimensions are multiplied and which are summed.",
    "segment_sum": "Adds up the rows of each segment: the edges into a node, the entries of a bag.",
    "segment_max": "The largest of each segment, element by element.",
    "segment_min": "The least of each segment, element by element.",
    "segment_product": "The product of each segment; of an empty one 1.",
    "segment_mean": "The mean of each segment; of an empty one 0.",
    "div_or_zero": "A quotient, or 0 where the divisor is 0: the mean of nothing.",
    "equal": "1 where both are the same, else 0: who had the maximum.",
    "not_equal": "1 where two numbers are not the same, else 0.",
    "greater": "1 where the first of two numbers is larger, else 0.",
    "at_least": "1 where the first of two numbers is not smaller, else 0.",
    "neg": "The same with the other sign.",
    "gelu_slope": "The slope of gelu.",
    "stop_gradient": "The same number, through which no gradient goes.",
    "constant": "A number that is written in the model.",
    "transpose": "The same with two dimensions exchanged.",
    "slice": "A part of a dimension.",
    "sub": "Element by element, one less the other.",
    "add": "Element by element.",
    "mul": "Element by element.",
}
_SETS = {
    "batch": "The triples, or other facts, of a run: what depends on it is computed once a triple.",
    "negative": "The corrupted triples of a run, or those that a text has a set of.",
    "entity": "Rows of the table of entities.",
    "relation": "The relations of a knowledge graph.",
    "node": "The nodes of the graph: computed once a node.",
    "edge": "The edges of the graph: computed once an edge, the most often of all.",
    "etype": "The types of edges: computed once a type.",
    "ntype": "The types of nodes.",
    "src_pair": "The distinct pairs of source and edge type: fewer than edges.",
    "dst_pair": "The distinct pairs of destination and edge type.",
    "bag": "The bags of an embedding op, each a list of entries.",
    "query": "The query blocks of an attention gather.",
    "entry": "The entries of all bags or queries.",
    "nonzero": "The nonzeros of a sparse matrix.",
}


def _functions() -> dict[str, str]:
    """The functions of numbers and the built-in ones, as their own tables have them."""
    own = {function.name: function.about for function in TABLE if function.about}
    return {
        name: f"{about[:1].upper()}{about[1:].rstrip('.')}."
        for name, about in (own | {name: known.about for name, known in BUILTINS.items()}).items()
    }


WORDS: Mapping[str, str] = {
    **_functions(),
    **_OPERATORS,
    **_EXECUTE,
    **_MODULE,
    **_STREAMS,
    **_DLC,
    **_STORED,
    **_GRAPH,
    **_KERNELS,
    **_SETS,
}
"""By a word of the stages' texts what it means."""


@cache
def as_json() -> str:
    """The whole table."""
    tables = {"passes": PASSES, "options": OPTIONS, "controls": CONTROLS, "words": WORDS}
    return json.dumps({kind: dict(table) for kind, table in tables.items()}, separators=(",", ":"))


@cache
def version() -> str:
    """What tells this table from any other: an address with it may be kept for good."""
    return sha256(as_json().encode()).hexdigest()[:12]
