// Emulated GPUs and their memory.

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_emulation/stream.h"

namespace cuda_emulation {
namespace {

constexpr int kDevices = 2;
constexpr size_t kDeviceBytes = size_t{8} << 30;  // memory that each GPU claims to have
constexpr size_t kAlignment = 256;
constexpr size_t kPageBytes = 4096;
// The size of the range of addresses of device memory. It is much larger than the memory that a program uses,
// so that no address is used twice.
constexpr size_t kAddressBytes = size_t{4} << 40;

struct Block {
  size_t bytes = 0;
  int device = 0;
  char* pages = nullptr;
  size_t pages_bytes = 0;
};

struct State {
  State();

  char* addresses = nullptr;
  size_t used_address_bytes = 0;
  std::map<const char*, Block> blocks;        // blocks by their beginning
  std::map<const char*, size_t> host_blocks;  // pinned host blocks
  size_t used_bytes[kDevices] = {};
  std::vector<const char*> open_blocks;  // blocks that the running work has already opened
  int accesses = 0;
};

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local bool runs_work = false;

State& Global();

// Returns the block that contains this address, or the map's end.
template <class Map>
auto Find(Map& blocks, const void* address) {
  auto block = blocks.upper_bound(static_cast<const char*>(address));
  if (block == blocks.begin()) return blocks.end();
  --block;
  return block;
}

bool IsDeviceAddress(const void* address) {
  const auto* const byte = static_cast<const char*>(address);
  return byte >= Global().addresses && byte < Global().addresses + kAddressBytes;
}

void Protect(const Block& block, int protection) {
  if (mprotect(block.pages, block.pages_bytes, protection) != 0) std::abort();
}

// Opens a block for the work at its first access. A forbidden access ends the program.
void HandleFault(int number, siginfo_t* info, void*) {
  State& state = Global();
  const auto* const address = static_cast<const char*>(info->si_addr);
  const auto block = Find(state.blocks, address);
  if (state.accesses > 0 && runs_work && block != state.blocks.end() &&
      address < block->second.pages + block->second.pages_bytes) {
    Protect(block->second, PROT_READ | PROT_WRITE);
    state.open_blocks.push_back(block->first);
    return;
  }
  if (IsDeviceAddress(address)) {
    const std::string running = runs_work ? RunningThread() : "the host";
    std::fprintf(stderr, "emulated CUDA: %s: touches %s\n", running.c_str(),
                 runs_work ? "device memory beyond a block, or one that was freed" : "device memory");
  }
  signal(number, SIG_DFL);  // after the return the fault occurs again
}

State::State() {
  addresses = static_cast<char*>(
      mmap(nullptr, kAddressBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (addresses == MAP_FAILED) std::abort();
  struct sigaction action {};
  action.sa_sigaction = HandleFault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

State& Global() {
  static State* const state = new State;
  return *state;
}

size_t RoundUp(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

bool IsPinned(const void* address, size_t bytes) {
  const auto block = Find(Global().host_blocks, address);
  return block != Global().host_blocks.end() &&
         static_cast<const char*>(address) + bytes <= block->first + block->second;
}

struct Range {
  const void* address;
  size_t bytes;
};

// Puts `copy` into the stream. Runs it immediately if it accesses pageable memory.
cudaError_t PutCopy(cudaStream_t stream, std::initializer_list<Range> touched, std::function<void()> copy) {
  std::unique_lock lock(Mutex());
  bool is_pageable = false;
  for (const auto& [address, bytes] : touched) {
    if (IsDeviceMemory(address, bytes) || IsPinned(address, bytes)) continue;
    if (IsDeviceAddress(address)) return LastError(cudaErrorInvalidValue);
    is_pageable = true;
  }
  Put(stream, std::move(copy));
  if (is_pageable) Wait(lock, *PutMark(stream));
  return cudaSuccess;
}

// Returns the number of bytes that a matrix spans with `pitch` bytes from row to row.
size_t Extent(size_t pitch, size_t width, size_t height) {
  return height == 0 ? 0 : (height - 1) * pitch + width;
}

// Sets device memory. For whole pages of zeros, the system provides zeros at the next access.
void Fill(char* target, int value, size_t bytes) {
  constexpr size_t kManyBytes = size_t{1} << 20;
  if (value != 0 || bytes < kManyBytes || !IsDeviceMemory(target, bytes)) {
    std::memset(target, value, bytes);
    return;
  }
  char* const first =
      target + RoundUp(reinterpret_cast<uintptr_t>(target), kPageBytes) - reinterpret_cast<uintptr_t>(target);
  const size_t whole = (bytes - static_cast<size_t>(first - target)) / kPageBytes * kPageBytes;
  std::memset(target, 0, static_cast<size_t>(first - target));
  if (madvise(first, whole, MADV_DONTNEED) != 0) std::abort();
  std::memset(first + whole, 0, static_cast<size_t>(target + bytes - (first + whole)));
}

}  // namespace

MemoryAccess::MemoryAccess() {
  ++Global().accesses;
  runs_work = true;
}

MemoryAccess::~MemoryAccess() {
  State& state = Global();
  if (--state.accesses > 0) return;
  runs_work = false;
  for (const char* const begin : state.open_blocks) Protect(state.blocks.at(begin), PROT_NONE);
  state.open_blocks.clear();
}

int CurrentDevice() { return current_device; }

cudaError_t LastError(cudaError_t error) {
  last_error = error;
  return error;
}

bool IsDeviceMemory(const void* address, size_t bytes) {
  const auto block = Find(Global().blocks, address);
  return block != Global().blocks.end() &&
         static_cast<const char*>(address) + bytes <= block->first + block->second.bytes;
}

}  // namespace cuda_emulation

using cuda_emulation::Block;
using cuda_emulation::current_device;
using cuda_emulation::Extent;
using cuda_emulation::Fail;
using cuda_emulation::Fill;
using cuda_emulation::Global;
using cuda_emulation::IsDeviceMemory;
using cuda_emulation::IsPinned;
using cuda_emulation::kAddressBytes;
using cuda_emulation::kAlignment;
using cuda_emulation::kDeviceBytes;
using cuda_emulation::kDevices;
using cuda_emulation::kPageBytes;
using cuda_emulation::last_error;
using cuda_emulation::LastError;
using cuda_emulation::Mutex;
using cuda_emulation::Protect;
using cuda_emulation::PutCopy;
using cuda_emulation::RoundUp;
using cuda_emulation::State;

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
  }
  return "cudaErrorUnknown";
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = kDevices;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= kDevices) return LastError(cudaErrorInvalidDevice);
  *properties = {.name = "emulated GPU",
                 .uuid = {.bytes = {static_cast<char>(device + 1)}},
                 .totalGlobalMem = kDeviceBytes,
                 .major = 8,
                 .minor = 0,
                 .multiProcessorCount = 1};
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kDevices) return LastError(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const std::lock_guard lock(Mutex());
  State& state = Global();
  Block block{.bytes = bytes, .device = current_device, .pages = nullptr, .pages_bytes = 0};
  block.pages_bytes = RoundUp(RoundUp(std::max<size_t>(bytes, 1), kAlignment), kPageBytes);
  if (block.pages_bytes > kDeviceBytes - state.used_bytes[block.device]) {
    return LastError(cudaErrorMemoryAllocation);
  }
  if (state.used_address_bytes + block.pages_bytes + kPageBytes > kAddressBytes) Fail("out of addresses");
  // The block ends at the end of its last page, and the next page stays inaccessible.
  block.pages = state.addresses + state.used_address_bytes;
  state.used_address_bytes += block.pages_bytes + kPageBytes;
  state.used_bytes[block.device] += block.pages_bytes;
  Protect(block, PROT_READ | PROT_WRITE);
  std::memset(block.pages, 0xff, block.pages_bytes);
  Protect(block, PROT_NONE);
  char* const begin = block.pages + block.pages_bytes - RoundUp(std::max<size_t>(bytes, 1), kAlignment);
  state.blocks.emplace(begin, block);
  *memory = begin;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  cudaDeviceSynchronize();
  const std::lock_guard lock(Mutex());
  State& state = Global();
  const auto block = state.blocks.find(static_cast<char*>(memory));
  if (block == state.blocks.end()) return LastError(cudaErrorInvalidValue);
  const auto [bytes, device, pages, pages_bytes] = block->second;
  // Frees the pages and keeps the addresses reserved.
  if (mmap(pages, pages_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
      pages) {
    std::abort();
  }
  state.used_bytes[device] -= pages_bytes;
  state.blocks.erase(block);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  const std::lock_guard lock(Mutex());
  *memory = std::aligned_alloc(kPageBytes, RoundUp(bytes, kPageBytes));
  if (*memory == nullptr) return LastError(cudaErrorMemoryAllocation);
  std::memset(*memory, 0xff, bytes);
  Global().host_blocks.emplace(static_cast<char*>(*memory), bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  const std::lock_guard lock(Mutex());
  if (Global().host_blocks.erase(static_cast<char*>(memory)) == 0) return LastError(cudaErrorInvalidValue);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  const std::lock_guard lock(Mutex());
  *total_bytes = kDeviceBytes;
  *free_bytes = kDeviceBytes - Global().used_bytes[current_device];
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const std::lock_guard lock(Mutex());
  attributes->type = IsDeviceMemory(memory, 1) ? cudaMemoryTypeDevice
                     : IsPinned(memory, 1)     ? cudaMemoryTypeHost
                                               : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return PutCopy(stream, {{target, bytes}, {source, bytes}}, [=] { std::memcpy(target, source, bytes); });
}

cudaError_t cudaMemcpy2DAsync(void* target, size_t target_pitch, const void* source, size_t source_pitch,
                              size_t width, size_t height, cudaMemcpyKind, cudaStream_t stream) {
  if (width > target_pitch || width > source_pitch) return LastError(cudaErrorInvalidValue);
  return PutCopy(
      stream, {{target, Extent(target_pitch, width, height)}, {source, Extent(source_pitch, width, height)}},
      [=] {
        for (size_t row = 0; row < height; ++row) {
          std::memcpy(static_cast<char*>(target) + row * target_pitch,
                      static_cast<const char*>(source) + row * source_pitch, width);
        }
      });
}

cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes, cudaStream_t stream) {
  return PutCopy(stream, {{target, bytes}}, [=] { Fill(static_cast<char*>(target), value, bytes); });
}

cudaError_t cudaMemset2DAsync(void* target, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  if (width > pitch) return LastError(cudaErrorInvalidValue);
  return PutCopy(stream, {{target, Extent(pitch, width, height)}}, [=] {
    for (size_t row = 0; row < height; ++row) {
      std::memset(static_cast<char*>(target) + row * pitch, value, width);
    }
  });
}
