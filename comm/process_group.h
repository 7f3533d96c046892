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

#include "model/tensor/tensor.h"

// Defines ProcessGroup, the interface through which strategies of gradient synchronisation call communication
// backends.
namespace gradsync::comm {

enum class ReduceOp { kSum, kMean, kMax, kMin };
std::string_view Name(ReduceOp op);  // "sum", "mean", "max", "min"

enum class Collective { kAllReduce, kBroadcast, kReduceScatter, kAllGather, kBarrier };
std::string_view Name(Collective collective);  // "all_reduce", "broadcast", ...

// The argument `waits` of a collective tells when the caller will call Work::Wait for the collective: later
// or at once. All ranks must pass the same value for one collective. kAtOnce promises that Work::Wait is the
// next thing that the caller does after it has issued the collective. So with kAtOnce, a backend may run the
// collective on the thread that calls Work::Wait.
enum class Waits { kLater, kAtOnce };

// An Interval has the start and the end of a collective on this rank, in nanoseconds on the clock that Now()
// reads. The interval starts when a thread or CUDA stream starts to run the collective, includes waits for
// late ranks, and ends when the data has been moved and reduced.
struct Interval {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// Returns the time of the host's steady clock, in nanoseconds.
int64_t Now();
// Formats a duration for error messages: "60.0 s".
std::string Seconds(std::chrono::nanoseconds duration);

// The error that is thrown if a collective fails, or if the ranks cannot connect. ProcessGroup::Allocate and
// AllocateShared throw CollectiveError if they cannot make memory that the ranks share. For example, a
// collective fails if another rank makes no progress for GroupOptions::timeout. What the timeout limits
// depends on the backend. In backend gloo, the timeout limits each wait until a message is received or sent,
// and each wait for the GPU. In backend shm, the timeout limits each wait until the other ranks have done
// their next step of the collective. In backend mpi, the timeout limits the time in which none of the group's
// running collectives ends on this rank. In backend nccl, the timeout limits a collective's time on the GPU,
// and the time of the call that launches the collective. For a failed collective, what() names the rank that
// throws the error, the collective's number, kind and bytes, the backend, the cause, and, if it is known, the
// rank that caused the failure.
class CollectiveError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A Work object is a handle of a collective in flight. Destroying the handle does not cancel the collective.
// The collective keeps its tensors alive until it has ended or Wait() has returned. The call that issues a
// collective does not report a failure of the collective: Wait() and interval() throw CollectiveError.
class Work {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual void Wait() = 0;
    virtual Interval interval() = 0;
    virtual bool Done() = 0;
  };

  Work() = default;  // already complete, with an empty interval
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Waits for the result of the collective: blocks the calling thread until the result is in the tensors.
  // Backend nccl instead makes later work of the GPU's compute stream wait for the collective; it blocks the
  // calling thread only for a barrier, or while the GPU's queue is full. Throws CollectiveError if the
  // collective has failed (with nccl: if the failure is already known).
  void Wait() {
    if (state_ != nullptr) state_->Wait();
  }
  // Returns the times at which the collective started and ended on this rank, on the clock of Now().
  // interval() blocks the calling thread until the collective has ended, and throws CollectiveError if the
  // collective has failed.
  Interval interval() { return state_ == nullptr ? Interval{} : state_->interval(); }
  // Returns true after the collective has ended, also if it has failed. Does not block.
  bool Done() const { return state_ == nullptr || state_->Done(); }

 private:
  std::shared_ptr<State> state_;
};

// One call of a collective on one rank, with its arguments, as a backend receives it in ProcessGroup::Issue.
struct Request {
  Collective collective = Collective::kBarrier;
  ReduceOp op = ReduceOp::kSum;  // used by kAllReduce and kReduceScatter
  int root = -1;                 // used by kBroadcast
  Waits waits = Waits::kLater;
  int64_t sequence = 0;      // number of the collective in its process group, from 0; set by the backend
  bool within_host = false;  // true if a HostGroup issues the collective
  // In an all-reduce or broadcast, `input` and `output` are one tensor. In a barrier, `input` and `output`
  // are undefined tensors.
  model::Tensor input{};
  model::Tensor output{};
  // The backend runs the request when the earlier collective `after` has ended; if `after` has failed, the
  // request fails too. The thread that runs the request calls the function `prepare` immediately before it
  // runs the request, and the function `conclude` immediately after the request has succeeded. An empty
  // function `prepare` or `conclude` is not called. If `after` is Work{}, the request depends on no
  // collective; its queue may still run earlier requests first. Backend nccl ignores `after`, `prepare` and
  // `conclude`. Backend hierarchical sets these three members in requests to its two groups. For a tensor on
  // a GPU, backend gloo replaces `prepare` by a function that waits for the GPU.
  Work after{};
  std::function<void()> prepare{};
  std::function<void()> conclude{};

  // Returns the size in bytes of the larger of `input` and `output`; 0 for a barrier.
  int64_t bytes() const;
  model::DType dtype() const { return output.defined() ? output.dtype() : model::DType::kU8; }
};

// Facts about a process group, such as the number of its threads and the kind of its network, which a
// benchmark program writes into its results (JSON).
struct GroupFacts {
  int channels = 1;  // number of collectives that can progress concurrently
  // Number of threads that receive data from other ranks. Threads that run collectives are not counted.
  int receivers = 0;
  std::string_view link = "other";  // the medium: memory, a network (other) or none
  std::string interface = {};       // name of the network interface; empty if unknown
  // `limit_per_second` is a bus bandwidth, in bytes per second, that no collective of this group can reach.
  // The tables of benchmark results warn if a measured bus bandwidth is higher than this number, because the
  // measurement is then wrong. The default value is for ranks on one machine that exchange data through its
  // main memory. Backends gloo, gloo_own and nccl set other values. Backend hierarchical takes the value of
  // its outer group, or, without one, of its inner group.
  double limit_per_second = 400e9;
  std::vector<std::pair<std::string, std::string>> more = {};  // more facts, as names and values
};

// A ProcessGroup is one rank's access to the group of ranks that train a model together: it has the functions
// for the collectives between these ranks.
//
// Every rank must issue the same collectives in the same order, from one thread at a time. AllReduce,
// Broadcast, ReduceScatter and AllGather usually return before the collective has ended, so several
// collectives may be in flight. These four functions check their arguments on this rank before they send
// anything. They throw InvalidInput, which names the collective, for an undefined tensor, a tensor on another
// device, a mean of integers, a root that is not a rank, or numbers of elements or dtypes of `input` and
// `output` that do not match. Tensors are contiguous. Backends may work directly in a tensor's memory, so no
// other code may access the tensor until Wait() has returned. On a GPU, a collective with tensors starts when
// the compute stream (the CUDA stream of the model's computations) has done the work that was on it before
// the call.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Returns the name of the device on which all tensors of collectives must be, such as "cpu".
  const std::string& device_name() const { return device_name_; }
  virtual std::string_view backend() const = 0;  // "local", or one of BackendNames()
  virtual GroupFacts facts() const { return {}; }
  // For a HostGroup, or a group that wraps one, returns the number of hosts over which its ReduceScatter
  // reduces; else returns 1, even with ranks on several hosts.
  virtual int num_hosts() const { return 1; }
  // Returns the process group of the ranks on this rank's host; null if all ranks are on one host. With
  // several hosts, host_group() of a group that MakeProcessGroup made throws InvalidInput unless the backend
  // is hierarchical and each host has several ranks. If no rank called JoinJob (World::job is null),
  // host_group() of every backend except hierarchical returns null.
  virtual ProcessGroup* host_group() { return nullptr; }

  // Returns a tensor, with undefined contents, in the kind of memory in which this backend's collectives are
  // fastest; use it for data that is sent repeatedly. Allocate is a collective: all ranks must call it in the
  // same order with equal shape and dtype, and it may block until they have. The tensor may outlive the
  // process group. With backend shm, alone or in backend hierarchical, Allocate throws CollectiveError on a
  // rank that cannot get shared memory. The process group then fails on all ranks. With another backend,
  // Allocate throws the errors of Tensor::Empty if memory is missing, and the process group stays usable.
  virtual model::Tensor Allocate(const model::DevicePtr& device, model::Shape shape, model::DType dtype) {
    return model::Tensor::Empty(device, std::move(shape), dtype);
  }
  // Returns one tensor in memory that all ranks share: when a collective has ended, every rank sees what any
  // rank wrote into the tensor before the collective. Only backend shm can share memory, alone or inside
  // backend hierarchical, and only if all ranks of the group are on one host. If the group cannot share
  // memory or has only one rank, or if the tensor has 0 bytes, AllocateShared returns an undefined tensor on
  // all ranks. The caller must not pass the shared tensor to a collective. All ranks must call AllocateShared
  // in the same order with equal shape and dtype. On a rank that cannot get the shared memory, AllocateShared
  // throws CollectiveError; the process group then fails on all ranks. In memory statistics, each rank counts
  // an equal share of the shared tensor's bytes.
  virtual model::Tensor AllocateShared(const model::DevicePtr& /*device*/, model::Shape /*shape*/,
                                       model::DType /*dtype*/) {
    return {};
  }

  // Replaces the tensor of every rank by the reduction over the tensors of all ranks. Every backend except
  // mpi, and except hierarchical with mpi inside it, guarantees that the result is bitwise equal on all
  // ranks.
  Work AllReduce(model::Tensor tensor, ReduceOp op, Waits waits = Waits::kLater);
  // Replaces the tensor of every rank by a copy of the tensor of rank `root`.
  Work Broadcast(model::Tensor tensor, int root, Waits waits = Waits::kLater);
  // Reduces, on each rank, one part of the inputs: `input` has size() parts of n elements each, in the order
  // of the ranks, and `output` has n elements. The output of rank r becomes the reduction of part r of the
  // inputs of all ranks. `output` may be this rank's own part of `input`; the contents of the rest of `input`
  // are then undefined. Parts have equal size, so a caller that shards a vector must pad it to a multiple of
  // size() elements.
  Work ReduceScatter(model::Tensor input, model::Tensor output, ReduceOp op);
  // Joins the inputs of all ranks in rank order, and writes the result to the output of every rank. `input`
  // has n elements, and `output` has n elements for each rank. `input` may be this rank's part of `output`.
  Work AllGather(model::Tensor input, model::Tensor output);
  // Returns when every rank has called Barrier and all earlier collectives of this rank are done. Throws
  // CollectiveError if the barrier fails.
  void Barrier() { Issue({.waits = Waits::kAtOnce}).Wait(); }

  // Makes all unfinished and later collectives of this group fail, on this rank and on the other ranks. Abort
  // does nothing in a process group of backend nccl, and in a HostGroup. With backend mpi, Abort ends no
  // collective of other ranks: these fail when their timeout has passed. Abort may be called from any thread.
  virtual void Abort() {}

  // Starts the collective that `request` describes, without a check of its arguments. AllReduce, Broadcast,
  // ReduceScatter and AllGather check their arguments, and then call Issue.
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

// Base class for wrappers of a process group: forwards to that group the virtual calls that a derived class
// does not override.
class GroupDecorator : public ProcessGroup {
 public:
  explicit GroupDecorator(std::unique_ptr<ProcessGroup> inner) : GroupDecorator(*inner) {
    owned_ = std::move(inner);
  }
  // This constructor wraps `inner` without owning it: `inner` must outlive this object.
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

// A HostGroup is the process group of the ranks on this rank's host, made from the process group of all
// ranks. A sharding strategy divides vectors, such as the parameters, among the ranks of its group. With a
// HostGroup, the ranks of each host together store a whole copy of these vectors: each rank stores an equal
// part. ReduceScatter of a HostGroup reduces over the ranks of all hosts: first within each host, then
// between the ranks of different hosts that have the same part. HostGroup's ReduceScatter rounds each host's
// sums or means of bf16 elements to bf16 before it reduces them between hosts. AllReduce, Broadcast,
// AllGather and Barrier of a HostGroup exchange data only between the ranks of one host.
class HostGroup : public ProcessGroup {
 public:
  // `all` is the process group of all ranks, which must outlive this object; all.host_group() must not be
  // null.
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
