#include "bench/timing/annotate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "model/error.h"

namespace gradsync::bench {
namespace {

class AnnotatedTimer : public PhaseTimer {
 public:
  AnnotatedTimer(std::unique_ptr<PhaseTimer> timer, RangeSink& sink)
      : timer_(std::move(timer)), sink_(sink) {}

  // The measured time is inside the ranges or outside of them, never around them.
  void Take(Mark mark) override {
    if (mark == Mark::kStepBegin) {
      sink_.Push(RangeKind::kPhase, "forward");
      timer_->Take(mark);
      return;
    }
    timer_->Take(mark);
    sink_.Pop();
    if (mark == Mark::kForwardEnd) sink_.Push(RangeKind::kPhase, "backward");
    if (mark == Mark::kBackwardEnd) sink_.Push(RangeKind::kPhase, "sync_exposed");
    if (mark == Mark::kSyncEnd) sink_.Push(RangeKind::kPhase, "optimizer");
  }
  StepMarks Read() override { return timer_->Read(); }

 private:
  const std::unique_ptr<PhaseTimer> timer_;
  RangeSink& sink_;
};

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
    if (!std::exchange(done_, true)) sink_.End(range_);
  }

  comm::Work work_;
  RangeSink& sink_;
  const uint64_t range_;
  bool done_ = false;
};

class AnnotatedGroup : public comm::GroupDecorator {
 public:
  AnnotatedGroup(comm::ProcessGroup& group, RangeSink& sink) : GroupDecorator(group), sink_(sink) {}

  comm::Work Issue(comm::Request request) override {
    if (request.collective == comm::Collective::kBarrier) {
      sink_.Push(RangeKind::kCollective, comm::Name(comm::Collective::kBarrier));
      GroupDecorator::Issue(std::move(request)).Wait();
      sink_.Pop();
      return {};
    }
    const uint64_t range = sink_.Start(RangeKind::kCollective,
                                       Join(comm::Name(request.collective), " ", request.bytes(), " bytes"));
    return comm::Work(
        std::make_shared<AnnotatedWork>(GroupDecorator::Issue(std::move(request)), sink_, range));
  }

 private:
  RangeSink& sink_;
};

}  // namespace

void OpAnnotator::Begin(std::string_view name) {
  sink_.Push(RangeKind::kOp, name);
  if (next_ != nullptr) next_->Begin(name);
}

void OpAnnotator::End() {
  if (next_ != nullptr) next_->End();
  sink_.Pop();
}

void OpAnnotator::Computed(std::string_view name, const model::Tensor& output,
                           std::span<const model::Var> inputs) {
  if (next_ != nullptr) next_->Computed(name, output, inputs);
}

std::unique_ptr<PhaseTimer> AnnotatePhases(std::unique_ptr<PhaseTimer> timer, RangeSink& sink) {
  return std::make_unique<AnnotatedTimer>(std::move(timer), sink);
}

std::unique_ptr<comm::ProcessGroup> AnnotateCollectives(comm::ProcessGroup& group, RangeSink& sink) {
  return std::make_unique<AnnotatedGroup>(group, sink);
}

}  // namespace gradsync::bench
