// What an extension uses of CUDA's runtime, on the emulator.
#pragma once
using cudaStream_t = void*;
using cudaError_t = int;
