#ifndef GRADSYNC_COMM_PROCESS_GROUP_H_
#define GRADSYNC_COMM_PROCESS_GROUP_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/tensor.h"

// The one interface between strategies and communication backends.
namespace gradsync::comm {

enum class ReduceOp { kSum, kMean, kMax, kMin };
std::string_view Name(ReduceOp op);  // "sum", "mean", "max", "min"

enum class Collective { kAllReduce, kBroadcast, kReduceScatter, kAllGather, kBarrier };
std::string_view Name(Collective collective);  // "all_reduce", "broadcast", ...

// When a collective moved data, on the clock of Now(): from the moment a communication thread or stream took
// it up, to its completion.
struct Interval {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// Nanoseconds on the steady clock that all host-side intervals are on.
int64_t Now();
// "60.0 s": how messages name a duration.
std::string Seconds(std::chrono::nanoseconds duration);

// A collective failed, or made no progress within the deadline. what() is one line with rank, sequence
// number, operation, bytes, backend, cause, and the peer if it is known.
class CollectiveError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A collective in flight. Copying copies a handle. Dropping it does not cancel the collective, which keeps
// its tensors alive; but a failure is seen only by Wait.
class Work {
 public:
  // What a backend implements.
  class State {
   public:
    virtual ~State() = default;
    virtual void Wait() = 0;
    virtual Interval interval() = 0;
  };

  Work() = default;  // already complete, with an empty interval
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // CPU: blocks until the result is in the tensors. CUDA: orders later work of the compute stream after the
  // collective; nccl does not block the host, gloo, whose collectives run there, does. Throws
  // CollectiveError, at every call, if the collective is known to have failed.
  void Wait() {
    if (state_ != nullptr) state_->Wait();
  }
  // When the data moved. Blocks until it has.
  Interval interval() { return state_ == nullptr ? Interval{} : state_->interval(); }

 private:
  std::shared_ptr<State> state_;
};

// The ranks that train together, and the collectives between them.
//
// Every rank issues the same collectives in the same order, from one thread at a time. Calls return at once;
// several collectives may be in flight. Tensors must be contiguous (they always are), are used in place, and
// must not be touched until Wait has returned. A collective starts after work already given to the device.
// Bad arguments throw InvalidInput before anything is sent.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view backend() const = 0;  // "local", "gloo", "shm", "hierarchical", "nccl"
  // How many collectives can make progress at the same time, for the record.
  virtual int num_threads() const = 0;
  // What else a record should say of the group, as names and values. "interface": the network interface that
  // it communicates over.
  virtual std::vector<std::pair<std::string, std::string>> facts() const { return {}; }

  // A tensor of memory where this backend reduces fastest, for what is sent again and again. Contents are
  // undefined. A collective like the others: every rank calls it in the same order with the same shape and
  // dtype; it may block until all have. The tensor may outlive the group. Throws CollectiveError.
  virtual model::Tensor Allocate(const model::DevicePtr& device, model::Shape shape, model::DType dtype) {
    return model::Tensor::Empty(device, std::move(shape), dtype);
  }

  // Every rank's tensor becomes the reduction over all ranks. Bitwise equal on all ranks.
  virtual Work AllReduce(model::Tensor tensor, ReduceOp op) = 0;
  // Every rank's tensor becomes root's.
  virtual Work Broadcast(model::Tensor tensor, int root) = 0;
  // input: size() * n elements; output: n. Rank r's output becomes the reduction of everyone's r-th n
  // elements. output may be that very part of input; the rest of input is then left undefined.
  virtual Work ReduceScatter(model::Tensor input, model::Tensor output, ReduceOp op) = 0;
  // input: n elements; output: size() * n. Everyone's output becomes all inputs in rank order.
  // input may be this rank's part of output.
  virtual Work AllGather(model::Tensor input, model::Tensor output) = 0;
  // Returns when every rank has called it and all earlier collectives of this rank are done.
  virtual void Barrier() = 0;

 protected:
  ProcessGroup() = default;
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_PROCESS_GROUP_H_
