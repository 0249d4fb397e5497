// What threads.cpp and memory.cpp know of each other.
#pragma once
#include <cstddef>

namespace emulator {

constexpr size_t STACK_BYTES = 128 << 10;

// A thread of a block, and the barriers that it has passed: by these alone are accesses to memory in order.
struct Thread {
  long block;              // numbered on from launch to launch
  short index, warp;       // in the block
  int block_epoch = 0;     // barriers of the block so far
  int warp_epoch = 0;      // barriers of the warp so far
  char* stack = nullptr;
};

extern Thread* running;
extern char dynamic_shared[];
extern size_t dynamic_shared_bytes;

// Ends the launch with this message, from any thread. `code` is the place in the text, where it is known.
[[noreturn]] void fail(const void* code, const char* format, ...) __attribute__((format(printf, 2, 3)));

// memory.cpp: the first block of a launch has this number; what was before it is in order.
void begin_launch(long first_block);

}  // namespace emulator
