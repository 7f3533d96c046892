#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <string>

// Blocks of threads, emulated: what a kernel sees of CUDA.
//
// Each thread of a block is a fiber. Between two points where threads wait for each other they run one after
// another, in an order that is shuffled: warps run ahead of others as far as the barriers let them, and lanes
// take turns within a warp. Blocks run one after another, in a shuffled order as well. So whatever relies on
// an order that CUDA does not promise computes something else here, most of the time. The shuffles are the
// same in every run; the environment variable CUDA_EMULATION_SEED, a number, chooses others.
//
// Misuse ends the program with one line on stderr that names the kernel, and where it was: threads that wait
// for each other for ever, barriers in branches that not all threads take, operations of a warp that not all
// of its lanes take part in.
//
// Not shown: memory that `__shared__` variables leave to the next block is neither cleared nor poisoned
// (dynamic shared memory is); and two accesses without a barrier between them whose order does not matter.

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
  std::string kernel;  // its name, for messages
  unsigned blocks = 0, threads = 0;
  size_t shared_bytes = 0;  // dynamic
};

// Runs `thread` as every thread of the grid. One grid at a time in a process.
void RunGrid(const Grid& grid, const std::function<void()>& thread);

// Ends the program: "emulated CUDA: kernel Name, block 3, thread 17: what".
[[noreturn]] void Fail(const std::string& what);
// What is running, for messages; "" if nothing is.
std::string RunningThread();

// The running block's dynamic shared memory, aligned to 1024 bytes and filled with NaNs.
unsigned char* SharedMemory();

// Return when all threads of the block, or of the warp, that have not ended are there. The block's votes are
// or'ed.
int SyncBlock(int vote, const Site& site);
void SyncWarp(unsigned mask, const Site& site);

// Where the lanes of the running thread's warp put values for each other. Every other call has another room,
// so that one SyncWarp between writing and reading suffices.
constexpr size_t kMaxExchangeBytes = 32;
struct Room {
  unsigned char lanes[32][kMaxExchangeBytes];
};
Room& NextRoom();

// The value that another lane of the warp brings.
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
