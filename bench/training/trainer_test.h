#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/training/batches.h"
#include "bench/training/trainer.h"
#include "comm/testing/rank_threads.h"
#include "ddp/factory.h"
#include "model/transformer/transformer.h"
#include "model/vision/resnet.h"

// Functions and types for tests of class Trainer on two ranks, with a transformer of one layer or a small
// ResNet.
namespace gradsync::bench {

inline std::unique_ptr<model::Model> MicroTransformer(const model::DevicePtr& device) {
  model::TransformerConfig config;
  config.d_model = config.d_ff = 8;
  config.num_layers = config.num_heads = 1;
  config.vocab_size = 16;
  config.context_length = 4;
  return std::make_unique<model::Transformer>(config, device, model::DType::kF64, 0);
}

inline model::Batch BatchOf(const model::DevicePtr& device, int rank) {
  const model::Tensor ids = model::Tensor::Empty(device, {2, 4}, model::DType::kI32);
  for (int i = 0; i < 8; ++i) ids.data<int32_t>()[i] = (5 * i + 3 * rank) % 16;
  return {ids, ids};
}

inline std::unique_ptr<model::Model> MicroResNet(const model::DevicePtr& device) {
  const model::ResNetConfig config = {
      .name = "micro", .num_blocks = {1, 1, 1, 1}, .width = 4, .num_classes = 3};
  return std::make_unique<model::ResNet>(config, device, model::DType::kF64, 0);
}

// Returns a batch of three images of 16 x 16 pixels, which depend only on `rank`.
inline model::Batch ImagesOf(const model::DevicePtr& device, int rank) {
  const model::Tensor images = model::Tensor::Empty(device, {3, 3, 16, 16}, model::DType::kF64);
  const model::Tensor targets = model::Tensor::Empty(device, {3, 3}, model::DType::kF64);
  UniformImages(7)->Fill(rank, 0, {images, targets});
  return {images, targets};
}

using MakeModel = std::function<std::unique_ptr<model::Model>(const model::DevicePtr& device)>;

// One of the two ranks of a test: its process group, its device, and its trainer with a copy of the model.
struct Rank {
  Rank(std::unique_ptr<comm::ProcessGroup> inner, const MakeModel& make_model, const TrainerOptions& options)
      : group(std::move(inner)),
        device(model::CpuDevice()),
        trainer(make_model(device), options, device, group, CpuClock(ThreadIds())) {
    trainer.Restart();
  }
  std::unique_ptr<ddp::Strategy> Make(const std::string& name) {
    return trainer.NewStrategy(name, {.bucket_bytes = 512}, group);
  }
  StepResult Step(ddp::Strategy& strategy, const model::Batch& batch) {
    return trainer.Step({strategy, group}, batch);
  }
  std::vector<double> Grad(size_t i) { return trainer.params()[i]->grad().ToVector<double>(); }
  std::vector<std::vector<double>> Grads() {
    std::vector<std::vector<double>> grads;
    for (size_t i = 0; i < trainer.params().size(); ++i) grads.push_back(Grad(i));
    return grads;
  }

  comm::RecordingProcessGroup group;
  model::DevicePtr device;
  Trainer trainer;
};

// A process group in which each call of Work::Wait takes at least 1.5 ms, so that tests find this wait in the
// times that the trainer measures.
class SlowGroup : public comm::GroupDecorator {
 public:
  using GroupDecorator::GroupDecorator;
  comm::Work Issue(comm::Request request) override {
    struct Slow : comm::Work::State {
      void Wait() override { std::this_thread::sleep_for(std::chrono::microseconds(1500)); }
      comm::Interval interval() override { return {}; }
      bool Done() override { return true; }
    };
    GroupDecorator::Issue(std::move(request)).Wait();
    return comm::Work(std::make_shared<Slow>());
  }
};

inline void OnTwoRanks(const std::function<void(Rank& rank)>& body,
                       const MakeModel& make_model = MicroTransformer, const TrainerOptions& options = {},
                       const std::string& backend = "local") {
  auto groups = comm::MakeGroups(backend, 2);
  comm::RunRanks(2, [&](int number) {
    Rank rank(std::move(groups[static_cast<size_t>(number)]), make_model, options);
    body(rank);
  });
}

// Returns the names of gradsync's strategies that support f64 parameters. Leaves out strategies that average
// weights only every few steps.
inline std::vector<std::string> Strategies() {
  std::vector<std::string> names = ddp::StrategyNames();
  std::erase_if(names, [](const std::string& name) {
    const ddp::Traits& traits = ddp::TraitsOf(name);
    return traits.needs_f32 || !traits.OptionFor(ddp::Option::Role::kPeriod).empty();
  });
  return names;
}

}  // namespace gradsync::bench
