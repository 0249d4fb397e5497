"""Which argument of a call stands for which parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.compiler.language.diagnostics import Collector, Fix, suggestion
from explorer.compiler.language.names.builtins import Builtin
from explorer.compiler.language.names.prelude import DIVIDING, divided_by, is_of_prelude
from explorer.compiler.language.parsing import syntax


def split_axis(node: syntax.Call, function: Builtin) -> tuple[syntax.Call, syntax.Expression | None]:
    """A call without the dimension that it says, `axis=0`, or behind the one argument of `sum(x, 0)`, and with the
    arguments of a list: `concat([a, b])`."""
    arguments = node.arguments
    place: syntax.Expression | None = None
    if function.axis is not None:
        named = [argument for argument in arguments if argument.keyword is not None and argument.keyword.text == "axis"]
        if not named and len(function.parameters) == 1 and len(arguments) == 2 and arguments[1].keyword is None:
            named = [arguments[1]]
        if len(named) == 1:
            place = named[0].value
            arguments = tuple(argument for argument in arguments if argument is not named[0])
    if function.many and len(arguments) == 1 and isinstance(arguments[0].value, syntax.Listing):
        arguments = tuple(syntax.Argument(None, item) for item in arguments[0].value.items)
    return (node if arguments is node.arguments else replace(node, arguments=arguments)), place


def bind_builtin(node: syntax.Call, function: Builtin, collector: Collector) -> list[int] | None:
    """For each parameter that is given, in order, the position of its argument; reports what does not fit."""
    parameters = function.parameters
    if function.many:
        parameters = (parameters[0], *parameters[1:] * max(1, len(node.arguments) - 1))
    required = len(function.parameters) - function.optional
    places = _bind(node, parameters, required, collector)
    if places is not None and len(places) >= required and sorted(places) == list(range(len(places))):
        return [places[slot] for slot in range(len(places))]
    if places is not None:
        _report_count(node, parameters, required, None if function.many else len(parameters), collector)
    return None


def bind_helper(node: syntax.Call, helper: syntax.Definition, collector: Collector) -> dict[int, int] | None:
    """For each parameter that is given the position of its argument; reports what does not fit."""
    names = [parameter.name.text for parameter in helper.parameters]
    required = sum(parameter.default is None for parameter in helper.parameters)
    places = _bind(node, names, required, collector)
    if places is None:
        return None
    if all(slot in places or parameter.default for slot, parameter in enumerate(helper.parameters)):
        return places
    _report_count(node, names, required, len(names), collector)
    return None


def _bind(node: syntax.Call, parameters: Sequence[str], least: int, collector: Collector) -> dict[int, int] | None:
    """The positions of arguments by the parameter's position; None where an argument has no parameter of its own."""
    places: dict[int, int] = {}
    for position, argument in enumerate(node.arguments):
        keyword = argument.keyword
        if keyword is not None and keyword.text not in parameters:
            hint, fixes = suggestion(keyword.text, keyword.extent, parameters)
            message = f"'{node.function.text}' has no parameter '{keyword.text}'{hint}"
            collector.report(message, keyword.extent, fixes=fixes)
            return None
        slot = position if keyword is None else parameters.index(keyword.text)
        if slot >= len(parameters):
            _report_count(node, parameters, least, len(parameters), collector)
            return None
        if slot in places:
            message = f"'{node.function.text}' is given '{parameters[slot]}' twice"
            collector.report(message, argument.value.extent)
            return None
        places[slot] = position
    return places


def _report_count(
    node: syntax.Call, parameters: Sequence[str], least: int, most: int | None, collector: Collector
) -> None:
    """Says how many arguments a function takes."""
    count = f"{least}" if least == most else f"{least} to {most}" if most else f"{least} or more"
    count = f"{least} or {most}" if most == least + 1 else count
    plural = "argument" if count == "1" else "arguments"
    given = len(node.arguments)
    shown = f"{node.function.text}({', '.join(parameters)}{'' if most else ', ...'})"
    collector.report(f"'{node.function.text}' takes {count} {plural}, not {given}: {shown}", node.extent)


def bind_division(
    node: syntax.Call, helper: syntax.Definition, family: str, collector: Collector
) -> tuple[syntax.Call, syntax.Definition] | None:
    """`edge_softmax(g, "att", by=etype)`: the prelude's helper of each type's edges, and the call without the argument;
    both as they are where it has none, nothing where it is wrong."""
    sets = [argument for argument in node.arguments if argument.keyword and argument.keyword.text == DIVIDING]
    if len(sets) != 1 or not is_of_prelude(helper):
        return node, helper
    by = sets[0].value
    found = divided_by(helper, by.text) if isinstance(by, syntax.Name) and family == "layer" else None
    if found is None:
        message = f"'{node.function.text}' is divided by the type of edges: {DIVIDING}=etype"
        fixes = [Fix("Use etype", by.extent, "etype")] if family == "layer" else []
        detail = "" if family == "layer" else "A layer's edges have types; a matrix's nonzeros have none."
        collector.report(message, by.extent, detail, fixes)
        return None
    others = tuple(argument for argument in node.arguments if argument not in sets)
    return replace(node, arguments=others), found
