#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "model/tensor/cuda_device.h"

// Declares classes that convert the times of CUDA events to the CPU's steady clock.
namespace gradsync::model {

// A moment whose time is known on the GPU's clock and on the CPU's clock. The two clocks drift apart, so an
// anchor is accurate only for a few seconds.
class CudaAnchor {
 public:
  // Waits until the device's compute stream is empty, then records an event and the CPU's time of the event.
  // The recorded CPU time is usually wrong by a few microseconds.
  explicit CudaAnchor(CudaDevice& device);

  // Returns the time when the GPU reached `event`, in ns of std::chrono::steady_clock. The GPU must have
  // reached `event`, which must be made with Timing::kOn and recorded after this anchor.
  int64_t TimeOf(const CudaEvent& event) const;

 private:
  CudaEvent event_;
  int64_t host_ns_ = 0;
};

// Keeps the newest CudaAnchor of a device, which converts times of CUDA events to CPU times.
// CudaDevice::Resource<CudaClock>() returns the only CudaClock of the device.
class CudaClock {
 public:
  explicit CudaClock(Device& device);

  // Makes a new CudaAnchor (a moment on both clocks), keeps it as the newest one and returns it. The call
  // waits until the device's compute stream is empty. Only the thread that runs the model on the device may
  // call Anchor().
  std::shared_ptr<const CudaAnchor> Anchor();
  // Returns the newest CudaAnchor without making another one; any thread may call anchor().
  std::shared_ptr<const CudaAnchor> anchor() const;

 private:
  CudaDevice& device_;
  mutable std::mutex mutex_;
  std::shared_ptr<const CudaAnchor> anchor_;
};

}  // namespace gradsync::model
