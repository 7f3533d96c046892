#include "bench/learning/trial.h"

#include <algorithm>
#include <span>

#include "bench/launch/over_ranks.h"
#include "ddp/buckets/bucket.h"
#include "model/transformer/transformer.h"

namespace gradsync::bench {
namespace {

BatchShape ShapeOf(int64_t rows, int64_t seq_len) {
  return {{rows, seq_len}, model::DType::kI32, {rows, seq_len}, model::DType::kI32};
}

}  // namespace

Trial::Trial(const ConvergencePlan& plan, const TrainingVariant& variant, int64_t seed, const Corpus& text,
             const model::DevicePtr& device, comm::RecordingProcessGroup& run,
             comm::RecordingProcessGroup& group)
    : plan_(plan),
      variant_(variant),
      text_(text),
      run_(run),
      group_(group),
      source_(TextTokens(text.training, static_cast<uint64_t>(seed))),
      trainer_(std::make_unique<model::Transformer>(plan.training.transformer_config(), device,
                                                    plan.training.dtype, static_cast<uint64_t>(seed)),
               {plan.training.OptimizerOf(variant), plan.training.learning_rate, plan.options.decays_vectors},
               device, run, CpuClock(ThreadIds())),
      batch_(ShapeOf(plan.accumulation_steps() * plan.batch_size(), plan.seq_len()).NewBatch(device)) {
  trainer_.Restart();
  strategy_ = trainer_.NewStrategy(variant.strategy, variant.strategy_options(), group);
}

TrialStep Trial::Step() {
  source_->Fill(run_.rank(), num_steps_, batch_);
  TrialStep step{.result = trainer_.Step({.strategy = *strategy_,
                                          .group = group_,
                                          .accumulation_steps = plan_.accumulation_steps(),
                                          .clip_norm = variant_.clip_norm(),
                                          .learning_rate = plan_.LearningRateIn(variant_, num_steps_)},
                                         batch_)};
  ++num_steps_;
  step.loss = trainer_.loss();
  for (const comm::RecordingProcessGroup::Entry& entry : group_.entries())
    step.sent_bytes +=
        ddp::SentBytes(entry.collective, static_cast<double>(entry.bytes), group_.size(), entry.num_hosts);
  group_.Clear();
  return step;
}

double Trial::MeasureHeldOutLoss() {
  strategy_->CompleteValues();  // Necessary because ranks run unequal numbers of forward passes.
  const int64_t length = plan_.seq_len() + 1, count = plan_.options.held_out_windows;
  const int64_t last = static_cast<int64_t>(text_.held_out.size()) - length;
  std::vector<int64_t> mine;
  for (int64_t i = run_.rank(); i < count; i += run_.size())
    mine.push_back(count == 1 ? 0 : i * last / (count - 1));
  double sum = 0;
  const auto full = static_cast<size_t>(plan_.batch_size());
  for (size_t begin = 0; begin < mine.size(); begin += full) {
    const size_t rows = std::min(full, mine.size() - begin);
    const BatchShape shape = ShapeOf(static_cast<int64_t>(rows), plan_.seq_len());
    const model::Batch host = shape.NewBatch(model::CpuDevice());
    for (size_t row = 0; row < rows; ++row) {
      FillRow(std::span(text_.held_out)
                  .subspan(static_cast<size_t>(mine[begin + row]), static_cast<size_t>(length)),
              static_cast<int64_t>(row), host);
    }
    const model::Batch batch = {host.inputs.To(trainer_.device()), host.targets.To(trainer_.device())};
    sum += static_cast<double>(rows) * ToDouble(trainer_.model().Loss(batch).value());
  }
  const double total = ReduceOverRanks(sum, comm::ReduceOp::kSum, run_, trainer_.device());
  run_.Clear();
  return total / static_cast<double>(count);
}

}  // namespace gradsync::bench
