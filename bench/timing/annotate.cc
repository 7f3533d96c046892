#include "bench/timing/annotate.h"

#include <utility>

#include "model/base/error.h"

namespace gradsync::bench {
namespace {

// Ends the range after the first wait, or when the work is destroyed.
class AnnotatedWork : public comm::Work::State {
 public:
  AnnotatedWork(comm::Work work, RangeSink& sink, uint64_t range)
      : work_(std::move(work)), sink_(sink), range_(range) {}
  ~AnnotatedWork() override { StopRange(); }
  AnnotatedWork(const AnnotatedWork&) = delete;
  AnnotatedWork& operator=(const AnnotatedWork&) = delete;

  void Wait() override {
    work_.Wait();
    StopRange();
  }
  comm::Interval interval() override { return work_.interval(); }
  bool Done() override { return work_.Done(); }

 private:
  void StopRange() {
    if (!std::exchange(done_, true)) sink_.Stop(range_);
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

std::unique_ptr<comm::ProcessGroup> AnnotateCollectives(comm::ProcessGroup& group, RangeSink& sink) {
  return std::make_unique<AnnotatedGroup>(group, sink);
}

}  // namespace gradsync::bench
