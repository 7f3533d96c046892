#include "bench/training/trainer.h"

#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "bench/timing/annotate.h"
#include "bench/timing/op_cost.h"
#include "model/autograd.h"
#include "model/functions.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::bench {
namespace {

using model::Parameter;
using model::Tensor;
using model::Var;

std::unique_ptr<model::Optimizer> MakeOptimizer(const TrainerOptions& options,
                                                std::span<Parameter* const> params) {
  if (options.optimizer == OptimizerKind::kSgd) {
    return std::make_unique<model::Sgd>(params, model::Sgd::Options{.learning_rate = options.learning_rate});
  }
  const model::AdamW::Options adamw = {.learning_rate = options.learning_rate,
                                       .decay_vectors = options.decay_vectors};
  if (options.optimizer == OptimizerKind::kAdamW) return std::make_unique<model::AdamW>(params, adamw);
  const bool in_bf16 = std::ranges::any_of(params, &Parameter::has_copy);
  return std::make_unique<model::Muon>(params, model::Muon::Options{.adamw = adamw, .in_bf16 = in_bf16});
}

// Returns the i-th of n equal parts of a batch.
model::Batch PartOf(const model::Batch& batch, int64_t i, int64_t n) {
  const auto part = [&](const Tensor& whole) {
    model::Shape shape = whole.shape();
    shape.front() /= n;
    return whole.Slice(i * model::Numel(shape), shape);
  };
  return {part(batch.inputs), part(batch.targets)};
}

Var Scaled(const Var& loss, double factor) { return factor == 1 ? loss : model::Scale(loss, factor); }

// Returns whether the strategy may communicate before the last backward pass begins.
bool CommunicatesEarly(const Turn& turn) {
  return turn.strategy.needs_use_hook() || (turn.strategy.needs_every_pass() && turn.accumulation_steps > 1);
}

// Returns the factor with which gradients are clipped. `squared_norm` returns their sum of squares, and is
// called only if clip_norm is finite.
double ClipScale(double clip_norm, const std::function<double()>& squared_norm) {
  if (std::isinf(clip_norm)) return 1;
  const double norm = std::sqrt(squared_norm());
  return norm > clip_norm ? clip_norm / norm : 1;
}

// The waits for a group so far: the times of all waits and of waits for weights, and the number of waits.
struct Waited {
  int64_t all_ns = 0, gathers_ns = 0;
  size_t count = 0;

  Waited operator-(const Waited& before) const {
    return {all_ns - before.all_ns, gathers_ns - before.gathers_ns, count - before.count};
  }
};

// The values of clocks that are read during a step.
struct Seen {
  StepMarks marks;
  std::array<Waited, kNumMarks> waited;  // waits until each mark
  // Waits until BeginStep and the broadcast of buffers are done. These waits are a part of both.
  Waited waited_before_forward;
  int64_t begun_ns = 0;  // time when BeginStep has returned
  int64_t hooks_ns = 0;  // time in the strategy's hooks, including waits

  Waited waited_until(Mark mark) const { return waited[static_cast<size_t>(mark)]; }
};

// Returns the waits of a step for `group`.
std::vector<StepWait> WaitsOf(const Seen& seen, const comm::RecordingProcessGroup& group) {
  std::vector<StepWait> waits;
  const size_t end = seen.waited_until(Mark::kStepEnd).count;
  for (size_t i = seen.waited_until(Mark::kStepBegin).count; i < end; ++i) {
    const comm::RecordingProcessGroup::WaitEntry& wait = group.waits()[i];
    waits.push_back({.sequence = wait.sequence,
                     .begin_ns = wait.interval.start_ns,
                     .end_ns = wait.interval.end_ns,
                     .is_counted = i >= seen.waited_before_forward.count});
  }
  return waits;
}

// Returns the time of each part of the step. On a GPU only the marks are used, because the host's clock does
// not measure the work of the GPU.
StepTimes TimesOf(const Seen& seen, bool on_cpu, bool tells_gathers) {
  const StepMarks& marks = seen.marks;
  StepTimes times{.forward = marks.Between(Mark::kStepBegin, Mark::kForwardEnd),
                  .backward = marks.Between(Mark::kForwardEnd, Mark::kBackwardEnd),
                  .sync_wait = marks.Between(Mark::kBackwardEnd, Mark::kSyncEnd),
                  .optimizer = marks.Between(Mark::kSyncEnd, Mark::kStepEnd)};
  if (!on_cpu) return times;
  const Waited in_forward = seen.waited_until(Mark::kForwardEnd) - seen.waited_before_forward;
  const Waited in_backward = seen.waited_until(Mark::kBackwardEnd) - seen.waited_until(Mark::kForwardEnd);
  const Waited in_update = seen.waited_until(Mark::kStepEnd) - seen.waited_until(Mark::kSyncEnd);
  times.begin_step = seen.begun_ns - marks[Mark::kStepBegin];
  times.hooks = seen.hooks_ns - in_backward.all_ns;
  *times.forward -= *times.begin_step + in_forward.all_ns;
  *times.backward -= seen.hooks_ns;
  *times.sync_wait += in_forward.all_ns + in_backward.all_ns + in_update.all_ns;
  *times.optimizer -= in_update.all_ns;
  if (!tells_gathers) return times;
  times.forward_wait = in_forward.gathers_ns;
  times.backward_wait = in_backward.gathers_ns;
  *times.sync_wait -= in_forward.gathers_ns + in_backward.gathers_ns;
  return times;
}

}  // namespace

Record MakeSamples(const StepResult& step, int64_t position) {
  Record record;
  const auto add = [&](SampleName name, std::optional<int64_t> value) {
    if (value) record.samples[name] = {*value};
  };
  AddTo(record.samples, step.times);
  add("position", position);
  add("begin_ns", step.begin_ns);
  add("comm_busy_ns", step.comm_busy_ns);
  if (step.cpu) {
    add("compute_cpu_ns", step.cpu->compute_ns);
    add("communication_cpu_ns", step.cpu->communication_ns);
  }
  return record;
}

double ToDouble(const Tensor& scalar) {
  return DispatchFloat(scalar.dtype(), "loss",
                       [&]<class T>() { return static_cast<double>(scalar.ToVector<T>().front()); });
}

Trainer::Trainer(std::unique_ptr<model::Model> model, const TrainerOptions& options,
                 const model::DevicePtr& device, comm::RecordingProcessGroup& group, CpuClock cpu_clock)
    : options_(options),
      device_(device),
      group_(group),
      cpu_clock_(std::move(cpu_clock)),
      model_(std::move(model)),
      optimizer_(MakeOptimizer(options, params())),
      timer_(MakePhaseTimer(*device)) {
  std::vector<Tensor> buffers;
  for (const model::Buffer& buffer : model_->buffers()) buffers.push_back(buffer.value);
  if (group.rank() == 0 && options.restarts) {
    // Initial values are not kept on a GPU, where the measured memory must be the memory of training only.
    const model::DevicePtr keeper = device->is_cpu() ? device : model::CpuDevice();
    for (const Parameter* const param : params()) initial_values_.push_back(param->value().To(keeper));
    for (const Tensor& buffer : buffers) initial_buffers_.push_back(buffer.To(keeper));
  }
  buffer_broadcast_ = std::make_unique<ddp::BufferBroadcast>(std::move(buffers));
}

void Trainer::AllocateGradients() {
  if (!default_grads_.empty()) return;
  for (Parameter* const param : params()) {
    // The memory is zeroed, so that its pages exist before the first step.
    default_grads_.push_back(Tensor::Zeros(device_, param->shape(), param->dtype()));
  }
}

void Trainer::Provide(const ddp::Traits& traits) {
  if (!traits.places_gradients) AllocateGradients();
  if (!traits.owns_state) optimizer_->State();
}

int64_t Trainer::SharedBytes(const ddp::Traits& traits) const {
  size_t bytes = 0;
  for (const Parameter* const param : params()) bytes += param->own_bytes();
  for (const model::Buffer& buffer : model_->buffers()) bytes += buffer.value.nbytes();
  if (!traits.places_gradients)
    for (const Tensor& grad : default_grads_) bytes += grad.nbytes();
  if (!traits.owns_state)
    for (const auto& [name, tensor] : optimizer_->State()) bytes += tensor.nbytes();
  return static_cast<int64_t>(bytes);
}

int64_t Trainer::num_elements() const {
  return std::accumulate(params().begin(), params().end(), int64_t{0},
                         [](int64_t sum, const Parameter* param) { return sum + param->numel(); });
}

void Trainer::TakeValuesBack() {
  for (Parameter* const param : params()) param->TakeBack();
}

void Trainer::Restart() {
  TakeValuesBack();
  for (size_t i = 0; i < initial_values_.size(); ++i)
    params()[i]->MutableValue().CopyFrom(initial_values_[i]);
  for (size_t i = 0; i < initial_buffers_.size(); ++i) {
    model_->buffers()[i].value.CopyFrom(initial_buffers_[i]);
  }
  std::vector<comm::Work> works;
  for (Parameter* const param : params()) works.push_back(group_.Broadcast(param->MutableValue(), 0));
  for (comm::Work& work : works) work.Wait();
  buffer_broadcast_->Run(group_);
  optimizer_->Reset();
}

void Trainer::SetClock(std::unique_ptr<PhaseTimer> timer, std::function<int64_t()> now) {
  timer_ = std::move(timer);
  now_ = std::move(now);
}

std::unique_ptr<ddp::Strategy> Trainer::NewStrategy(const std::string& name,
                                                    const ddp::StrategyOptions& options,
                                                    comm::RecordingProcessGroup& group) {
  Provide(ddp::TraitsOf(name));
  comm::ProcessGroup* used = &group;
  if (options_.ranges != nullptr) {
    std::unique_ptr<comm::ProcessGroup>& annotated = annotated_groups_[&group];
    if (annotated == nullptr) annotated = AnnotateCollectives(group, *options_.ranges);
    used = annotated.get();
  }
  ddp::StrategyOptions all = options;
  all.check_gradients = options_.check_gradients;
  all.is_alone = options_.is_alone;
  return ddp::MakeStrategy(name, {params(), *used, all, optimizer_.get(), model_->units()});
}

void Trainer::BeginGradients() {
  AllocateGradients();
  ResetGradients();
}

// The storage of a strategy is not kept for removed gradients.
void Trainer::ResetGradients() {
  TakeValuesBack();
  for (size_t i = 0; i < params().size(); ++i) {
    params()[i]->ResetGrad();
    params()[i]->PlaceGrad(default_grads_.empty() ? Tensor() : default_grads_[i]);
  }
}

void Trainer::Enter(std::string_view phase, Mark mark) {
  // A measured time is completely inside a range or completely outside of it.
  const bool is_first = mark == Mark::kStepBegin, is_last = mark == Mark::kStepEnd;
  phase_ = phase;
  if (options_.ranges != nullptr && is_first) options_.ranges->Push(RangeKind::kPhase, phase);
  timer_->Take(mark);
  if (options_.ranges == nullptr || is_first) return;
  options_.ranges->Pop();
  if (!is_last) options_.ranges->Push(RangeKind::kPhase, phase);
}

Var Trainer::Forward(const model::Batch& batch, int64_t accumulation_steps, double loss_scale,
                     model::Tracer* tracer, ddp::Strategy* strategy) {
  losses_.clear();
  const auto forward = [&](int64_t i) {
    const Var loss = model_->Loss(PartOf(batch, i, accumulation_steps));
    losses_.push_back(loss.value());
    return Scaled(loss, loss_scale / static_cast<double>(accumulation_steps));
  };
  for (int64_t i = 0; i + 1 < accumulation_steps; ++i) {
    if (strategy == nullptr || !strategy->needs_every_pass()) {
      Backward(forward(i), params());
      continue;
    }
    Backward(
        forward(i), params(), [&](Parameter& param) { strategy->OnGradReady(param); },
        [&](const Parameter& param) { strategy->OnUse(param); });
    strategy->EndPass();
  }
  device_->set_tracer(tracer);
  return forward(accumulation_steps - 1);
}

double Trainer::loss() const {
  double sum = 0;
  for (const Tensor& loss : losses_) sum += ToDouble(loss);
  return sum / static_cast<double>(losses_.size());
}

StepTimes Trainer::TakeStep(const Turn& turn, bool communicates, const model::Batch& batch,
                            model::Tracer* tracer, StepResult& result, std::vector<Tensor>* keep) {
  ddp::Strategy& strategy = turn.strategy;
  Seen seen;
  const auto waited = [&] {
    return Waited{.all_ns = turn.group.waited_ns(),
                  .gathers_ns = turn.group.waited_ns(comm::Collective::kAllGather),
                  .count = turn.group.waits().size()};
  };
  const auto enter = [&](std::string_view phase, Mark mark) {
    Enter(phase, mark);
    seen.waited[static_cast<size_t>(mark)] = waited();
  };
  const auto bytes = [&] { return static_cast<int64_t>(device_->allocator().stats().bytes_in_use); };
  enter("forward", Mark::kStepBegin);
  strategy.BeginStep();
  seen.begun_ns = now_();
  result.built_bytes = bytes();
  if (communicates && !model_->buffers().empty()) {
    const model::TraceRange range(tracer, "broadcast_buffers");
    buffer_broadcast_->Run(turn.group);
  }
  seen.waited_before_forward = waited();
  {
    const absl::Cleanup end = [&] { device_->set_tracer(nullptr); };
    const Var loss = Forward(batch, turn.accumulation_steps, strategy.loss_scale(), tracer, &strategy);
    enter("backward", Mark::kForwardEnd);
    const auto hook = [&](const auto& action) {
      const int64_t begin_ns = now_();
      action();
      seen.hooks_ns += now_() - begin_ns;
    };
    model::UseHook on_use;
    if (strategy.needs_use_hook())
      on_use = [&](const Parameter& param) { hook([&] { strategy.OnUse(param); }); };
    Backward(
        loss, params(), [&](Parameter& param) { hook([&] { strategy.OnGradReady(param); }); }, on_use);
  }
  enter("synchronisation", Mark::kBackwardEnd);
  strategy.Finish();
  if (keep != nullptr) {
    strategy.CompleteGradients();
    for (Parameter* const param : params()) keep->push_back(param->grad().Clone());
  }
  enter("optimizer", Mark::kSyncEnd);
  result.before_update_bytes = bytes();
  SetLearningRate(turn.learning_rate);
  strategy.Update(*optimizer_, ClipScale(turn.clip_norm, [&] { return strategy.SquaredNorm(params()); }));
  enter("end", Mark::kStepEnd);
  result.after_update_bytes = bytes();
  seen.marks = timer_->Read();
  result.marks.push_back(seen.marks);
  if (tracer != nullptr && device_->is_cpu()) result.waits = WaitsOf(seen, turn.group);
  return TimesOf(seen, device_->is_cpu(), CommunicatesEarly(turn));
}

StepResult Trainer::Step(const Turn& turn, const model::Batch& batch, model::Tracer* tracer) {
  comm::RecordingProcessGroup& log = turn.group;
  const int64_t num_steps = turn.num_steps;
  const int64_t allocations = device_->allocator().stats().source_allocations;
  phase_ = "start";
  ResetGradients();
  device_->Synchronize();
  group_.Barrier();
  group_.Clear();
  log.Clear();

  for (int64_t step = 0; step < turn.lead_in_steps; ++step) {
    StepResult ignored;
    TakeStep(turn, true, batch, nullptr, ignored, nullptr);
    ResetGradients();
  }
  StepResult result;
  std::vector<StepTimes> times;
  const CpuTimes cpu_before = cpu_clock_.Read();
  for (int64_t step = 0; step < num_steps; ++step) {
    if (step > 0) ResetGradients();
    const bool communicates = step + 1 == num_steps || turn.lead_in_steps > 0;
    times.push_back(TakeStep(turn, communicates, batch, tracer, result, nullptr));
  }
  const CpuTimes cpu = cpu_clock_.Read() - cpu_before;
  const Mark first = CommunicatesEarly(turn) ? Mark::kStepBegin : Mark::kForwardEnd;
  const auto intervals = comm::Intervals(log.Finish());
  int64_t busy_ns = 0;  // not between steps, which is no part of a step's time
  for (const StepMarks& marks : result.marks)
    busy_ns += comm::BusyNs(intervals, marks[first], marks[Mark::kStepEnd]);
  result.times = MeanOf(times);
  result.begin_ns = result.marks.front()[Mark::kStepBegin];
  result.cpu = {cpu.compute_ns / num_steps, cpu.communication_ns / num_steps};
  result.comm_busy_ns = busy_ns / num_steps;
  result.allocations = device_->allocator().stats().source_allocations - allocations;
  return result;
}

void Trainer::StepWithWholeGradients(const Turn& turn, const model::Batch& batch) {
  std::vector<Tensor> grads;
  StepResult ignored;
  for (int64_t step = 0; step < turn.num_steps; ++step) {
    const bool is_last = step + 1 == turn.num_steps;
    ResetGradients();
    TakeStep(turn, is_last, batch, nullptr, ignored, is_last ? &grads : nullptr);
  }
  turn.strategy.CompleteValues();
  for (size_t i = 0; i < grads.size(); ++i) params()[i]->PlaceGrad(grads[i]);
}

void Trainer::SetLearningRate(double rate) {
  optimizer_->SetLearningRate(rate > 0 ? rate : options_.learning_rate);
}

void Trainer::StepOptimizer(double clip_norm, double learning_rate) {
  SetLearningRate(learning_rate);
  optimizer_->Step(ClipScale(clip_norm, [&] {
    std::vector<Tensor> grads;
    for (Parameter* const param : params()) grads.push_back(param->grad());
    return model::SquaredNorm(grads);
  }));
}

double Trainer::CountFlops(const model::Batch& batch, int64_t accumulation_steps) {
  FlopCounter counter;
  device_->set_tracer(&counter);
  const absl::Cleanup end = [&] { device_->set_tracer(nullptr); };
  model_->Loss(PartOf(batch, 0, accumulation_steps));
  return static_cast<double>(accumulation_steps) * counter.flops();
}

void Trainer::ComputeGradientsAlone(std::span<const model::Batch> batches, int64_t accumulation_steps,
                                    double loss_scale) {
  BeginGradients();
  for (const model::Batch& batch : batches)
    Backward(Forward(batch, accumulation_steps, loss_scale), params());
  for (Parameter* const param : params()) {
    model::Scale(param->grad(), 1 / (loss_scale * static_cast<double>(batches.size())));
  }
}

}  // namespace gradsync::bench
