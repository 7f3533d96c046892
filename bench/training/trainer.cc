#include "bench/training/trainer.h"

#include <numeric>
#include <utility>

#include "bench/timing/annotate.h"
#include "model/autograd.h"
#include "model/error.h"
#include "model/functions.h"

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
                 const model::DevicePtr& device, int rank)
    : device_(device),
      model_(std::move(model)),
      optimizer_(MakeOptimizer(optimizer, params())),
      timer_(MakePhaseTimer(*device)) {
  std::vector<Tensor> buffers;
  for (const model::Buffer& buffer : model_->buffers()) buffers.push_back(buffer.value);
  if (rank == 0) {
    // Not on a GPU: what is measured there is the memory of training alone.
    const model::DevicePtr keeper = device->is_cpu() ? device : model::CpuDevice();
    for (const Parameter* const param : params()) initial_values_.push_back(param->value().To(keeper));
    for (const Tensor& buffer : buffers) initial_buffers_.push_back(buffer.To(keeper));
  }
  buffer_broadcast_ = std::make_unique<ddp::BufferBroadcast>(std::move(buffers));
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

void Trainer::Restart(comm::ProcessGroup& group) {
  for (size_t i = 0; i < initial_values_.size(); ++i)
    params()[i]->MutableValue().CopyFrom(initial_values_[i]);
  for (size_t i = 0; i < initial_buffers_.size(); ++i) {
    model_->buffers()[i].value.CopyFrom(initial_buffers_[i]);
  }
  std::vector<comm::Work> works;
  for (Parameter* const param : params()) works.push_back(group.Broadcast(param->MutableValue(), 0));
  for (comm::Work& work : works) work.Wait();
  buffer_broadcast_->Run(group);
  optimizer_->Reset();
}

void Trainer::AnnotatePhases(RangeSink& sink) { timer_ = bench::AnnotatePhases(std::move(timer_), sink); }

void Trainer::BeginGradients() {
  for (size_t i = 0; i < default_grads_.size(); ++i) {
    params()[i]->ResetGrad();
    params()[i]->PlaceGrad(default_grads_[i]);
  }
}

StepResult Trainer::Step(ddp::Strategy& strategy, const model::Batch& batch,
                         comm::RecordingProcessGroup& group, model::Tracer* tracer) {
  BeginGradients();
  device_->Synchronize();
  group.Barrier();
  group.Clear();

  timer_->Take(Mark::kStepBegin);
  if (!model_->buffers().empty()) {
    const model::TraceRange range(tracer, "broadcast_buffers");
    buffer_broadcast_->Run(group);
  }
  strategy.BeginStep();
  {
    const Listening listening(*device_, tracer);
    const Var loss = Scaled(model_->Loss(batch), strategy.loss_scale());
    timer_->Take(Mark::kForwardEnd);
    Backward(loss, params(), [&](Parameter& param) { strategy.OnGradReady(param); });
  }
  timer_->Take(Mark::kBackwardEnd);
  strategy.Finish();
  timer_->Take(Mark::kSyncEnd);
  optimizer_->Step();
  timer_->Take(Mark::kStepEnd);

  StepResult result{.marks = timer_->Read()};
  result.comm_busy_ns = comm::BusyNs(comm::Intervals(group.Finish()), result.marks[Mark::kForwardEnd],
                                     result.marks[Mark::kStepEnd]);
  return result;
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

void Trainer::StepAlone(std::span<const model::Batch> batches) {
  BeginGradients();
  const double share = 1.0 / static_cast<double>(batches.size());
  for (const model::Batch& batch : batches) Backward(Scaled(model_->Loss(batch), share), params());
  optimizer_->Step();
}

}  // namespace gradsync::bench
