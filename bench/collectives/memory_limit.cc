#include "bench/collectives/memory_limit.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bench/launch/rank_main.h"
#include "comm/processes/file_descriptor.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

constexpr size_t kOffset = 4096;  // of the vector, behind the counter of turns

// The number of ranks is known to the compiler, so that it makes one loop of it, of vector instructions.
template <size_t kSize>
void Sum(const std::vector<float*>& vectors, int64_t begin, int64_t end) {
  std::array<float*, kSize> x;
  for (size_t rank = 0; rank < kSize; ++rank) x[rank] = vectors[rank];
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) {
    float sum = x[0][i];
    for (size_t rank = 1; rank < kSize; ++rank) sum += x[rank][i];
    for (size_t rank = 0; rank < kSize; ++rank) x[rank][i] = sum;
  }
}

template <size_t... kSizes>
void SumAny(std::index_sequence<kSizes...>, const std::vector<float*>& vectors, int64_t begin, int64_t end) {
  ((vectors.size() == kSizes + 1 ? Sum<kSizes + 1>(vectors, begin, end) : void()), ...);
}

}  // namespace

MemoryLimit::MemoryLimit(comm::ProcessGroup& group, const model::DevicePtr& device, int64_t numel,
                         std::chrono::milliseconds timeout)
    : rank_(group.rank()), size_(group.size()), numel_(numel), timeout_(timeout) {
  const size_t bytes = kOffset + static_cast<size_t>(numel) * sizeof(float);
  comm::FileDescriptor file;
  if (rank_ == 0)
    file = comm::MakeMemoryFile(comm::SharedMemory::PartBytes(bytes) * static_cast<size_t>(size_));
  const std::string path = BroadcastText(group, device, Join("/proc/", getpid(), "/fd/", file.get()));
  if (rank_ != 0) file = comm::OpenFile(path, O_RDWR);
  memory_ = std::make_shared<comm::SharedMemory>(file, bytes, size_, rank_);
  tensor_ = model::Tensor::Over(device, std::shared_ptr<void>(memory_, memory_->part(rank_) + kOffset),
                                {numel}, model::DType::kF32);
  group.Barrier();
}

std::atomic<int64_t>& MemoryLimit::turns(int rank) const {
  return *reinterpret_cast<std::atomic<int64_t>*>(memory_->part(rank));
}

void MemoryLimit::WaitForAll() {
  const int64_t start_ns = comm::Now();
  turns(rank_).store(++num_turns_);
  for (int rank = 0; rank < size_; ++rank) {
    for (int64_t spins = 1; turns(rank).load() < num_turns_; ++spins) {
      __builtin_ia32_pause();
      if (spins % 4096 != 0) continue;
      sched_yield();  // where there are more ranks than CPUs
      if (std::chrono::nanoseconds(comm::Now() - start_ns) > timeout_) {
        throw std::runtime_error(
            Join(kMemoryLimit, ": rank ", rank, " made no progress for ", comm::Seconds(timeout_)));
      }
    }
  }
}

void MemoryLimit::Run() {
  std::vector<float*> vectors;
  for (int rank = 0; rank < size_; ++rank) {
    vectors.push_back(reinterpret_cast<float*>(memory_->part(rank) + kOffset));
  }
  WaitForAll();
  SumAny(std::make_index_sequence<kMaxMemoryLimitRanks>(), vectors, numel_ * rank_ / size_,
         numel_ * (rank_ + 1) / size_);
  WaitForAll();
}

}  // namespace gradsync::bench
