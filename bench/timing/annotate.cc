#include "bench/timing/annotate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "model/error.h"

namespace gradsync::bench {
namespace {

// Ends its range when it has been waited for, or when nobody can wait any more.
class AnnotatedWork : public comm::Work::State {
 public:
  AnnotatedWork(comm::Work work, RangeSink& sink, uint64_t range)
      : work_(std::move(work)), sink_(sink), range_(range) {}
  ~AnnotatedWork() override { Done(); }
  AnnotatedWork(const AnnotatedWork&) = delete;
  AnnotatedWork& operator=(const AnnotatedWork&) = delete;

  void Wait() override {
    work_.Wait();
    Done();
  }
  comm::Interval interval() override { return work_.interval(); }

 private:
  void Done() {
    if (!std::exchange(done_, true)) sink_.Stop(range_);
  }

  comm::Work work_;
  RangeSink& sink_;
  const uint64_t range_;
  bool done_ = false;
};

class AnnotatedGroup : public comm::ProcessGroup {
 public:
  AnnotatedGroup(comm::ProcessGroup& group, RangeSink& sink) : group_(group), sink_(sink) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::string_view backend() const override { return group_.backend(); }
  int num_threads() const override { return group_.num_threads(); }

  model::Tensor Allocate(const model::DevicePtr& device, model::Shape shape, model::DType dtype) override {
    return group_.Allocate(device, std::move(shape), dtype);
  }
  comm::Work AllReduce(model::Tensor tensor, comm::ReduceOp op) override {
    return Annotate(comm::Collective::kAllReduce, tensor.nbytes(),
                    [&] { return group_.AllReduce(std::move(tensor), op); });
  }
  comm::Work Broadcast(model::Tensor tensor, int root) override {
    return Annotate(comm::Collective::kBroadcast, tensor.nbytes(),
                    [&] { return group_.Broadcast(std::move(tensor), root); });
  }
  comm::Work ReduceScatter(model::Tensor input, model::Tensor output, comm::ReduceOp op) override {
    return Annotate(comm::Collective::kReduceScatter, std::max(input.nbytes(), output.nbytes()),
                    [&] { return group_.ReduceScatter(std::move(input), std::move(output), op); });
  }
  comm::Work AllGather(model::Tensor input, model::Tensor output) override {
    return Annotate(comm::Collective::kAllGather, std::max(input.nbytes(), output.nbytes()),
                    [&] { return group_.AllGather(std::move(input), std::move(output)); });
  }
  void Barrier() override {
    sink_.Push(RangeKind::kCollective, comm::Name(comm::Collective::kBarrier));
    group_.Barrier();
    sink_.Pop();
  }

 private:
  template <class Issue>
  comm::Work Annotate(comm::Collective collective, size_t bytes, Issue&& issue) {
    const uint64_t range =
        sink_.Start(RangeKind::kCollective, Join(comm::Name(collective), " ", bytes, " bytes"));
    return comm::Work(std::make_shared<AnnotatedWork>(issue(), sink_, range));
  }

  comm::ProcessGroup& group_;
  RangeSink& sink_;
};

}  // namespace

std::unique_ptr<comm::ProcessGroup> AnnotateCollectives(comm::ProcessGroup& group, RangeSink& sink) {
  return std::make_unique<AnnotatedGroup>(group, sink);
}

}  // namespace gradsync::bench
