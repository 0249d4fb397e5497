"""The host functions of an extension, in C++: each checks what it is given, makes what its kernels need, launches them
on PyTorch's current stream and returns what they made. `TORCH_LIBRARY` makes them operators of PyTorch."""

from __future__ import annotations

from textwrap import fill, indent

from explorer.compiler.codegen.cuda.narrow import element_type
from explorer.compiler.codegen.text import Launch
from explorer.compiler.ir.kernels import Count
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent
from explorer.runtime.export.cuda import launcher_of
from explorer.runtime.export.names import Named
from explorer.runtime.export.plan import Call, Plan, Program

WIDTH = 118
SCALAR_TYPES = {"f32": "at::kFloat", "f16": "at::kHalf", "bf16": "at::kBFloat16", "i8": "at::kChar"}
"""What PyTorch calls the types of tensors, by what they are declared to be stored in."""

PREAMBLE = """#include <Python.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels.h"

namespace {

// Kernels count in 32 bits, with room for the last block's surplus.
constexpr int64_t MOST = %(limit)s;
// What the widest access of a kernel takes, from an address that is a multiple of it.
constexpr uintptr_t VECTOR_BYTES = 16;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

void sizes_fit(at::ArrayRef<int64_t> sizes) {
  for (int64_t size : sizes) TORCH_CHECK(0 <= size && size < MOST, "kernels count in 32 bits, not to ", size);
}

// Raises unless a tensor is what kernels take: contiguous, of this type and shape, beside the first on one device.
void check(const at::Tensor& tensor, const char* name, at::ScalarType type, at::IntArrayRef shape, at::Device device) {
  TORCH_CHECK(tensor.scalar_type() == type, name, " holds ", tensor.scalar_type(), ", not ", type);
  TORCH_CHECK(tensor.device() == device, name, " lies on ", tensor.device(), ", not on ", device);
  TORCH_CHECK(tensor.sizes() == shape, name, " has the shape ", tensor.sizes(), ", not ", shape);
  TORCH_CHECK(tensor.is_contiguous(), name, " is not contiguous");
  const auto address = reinterpret_cast<uintptr_t>(tensor.data_ptr());
  TORCH_CHECK(address %% VECTOR_BYTES == 0, name, " begins at no multiple of ", VECTOR_BYTES, " bytes: copy it");
}

at::Tensor make(at::ScalarType type, at::IntArrayRef shape, at::Device device) {
  return at::empty(shape, at::TensorOptions().dtype(type).device(device));
}
"""


def host_text(plan: Plan, named: Named, package: str, limit: int) -> str:
    """The file."""
    calls = [(program, call) for program in plan.programs for call in program.calls]
    functions = "\n".join(_function(program, call, named) for program, call in calls)
    schemas = "\n".join(f"  m.def(\n{_schema(call, named)});" for _, call in calls)
    bound = "\n".join(f'  m.impl("{call.name}", &{call.name}_call);' for _, call in calls)
    return f"""// {plan.graph.name}: {plan.graph.family}. Names are those of the kernels' parameters.
{PREAMBLE % {"limit": limit}}
{functions}
}}  // namespace

TORCH_LIBRARY({package}, m) {{
{schemas}
}}

TORCH_LIBRARY_IMPL({package}, CUDA, m) {{
{bound}
}}

// So that Python can import what registers the operators.
PyMODINIT_FUNC PyInit__C() {{
  static PyModuleDef module = {{PyModuleDef_HEAD_INIT, "_C", "operators of {package}", -1, nullptr, nullptr, nullptr,
                               nullptr, nullptr}};
  return PyModule_Create(&module);
}}
"""


def _function(program: Program, call: Call, named: Named) -> str:
    arrays = [f"const at::Tensor& {named[buffer.name]}" for buffer in call.given]
    parameters = ", ".join([*arrays, *(f"int64_t {named[size]}" for size in call.sizes)])
    lines = [f"constexpr int64_t {', '.join(f'{named[n]} = {size}' for n, size in call.constants)};"]
    lines = lines if call.constants else []
    lines += [f"const int64_t {named[name]} = {count_text(count, named)};" for name, count in call.counts]
    if checked := [named[name] for name in (*call.sizes, *(name for name, _ in call.counts))]:
        lines.append(f"sizes_fit({{{', '.join(checked)}}});")
    device, *_ = [f"{named[buffer.name]}.device()" for buffer in call.given]
    lines += [
        f'check({named[b.name]}, "{named[b.name]}", {_type(b)}, {_shape(b, named)}, {device});' for b in call.given
    ]
    lines += [
        f"const c10::cuda::CUDAGuard guard({device});",
        "const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();",
        *_launches(program, call, named, device),
        f"return {{{', '.join(named[buffer.name] for buffer in call.made)}}};",
    ]
    head = fill(f"std::vector<at::Tensor> {call.name}_call({parameters}) {{", WIDTH, subsequent_indent="    ")
    return f"\n{head}\n" + indent("\n".join(map(_filled, lines)), "  ") + "\n}\n"


def _launches(program: Program, call: Call, named: Named, device: str) -> list[str]:
    """Arrays are made before the first launch that names them, and given back behind the last, for the next to take:
    PyTorch's allocator keeps the order of the stream."""
    lines, there = list[str](), {buffer.name for buffer in call.given}
    between = {buffer.name for buffer in call.between}
    for at, launch in enumerate(call.launches):
        for name in launch.arguments:
            if name in program.buffers and name not in there:
                there.add(name)
                made = program.buffers[name]
                lines.append(f"at::Tensor {named[name]} = make({_type(made)}, {_shape(made, named)}, {device});")
        lines.append(_launch(program, launch, named))
        over = sorted(name for name in between & {*launch.arguments} if call.last_use(name) == at)
        lines += [f"{named[name]} = at::Tensor();" for name in over]
    return lines


def _launch(program: Program, launch: Launch, named: Named) -> str:
    arguments = [
        _pointer(program.buffers[name], named) if name in program.buffers else named[name] for name in launch.arguments
    ]
    given = ", ".join([count_text(launch.blocks, named), "stream", *arguments])
    return f"C10_CUDA_CHECK({program.name}_kernels::{launcher_of(launch)}({given}));"


def _pointer(buffer: Buffer, named: Named) -> str:
    """Where a tensor's elements lie; of those that PyTorch has a class for, as the kernels read their bits."""
    kind = element_type(buffer)
    if buffer.storage == "f32":
        return f"{named[buffer.name]}.data_ptr<{kind}>()"
    return f"static_cast<const {kind}*>({named[buffer.name]}.data_ptr())"


def count_text(count: Count, named: Named) -> str:
    """A count of the sizes that are known."""
    terms = [
        _extent(extent, named) if by == 1 else f"ceil_div({_extent(extent, named)}, {by})" for extent, by in count.terms
    ]
    total = " + ".join(terms)
    if count.times == 1:
        return total
    return f"{_extent(count.times, named)} * {f'({total})' if len(terms) > 1 else total}"


def _extent(extent: Extent, named: Named) -> str:
    return named[extent] if isinstance(extent, str) else str(extent)


def _shape(buffer: Buffer, named: Named) -> str:
    return f"{{{', '.join(_extent(extent, named) for extent in buffer.extents)}}}"


def _type(buffer: Buffer) -> str:
    return "at::kInt" if buffer.type == "i32" else SCALAR_TYPES[buffer.storage]


def _filled(line: str) -> str:
    return fill(line, WIDTH - 2, subsequent_indent="    ", break_long_words=False)


def _schema(call: Call, named: Named) -> str:
    """The operator's schema, in pieces of a literal."""
    arguments = [f"Tensor {named[buffer.name]}" for buffer in call.given] + [
        f"int {named[size]}" for size in call.sizes
    ]
    text = f"{call.name}({', '.join(arguments)}) -> Tensor[]"
    pieces = fill(text, WIDTH - 12).split("\n")
    return "\n".join(f'      "{piece}{" " if piece is not pieces[-1] else ""}"' for piece in pieces)
