#include "bench/collectives/memory_limit.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bench/launch/over_ranks.h"
#include "bench/records/record.h"
#include "comm/processes/file_descriptor.h"
#include "model/base/error.h"

namespace gradsync::bench {
namespace {

constexpr size_t kOffset = 4096;  // offset of the vector, after the counter of turns

// The number of ranks is a template parameter, so that the compiler makes a single loop of vector
// instructions.
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

model::Tensor MemoryLimit::Allocate(const model::DevicePtr& device, model::Shape shape, model::DType dtype) {
  const size_t bytes = kOffset + static_cast<size_t>(model::Numel(shape)) * SizeOf(dtype);
  comm::FileDescriptor file;
  if (rank() == 0)
    file = comm::MakeMemoryFile(comm::SharedMemory::PartBytes(bytes) * static_cast<size_t>(size()));
  const std::string path = BroadcastText(group_, device, Join("/proc/", getpid(), "/fd/", file.get()));
  if (rank() != 0) file = comm::OpenFile(path, O_RDWR);
  memory_ = std::make_shared<comm::SharedMemory>(file, bytes, size(), rank());
  num_turns_ = 0;
  group_.Barrier();
  return model::Tensor::Over(device, std::shared_ptr<void>(memory_, memory_->part(rank()) + kOffset),
                             std::move(shape), dtype);
}

std::atomic<int64_t>& MemoryLimit::turns(int rank) const {
  return *reinterpret_cast<std::atomic<int64_t>*>(memory_->part(rank));
}

void MemoryLimit::WaitForAll() {
  const int64_t start_ns = comm::Now();
  turns(rank()).store(++num_turns_);
  for (int rank = 0; rank < size(); ++rank) {
    for (int64_t spins = 1; turns(rank).load() < num_turns_; ++spins) {
      __builtin_ia32_pause();
      if (spins % 4096 != 0) continue;
      sched_yield();  // for hosts with more ranks than CPUs
      if (std::chrono::nanoseconds(comm::Now() - start_ns) > timeout_) {
        throw std::runtime_error(
            Join(kMemoryLimit, ": rank ", rank, " made no progress for ", comm::Seconds(timeout_)));
      }
    }
  }
}

comm::Work MemoryLimit::Issue(comm::Request request) {
  if (memory_ == nullptr || request.output.raw_data() != memory_->part(rank()) + kOffset)
    return group_.Issue(std::move(request));
  std::vector<float*> vectors;
  for (int rank = 0; rank < size(); ++rank)
    vectors.push_back(reinterpret_cast<float*>(memory_->part(rank) + kOffset));
  const int64_t numel = request.output.numel();
  WaitForAll();
  SumAny(std::make_index_sequence<kMaxMemoryLimitRanks>(), vectors, numel * rank() / size(),
         numel * (rank() + 1) / size());
  WaitForAll();
  return {};
}

}  // namespace gradsync::bench
