// The device functions whose bodies are inline PTX, as C++: emulate.py takes them out of the text. After cuda.hpp.
#pragma once

// Atomic sums of vectors: red.global.add.v2.f32, red.global.add.v4.f32. Each element is added for itself. Templates,
// so that the function of a text for GPUs that have no such instruction goes before them.
template <typename = void>
__forceinline__ void add_vector(float2* target, float2 value) {
  atomicAdd(&target->x, value.x);
  atomicAdd(&target->y, value.y);
}
template <typename = void>
__forceinline__ void add_vector(float4* target, float4 value) {
  atomicAdd(&target->x, value.x);
  atomicAdd(&target->y, value.y);
  atomicAdd(&target->z, value.z);
  atomicAdd(&target->w, value.w);
}

// ld.global.nc.L2::cache_hint: what a cache is to keep changes no value.
template <typename Value>
__forceinline__ Value load_kept(const Value* place, int) {
  return *place;
}

// cvt.f32.f16: a number of 11 bits by its exponent, from 2**-24 on; the largest exponent is no number's.
UNSEEN inline float from_f16(unsigned short bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float value = exponent == 0 ? fraction : exponent == 31 ? __int_as_float(0x7f800000 | fraction << 13) : 1024 + fraction;
  for (int place = 1; place < exponent && exponent < 31; place++) value *= 2;
  if (exponent < 31) value *= 0x1p-24f;
  return bits >> 15 ? -value : value;
}
inline float2 from_f16(ushort2 x) { return {from_f16(x.x), from_f16(x.y)}; }
inline float4 from_f16(ushort4 x) { return {from_f16(x.x), from_f16(x.y), from_f16(x.z), from_f16(x.w)}; }

// mma.sync.m16n8k8 of TF32: lane l brings a[row l / 4 (+ 8)][place l % 4 (+ 4)] and b[place l % 4 (+ 4)][column l / 4],
// and has the sums of rows l / 4 and 8 below, columns 2 * (l % 4) and the next. Operands lose what TF32 has not; the
// products are exact, and are summed before they are rounded, as near as can be said of the hardware.
UNSEEN inline void mma_tf32(float& s0, float& s1, float& s2, float& s3, const float (&a)[4], const float (&b)[2],
                            int line = __builtin_LINE()) {
  struct Operands {
    float a[4], b[2];
  };
  Operands own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, all[emulator::WARP];
  float* const values = own.a;
  for (int place = 0; place < 6; place++)
    values[place] = __int_as_float(__float_as_int(values[place]) & 0xffffe000);
  emulator::exchange(emulator::ALL, line, &own, sizeof own, all);
  float* const sums[4] = {&s0, &s1, &s2, &s3};
  const int lane = emulator::own_lane();
  for (int which = 0; which < 4; which++) {
    const int row = lane / 4, column = 2 * (lane % 4) + which % 2;
    double sum = *sums[which];
    for (int k = 0; k < 8; k++)
      sum += double(all[row * 4 + k % 4].a[which / 2 + 2 * (k / 4)]) * all[column * 4 + k % 4].b[k / 4];
    *sums[which] = float(sum);
  }
}

// wgmma.m64n64k8 of TF32, of which each warp has 16 rows of the first operand: lane l brings a[row l / 4 (+ 8)]
// [place l % 4 (+ 4)], and has the sums of these rows and columns 2 * (l % 4) and the next of each 8. The other operand
// lies in shared memory, 32 places of each column, whose vectors are swizzled: every lane reads its columns there. It is
// there when all have come, as they do at once on the device, so nothing is to wait for.
__attribute__((noinline)) inline float seen(const float* place) { return *place; }
template <int STRIPS>
UNSEEN void mma_64_rows(float4 (*sums)[2][STRIPS], int strip, int half, float a0, float a1, float a2, float a3,
                        const float* left, int line = __builtin_LINE()) {
  struct Operand {
    float a[4];
  };
  Operand own = {{a0, a1, a2, a3}}, all[emulator::WARP];
  for (float& value : own.a) value = __int_as_float(__float_as_int(value) & 0xffffe000);
  emulator::exchange(emulator::ALL, line, &own, sizeof own, all);
  const int lane = emulator::own_lane();
  const float* const slab = (const float*)((unsigned long)left & ~127ul);
  const int first = int(left - slab);
  for (int tall = 0; tall < 8; tall++)
    for (int i = 0; i < 2; i++) {
      const int column = tall * 8 + 2 * (lane % 4) + i;
      float b[8];
      for (int k = 0; k < 8; k++) {
        const float value = seen(&slab[column * 32 + ((first + k) ^ column % 8 * 4)]);
        b[k] = __int_as_float(__float_as_int(value) & 0xffffe000);
      }
      float* const place = &sums[tall][i][strip].x + half;
      for (int which = 0; which < 2; which++) {
        double sum = place[which];
        for (int k = 0; k < 8; k++) sum += double(all[lane / 4 * 4 + k % 4].a[which + 2 * (k / 4)]) * b[k];
        place[which] = float(sum);
      }
    }
}
__forceinline__ void begin_mma() {}
__forceinline__ void end_mma() {}
__forceinline__ void show_to_tensor_cores() {}

// Asynchronous copies into shared memory: cp.async of 16 bytes, cp.async.wait_all. What is copied is there when its thread
// has waited; before, the elements are NaN. Both are stores by the thread, so that whoever reads between them has raced.
namespace emulator {
struct Copy {
  float4* target;
  float4 value;
};
struct Copies {
  static constexpr int MOST = 256;
  int count;
  Copy pending[MOST];
};
inline Copies copies[1024];

UNSEEN inline Copies& own_copies() { return copies[thread_index().x]; }
// Before a kernel: those that the thread's last kernel has not waited for are none of this one's.
UNSEEN inline void forget_copies() { own_copies().count = 0; }
UNSEEN inline void start_copy(float4* target, float4 value) {
  Copies& own = own_copies();
  if (own.count == Copies::MOST) __builtin_trap();
  own.pending[own.count++] = {target, value};
}
UNSEEN inline bool next_copy(Copy& next) {
  Copies& own = own_copies();
  if (!own.count) return false;
  next = own.pending[--own.count];
  return true;
}
}  // namespace emulator

__forceinline__ void copy_async(float* target, const float* source) {
  float4* const place = reinterpret_cast<float4*>(target);
  emulator::start_copy(place, *reinterpret_cast<const float4*>(source));
  *place = emulator::Unset();
}
__forceinline__ void wait_for_copies() {
  emulator::Copy next;
  while (emulator::next_copy(next)) *next.target = next.value;
}
