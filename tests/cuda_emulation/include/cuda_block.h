#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <string>

// Emulates blocks of threads: the part of CUDA that kernels use.
//
// Each thread of a block is a fiber. Between two barriers, threads run one after another in a shuffled order:
// warps run ahead of other warps until the next barrier, and lanes take turns within a warp. Blocks also run
// one after another in a shuffled order. So code that relies on an order that CUDA does not promise computes
// a wrong result most of the time. The shuffles are equal in every run; the environment variable
// CUDA_EMULATION_SEED, a number, selects other shuffles.
//
// Misuse ends the program with one line on stderr that names the kernel and the position. Misuse is: threads
// that wait for each other forever, barriers in branches that not all threads take, and operations of a warp
// that not all lanes execute.
//
// The emulation does not detect two errors: reading `__shared__` variables of an earlier block (only dynamic
// shared memory is filled with NaN), and two accesses without a barrier between them if their order does not
// change the result.

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace cuda_emulation {

using Site = std::source_location;

struct Grid {
  std::string kernel;  // name of the kernel, for messages
  unsigned blocks = 0, threads = 0;
  size_t shared_bytes = 0;  // size of dynamic shared memory
};

// Runs `thread` for every thread of the grid. Only one grid may run in a process at a time.
void RunGrid(const Grid& grid, const std::function<void()>& thread);

// Ends the program: "emulated CUDA: kernel Name, block 3, thread 17: what".
[[noreturn]] void Fail(const std::string& what);
// Returns a description of the running thread for messages; "" if no thread is running.
std::string RunningThread();

// Returns the running block's dynamic shared memory, aligned to 1024 bytes and filled with NaNs.
unsigned char* SharedMemory();

// Return when all threads of the block, or of the warp, that have not ended have called the function.
// SyncBlock returns the bitwise or of the votes of all threads of the block.
int SyncBlock(int vote, const Site& site);
void SyncWarp(unsigned mask, const Site& site);

// Returns the memory in which the lanes of the running thread's warp exchange values. Consecutive calls
// return different memory, so one SyncWarp between writing and reading is sufficient.
constexpr size_t kMaxExchangeBytes = 32;
struct Room {
  unsigned char lanes[32][kMaxExchangeBytes];
};
Room& NextRoom();

// Returns the value that another lane of the warp passes.
template <class T>
T FromLane(unsigned mask, const T& value, unsigned lane, const Site& site) {
  static_assert(sizeof(T) <= kMaxExchangeBytes);
  Room& room = NextRoom();
  std::memcpy(room.lanes[threadIdx.x % 32], &value, sizeof(T));
  SyncWarp(mask, site);
  T result;
  std::memcpy(&result, room.lanes[lane % 32], sizeof(T));
  return result;
}

}  // namespace cuda_emulation

inline void __syncthreads(cuda_emulation::Site site = cuda_emulation::Site::current()) {
  cuda_emulation::SyncBlock(0, site);
}

inline int __syncthreads_or(int predicate, cuda_emulation::Site site = cuda_emulation::Site::current()) {
  return cuda_emulation::SyncBlock(predicate != 0 ? 1 : 0, site);
}

inline void __syncwarp(unsigned mask = 0xffffffffu,
                       cuda_emulation::Site site = cuda_emulation::Site::current()) {
  cuda_emulation::SyncWarp(mask, site);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask,
                  cuda_emulation::Site site = cuda_emulation::Site::current()) {
  return cuda_emulation::FromLane(mask, value, threadIdx.x ^ static_cast<unsigned>(lane_mask), site);
}
