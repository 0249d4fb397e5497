#pragma once
namespace c10::cuda {
struct CUDAGuard {
  explicit CUDAGuard(at::Device) {}
};
}  // namespace c10::cuda
