#include "model/tensor/cuda_clock.h"

#include <chrono>
#include <limits>
#include <utility>

namespace gradsync::model {
namespace {

constexpr int kRoundTrips = 3;

int64_t HostNs() {
  const auto since_epoch = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
}

}  // namespace

CudaAnchor::CudaAnchor(CudaDevice& device) : event_(device, CudaEvent::Timing::kOn) {
  device.Synchronize();
  CudaEvent candidate(device, CudaEvent::Timing::kOn);
  int64_t shortest_ns = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < kRoundTrips; ++i) {
    const int64_t begin_ns = HostNs();
    candidate.Record(device.compute_stream());
    candidate.Synchronize();
    const int64_t round_trip_ns = HostNs() - begin_ns;
    if (round_trip_ns >= shortest_ns) continue;
    shortest_ns = round_trip_ns;
    host_ns_ = begin_ns + round_trip_ns / 2;
    std::swap(event_, candidate);
  }
}

int64_t CudaAnchor::TimeOf(const CudaEvent& event) const {
  constexpr double kNsPerMs = 1e6;
  return host_ns_ + static_cast<int64_t>(event.MillisecondsSince(event_) * kNsPerMs);
}

CudaClock::CudaClock(Device& device)
    : device_(CudaDevice::Of(device, "clock")), anchor_(std::make_shared<const CudaAnchor>(device_)) {}

std::shared_ptr<const CudaAnchor> CudaClock::Anchor() {
  auto anchor = std::make_shared<const CudaAnchor>(device_);
  const std::lock_guard lock(mutex_);
  anchor_ = anchor;
  return anchor;
}

std::shared_ptr<const CudaAnchor> CudaClock::anchor() const {
  const std::lock_guard lock(mutex_);
  return anchor_;
}

}  // namespace gradsync::model
