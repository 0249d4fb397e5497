"""A graph of Dynamo's as a module that can be traced, with parameters, inputs, and the sizes that it makes of these."""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn

from explorer.runtime.trace.tapes.tape import TraceError, Where
from explorer.runtime.trace.texts.names import fresh, identifier

_CHECKS = "_assert_scalar", "_check", "_check_is_size"


@dataclass(frozen=True, eq=False)
class Piece:
    """A module of a graph. `inputs` are the places of its arguments among the graph's, `own` those of its
    parameters and buffers by their names; `fixed` are numbers that it was made for, by place, and `numbers` the names
    of those that it takes as arguments."""

    module: Any
    inputs: tuple[int, ...]
    own: Mapping[str, int]
    fixed: Mapping[int, Any]
    numbers: Mapping[int, str]
    lines: Mapping[str, str]

    def like(self, args: Sequence[Any]) -> bool:
        """Whether a call has the numbers that the module was made for."""
        return all(_number(args[place]) == value for place, value in self.fixed.items())

    def for_numbers(self, args: Sequence[Any], but: Collection[str]) -> Piece:
        """The same for the numbers of a call, but for those arguments, which may be others."""
        more = {place: _number(args[place]) for place, name in self.numbers.items() if name not in but}
        return replace(self, fixed={**self.fixed, **more})

    def users_line(self, where: Where | None) -> str:
        """The user's line that an operator of the graph comes from; "" where that is not known."""
        name = where.source.partition(" = ")[0] if where else ""
        return self.lines.get(name, "")


def has_sizes(graph_module: Any) -> bool:
    """Whether a graph is of any sizes, and not of those that it was first called with."""
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    return any(isinstance(node.meta.get("example_value"), torch.SymInt) for node in placeholders)


@dataclass
class _Reading:
    """What becomes of a graph's placeholders, while it is read."""

    inputs: list[int] = field(default_factory=list)
    own: dict[str, int] = field(default_factory=dict)
    fixed: dict[int, Any] = field(default_factory=dict)
    numbers: dict[int, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=lambda: {"self", "training"})


def piece_of(graph_module: Any, args: Sequence[Any]) -> Piece:
    """A graph as a module that returns a tuple, with the arguments of a call. Raises TraceError."""
    graph = fx.Graph()
    values: dict[Any, Any] = {}
    result = graph.graph_copy(graph_module.graph, values)
    nodes = [values[node] for node in graph_module.graph.nodes if node.op == "placeholder"]
    graph.output(tuple(result) if isinstance(result, list | tuple) else (result,))
    module = type(_name(graph_module), (nn.Module,), {})()
    for node in graph.nodes:
        if node.op in ("get_attr", "call_module"):
            _kept(module, graph_module, str(node.target))
    reading = _Reading()
    sizes = _sizes(nodes, args)
    for place, (node, value) in enumerate(zip(nodes, args, strict=True)):
        _read(graph, node, value, place, module, reading, sizes)
    _finish(graph)
    made = fx.GraphModule(module, graph)
    type(module).forward = type(made).forward
    lines = {node.name: _line(node) for node in graph.nodes if node.op != "placeholder"}
    return Piece(module, tuple(reading.inputs), reading.own, reading.fixed, reading.numbers, lines)


def _sizes(nodes: Sequence[Any], args: Sequence[Any]) -> dict[str, tuple[Any, int]]:
    """By the symbol of a size, an input and the dimension that it is of."""
    found: dict[str, tuple[Any, int]] = {}
    for node, value in zip(nodes, args, strict=True):
        example = node.meta.get("example_value")
        if (
            isinstance(value, torch.Tensor)
            and not isinstance(value, nn.Parameter)
            and isinstance(example, torch.Tensor)
        ):
            for dim, size in enumerate(example.shape):
                if isinstance(size, torch.SymInt):
                    found.setdefault(str(size), (node, dim))
    return found


def _read(
    graph: Any, node: Any, value: Any, place: int, module: Any, reading: _Reading, sizes: Mapping[str, tuple[Any, int]]
) -> None:
    """Makes a placeholder an input, a tensor of the module's, a size of an input, or a number."""
    name = _clean(str(node.target))
    if isinstance(value, torch.Tensor) and not _is_number(node, value):
        if isinstance(value, nn.Parameter) or "_buffers_" in str(node.target):
            name = fresh(name, reading.used)
            if isinstance(value, nn.Parameter):
                on_cpu = value.device.type == "cpu"
                own = value if on_cpu else nn.Parameter(value.detach().cpu(), value.requires_grad)
                module.register_parameter(name, own)
            else:
                module.register_buffer(name, value.cpu())
            with graph.inserting_before(node):
                _replace(graph, node, graph.get_attr(name))
            reading.own[name] = place
        else:
            node.target = fresh(name, reading.used)
            node.type = None
            reading.inputs.append(place)
        return
    symbol = str(node.meta.get("example_value"))
    if isinstance(value, int) and symbol in sizes:
        tensor, dim = sizes[symbol]
        with graph.inserting_after(max(tensor, _last_placeholder(graph))):
            _replace(graph, node, graph.call_method("size", (tensor, dim)))
        return
    if type(value) is int:
        node.target = reading.numbers[place] = fresh(name, reading.used)
        node.type = None
        reading.inputs.append(place)
        return
    reading.fixed[place] = number = _number(value)
    for user in list(node.users):
        if isinstance(value, torch.Tensor):  # a number of Python's that Dynamo wraps
            user.replace_all_uses_with(number)
            graph.erase_node(user)
        else:
            user.replace_input_with(node, number)
    if node.users:
        raise TraceError(f"{name} is a number that the graph computes with in a way that is not known here.")
    graph.erase_node(node)


def _last_placeholder(graph: Any) -> Any:
    return [node for node in graph.nodes if node.op == "placeholder"][-1]


def _replace(graph: Any, node: Any, made: Any) -> None:
    node.replace_all_uses_with(made)
    graph.erase_node(node)


def _finish(graph: Any) -> None:
    """Leaves out what asks whether sizes are what they are."""
    for node in reversed(list(graph.nodes)):
        checks = getattr(node.target, "__name__", "") in _CHECKS
        compares = node.target in (operator.ge, operator.le) and not node.users
        if node.op == "call_function" and (checks or compares):
            graph.erase_node(node)
    graph.lint()


def _is_number(node: Any, value: Any) -> bool:
    """Whether a tensor is a number of Python's."""
    alone = value.dim() == 0 and value.dtype == torch.float64 and not value.requires_grad
    return alone and all(user.op == "call_method" and user.target == "item" for user in node.users)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value


def _kept(module: Any, of: Any, path: str) -> None:
    """Gives a module what a graph's has under a path."""
    first = path.split(".")[0]
    if not hasattr(module, first):
        setattr(module, first, getattr(of, first))


def _clean(target: str) -> str:
    """`L_self_modules_entities_parameters_weight_` as `entities_weight`."""
    name = re.split(r"_(?:modules|parameters|buffers)_+", re.sub(r"^[LG]_", "", target))
    return identifier("_".join(part.strip("_") for part in name[1:] or name) or "x")


def _name(graph_module: Any) -> str:
    """The class of the user's that all of a graph is of, if it is of one."""
    calls = [node for node in graph_module.graph.nodes if node.op.startswith("call_")]
    stacks = [list((node.meta.get("nn_module_stack") or {}).values()) for node in calls]
    outer = {str(stack[0][1]).rpartition(".")[2].strip("'>") if stack else "Graph" for stack in stacks}
    return identifier(outer.pop()) if len(outer) == 1 else "Graph"


def _line(node: Any) -> str:
    """`file, line 3: x = ...`, of the innermost frame that is the user's."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in [^\n]*\n\s*([^\n]*)', node.stack_trace or "")
    own = [frame for frame in frames if "site-packages" not in frame[0]] or frames
    if not own:
        return ""
    file, line, source = own[-1]
    return f"{Path(file).name}, line {line}: {source}"
