#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "model/tensor/cuda_device.h"

// Declares classes that convert the times of CUDA events to the CPU's steady clock, to compare times on GPU
// and CPU.
namespace gradsync::model {

// A moment whose time is known on the GPU's clock and on the CPU's clock. The two clocks drift apart by some
// microseconds per second, so an anchor is accurate only for a few seconds.
class CudaAnchor {
 public:
  // The constructor waits until the device's compute stream is empty. Then the constructor makes three round
  // trips: in each, it records an event in the stream and blocks the CPU until the GPU has reached the event.
  // The constructor uses only the shortest round trip, and assumes that the GPU reached the event halfway
  // between the begin and the end of this trip. So the CPU's time of the anchor is wrong by at most half of
  // the shortest round trip (some microseconds), plus the resolution of the event's time.
  explicit CudaAnchor(CudaDevice& device);

  // Returns the time when the GPU reached the event, in ns of std::chrono::steady_clock. The event must have
  // been made with Timing::kOn and recorded after this anchor was made, and the GPU must have reached it.
  int64_t TimeOf(const CudaEvent& event) const;

 private:
  CudaEvent event_;
  int64_t host_ns_ = 0;
};

// Keeps a device's newest CudaAnchor, a moment whose time is known on the GPU's and on the CPU's clock. A
// device has one CudaClock: the first call of CudaDevice::Resource<CudaClock>() constructs it, and every call
// returns it.
class CudaClock {
 public:
  explicit CudaClock(Device& device);

  // Measures one moment on the GPU's clock and on the CPU's clock (a CudaAnchor), keeps it as the newest
  // anchor and returns it. The call waits until the compute stream is empty, and some tens of microseconds
  // more, so call Anchor() between training steps. Only the thread that runs the model on the device may call
  // Anchor().
  std::shared_ptr<const CudaAnchor> Anchor();
  // Returns the newest CudaAnchor. The last call of Anchor() has measured this anchor or, if Anchor() was
  // never called, CudaClock's constructor. Any thread may call anchor().
  std::shared_ptr<const CudaAnchor> anchor() const;

 private:
  CudaDevice& device_;
  mutable std::mutex mutex_;
  std::shared_ptr<const CudaAnchor> anchor_;
};

}  // namespace gradsync::model
