"""The instruction sets of the two units. An instruction is an opcode and up to four operands.

Operands are numbers of registers unless the comment says otherwise. Constants are registers that nothing writes.
"""

from __future__ import annotations

# The access unit: 64-bit integer registers. A loaded f32 is held as its bits.
ENTER = 0  # position, lower, upper, where to go if there is no iteration (an instruction)
NEXT = 1  # position, upper, stride (a number), the first instruction of the body
LOAD = 2  # result, index, buffer (a number), load (a number: the loads of a program are counted)
STREAM_ADD = 3  # result, left, right
STREAM_SUB = 4
STREAM_MUL = 5
STREAM_DIV = 6
STREAM_MOD = 7
RECORD = 8  # token (a number), first of its operands in the operand table, how many
COUNT = 9  # an iteration of an outermost traversal is over
HALT = 10

STREAM_FUNCTIONS = {
    "add": STREAM_ADD,
    "sub": STREAM_SUB,
    "mul": STREAM_MUL,
    "div": STREAM_DIV,
    "mod": STREAM_MOD,
}

# The execute unit: 64-bit integer registers x for indices, f32 registers f. The order groups what is done alike.
END_CASE = 0
POP_INDEX = 1  # x result
POP_FLOAT = 2  # f result
FOR_ENTER = 3  # x variable, x extent, where to go if there is no iteration, x lower
FOR_NEXT = 4  # x variable, x extent, the first instruction of the body
ROW_POISON = 5  # array (a number): its contents become undefined, as NaN
ROW_LOAD = 6  # array (a number), x element, f result
ROW_STORE = 7  # array (a number), x element, f value
ROW_SUM = 8  # array (a number), x element, f value
ROW_PRODUCT = 9
ROW_MAX = 10
ROW_MIN = 11
INDEX_ADD = 12  # x result, x left, x right
INDEX_SUB = 13
INDEX_MUL = 14
INDEX_DIV = 15
INDEX_MOD = 16
FLATTEN = 17  # x result, x so far, x index, extent (a number): so far * extent + index
TO_FLOAT = 18  # f result, x value
ADD = 19  # f result, f left, f right
SUB = 20
MUL = 21
DIV = 22
MIN = 23
MAX = 24
EQUAL = 25
DIV_OR_ZERO = 26
LEAKY_RELU = 27  # f result, f operand, f slope
COPY = 28  # f result, f operand
NEG = 29
ABS = 30
SIGN = 31
RELU = 32
SQRT = 33
EXP = 34
LOG = 35
SIGMOID = 36
TANH = 37
GELU = 38
SIN = 39
COS = 40
STEP = 41
GELU_SLOPE = 42
UNLESS_EMPTY = 43  # f result, f operand, x begin, x end
SEGMENT_MEAN = 44  # f result, f sum, x begin, x end
EXECUTE_OPCODES = 45

INDEX_FUNCTIONS = {
    "add": INDEX_ADD,
    "sub": INDEX_SUB,
    "mul": INDEX_MUL,
    "div": INDEX_DIV,
    "mod": INDEX_MOD,
}
ROW_REDUCTIONS = {"sum": ROW_SUM, "product": ROW_PRODUCT, "max": ROW_MAX, "min": ROW_MIN}
REDUCTIONS = {"sum": ADD, "product": MUL, "max": MAX, "min": MIN}
UNARY_FUNCTIONS = {
    "copy": COPY,
    "neg": NEG,
    "abs": ABS,
    "sign": SIGN,
    "relu": RELU,
    "sqrt": SQRT,
    "exp": EXP,
    "log": LOG,
    "sigmoid": SIGMOID,
    "tanh": TANH,
    "gelu": GELU,
    "sin": SIN,
    "cos": COS,
    "step": STEP,
    "gelu_slope": GELU_SLOPE,
}
BINARY_FUNCTIONS = {
    "add": ADD,
    "sub": SUB,
    "mul": MUL,
    "div": DIV,
    "min": MIN,
    "max": MAX,
    "equal": EQUAL,
    "div_or_zero": DIV_OR_ZERO,
    "leaky_relu": LEAKY_RELU,
}

SEGMENT_FUNCTIONS = {"unless_empty": UNLESS_EMPTY, "segment_mean": SEGMENT_MEAN}

COSTS = {
    "pop_cycles": (POP_INDEX, POP_FLOAT),
    "index_cycles": (FLATTEN, *INDEX_FUNCTIONS.values(), TO_FLOAT),
    "loop_cycles": (FOR_ENTER, FOR_NEXT),
    "row_cycles": (ROW_LOAD, ROW_STORE),
    "arithmetic_cycles": (ADD, SUB, MUL, MIN, MAX, EQUAL, LEAKY_RELU, NEG, ABS, SIGN, RELU, STEP, UNLESS_EMPTY),
    "divide_cycles": (DIV, DIV_OR_ZERO, SQRT, SEGMENT_MEAN),
    "transcendental_cycles": (EXP, LOG, SIGMOID, TANH, GELU, GELU_SLOPE, SIN, COS),
}
"""The parameter that says what an instruction costs; a row reduction costs a load, an operation and a store, and
COPY, ROW_POISON and END_CASE nothing: they rename."""

# Why a unit stopped.
RUNNING = 0
BLOCKED = 1  # the queue is too full, or empty
FINISHED = 2
BAD_ADDRESS = 3  # detail: the address, and how many elements there are
BAD_DIVISION = 4
TOO_WIDE = 5  # detail: the value, which does not fit the queue's 32 bits
UNDERFLOW = 6  # a pop from an empty data queue
BAD_INDEX = 7  # detail: the index, and the extent of its dimension
REACHED = 8  # as many tokens as were asked for
