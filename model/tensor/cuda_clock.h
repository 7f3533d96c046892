#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "model/tensor/cuda_device.h"

// Converts events of a GPU to the host's steady clock, so that times on streams and on the host can be
// compared.
namespace gradsync::model {

// A time that is known on both clocks. The difference between the clocks of GPU and host changes by some
// microseconds per second, so use an anchor only for a few seconds.
class CudaAnchor {
 public:
  // Waits for the compute stream, then records an event in it and waits for the event. The time of the event
  // is taken as the middle of this round trip, and the shortest of several round trips is used. The error is
  // at most half a round trip, which is some microseconds.
  explicit CudaAnchor(CudaDevice& device);

  // Returns the time when the GPU reached the event, in ns of std::chrono::steady_clock. The event must be
  // made with timing, recorded after this anchor was made, and done.
  int64_t TimeOf(const CudaEvent& event) const;

 private:
  CudaEvent event_;
  int64_t host_ns_ = 0;
};

// The last anchor of a device. Get it by CudaDevice::Resource<CudaClock>(). Thread safe.
class CudaClock {
 public:
  // Throws InvalidInput unless `device` is a CUDA device.
  explicit CudaClock(Device& device);

  // Takes a new anchor and returns it. Blocks until the compute stream is empty, and for some tens of
  // microseconds more, so call it between steps.
  std::shared_ptr<const CudaAnchor> Anchor();
  // Returns the last anchor.
  std::shared_ptr<const CudaAnchor> anchor() const;

 private:
  CudaDevice& device_;
  mutable std::mutex mutex_;
  std::shared_ptr<const CudaAnchor> anchor_;
};

}  // namespace gradsync::model
