#include "model/tensor/cuda_clock.h"

#include <gtest/gtest.h>

#include <chrono>

#include "model/tensor/tensor.h"

namespace gradsync::model {
namespace {

int64_t HostNs() {
  const auto since_epoch = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
}

// How far the clocks may be apart: far above what an anchor is good for, far below what would mislead.
constexpr int64_t kSlackNs = 1'000'000;

TEST(CudaClockTest, EventsLieBetweenTheHostsCalls) {
  const auto device = std::make_shared<CudaDevice>(0);
  CudaClock& clock = device->Resource<CudaClock>();
  const CudaEvent begin(*device, CudaEvent::Timing::kOn), end(*device, CudaEvent::Timing::kOn);
  const Tensor large = Tensor::Empty(device, {1 << 28}, DType::kU8);
  for (int step = 0; step < 5; ++step) {
    const auto anchor = clock.Anchor();
    EXPECT_EQ(clock.anchor(), anchor);
    const int64_t called_ns = HostNs();
    begin.Record(device->compute_stream());
    for (int i = 0; i < 10; ++i) large.Zero();
    end.Record(device->compute_stream());
    device->Synchronize();
    const int64_t done_ns = HostNs();
    EXPECT_GE(anchor->TimeOf(begin), called_ns - kSlackNs);
    EXPECT_GT(anchor->TimeOf(end), anchor->TimeOf(begin));
    EXPECT_LE(anchor->TimeOf(end), done_ns + kSlackNs);
  }
}

}  // namespace
}  // namespace gradsync::model
