// Which accesses to memory are right: the answers to the hooks that the compiler puts before every access.
//
// An access must lie in one array, and what it reads must have been written. Two threads may touch an element, one of
// them writing, only if a barrier lies between: of the block, or of the warp where both are of one warp; blocks have
// none. So a missing barrier shows whatever order the threads happened to run in.
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "cuda.hpp"
#include "emulator.hpp"

extern "C" char __start_shared_tiles[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_shared_tiles[] __attribute__((weak, visibility("hidden")));

namespace emulator {
namespace {

constexpr int SEVERAL = -1;
constexpr unsigned WORD = 4;

enum class Access { read, write, atomic };

// The last access of a kind, or those that no barrier orders among themselves: of several threads, warps, or blocks.
struct Trace {
  long block = 0;
  int block_epoch = 0, warp_epoch = 0;
  short thread = SEVERAL, warp = SEVERAL;
  bool of_one_block = true;
};

struct Element {
  Trace read, written, added;
  long filled = 0;  // 0: never; else the block that first wrote it
};

struct Array {
  std::string name;
  char* begin;
  size_t bytes;
  bool constant;  // given, and only read
  bool shared;    // of one block: another one's traces are nothing
  std::vector<Element> elements;

  bool holds(const char* address) const { return address >= begin && address < begin + bytes; }
};

std::vector<Array> arrays;
std::map<const char*, unsigned short> by_address;  // where in `arrays` the one is that begins there
Array tiles{"shared memory", nullptr, 0, false, true, {}};
Array dynamic_tiles{"dynamic shared memory", nullptr, 0, false, true, {}};
long first_block = 1;

// Whether a barrier, or the end of a launch or of a block, lies between what left the trace and now.
bool ordered(const Trace& trace, const Thread& now, bool shared) {
  if (trace.block < first_block || (shared && trace.block != now.block)) return true;
  if (trace.block != now.block || !trace.of_one_block) return false;
  return trace.thread == now.index || trace.block_epoch < now.block_epoch ||
         (trace.warp == now.warp && trace.warp_epoch < now.warp_epoch);
}

void add(Trace& trace, const Thread& now, bool shared) {
  if (ordered(trace, now, shared)) {
    trace = {now.block, now.block_epoch, now.warp_epoch, now.index, now.warp, true};
    return;
  }
  trace.of_one_block &= trace.block == now.block;
  trace.block = now.block;
  if (trace.warp != now.warp) trace.warp = SEVERAL;
  trace.thread = SEVERAL;
}

Array* array_of(const char* address) {
  for (Array* shared : {&tiles, &dynamic_tiles})
    if (shared->holds(address)) return shared;
  static unsigned short found[1024];  // by a part of the address: where it was found before
  unsigned short& likely = found[reinterpret_cast<uintptr_t>(address) >> 20 & 1023];
  if (likely < arrays.size() && arrays[likely].holds(address)) return &arrays[likely];
  const auto after = by_address.upper_bound(address);
  if (after == by_address.begin()) return nullptr;
  const unsigned short place = std::prev(after)->second;
  return arrays[place].holds(address) ? likely = place, &arrays[place] : nullptr;
}

const char* verb(Access access) {
  return access == Access::read ? "reads" : access == Access::write ? "writes" : "adds to";
}

[[noreturn]] void fail_outside(const void* code, const char* address, unsigned bytes, Access access) {
  const Array* nearest = nullptr;
  size_t least = SIZE_MAX;
  for (const Array& array : arrays) {
    const size_t before = array.begin - address, after = address - (array.begin + array.bytes);
    const size_t distance = address < array.begin ? before : after;
    if (distance < least) least = distance, nearest = &array;
  }
  if (!nearest || least > 1 << 20) fail(code, "%s %u bytes where there is no array", verb(access), bytes);
  fail(code, "%s %u bytes at element %td of %s, which has %zu", verb(access), bytes,
       (address - nearest->begin) >> 2, nearest->name.c_str(), nearest->bytes / WORD);
}

void check(Array& array, size_t place, Access access, const void* code) {
  Element& element = array.elements[place];
  const Thread& here = *running;
  const bool filled = array.shared ? element.filled == here.block : element.filled != 0;
  if (access != Access::write && !filled)
    fail(code, "%s element %zu of %s, which nothing has written", verb(access), place, array.name.c_str());
  const auto refuse_after = [&](const Trace& trace, const char* did) {
    if (!ordered(trace, here, array.shared))
      fail(code, "%s element %zu of %s, which another thread %s, with no barrier between", verb(access), place,
           array.name.c_str(), did);
  };
  refuse_after(element.written, "wrote");
  if (access != Access::atomic) refuse_after(element.added, "added to");
  if (access != Access::read) refuse_after(element.read, "read");
  Trace& own = access == Access::read ? element.read : access == Access::write ? element.written : element.added;
  add(own, here, array.shared);
  if (access == Access::write) element.filled = here.block;
}

void touch(const void* target, unsigned bytes, Access access, const void* code) {
  char* const address = static_cast<char*>(const_cast<void*>(target));
  if (address >= running->stack && address < running->stack + STACK_BYTES) return;
  Array* const array = array_of(address);
  if (!array || address + bytes > array->begin + array->bytes) fail_outside(code, address, bytes, access);
  if (array->constant && access == Access::read) return;
  if (array->constant) fail(code, "%s %s, which is given", verb(access), array->name);
  const size_t first = (address - array->begin) / WORD, last = (address + bytes - 1 - array->begin) / WORD;
  for (size_t place = first; place <= last; place++) check(*array, place, access, code);
}

}  // namespace

void begin_launch(long block) {
  first_block = block;
  tiles.begin = __start_shared_tiles;
  tiles.bytes = __stop_shared_tiles - __start_shared_tiles;
  tiles.elements.resize(tiles.bytes / WORD);
  dynamic_tiles.begin = dynamic_shared;
  dynamic_tiles.bytes = dynamic_shared_bytes;
  dynamic_tiles.elements.resize(dynamic_tiles.bytes / WORD);
}

void atomic_access(const void* address, unsigned bytes) {
  touch(address, bytes, Access::atomic, __builtin_return_address(0));
}

}  // namespace emulator

using namespace emulator;

// Forgets all arrays.
extern "C" void emulator_clear() {
  arrays.clear();
  by_address.clear();
}

// Makes an array known: one that is given, which is full and constant, or one that the kernels write.
extern "C" void emulator_add_array(const char* name, char* begin, size_t bytes, bool given) {
  by_address[begin] = arrays.size();
  arrays.push_back({name, begin, bytes, given, false, std::vector<Element>(given ? 0 : bytes / WORD)});
}

// The first element of an array that no kernel has written, or -1.
extern "C" long emulator_first_unwritten(size_t array) {
  const std::vector<Element>& elements = arrays[array].elements;
  for (size_t place = 0; place < elements.size(); place++)
    if (!elements[place].filled) return place;
  return -1;
}

#define CODE __builtin_extract_return_addr(__builtin_return_address(0))
#define HOOKS(bytes)                                                                                     \
  extern "C" void __tsan_read##bytes(void* address) { touch(address, bytes, Access::read, CODE); }       \
  extern "C" void __tsan_write##bytes(void* address) { touch(address, bytes, Access::write, CODE); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

extern "C" void __tsan_read_range(void* address, size_t bytes) { touch(address, bytes, Access::read, CODE); }
extern "C" void __tsan_write_range(void* address, size_t bytes) { touch(address, bytes, Access::write, CODE); }
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}

// The compiler's checks of indices into arrays of known size, and of the alignment of what is accessed.
extern "C" void __ubsan_handle_out_of_bounds(void*, size_t index) {
  fail(CODE, "indexes an array of known size with %zd", index);
}
extern "C" void __ubsan_handle_type_mismatch_v1(void*, size_t address) {
  fail(CODE, "accesses the address %#zx, which is not aligned to what is accessed", address);
}
