#ifndef GRADSYNC_COMM_PROCESS_GROUP_H_
#define GRADSYNC_COMM_PROCESS_GROUP_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
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

// When the caller waits for a collective, the same on all ranks. kAtOnce: before it does anything else. Its
// own thread may then run the collective, so that no other has to be woken.
enum class Waits { kLater, kAtOnce };

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

// A handle of a collective in flight. Dropping it does not cancel the collective, which keeps its tensors
// alive. Only Wait tells of a failure.
class Work {
 public:
  // What a backend implements.
  class State {
   public:
    virtual ~State() = default;
    virtual void Wait() = 0;
    virtual Interval interval() = 0;
    virtual bool Done() = 0;
  };

  Work() = default;  // already complete, with an empty interval
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // CPU: blocks until the result is in the tensors. CUDA: orders later work of the compute stream after the
  // collective; nccl does not block the host, gloo, whose collectives run there, does. Throws
  // CollectiveError, at every call, if the collective is known to have failed.
  void Wait() {
    if (state_ != nullptr) state_->Wait();
  }
  // When the data moved. Blocks until it has. Throws like Wait.
  Interval interval() { return state_ == nullptr ? Interval{} : state_->interval(); }
  // Whether the data has moved, or never will because the collective has failed. Does not block.
  bool Done() const { return state_ == nullptr || state_->Done(); }

 private:
  std::shared_ptr<State> state_;
};

// One collective of one rank, as a backend takes it.
struct Request {
  Collective collective = Collective::kBarrier;
  ReduceOp op = ReduceOp::kSum;  // of kAllReduce and kReduceScatter
  int root = -1;                 // of kBroadcast
  Waits waits = Waits::kLater;
  int64_t sequence = 0;      // counts the collectives of this rank from 0; the backend sets it
  bool within_host = false;  // for the ranks of each host, see HostGroup
  // In place: the same tensor twice. A barrier has none.
  model::Tensor input{};
  model::Tensor output{};
  // For a part of a larger collective, on the CPU. The request starts after the work `after`, and fails if
  // that fails. The thread that runs the request calls `prepare` right before it and `conclude` right after
  // it. All may be empty.
  Work after{};
  std::function<void()> prepare{};
  std::function<void()> conclude{};

  // The whole vector: the larger of the two tensors.
  int64_t bytes() const;
  model::DType dtype() const { return output.defined() ? output.dtype() : model::DType::kU8; }
};

// What a record says of a group.
struct GroupFacts {
  int channels = 1;                 // so many collectives make progress at the same time
  int receivers = 0;                // threads that only receive, beside those that communicate
  std::string_view link = "other";  // what data moves through: memory, a network (other) or none
  std::string interface = {};       // of that network; empty: not known
  // Bytes: more than the fastest link of the kind carries per second. Memory of the host's by default, where
  // a byte is read and written once or twice.
  double limit_per_second = 400e9;
  std::vector<std::pair<std::string, std::string>> more = {};  // names and values
};

// The ranks that train together, and the collectives between them.
//
// Every rank issues the same collectives in the same order, from one thread at a time. Calls return at once;
// several collectives may be in flight. Tensors must be contiguous (they always are), are used in place, and
// must not be touched until Wait has returned. A collective starts after work already given to the device.
// Bad arguments throw InvalidInput, which names the operation, before anything is sent: a tensor that is
// undefined or on another device than the group's, a mean of integers, a root that is not a rank, shapes or
// dtypes that do not go together.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // The name of the device that tensors have to be on: "cpu".
  const std::string& device_name() const { return device_name_; }
  virtual std::string_view backend() const = 0;  // "local", or one of BackendNames()
  virtual GroupFacts facts() const { return {}; }
  // On so many hosts there is a group such as this one, with the same parts: see HostGroup.
  virtual int num_hosts() const { return 1; }
  // The ranks of this rank's host, of a backend that takes Request::within_host. Null: there is no other
  // host. Throws InvalidInput if the backend does not take it, or if each host has one rank.
  virtual ProcessGroup* host_group() { return nullptr; }

  // A tensor in memory where this backend reduces fastest, for data that is sent again and again. Its
  // contents are undefined. This is a collective: every rank calls it in the same order with the same shape
  // and dtype, and it may block until all have. The tensor may outlive the group. Throws CollectiveError;
  // then the group has failed, here and on the other ranks.
  virtual model::Tensor Allocate(const model::DevicePtr& device, model::Shape shape, model::DType dtype) {
    return model::Tensor::Empty(device, std::move(shape), dtype);
  }
  // One tensor for all ranks: what one rank writes before a collective the others see after it. Undefined, on
  // all ranks, if they have no memory in common. Not for collectives. Otherwise like Allocate; each rank's
  // device counts an equal share of the bytes.
  virtual model::Tensor AllocateShared(const model::DevicePtr& /*device*/, model::Shape /*shape*/,
                                       model::DType /*dtype*/) {
    return {};
  }

  // Every rank's tensor becomes the reduction over all ranks. Bitwise equal on all ranks.
  Work AllReduce(model::Tensor tensor, ReduceOp op, Waits waits = Waits::kLater);
  // Every rank's tensor becomes root's.
  Work Broadcast(model::Tensor tensor, int root, Waits waits = Waits::kLater);
  // input: size() * n elements; output: n. Rank r's output becomes the reduction of everyone's r-th n
  // elements. output may be that very part of input; the rest of input is then left undefined. Parts are
  // equal: whoever shards a vector pads it, so that no backend needs a table of offsets.
  Work ReduceScatter(model::Tensor input, model::Tensor output, ReduceOp op);
  // input: n elements; output: size() * n. Everyone's output becomes all inputs in rank order.
  // input may be this rank's part of output.
  Work AllGather(model::Tensor input, model::Tensor output);
  // Returns when every rank has called it and all earlier collectives of this rank are done.
  void Barrier() { Issue({.waits = Waits::kAtOnce}).Wait(); }

  // A group of these ranks alone: rank i of it is members[i]. All of them call this, with the same members
  // and in the same order as other groups; the others need not. Throws InvalidInput unless members are ranks
  // in rising order with this one among them, or if the ranks have not met before (JoinJob); else like
  // MakeProcessGroup, which made this group.
  virtual std::unique_ptr<ProcessGroup> Split(const std::vector<int>& members);
  // Gives the group up: what is unfinished and what comes later fails, here and on the other ranks. From any
  // thread. Where groups are not made of others, does nothing.
  virtual void Abort() {}

  // All of the above, for a request that has been checked.
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

// A group before another, to which it passes everything on that it does not override.
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
  std::unique_ptr<ProcessGroup> Split(const std::vector<int>& members) override {
    return inner_.Split(members);
  }
  void Abort() override { inner_.Abort(); }
  Work Issue(Request request) override { return inner_.Issue(std::move(request)); }

 private:
  ProcessGroup& inner_;
  std::unique_ptr<ProcessGroup> owned_;
};

// The ranks of this rank's host, as a view of the group of all ranks. Each has one part of a vector, and
// every host has all parts. ReduceScatter reduces over the ranks of all hosts: first within each host, then
// between the ranks that have the same part. Nothing is widened: a host's sum of bf16 is rounded to bf16. All
// other collectives stay within the host.
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

#endif  // GRADSYNC_COMM_PROCESS_GROUP_H_
