#include "bench/training/trainer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "bench/timing/annotate.h"
#include "bench/timing/op_cost.h"
#include "ddp/factory.h"
#include "model/autograd.h"
#include "model/error.h"
#include "model/functions.h"
#include "model/tensor_ops.h"

namespace gradsync::bench {
namespace {

using model::Parameter;
using model::Tensor;
using model::Var;

std::unique_ptr<model::Optimizer> MakeOptimizer(const OptimizerOptions& options,
                                                std::span<Parameter* const> params) {
  if (options.name == "sgd") {
    return std::make_unique<model::Sgd>(params, model::Sgd::Options{.learning_rate = options.learning_rate});
  }
  return std::make_unique<model::AdamW>(params,
                                        model::AdamW::Options{.learning_rate = options.learning_rate});
}

double ToDouble(const Tensor& scalar) {
  return DispatchFloat(scalar.dtype(), "loss",
                       [&]<class T>() { return static_cast<double>(scalar.ToVector<T>().front()); });
}

Var Scaled(const Var& loss, double factor) { return factor == 1 ? loss : model::Scale(loss, factor); }

bool Same(const ddp::BucketPlan& a, const ddp::BucketPlan& b) {
  return std::ranges::equal(a.buckets, b.buckets, [](const ddp::Bucket& x, const ddp::Bucket& y) {
    return x.params == y.params && x.sent_bytes() == y.sent_bytes();
  });
}

// Listens to the device for as long as it lives.
class Listening {
 public:
  Listening(model::Device& device, model::Tracer* tracer) : device_(device) { device_.set_tracer(tracer); }
  ~Listening() { device_.set_tracer(nullptr); }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  model::Device& device_;
};

}  // namespace

Trainer::Trainer(std::unique_ptr<model::Model> model, const OptimizerOptions& optimizer,
                 const model::DevicePtr& device, comm::RecordingProcessGroup& group, CpuClock cpu_clock)
    : device_(device),
      group_(group),
      cpu_clock_(std::move(cpu_clock)),
      model_(std::move(model)),
      optimizer_(MakeOptimizer(optimizer, params())),
      timer_(MakePhaseTimer(*device)) {
  std::vector<Tensor> buffers;
  for (const model::Buffer& buffer : model_->buffers()) buffers.push_back(buffer.value);
  if (group.rank() == 0) {
    // Not on a GPU: what is measured there is the memory of training alone.
    const model::DevicePtr keeper = device->is_cpu() ? device : model::CpuDevice();
    bytes_apart_ = -bytes_in_use();
    for (const Parameter* const param : params()) initial_values_.push_back(param->value().To(keeper));
    for (const Tensor& buffer : buffers) initial_buffers_.push_back(buffer.To(keeper));
    bytes_apart_ += bytes_in_use();
  }
  buffer_broadcast_ = std::make_unique<ddp::BufferBroadcast>(std::move(buffers));
  ready_.reserve(params().size());
  for (Parameter* const param : params()) {
    // Zeroed, so that its pages are there before the first step.
    default_grads_.push_back(Tensor::Zeros(device, param->shape(), param->dtype()));
    param->PlaceGrad(default_grads_.back());
  }
}

int64_t Trainer::num_elements() const {
  return std::accumulate(params().begin(), params().end(), int64_t{0},
                         [](int64_t sum, const Parameter* param) { return sum + param->numel(); });
}

void Trainer::Restart() {
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

std::unique_ptr<ddp::Strategy> Trainer::NewStrategy(const std::string& name, int64_t bucket_bytes,
                                                    comm::RecordingProcessGroup& group) {
  comm::ProcessGroup* used = &group;
  if (ranges_ != nullptr) {
    std::unique_ptr<comm::ProcessGroup>& annotated = annotated_groups_[&group];
    if (annotated == nullptr) annotated = AnnotateCollectives(group, *ranges_);
    used = annotated.get();
  }
  ddp::StrategyOptions options = {.check_gradients = check_gradients_};
  if (bucket_bytes > 0) options.bucket_bytes = static_cast<size_t>(bucket_bytes);
  return ddp::MakeStrategy(name, {params(), *used, options});
}

void Trainer::BeginGradients() {
  for (size_t i = 0; i < default_grads_.size(); ++i) {
    params()[i]->ResetGrad();
    params()[i]->PlaceGrad(default_grads_[i]);
  }
}

void Trainer::Enter(std::string_view phase, Mark mark) {
  // What is measured lies inside the ranges or outside of them, never around them.
  const bool is_first = mark == Mark::kStepBegin, is_last = mark == Mark::kStepEnd;
  phase_ = phase;
  if (ranges_ != nullptr && is_first) ranges_->Push(RangeKind::kPhase, phase);
  timer_->Take(mark);
  if (ranges_ == nullptr || is_first) return;
  ranges_->Pop();
  if (!is_last) ranges_->Push(RangeKind::kPhase, phase);
}

StepResult Trainer::Step(ddp::Strategy& strategy, const model::Batch& batch, model::Tracer* tracer,
                         comm::RecordingProcessGroup* group) {
  comm::RecordingProcessGroup& log = group == nullptr ? group_ : *group;
  const int64_t allocations = device_->allocator().stats().source_allocations;
  const ddp::BucketPlan plan = strategy.plan();
  int64_t hooks_ns = 0;
  phase_ = "start";
  BeginGradients();
  ready_.clear();
  device_->Synchronize();
  group_.Barrier();
  group_.Clear();
  log.Clear();

  const CpuTimes cpu_before = cpu_clock_.Read();
  Enter("forward", Mark::kStepBegin);
  strategy.BeginStep();
  const int64_t begun_ns = now_();
  if (!model_->buffers().empty()) {
    const model::TraceRange range(tracer, "broadcast_buffers");
    buffer_broadcast_->Run(group_);
  }
  {
    const Listening listening(*device_, tracer);
    const Var loss = Scaled(model_->Loss(batch), strategy.loss_scale());
    Enter("backward", Mark::kForwardEnd);
    Backward(loss, params(), [&](Parameter& param) {
      const int64_t ready_ns = now_();
      ready_.push_back({&param, ready_ns});
      strategy.OnGradReady(param);
      hooks_ns += now_() - ready_ns;
    });
  }
  Enter("synchronisation", Mark::kBackwardEnd);
  strategy.Finish();
  Enter("optimizer", Mark::kSyncEnd);
  optimizer_->Step();
  Enter("end", Mark::kStepEnd);

  StepResult result{.marks = timer_->Read()};
  result.cpu = cpu_clock_.Read() - cpu_before;
  result.begin_ns = result.marks[Mark::kStepBegin];
  result.comm_busy_ns = comm::BusyNs(comm::Intervals(log.Finish()), result.marks[Mark::kForwardEnd],
                                     result.marks[Mark::kStepEnd]);
  result.allocations = device_->allocator().stats().source_allocations - allocations;
  // The host's clock says nothing of a GPU's work.
  if (device_->is_cpu()) {
    result.begin_step_ns = begun_ns - *result.begin_ns;
    result.hooks_ns = hooks_ns;
    result.moments = MomentsOf(plan, result.marks[Mark::kStepBegin], ready_, log.entries());
    const ddp::BucketPlan next = strategy.plan();
    if (!Same(next, plan)) result.moments = UnknownMoments(next.buckets.size());
  }
  return result;
}

double Trainer::CountFlops(const model::Batch& batch) {
  FlopCounter counter;
  const Listening listening(*device_, &counter);
  model_->Loss(batch);
  return counter.flops();
}

double Trainer::Gradients(ddp::Strategy& strategy, const model::Batch& batch) {
  BeginGradients();
  strategy.BeginStep();
  const Var loss = model_->Loss(batch);
  const double value = ToDouble(loss.value());
  Backward(Scaled(loss, strategy.loss_scale()), params(),
           [&](Parameter& param) { strategy.OnGradReady(param); });
  strategy.Finish();
  return value;
}

void Trainer::GradientsAlone(std::span<const model::Batch> batches, double loss_scale) {
  BeginGradients();
  for (const model::Batch& batch : batches) Backward(Scaled(model_->Loss(batch), loss_scale), params());
  for (Parameter* const param : params()) {
    model::Scale(param->grad(), 1 / (loss_scale * static_cast<double>(batches.size())));
  }
}

}  // namespace gradsync::bench
