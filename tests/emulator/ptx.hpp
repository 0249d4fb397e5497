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
