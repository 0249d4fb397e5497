// The threads of a block as fibers: each has a stack, runs until it must wait for others, and goes on when they came.
//
// A fiber starts through ucontext, and from then on is left and entered by _setjmp and _longjmp, which make no system
// call. Blocks run one after another. The order of the blocks and of the fibers is shuffled by the seed.
#include <algorithm>
#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <numeric>
#include <random>
#include <string>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

#include "cuda.hpp"
#include "emulator.hpp"

namespace emulator {
namespace {

constexpr int MOST_THREADS = 1024, MOST_BYTES = 256;
constexpr size_t SHARED_BYTES = 228 << 10;

enum class State { runs, at_block_barrier, in_warp, finished };

struct Fiber : Thread {
  jmp_buf place;
  ucontext_t start;
  bool started = false;
  State state = State::finished;
  int line = 0;
  unsigned mask = 0;
  bool barrier = false;  // in_warp: a barrier, and not an exchange
  const void* value = nullptr;
  unsigned bytes = 0;
  char* values = nullptr;
};

struct Launch {
  void (*kernel)(const void* arguments);
  const void* arguments;
  unsigned blocks, columns, threads;
  Index block;
};

Fiber fibers[MOST_THREADS];
Fiber* current;
int waiting[MOST_THREADS / WARP];  // lanes of a warp that are in_warp
Launch launch;
jmp_buf scheduler;
std::string message;
const void* message_code;
long block_number;

void pause() {
  if (!_setjmp(current->place)) _longjmp(scheduler, 1);
}

// What every fiber does for ever: the kernel, once a block.
void live() {
  for (;;) {
    launch.kernel(launch.arguments);
    current->state = State::finished;
    pause();
  }
}

void start(Fiber& fiber) {
  if (!fiber.stack) {
    void* memory = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail(nullptr, "no memory for a thread's stack");
    fiber.stack = static_cast<char*>(memory);
  }
  getcontext(&fiber.start);
  fiber.start.uc_stack.ss_sp = fiber.stack;
  fiber.start.uc_stack.ss_size = STACK_BYTES;
  fiber.start.uc_link = nullptr;
  makecontext(&fiber.start, live, 0);
  fiber.started = true;
}

// Lets a fiber go on until it waits, returns or fails.
void run(Fiber& fiber) {
  running = current = &fiber;
  if (_setjmp(scheduler)) return;
  if (fiber.started) _longjmp(fiber.place, 1);
  start(fiber);
  setcontext(&fiber.start);
}

// The threads of the block that a fiber waits for: those of its warp that its mask names.
unsigned lanes_of(const Fiber& fiber) {
  const unsigned first = fiber.warp * WARP, there = launch.threads - first;
  return fiber.mask & (there < WARP ? (1u << there) - 1 : ALL);
}

template <class Use>
void each_lane(const Fiber& fiber, Use use) {
  const unsigned lanes = lanes_of(fiber);
  for (int lane = 0; lane < WARP; lane++)
    if (lanes >> lane & 1) use(fibers[fiber.warp * WARP + lane], lane);
}

// Lets the lanes of a warp go on if all that wait for each other have come.
void meet_in_warp(const Fiber& last) {
  const int lanes = __builtin_popcount(lanes_of(last));
  if (waiting[last.warp] < lanes) return;
  bool all = true;
  each_lane(last, [&](const Fiber& other, int) {
    all &= other.state == State::in_warp && other.line == last.line && other.mask == last.mask &&
           other.barrier == last.barrier && other.bytes == last.bytes;
  });
  if (!all) return;
  waiting[last.warp] -= lanes;
  if (!last.barrier) {
    static char values[WARP * MOST_BYTES];
    each_lane(last, [&](Fiber& from, int lane) { memcpy(values + lane * last.bytes, from.value, last.bytes); });
    each_lane(last, [&](Fiber& to, int) { memcpy(to.values, values, WARP * last.bytes); });
  }
  const bool barrier = last.barrier;
  each_lane(last, [&](Fiber& fiber, int) {
    fiber.warp_epoch += barrier;
    fiber.state = State::runs;
  });
}

void wait_in_warp(unsigned mask, int line, bool barrier) {
  current->mask = mask;
  current->line = line;
  current->barrier = barrier;
  current->state = State::in_warp;
  waiting[current->warp]++;
  if (!(mask >> own_lane() & 1)) fail(nullptr, "line %d waits for lanes that it is not among", line);
  meet_in_warp(*current);
  if (current->state != State::runs) pause();
}

std::string describe(const Fiber& fiber) {
  if (fiber.state == State::finished) return "has returned";
  const char* what = fiber.state == State::at_block_barrier ? "the block's barrier"
                     : fiber.barrier                        ? "a warp's barrier"
                                                            : "an exchange";
  return std::string("waits at ") + what + " in line " + std::to_string(fiber.line);
}

// What to say where no thread can go on: which wait where.
std::string describe_divergence() {
  std::string text = "threads wait for each other in vain:";
  for (unsigned first = 0, next = 0; first < launch.threads; first = next) {
    const std::string state = describe(fibers[first]);
    while (next < launch.threads && describe(fibers[next]) == state) next++;
    text += (first ? "; thread " : " thread ") + std::to_string(first);
    if (next > first + 1) text += " to " + std::to_string(next - 1);
    text += " " + state;
  }
  return text;
}

// One block, until all its threads have returned or there is a message.
void run_block(Index block, const std::vector<int>& order) {
  launch.block = block;
  block_number++;
  std::fill(std::begin(waiting), std::end(waiting), 0);
  for (unsigned thread = 0; thread < launch.threads; thread++) {
    Fiber& fiber = fibers[thread];
    fiber.state = State::runs;
    fiber.block = block_number;
    fiber.index = thread;
    fiber.warp = thread / WARP;
    fiber.block_epoch = fiber.warp_epoch = 0;
  }
  for (;;) {
    bool moved = false;
    unsigned finished = 0;
    for (int thread : order) {
      if (fibers[thread].state == State::runs) {
        run(fibers[thread]);
        if (!message.empty()) return;
        moved = true;
      }
      finished += fibers[thread].state == State::finished;
    }
    if (finished == launch.threads) return;
    if (!moved) {
      message = describe_divergence();
      return;
    }
  }
}

}  // namespace

Thread* running;
alignas(256) char dynamic_shared[SHARED_BYTES];
size_t dynamic_shared_bytes;

void* dynamic_shared_memory() { return dynamic_shared; }

Index thread_index() { return {unsigned(current->index), 0, 0}; }
Index block_index() { return launch.block; }
Index block_dimensions() { return {launch.threads, 1, 1}; }
Index grid_dimensions() { return {launch.blocks, launch.columns, 1}; }
int own_lane() { return current->index % WARP; }

void block_barrier(int line) {
  current->line = line;
  current->state = State::at_block_barrier;
  for (unsigned thread = 0; thread < launch.threads; thread++)
    if (fibers[thread].state != State::at_block_barrier || fibers[thread].line != line) return pause();
  for (unsigned thread = 0; thread < launch.threads; thread++) {
    fibers[thread].block_epoch++;
    fibers[thread].state = State::runs;
  }
}

void warp_barrier(unsigned mask, int line) {
  if (mask != ALL) fail(nullptr, "line %d: the emulator has no barrier of a part of a warp", line);
  current->bytes = 0;
  wait_in_warp(mask, line, true);
}

void exchange(unsigned mask, int line, const void* value, unsigned bytes, void* values) {
  current->value = value;
  current->bytes = bytes;
  current->values = static_cast<char*>(values);
  wait_in_warp(mask, line, false);
}

int source_lane(unsigned mask, int source, int width, int line) {
  const int lane = own_lane();
  if (source < 0 || source / width != lane / width) return lane;
  if (!(mask >> source & 1) || current->warp * WARP + source >= int(launch.threads))
    fail(nullptr, "line %d takes a value of lane %d, which takes no part", line, source);
  return source;
}

void fail(const void* code, const char* format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  message = "thread " + std::to_string(current->index) + " " + text;
  message_code = code;
  _longjmp(scheduler, 1);
}

}  // namespace emulator

using namespace emulator;

// Runs a kernel on a grid. Returns null, or what went wrong; `code` is then the place in the library, if it is known.
extern "C" const char* emulator_launch(void (*kernel)(const void*), const void* arguments, unsigned blocks,
                                       unsigned columns, unsigned threads, size_t shared_bytes, unsigned seed,
                                       size_t* code) {
  launch = {kernel, arguments, blocks, columns, threads, {}};
  emulator::dynamic_shared_bytes = shared_bytes;
  std::minstd_rand random(seed + 1);
  std::vector<int> order(threads);
  std::vector<unsigned> grid(blocks * columns);
  std::iota(order.begin(), order.end(), 0);
  std::iota(grid.begin(), grid.end(), 0u);
  std::shuffle(order.begin(), order.end(), random);
  std::shuffle(grid.begin(), grid.end(), random);
  begin_launch(block_number + 1);
  message.clear();
  message_code = nullptr;
  for (unsigned block : grid) {
    run_block({block % blocks, block / blocks, 0}, order);
    if (message.empty()) continue;
    for (Fiber& fiber : fibers) fiber.started = false;  // they stopped in the middle of a kernel
    message = "block " + std::to_string(block % blocks) + "," + std::to_string(block / blocks) + ": " + message;
    Dl_info library{};
    *code = 0;
    if (message_code && dladdr(message_code, &library))
      *code = static_cast<const char*>(message_code) - static_cast<const char*>(library.dli_fbase);
    return message.c_str();
  }
  return nullptr;
}
