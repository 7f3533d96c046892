#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/tensor.h"

// The interface between strategies and communication backends.
namespace gradsync::comm {

enum class ReduceOp { kSum, kMean, kMax, kMin };
std::string_view Name(ReduceOp op);  // "sum", "mean", "max", "min"

enum class Collective { kAllReduce, kBroadcast, kReduceScatter, kAllGather, kBarrier };
std::string_view Name(Collective collective);  // "all_reduce", "broadcast", ...

// When the caller waits for a collective; equal on all ranks. kAtOnce: before it does anything else. The
// calling thread may then run the collective, so that no other thread must be woken.
enum class Waits { kLater, kAtOnce };

// When a collective moved data, on the clock of Now(): from the time when a communication thread or stream
// started it, to its completion.
struct Interval {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// The steady clock of all host-side intervals, in nanoseconds.
int64_t Now();
// A duration as messages print it: "60.0 s".
std::string Seconds(std::chrono::nanoseconds duration);

// A collective failed, or made no progress within the deadline. what() is one line with rank, sequence
// number, operation, bytes, backend, cause, and the peer if it is known.
class CollectiveError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A handle of a collective in flight. Destroying it does not cancel the collective, which keeps its tensors
// alive. Only Wait and interval report a failure.
class Work {
 public:
  // A backend implements this.
  class State {
   public:
    virtual ~State() = default;
    virtual void Wait() = 0;
    virtual Interval interval() = 0;
    virtual bool Done() = 0;
  };

  Work() = default;  // already complete, with an empty interval
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // CPU: blocks until the result is in the tensors. CUDA: later work of the compute stream runs after the
  // collective. nccl does not block the host; gloo, whose collectives run on the host, blocks it. Throws
  // CollectiveError, at every call, if the collective is known to have failed.
  void Wait() {
    if (state_ != nullptr) state_->Wait();
  }
  // When the data moved. Blocks until it has moved. Throws like Wait.
  Interval interval() { return state_ == nullptr ? Interval{} : state_->interval(); }
  // Whether the data has moved or the collective has failed. Does not block.
  bool Done() const { return state_ == nullptr || state_->Done(); }

 private:
  std::shared_ptr<State> state_;
};

// One collective of one rank, as a backend receives it.
struct Request {
  Collective collective = Collective::kBarrier;
  ReduceOp op = ReduceOp::kSum;  // of kAllReduce and kReduceScatter
  int root = -1;                 // of kBroadcast
  Waits waits = Waits::kLater;
  int64_t sequence = 0;      // counts the collectives of this rank from 0; the backend sets it
  bool within_host = false;  // for the ranks of each host, see HostGroup
  // In place: both are one tensor. A barrier has none.
  model::Tensor input{};
  model::Tensor output{};
  // For a part of a larger collective, on the CPU. The request starts after the work `after`, and fails if
  // `after` fails. The thread that runs the request calls `prepare` right before and `conclude` right after
  // it. All may be empty.
  Work after{};
  std::function<void()> prepare{};
  std::function<void()> conclude{};

  // Bytes of the whole vector, which is the larger of the two tensors.
  int64_t bytes() const;
  model::DType dtype() const { return output.defined() ? output.dtype() : model::DType::kU8; }
};

// Facts about a group, for records.
struct GroupFacts {
  int channels = 1;                 // collectives that can progress at one time
  int receivers = 0;                // threads that only receive, in addition to communication threads
  std::string_view link = "other";  // the medium: memory, a network (other) or none
  std::string interface = {};       // of the network; empty: unknown
  // Bytes per second that no link of this kind reaches. The default is for the host's memory, with one or two
  // reads and writes per byte.
  double limit_per_second = 400e9;
  std::vector<std::pair<std::string, std::string>> more = {};  // names and values
};

// The ranks that train together, and the collectives between them.
//
// Every rank issues the same collectives in the same order, from one thread at a time. Calls return at once;
// several collectives may be in flight. Tensors are always contiguous. Collectives use them in place, so
// nobody may access them until Wait has returned. A collective starts after the work that the device already
// has. Bad arguments throw InvalidInput, which names the operation, before anything is sent: an undefined
// tensor, a tensor on another device, a mean of integers, a root that is not a rank, shapes or dtypes that do
// not match.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // The name of the device of all tensors: "cpu".
  const std::string& device_name() const { return device_name_; }
  virtual std::string_view backend() const = 0;  // "local", or one of BackendNames()
  virtual GroupFacts facts() const { return {}; }
  // The number of hosts that have a group like this one, with the same parts: see HostGroup.
  virtual int num_hosts() const { return 1; }
  // The group of the ranks on this rank's host, if the backend takes Request::within_host. Null: there is
  // only one host. Throws InvalidInput if the backend does not take it, or if each host has one rank.
  virtual ProcessGroup* host_group() { return nullptr; }

  // A tensor in memory that this backend reduces fastest, for data that is sent repeatedly. Its contents are
  // undefined. This is a collective: every rank calls it in the same order with the same shape and dtype, and
  // it may block until all ranks have called it. The tensor may outlive the group. Throws CollectiveError;
  // then the group has failed, here and on the other ranks.
  virtual model::Tensor Allocate(const model::DevicePtr& device, model::Shape shape, model::DType dtype) {
    return model::Tensor::Empty(device, std::move(shape), dtype);
  }
  // One tensor that all ranks share: after a collective every rank sees what any rank wrote before it.
  // Undefined, on all ranks, if they have no common memory. Not for collectives. Otherwise like Allocate;
  // each rank's device counts an equal share of the bytes.
  virtual model::Tensor AllocateShared(const model::DevicePtr& /*device*/, model::Shape /*shape*/,
                                       model::DType /*dtype*/) {
    return {};
  }

  // Every rank's tensor becomes the reduction over all ranks. Bitwise equal on all ranks.
  Work AllReduce(model::Tensor tensor, ReduceOp op, Waits waits = Waits::kLater);
  // Every rank's tensor becomes a copy of root's tensor.
  Work Broadcast(model::Tensor tensor, int root, Waits waits = Waits::kLater);
  // input: size() * n elements; output: n. Rank r's output becomes the reduction of the r-th n elements of
  // all inputs. output may be this part of input; the rest of input is then undefined. Parts are equal: a
  // caller that shards a vector pads it.
  Work ReduceScatter(model::Tensor input, model::Tensor output, ReduceOp op);
  // input: n elements; output: size() * n. Every output becomes all inputs in rank order. input may be this
  // rank's part of output.
  Work AllGather(model::Tensor input, model::Tensor output);
  // Returns when every rank has called it and all earlier collectives of this rank are done.
  void Barrier() { Issue({.waits = Waits::kAtOnce}).Wait(); }

  // Makes all unfinished and later collectives fail, here and on the other ranks. May be called from any
  // thread. Groups that are not made of other groups do nothing.
  virtual void Abort() {}

  // Issues any collective, whose arguments have been checked.
  virtual Work Issue(Request request) = 0;

 protected:
  ProcessGroup(int rank, int size, std::string device_name = "cpu")
      : rank_(rank), size_(size), device_name_(std::move(device_name)) {}

 private:
  void Check(Collective collective, std::string_view role, const model::Tensor& tensor) const;
  void CheckParts(Collective collective, std::string_view whole_role, const model::Tensor& whole,
                  std::string_view part_role, const model::Tensor& part) const;

  const int rank_;
  const int size_;
  const std::string device_name_;
};

// Wraps a group, and forwards every call that it does not override.
class GroupDecorator : public ProcessGroup {
 public:
  explicit GroupDecorator(std::unique_ptr<ProcessGroup> inner) : GroupDecorator(*inner) {
    owned_ = std::move(inner);
  }
  // `inner` must outlive this group.
  explicit GroupDecorator(ProcessGroup& inner)
      : ProcessGroup(inner.rank(), inner.size(), inner.device_name()), inner_(inner) {}

  std::string_view backend() const override { return inner_.backend(); }
  GroupFacts facts() const override { return inner_.facts(); }
  int num_hosts() const override { return inner_.num_hosts(); }
  ProcessGroup* host_group() override { return inner_.host_group(); }
  model::Tensor Allocate(const model::DevicePtr& device, model::Shape shape, model::DType dtype) override {
    return inner_.Allocate(device, std::move(shape), dtype);
  }
  model::Tensor AllocateShared(const model::DevicePtr& device, model::Shape shape,
                               model::DType dtype) override {
    return inner_.AllocateShared(device, std::move(shape), dtype);
  }
  void Abort() override { inner_.Abort(); }
  Work Issue(Request request) override { return inner_.Issue(std::move(request)); }

 private:
  ProcessGroup& inner_;
  std::unique_ptr<ProcessGroup> owned_;
};

// The ranks of this rank's host, as a view of the group of all ranks. Each rank of a host has one part of a
// vector, so every host has all parts. ReduceScatter reduces over all ranks: first within each host, then
// between the ranks that have the same part. A host's sum of bf16 is rounded to bf16 in between. All other
// collectives stay within the host.
class HostGroup : public ProcessGroup {
 public:
  // `all` has a host_group(), and must outlive this.
  explicit HostGroup(ProcessGroup& all) : HostGroup(all, *all.host_group()) {}

  std::string_view backend() const override { return all_.backend(); }
  int num_hosts() const override { return all_.size() / size(); }
  model::Tensor Allocate(const model::DevicePtr& device, model::Shape shape, model::DType dtype) override {
    return all_.Allocate(device, std::move(shape), dtype);
  }
  model::Tensor AllocateShared(const model::DevicePtr& device, model::Shape shape,
                               model::DType dtype) override {
    return host_.AllocateShared(device, std::move(shape), dtype);
  }
  Work Issue(Request request) override {
    request.within_host = true;
    return all_.Issue(std::move(request));
  }

 private:
  HostGroup(ProcessGroup& all, ProcessGroup& host)
      : ProcessGroup(host.rank(), host.size(), all.device_name()), all_(all), host_(host) {}

  ProcessGroup& all_;
  ProcessGroup& host_;
};

}  // namespace gradsync::comm
