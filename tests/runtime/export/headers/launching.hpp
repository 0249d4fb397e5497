// A launch on the emulator: blocks one after another, of threads that are fibers.
#pragma once
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime_api.h>
#include <tuple>
#include <type_traits>
#include <utility>

extern "C" const char* emulator_launch(void (*kernel)(const void*), const void* arguments, unsigned blocks,
                                       unsigned columns, unsigned threads, size_t shared_bytes, unsigned seed,
                                       size_t* code);

constexpr int cudaFuncAttributeMaxDynamicSharedMemorySize = 0;
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, int, int) { return 0; }
inline cudaError_t cudaGetLastError() { return 0; }

namespace emulator {

template <class Kernel>
struct Parameters;
template <class... Each>
struct Parameters<void (*)(Each...)> {
  using Tuple = std::tuple<std::remove_cv_t<Each>...>;
};

template <auto kernel, class... Each>
void launched(unsigned blocks, unsigned columns, unsigned threads, size_t shared_bytes, Each... each) {
  using Tuple = typename Parameters<decltype(kernel)>::Tuple;
  const Tuple arguments(each...);
  size_t code = 0;
  const char* message = emulator_launch(
      [](const void* given) {
        forget_copies();
        std::apply(kernel, *static_cast<const Tuple*>(given));
      },
      &arguments, blocks, columns, threads, shared_bytes, 1, &code);
  if (message) {
    std::fprintf(stderr, "%s\n", message);
    std::abort();
  }
}

}  // namespace emulator
