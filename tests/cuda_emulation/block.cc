// The scheduler of a block's threads.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "tests/cuda_emulation/fiber.h"
#include "tests/cuda_emulation/include/cuda_block.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace cuda_emulation {
namespace {

constexpr unsigned kWarpSize = 32;
constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxWarps = kMaxThreads / kWarpSize;
constexpr size_t kMaxSharedBytes = size_t{228} << 10;
constexpr unsigned kAllLanes = 0xffffffffu;

// Sets of the 32 lanes of a warp, with one bit per lane. A lane is in at most one set.
struct Warp {
  unsigned runnable = 0, at_block_barrier = 0, at_warp_barrier = 0;
  unsigned alive() const { return runnable | at_block_barrier | at_warp_barrier; }
};

unsigned Seed() {
  const char* const seed = std::getenv("CUDA_EMULATION_SEED");
  return seed == nullptr ? 1u : static_cast<unsigned>(std::strtoul(seed, nullptr, 10));
}

class Scheduler {
 public:
  void Run(const Grid& grid, const std::function<void()>& thread) {
    if (grid.threads == 0 || grid.threads > kMaxThreads || grid.shared_bytes > kMaxSharedBytes) std::abort();
    grid_ = &grid;
    thread_ = &thread;
    blockDim = {grid.threads, 1, 1};
    gridDim = {grid.blocks, 1, 1};
    std::vector<unsigned> order(grid.blocks);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), random_);
    for (const unsigned block : order) {
      blockIdx = {block, 0, 0};
      std::memset(shared_, 0xff, grid.shared_bytes);
      RunBlock();
    }
    grid_ = nullptr;
  }

  void Wait(bool of_block, const Site& site) {
    if (!running_) Fail("a barrier outside of a kernel");
    const unsigned thread = threadIdx.x;
    sites_[thread] = site;
    const unsigned bit = 1u << thread % kWarpSize;
    Warp& warp = warps_[thread / kWarpSize];
    warp.runnable &= ~bit;
    (of_block ? warp.at_block_barrier : warp.at_warp_barrier) |= bit;
    fibers_[thread].SwitchTo(host_);
  }

  int WaitForBlock(int vote, const Site& site) {
    next_vote_ |= vote;
    Wait(true, site);
    return vote_;
  }

  Room& NextRoom() {
    const unsigned thread = threadIdx.x;
    odd_[thread] = !odd_[thread];
    return rooms_[thread / kWarpSize][odd_[thread]];
  }

  std::string RunningThread() const {
    if (grid_ == nullptr) return "";
    std::string what = "kernel " + grid_->kernel + ", block " + std::to_string(blockIdx.x);
    if (running_) what += ", thread " + std::to_string(threadIdx.x);
    return what;
  }

  unsigned char* shared() { return shared_; }

 private:
  unsigned num_warps() const { return (grid_->threads + kWarpSize - 1) / kWarpSize; }

  void RunBlock() {
    odd_.fill(false);
    for (unsigned w = 0; w < num_warps(); ++w) {
      const unsigned lanes = std::min(kWarpSize, grid_->threads - w * kWarpSize);
      warps_[w] = {.runnable = lanes == kWarpSize ? kAllLanes : (1u << lanes) - 1};
    }
    unsigned current = 0;
    while (true) {
      unsigned ready = 0;
      for (unsigned w = 0; w < num_warps(); ++w) ready |= (warps_[w].runnable != 0 ? 1u : 0u) << w;
      if (ready == 0) {
        if (!ReleaseBlock()) return;
        continue;
      }
      // Usually the current warp continues, so that it gets far ahead of other warps.
      if ((ready >> current & 1) == 0 || random_() % 8 == 0) {
        current = static_cast<unsigned>(random_()) % kWarpSize;
        ready = std::rotr(ready, static_cast<int>(current));
        current = (current + static_cast<unsigned>(std::countr_zero(ready))) % kWarpSize;
      }
      RunWarp(current);
    }
  }

  // Lets the warp's runnable lanes run until they wait or end.
  void RunWarp(unsigned w) {
    Warp& warp = warps_[w];
    const unsigned runnable = warp.runnable;
    const unsigned random = static_cast<unsigned>(random_());
    const unsigned step = random | 1, first = random >> 16;
    for (unsigned i = 0; i < kWarpSize; ++i) {
      const unsigned lane = (first + i * step) % kWarpSize;
      if ((runnable >> lane & 1) != 0) RunThread(w * kWarpSize + lane);
    }
    if (warp.at_warp_barrier == 0 || warp.at_warp_barrier != warp.alive()) return;
    CheckSameSite(w * kWarpSize, warp.at_warp_barrier, FirstThread(w, warp.at_warp_barrier));
    warp.runnable = warp.at_warp_barrier;
    warp.at_warp_barrier = 0;
  }

  void RunThread(unsigned thread) {
    threadIdx = {thread, 0, 0};
    running_ = true;
    Fiber& fiber = fibers_[thread];
    if (!fiber.started()) fiber.Start([this, thread] { ThreadMain(thread); });
    host_.SwitchTo(fiber);
    running_ = false;
  }

  // A fiber runs the thread with its number in all blocks.
  void ThreadMain(unsigned thread) {
    while (true) {
      (*thread_)();
      warps_[thread / kWarpSize].runnable &= ~(1u << thread % kWarpSize);
      // Other lanes may still read the values of this lane from the last exchange. In the next exchange this
      // lane has no value.
      Room& next = rooms_[thread / kWarpSize][!odd_[thread]];
      std::memset(next.lanes[thread % kWarpSize], 0xff, kMaxExchangeBytes);
      fibers_[thread].SwitchTo(host_);
    }
  }

  // Called if no thread can run: lets the threads pass the barrier at which all of them wait. Returns false
  // if all threads have ended.
  bool ReleaseBlock() {
    bool waits = false;
    unsigned first = 0;
    for (unsigned w = num_warps(); w-- > 0;) {
      Warp& warp = warps_[w];
      if (warp.at_warp_barrier != 0) {
        const unsigned thread = FirstThread(w, warp.at_warp_barrier);
        FailOf(thread, "waits for its warp" + At(thread) + ", which waits for the block" +
                           At(FirstThread(w, warp.at_block_barrier)));
      }
      if (warp.at_block_barrier == 0) continue;
      waits = true;
      first = FirstThread(w, warp.at_block_barrier);
    }
    for (unsigned w = 0; w < num_warps(); ++w) {
      Warp& warp = warps_[w];
      CheckSameSite(w * kWarpSize, warp.at_block_barrier, first);
      warp.runnable = warp.at_block_barrier;
      warp.at_block_barrier = 0;
    }
    vote_ = std::exchange(next_vote_, 0);
    return waits;
  }

  // Checks that all of these lanes wait at the position of lane `like`.
  void CheckSameSite(unsigned first_thread, unsigned lanes, unsigned like) {
    for (; lanes != 0; lanes &= lanes - 1) {
      const unsigned thread = first_thread + static_cast<unsigned>(std::countr_zero(lanes));
      const Site &site = sites_[thread], &expected = sites_[like];
      if (site.line() == expected.line() && (site.file_name() == expected.file_name() ||
                                             std::strcmp(site.file_name(), expected.file_name()) == 0)) {
        continue;
      }
      FailOf(thread, "waits" + At(thread) + ", but thread " + std::to_string(like) + At(like));
    }
  }

  [[noreturn]] void FailOf(unsigned thread, const std::string& what) {
    threadIdx.x = thread;
    running_ = true;
    Fail(what);
  }
  static unsigned FirstThread(unsigned w, unsigned lanes) {
    return w * kWarpSize + static_cast<unsigned>(std::countr_zero(lanes));
  }
  std::string At(unsigned thread) const {
    return std::string(" at ") + sites_[thread].file_name() + ":" + std::to_string(sites_[thread].line());
  }

  const Grid* grid_ = nullptr;
  const std::function<void()>* thread_ = nullptr;
  bool running_ = false;
  std::minstd_rand random_{Seed()};
  Fiber host_;
  std::array<Fiber, kMaxThreads> fibers_;
  std::array<Warp, kMaxWarps> warps_;
  std::array<Site, kMaxThreads> sites_;
  std::array<std::array<Room, 2>, kMaxWarps> rooms_;
  std::array<bool, kMaxThreads> odd_{};
  int next_vote_ = 0, vote_ = 0;  // votes of the next barrier of the block, and of the last barrier
  alignas(1024) unsigned char shared_[kMaxSharedBytes];
};

// Returns the only scheduler. It is never destroyed, because statics of tests may outlive it.
Scheduler& Gpu() {
  static Scheduler* const scheduler = new Scheduler;
  return *scheduler;
}

}  // namespace

void RunGrid(const Grid& grid, const std::function<void()>& thread) { Gpu().Run(grid, thread); }

void Fail(const std::string& what) {
  const std::string running = RunningThread();
  std::fprintf(stderr, "emulated CUDA: %s%s%s\n", running.c_str(), running.empty() ? "" : ": ", what.c_str());
  std::abort();
}

std::string RunningThread() { return Gpu().RunningThread(); }
unsigned char* SharedMemory() { return Gpu().shared(); }

int SyncBlock(int vote, const Site& site) { return Gpu().WaitForBlock(vote, site); }

void SyncWarp(unsigned mask, const Site& site) {
  if (mask != kAllLanes) Fail("a mask that does not name all lanes: not emulated");
  Gpu().Wait(false, site);
}

Room& NextRoom() { return Gpu().NextRoom(); }

}  // namespace cuda_emulation
