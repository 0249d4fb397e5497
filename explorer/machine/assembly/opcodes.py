"""The instruction sets of the two units. An instruction is an opcode and up to five operands.

Operands are numbers of registers unless the comment says otherwise. Constants are registers that nothing writes. A
vector lies in as many registers as it has lanes, and is named by the first.
"""

from __future__ import annotations

from explorer.compiler.ir.functions import TABLE

# The access unit: 64-bit integer registers. A loaded f32 is held as its bits.
ENTER = 0  # position, lower, upper, where to go if there is no iteration (an instruction), traversal (a number)
NEXT = 1  # position, upper, stride (a number), the first instruction of the body
LEAVE = 2  # traversal (a number): an innermost one is over
LOAD = 3  # result, index, load (a number)
STREAM_ADD = 4  # result, left, right
STREAM_SUB = 5
STREAM_MUL = 6
STREAM_DIV = 7
STREAM_MOD = 8
STORE = 9  # store (a number)
TOGGLE = 10  # stream, its last value, whether it has one, where to go if it is the same (an instruction)
PUSH = 11  # first of its pushes (a number), how many
TOKEN = 12  # token (a number), how often the core's branch goes another way than in the loop (a number)
COUNT = 13  # an iteration of an outermost traversal is over
HALT = 14

STREAM_FUNCTIONS = {
    "add": STREAM_ADD,
    "sub": STREAM_SUB,
    "mul": STREAM_MUL,
    "div": STREAM_DIV,
    "mod": STREAM_MOD,
}

# The execute unit: 64-bit integer registers x for indices, f32 registers f. The order groups what is done alike.
END_CASE = 0
POP_INDEX = 1  # x result, words (a number): the first counts
POP_FLOAT = 2  # f result, words (a number)
POP_VECTOR = 3  # f result, words (a number)
FOR_ENTER = 4  # x variable, x extent, where to go if there is no iteration, x lower
FOR_NEXT = 5  # x variable, x extent, the first instruction of the body
LANES_ENTER = 6  # x variable, x extent, where to go if no lane is below, x lower, width (a number)
LANES_NEXT = 7  # x variable, x extent, the first instruction of the body, -, width (a number)
ROW_POISON = 8  # array (a number): its contents become undefined, as NaN
ROW_LOAD = 9  # array (a number), x element, f result
ROW_STORE = 10  # array (a number), x element, f value
ROW_SUM = 11  # array (a number), x element, f value
ROW_PRODUCT = 12
ROW_MAX = 13
ROW_MIN = 14
LANES_LOAD = 15  # array (a number), x element of the first lane, f result
LANES_STORE = 16  # array (a number), x element of the first lane, f value, stride of the value (a number)
LANES_SUM = 17
LANES_PRODUCT = 18
LANES_MAX = 19
LANES_MIN = 20
INDEX_ADD = 21  # x result, x left, x right
INDEX_SUB = 22
INDEX_MUL = 23
INDEX_DIV = 24
INDEX_MOD = 25
FLATTEN = 26  # x result, x so far, x index, extent (a number): so far * extent + index
LANES_FLATTEN = 27  # the same, where index is that of the first lane
TO_FLOAT = 28  # f result, x value
LANES_TO_FLOAT = 29  # f result, x value of the first lane
LANES = 30  # f result, f left, f right, function (of VALUE_FUNCTIONS), strides (1: left, 2: right is a vector)
REDUCE = 31  # f accumulator, f value, -, function (an opcode), stride of the value (a number)
# From 32 on f result, f left, f right: the elementwise functions of two operands, then those of one, in table order.
FIRST_FUNCTION = 32
_OF_TWO, _OF_ONE = ([function.name for function in TABLE if function.operand_count == count] for count in (2, 1))
BINARY_FUNCTIONS = {name: FIRST_FUNCTION + place for place, name in enumerate(_OF_TWO)}
FIRST_UNARY = FIRST_FUNCTION + len(BINARY_FUNCTIONS)
UNARY_FUNCTIONS = {name: FIRST_UNARY + place for place, name in enumerate(_OF_ONE)}
VALUE_FUNCTIONS = BINARY_FUNCTIONS | UNARY_FUNCTIONS
ADD, MUL, MIN, MAX, COPY = (VALUE_FUNCTIONS[name] for name in ("add", "mul", "min", "max", "copy"))

# f result, f operand (of a mean the sum), x begin, x end, lanes (a number; 0: a scalar)
UNLESS_EMPTY = FIRST_FUNCTION + len(VALUE_FUNCTIONS)
SEGMENT_MEAN = UNLESS_EMPTY + 1

INDEX_FUNCTIONS = {
    "add": INDEX_ADD,
    "sub": INDEX_SUB,
    "mul": INDEX_MUL,
    "div": INDEX_DIV,
    "mod": INDEX_MOD,
}
ROW_REDUCTIONS = {"sum": ROW_SUM, "product": ROW_PRODUCT, "max": ROW_MAX, "min": ROW_MIN}
LANES_REDUCTIONS = {"sum": LANES_SUM, "product": LANES_PRODUCT, "max": LANES_MAX, "min": LANES_MIN}
REDUCTIONS = {"sum": ADD, "product": MUL, "max": MAX, "min": MIN}
SEGMENT_FUNCTIONS = {"unless_empty": UNLESS_EMPTY, "segment_mean": SEGMENT_MEAN}

DIVISIONS = frozenset({SEGMENT_MEAN, *(VALUE_FUNCTIONS[known.name] for known in TABLE if known.cost == "divide")})
TRANSCENDENTALS = frozenset(VALUE_FUNCTIONS[known.name] for known in TABLE if known.cost == "transcendental")

# Why a unit stopped.
RUNNING = 0
PUSHED = 1  # a token
FINISHED = 2
BAD_ADDRESS = 3  # detail: the address, and how many elements there are
BAD_DIVISION = 4
TOO_WIDE = 5  # detail: the value, which does not fit the queue's 32 bits
UNDERFLOW = 6  # a pop from an empty data queue
BAD_INDEX = 7  # detail: the index, and the extent of its dimension
REACHED = 8  # as many tokens as were asked for
DEADLOCK = 9  # no room for an operand, and no token that would make room; detail: words that there are, and may be
