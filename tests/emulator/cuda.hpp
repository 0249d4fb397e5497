// What generated CUDA needs to be C++: its words, its vectors, its built-in functions. Included before the text.
//
// The threads of a block are fibers (threads.cpp), so barriers and exchanges between lanes are real. The text is
// compiled with hooks before every access to memory, which memory.cpp answers: it knows who read and wrote each
// element since which barrier. What is marked UNSEEN has no hooks.
#pragma once

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// Blocks run one after another, so one storage does for all. memory.cpp finds it by its section's name.
#define __shared__ static __attribute__((section("shared_tiles")))
#define UNSEEN __attribute__((no_sanitize("thread", "bounds", "alignment")))

extern "C" {
float expf(float), logf(float), log1pf(float), sqrtf(float), fabsf(float), tanhf(float), erff(float), sinf(float);
float cosf(float), floorf(float), powf(float, float), atan2f(float, float);
float fmaf(float, float, float), fmaxf(float, float), fminf(float, float);
}

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(4) ushort2 {
  unsigned short x, y;
};
struct alignas(8) ushort4 {
  unsigned short x, y, z, w;
};
struct alignas(2) char2 {
  signed char x, y;
};
struct alignas(4) char4 {
  signed char x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }

template <class T>
inline T __ldcs(const T* address) { return *address; }
template <class T>
inline void __stcs(T* address, T value) { *address = value; }

namespace emulator {

constexpr int WARP = 32;
constexpr unsigned ALL = 0xffffffffu;

struct Index {
  unsigned x, y, z;
};

// threads.cpp: where the running thread is, and where threads wait for each other.
Index thread_index(), block_index(), block_dimensions(), grid_dimensions();
void block_barrier(int line);
void warp_barrier(unsigned mask, int line);
// The lanes that `mask` names bring a value each, and each gets all of them, in the order of the lanes.
void exchange(unsigned mask, int line, const void* value, unsigned bytes, void* values);
// The lane that an exchange takes from: `source`, or the own one where that lies outside the `width` neighbours.
int source_lane(unsigned mask, int source, int width, int line);
int own_lane();
void* dynamic_shared_memory();

// memory.cpp: an access that conflicts with no other atomic one.
void atomic_access(const void* address, unsigned bytes);

template <class T>
UNSEEN inline T shuffle(unsigned mask, T value, int source, int width, int line) {
  T values[WARP];
  exchange(mask, line, &value, sizeof value, values);
  return values[source_lane(mask, source, width, line)];
}

template <class T>
UNSEEN inline T add_unseen(T* address, T value) {
  const T before = *address;
  *address = before + value;
  return before;
}

// An argument of a kernel: 8 bytes, or the lower 4 of them, read as what the parameter is.
struct Argument {
  unsigned long long bits;
  template <class T>
  UNSEEN operator T() const {
    if constexpr (sizeof(T) == sizeof(unsigned)) return __builtin_bit_cast(T, static_cast<unsigned>(bits));
    else return __builtin_bit_cast(T, bits);
  }
};

// What a register holds that has not been set.
struct Unset {
  operator float() const { return __builtin_nanf(""); }
  operator float2() const { return {*this, *this}; }
  operator float4() const { return {*this, *this, *this, *this}; }
};

}  // namespace emulator

#define threadIdx (emulator::thread_index())
#define blockIdx (emulator::block_index())
#define blockDim (emulator::block_dimensions())
#define gridDim (emulator::grid_dimensions())

inline void __syncthreads(int line = __builtin_LINE()) { emulator::block_barrier(line); }
inline void __syncwarp(unsigned mask = emulator::ALL, int line = __builtin_LINE()) {
  emulator::warp_barrier(mask, line);
}
template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = emulator::WARP, int line = __builtin_LINE()) {
  return emulator::shuffle(mask, value, emulator::own_lane() / width * width + source % width, width, line);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = emulator::WARP, int line = __builtin_LINE()) {
  return emulator::shuffle(mask, value, emulator::own_lane() ^ bits, width, line);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, int by, int width = emulator::WARP, int line = __builtin_LINE()) {
  return emulator::shuffle(mask, value, emulator::own_lane() + by, width, line);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, int by, int width = emulator::WARP, int line = __builtin_LINE()) {
  return emulator::shuffle(mask, value, emulator::own_lane() - by, width, line);
}

template <class T>
__forceinline__ T atomicAdd(T* address, T value) {
  emulator::atomic_access(address, sizeof value);
  return emulator::add_unseen(address, value);
}
inline float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }
inline float __uint_as_float(unsigned bits) { return __builtin_bit_cast(float, bits); }
inline int __float_as_int(float value) { return __builtin_bit_cast(int, value); }
