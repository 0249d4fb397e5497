// The device functions whose bodies are inline PTX, as C++: emulate.py takes them out of the text. After cuda.hpp.
#pragma once

// Atomic sums of vectors: red.global.add.v2.f32, red.global.add.v4.f32. Each element is added for itself.
__forceinline__ void add_vector(float2* target, float2 value) {
  atomicAdd(&target->x, value.x);
  atomicAdd(&target->y, value.y);
}
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
