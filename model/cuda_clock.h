#ifndef GRADSYNC_MODEL_CUDA_CLOCK_H_
#define GRADSYNC_MODEL_CUDA_CLOCK_H_

#include <cstdint>
#include <memory>
#include <mutex>

#include "model/cuda_device.h"

// Events of a GPU on the host's steady clock, so that what was timed on streams and on the host can be
// compared.
namespace gradsync::model {

// A moment that is known on both clocks. The GPU's clock and the host's drift apart by some microseconds a
// second, so an anchor serves for the seconds after it.
class CudaAnchor {
 public:
  // Waits for the compute stream, then records an event there and sees when it is done; the event lies in the
  // middle of that round trip, and the shortest of a few is kept. So it is right to half a round trip, some
  // microseconds.
  explicit CudaAnchor(CudaDevice& device);

  // When the GPU passed the event, in ns of std::chrono::steady_clock. The event was made with timing, was
  // recorded after this anchor was made, and is done.
  int64_t TimeOf(const CudaEvent& event) const;

 private:
  CudaEvent event_;
  int64_t host_ns_ = 0;
};

// The last anchor of a device: CudaDevice::Resource<CudaClock>(). Thread safe.
class CudaClock {
 public:
  // Throws InvalidInput unless it is a CUDA device.
  explicit CudaClock(Device& device);

  // Takes a new anchor and returns it. Blocks until the compute stream is empty, and some tens of
  // microseconds more: for the moments between steps.
  std::shared_ptr<const CudaAnchor> Anchor();
  // The last one taken.
  std::shared_ptr<const CudaAnchor> anchor() const;

 private:
  CudaDevice& device_;
  mutable std::mutex mutex_;
  std::shared_ptr<const CudaAnchor> anchor_;
};

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_CUDA_CLOCK_H_
