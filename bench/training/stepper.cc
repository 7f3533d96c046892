#include "bench/training/stepper.h"

#include <algorithm>
#include <optional>

#include "bench/timing/range_sink.h"
#include "bench/training/held_memory.h"
#include "ddp/buckets/bucket.h"
#include "model/base/error.h"
#include "model/files/safetensors.h"

namespace gradsync::bench {
namespace {

using model::Batch;
using model::Parameter;

class OwnStepper : public Stepper {
 public:
  OwnStepper(const Setting& setting, const TrainingVariant& variant, Trainer& trainer,
             comm::RecordingProcessGroup& group)
      : Stepper(setting, variant), trainer_(trainer), group_(group) {
    trainer.Provide(*variant.traits);
    const int64_t before = BytesInUse();
    strategy_ = trainer.NewStrategy(variant.strategy, variant.strategy_options(), group);
    own_bytes_ = BytesInUse() - before;
  }
  ~OwnStepper() override { trainer_.ResetGradients(); }
  OwnStepper(const OwnStepper&) = delete;
  OwnStepper& operator=(const OwnStepper&) = delete;

  StepResult Step(const Batch& batch, model::Tracer* tracer) override {
    RangeSink* const ranges = trainer_.ranges();
    if (ranges == nullptr) return TakeStep(batch, tracer);
    ranges->Push(RangeKind::kStep, Join(variant().name(), ", ", setting().name));
    StepResult result = TakeStep(batch, tracer == nullptr ? ranges : tracer);
    ranges->Pop();
    return result;
  }

  std::span<const comm::RecordingProcessGroup::Entry> collectives() const override {
    return group_.entries();
  }

  double loss_scale() const override { return strategy_->loss_scale(); }

  void StepFromStart(const Batch& batch) override {
    trainer_.Restart();
    strategy_->Reset();
    StepOn(batch);
  }

  void StepOn(const Batch& batch) override {
    Turn turn = NextTurn();
    turn.num_steps = variant().period();
    turn.lead_in_steps = 0;
    Locate([&] { trainer_.StepWithWholeGradients(turn, batch); });
    group_.Clear();
  }

  void CompleteValues() override {
    strategy_->CompleteValues();
    group_.Clear();
  }

  void Introduce(Record& record) const override {
    const ddp::BucketPlan plan = strategy_->plan();
    record.facts.Set("places_values", Value(strategy_->places_values()));
    if (const std::optional<double> bytes = strategy_->rows_save_bytes())
      record.facts.Set("rows_save_bytes", Value(*bytes));
    if (const std::optional<double> work = strategy_->largest_work())
      record.facts.Set("largest_work", Value(*work));
    record.facts.Set("sent_bytes_per_step",
                     Value(plan.SentBytes(group_.size()) / static_cast<double>(variant().period())));
    DescribeMemory(trainer_, *strategy_, variant(), group_.size(), setting().accumulation_steps,
                   record.facts);
    for (const ddp::Bucket& bucket : plan.buckets)
      record.buckets.push_back({static_cast<int64_t>(bucket.sent_bytes()), std::ssize(bucket.params),
                                std::string(Name(bucket.collective))});
  }

  void Describe(FactFields& facts) const override {
    facts.Set("peak_bytes_in_use", peak_bytes_);
    facts.Set("built_bytes", built_bytes_);
    facts.Set("before_update_bytes", before_update_bytes_);
    facts.Set("after_update_bytes", after_update_bytes_);
  }

 private:
  model::CachingAllocator& memory() const { return trainer_.device()->allocator(); }
  int64_t BytesInUse() const { return static_cast<int64_t>(memory().stats().bytes_in_use); }

  Turn NextTurn() const {
    return {*strategy_,
            group_,
            variant().turn_steps(),
            variant().lead_in_steps(),
            setting().accumulation_steps,
            variant().clip_norm(),
            variant().learning_rate()};
  }

  // Takes one turn. The gradients remain in the strategy's memory.
  StepResult TakeStep(const Batch& batch, model::Tracer* tracer) {
    trainer_.ResetGradients();  // Gradients of a check may belong to another variant.
    const int64_t before = BytesInUse();
    memory().ResetPeak();
    StepResult result;
    Locate([&] { result = trainer_.Step(NextTurn(), batch, tracer); });
    const auto needed = [&](int64_t bytes_in_use) {
      return bytes_in_use - before + own_bytes_ + trainer_.SharedBytes(*variant().traits);
    };
    peak_bytes_ = std::max(peak_bytes_, needed(static_cast<int64_t>(memory().stats().peak_bytes_in_use)));
    built_bytes_ = needed(result.built_bytes);
    before_update_bytes_ = needed(result.before_update_bytes);
    after_update_bytes_ = needed(result.after_update_bytes);
    own_bytes_ += BytesInUse() - before;
    return result;
  }

  // Adds the position of a failure to its message.
  template <class Action>
  void Locate(const Action& action) {
    const auto where = [&] {
      return Join("; in ", trainer_.phase(), " of ", variant().name(), ", ", setting().name);
    };
    try {
      action();
    } catch (const comm::CollectiveError& error) {
      throw comm::CollectiveError(error.what() + where());
    } catch (const std::exception& error) {
      throw std::runtime_error(error.what() + where());
    }
  }

  Trainer& trainer_;
  comm::RecordingProcessGroup& group_;
  int64_t own_bytes_ = 0;  // bytes of the strategy's buffers
  // The memory that the variant needs, including shared memory: the maximum, and the values of the last step.
  int64_t peak_bytes_ = 0, built_bytes_ = 0, before_update_bytes_ = 0, after_update_bytes_ = 0;
  std::unique_ptr<ddp::Strategy> strategy_;
};

class PeerStepper : public Stepper {
 public:
  PeerStepper(const Setting& setting, const TrainingVariant& variant, PyTorchPeer& process, Trainer& trainer)
      : Stepper(setting, variant), process_(process), trainer_(trainer) {}

  StepResult Step(const Batch& batch, model::Tracer* /*tracer*/) override {
    const PeerStep step = process_.Step(variant().peer(), batch, variant().period());
    peak_bytes_ = std::max(peak_bytes_, step.peak_bytes_in_use);
    return {.times = step.times, .begin_ns = step.begin_ns};
  }

  double loss_scale() const override { return 1; }

  void StepFromStart(const Batch& batch) override {
    const model::SafetensorsFile file = process_.Train(variant().peer(), batch);
    trainer_.BeginGradients();
    for (Parameter* const param : trainer_.params()) {
      file.LoadInto(param->name(), param->MutableValue());
      file.LoadInto("grad." + param->name(), param->grad());
      param->MarkGrad();
    }
  }

  void Introduce(Record& record) const override {
    record.facts.SetAll(process_.FactsOf(variant().peer()));
    record.provenance.libraries = process_.libraries();
    record.provenance.compiler = "";
    record.provenance.clock = process_.clock();
  }

  // PyTorch does not report memory of the host.
  void Describe(FactFields& facts) const override {
    facts.Set("peak_bytes_in_use", peak_bytes_ > 0 ? Value(peak_bytes_) : Value(std::string("unknown")));
  }

 private:
  PyTorchPeer& process_;
  Trainer& trainer_;
  int64_t peak_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Stepper> MakeOwnStepper(const Setting& setting, const TrainingVariant& variant,
                                        Trainer& trainer, comm::RecordingProcessGroup& group) {
  return std::make_unique<OwnStepper>(setting, variant, trainer, group);
}

std::unique_ptr<Stepper> MakePeerStepper(const Setting& setting, const TrainingVariant& variant,
                                         PyTorchPeer& process, Trainer& trainer) {
  return std::make_unique<PeerStepper>(setting, variant, process, trainer);
}

}  // namespace gradsync::bench
