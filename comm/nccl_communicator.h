#ifndef GRADSYNC_COMM_NCCL_COMMUNICATOR_H_
#define GRADSYNC_COMM_NCCL_COMMUNICATOR_H_

#include <nccl.h>

#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>

#include "comm/request.h"
#include "comm/world.h"
#include "model/cuda_device.h"

namespace gradsync::comm {

// NCCL refused, failed, or did not answer within the timeout; what() is the cause alone.
class NcclError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An NCCL communicator that never blocks in a call: every call is followed by asking whether it is done, up
// to the timeout. Thread safe: a thread may abort it while another one waits in here, who then gets an
// NcclError.
class NcclCommunicator {
 public:
  // Meets the other ranks, and returns when all are connected. Throws CollectiveError.
  NcclCommunicator(const World& world, const model::CudaDevice& device, std::chrono::milliseconds timeout);
  // Waits up to the timeout for the other ranks to have closed what connects them; else aborts.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // Puts the collective into the stream. Usually returns at once; the first of its kind waits for the other
  // ranks to issue it too. Throws NcclError.
  void Launch(const Request& request, const model::CudaStream& stream);
  // Throws NcclError if something went wrong since.
  void CheckAsyncError();
  // Makes kernels that wait for other ranks return. What they leave behind is undefined. Idempotent.
  void Abort() noexcept;

  // "host:pid", with which NCCL_DEBUG=INFO begins what it says of this process.
  const std::string& log_prefix() const { return log_prefix_; }

 private:
  void Join(const World& world);
  // Returns once the communicator is done with what `result` was the answer to. Throws NcclError.
  void Settle(std::unique_lock<std::mutex>& lock, ncclResult_t result);
  [[noreturn]] void Throw(ncclResult_t result);

  const std::chrono::milliseconds timeout_;
  const std::string log_prefix_;
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;  // null once aborted
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_NCCL_COMMUNICATOR_H_
