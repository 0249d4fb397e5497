"""Exchanges rows and columns of a matrix's gradient in the products that it is summed of.

    %5 = bov_t %1, %2                  : batch [D, K]         %5 = bov %1, %2                     : batch [K, D]
    %6 = segment_sum %5 by all_batchs  : unit [D, K]    =>    %6 = segment_sum %5 by all_batchs   : unit [K, D]
    %7 = transpose %6                  : unit [K, D]

A matrix that the model transposes, as a linear layer does, has the transpose of a gradient. As a sum of outer products
of its own, copied once it is whole, no template would know it.
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.compiler.frozen import replace
from explorer.compiler.ir.graph import Contract, Elementwise, Operator, Segment, Value, in_order

MATRIX = 2
"""The dimensions of a matrix."""


def is_of_products(value: Value, values: Mapping[str, Value]) -> bool:
    """Whether a value is a product with a matrix as its result, or a sum of such products."""
    match value.operator:
        case Contract(signature=signature):
            return len(signature.partition("->")[2]) >= MATRIX
        case Segment(function="sum", operand=operand):
            return is_of_products(values[operand], values)
        case Elementwise(function="add", operands=added):
            return all(values[each].shape == value.shape and is_of_products(values[each], values) for each in added)
    return False


def exchanged(operator: Operator, names: Mapping[str, str]) -> Operator:
    """The operator of such a value with the last two dimensions of its result exchanged, of operands whose own are:
    `names` says what they are called."""
    match operator:
        case Contract(signature=signature):
            inputs, _, kept = signature.partition("->")
            return replace(operator, signature=in_order(f"{inputs}->{kept[:-2]}{kept[-1]}{kept[-2]}"))
        case Segment(operand=operand):
            return replace(operator, operand=names[operand])
        case Elementwise(operands=added):
            return replace(operator, operands=tuple(names[each] for each in added))
    raise TypeError(f"not a sum of products: {operator!r}")
