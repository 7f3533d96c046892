#ifndef GRADSYNC_BENCH_TIMING_ANNOTATE_H_
#define GRADSYNC_BENCH_TIMING_ANNOTATE_H_

#include <memory>
#include <span>
#include <string_view>

#include "bench/timing/phase_timer.h"
#include "bench/timing/range_sink.h"
#include "comm/process_group.h"
#include "model/device.h"

// Tells a RangeSink what a training step does. Everything passes what it is told on to the object that it is
// put before, and the sinks must outlive it.
namespace gradsync::bench {

// A nested range for each operation of a backward pass; `next` (null: nobody) hears of all that it hears of.
class OpAnnotator : public model::Tracer {
 public:
  OpAnnotator(RangeSink& sink, model::Tracer* next) : sink_(sink), next_(next) {}
  void Begin(std::string_view name) override;
  void End() override;
  void Computed(std::string_view name, const model::Tensor& output,
                std::span<const model::Var> inputs) override;

 private:
  RangeSink& sink_;
  model::Tracer* const next_;
};

// A nested range for each phase: "forward", "backward", "sync_exposed", "optimizer". As the host sees them:
// with a GPU, which runs behind, that is when a phase's work was given to it.
std::unique_ptr<PhaseTimer> AnnotatePhases(std::unique_ptr<PhaseTimer> timer, RangeSink& sink);

// A range for each collective, such as "all_reduce 1048576 bytes", from its issue to the end of the first
// wait for it: its completion as the host sees it. They overlap each other and the phases. A barrier is a
// nested range. `group` must outlive the result.
std::unique_ptr<comm::ProcessGroup> AnnotateCollectives(comm::ProcessGroup& group, RangeSink& sink);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TIMING_ANNOTATE_H_
