#pragma once

#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>

#include "comm/queue/request.h"
#include "comm/rendezvous/world.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::comm {

// The error that NcclCommunicator throws if NCCL rejects a call, fails or does not answer in time, or if the
// communicator has been aborted. what() is only the cause: it names neither this rank nor the collective.
class NcclError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An NCCL communicator in nonblocking mode: NCCL's functions return without waiting for other ranks. The
// constructor, destructor and Launch then ask NCCL until the operation is done or has failed, or the timeout
// has passed. However, NCCL's call that launches a collective blocks while the CUDA stream's queue is full.
// If another rank is dead, a full queue stays full until another thread calls Abort. After Abort, the blocked
// call of NCCL returns, and Launch, which made the call, throws NcclError.
class NcclCommunicator {
 public:
  // The constructor returns when all ranks of `world` have connected to each other. Throws CollectiveError if
  // ranks are missing or NCCL fails.
  NcclCommunicator(const World& world, const model::CudaDevice& device, std::chrono::milliseconds timeout);
  // The destructor waits until the other ranks also destroy their communicators, at most for the timeout.
  // After Abort, the destructor does not wait. If the timeout passes or NCCL fails, the destructor aborts
  // this rank's communicator.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // Enqueues the collective of `request` on the CUDA stream `stream`. Usually returns before the GPU has run
  // the collective. For each kind of collective, such as all-reduce, the first call of Launch blocks until
  // the other ranks have also called Launch for this kind. Launch runs a barrier as an all-reduce. Throws
  // NcclError.
  void Launch(const Request& request, const model::CudaStream& stream);
  // Throws NcclError if NCCL has reported an asynchronous error. CheckAsyncError does nothing after Abort,
  // and while another thread is in a call of NCCL.
  void CheckAsyncError();
  // Aborts the communicator: NCCL's kernels that still wait for other ranks end, with undefined results. A
  // second call does nothing.
  void Abort() noexcept;

  // Returns "host:pid", with which NCCL begins this process's lines in its log if NCCL_DEBUG=INFO is set.
  const std::string& log_prefix() const { return log_prefix_; }

 private:
  void Join(const World& world);
  // Calls `call`, which calls one function of NCCL, and returns when NCCL no longer reports ncclInProgress;
  // the GPU may still run a collective then. Throws NcclError.
  void Run(const std::function<ncclResult_t(ncclComm_t)>& call);
  // Calls `call`, which calls one function of NCCL, and returns the value that `call` returns, perhaps
  // ncclInProgress. The caller holds `lock` (on mutex_), which CallOnce releases while NCCL's function runs.
  // Throws NcclError if the communicator has been aborted.
  ncclResult_t CallOnce(std::unique_lock<std::mutex>& lock,
                        const std::function<ncclResult_t(ncclComm_t)>& call);
  [[noreturn]] void Throw(ncclResult_t result);

  const std::chrono::milliseconds timeout_;
  const std::string log_prefix_;
  std::mutex mutex_;           // protects the next two members; never held during a call
  ncclComm_t comm_ = nullptr;  // null after Abort
  bool is_in_call_ = false;    // NCCL allows one call at a time
  std::condition_variable call_ended_;
};

}  // namespace gradsync::comm
