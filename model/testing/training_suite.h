#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "model/optimizer.h"
#include "model/test_step.h"
#include "model/transformer/test_transformer.h"
#include "model/vision/test_resnet.h"

// Defines tests that train a small transformer or ResNet, on the CPU or on a GPU.
namespace gradsync::model {

struct TrainingCase {
  std::string name;
  bool on_images;  // if true, the model is a residual network, else a transformer
  DType dtype;
  std::function<DevicePtr()> device;

  friend std::ostream& operator<<(std::ostream& out, const TrainingCase& c) { return out << c.name; }
};

inline std::vector<TrainingCase> TrainingCases(const std::string& name,
                                               const std::function<DevicePtr()>& device) {
  std::vector<TrainingCase> cases;
  for (const bool on_images : {false, true}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      cases.push_back({Join(on_images ? "resnet" : "transformer", "_", Name(dtype), "_", name), on_images,
                       dtype, device});
    }
  }
  return cases;
}

class TrainingTest : public testing::TestWithParam<TrainingCase> {
 protected:
  // A model, its optimizer and one batch, on which every step trains.
  class Run {
   public:
    explicit Run(const TrainingCase& c)
        : device(c.device()),
          model_(NewModel(c, device)),
          optimizer_(model_->parameters(), {.learning_rate = 0.003}),
          batch_(c.on_images ? RandomImages(device, 4, 64, 64, MicroResNet().num_classes)
                             : RandomTokens(device, TiledTransformer(64), 3, 100, 1)) {}

    // Takes a training step on the batch, and returns the loss before the update.
    Tensor Step() { return model::Step(*model_, optimizer_, batch_); }

    std::vector<float> Values() const {
      std::vector<float> all;
      const auto append = [&](const Tensor& tensor) {
        if (tensor.dtype() != DType::kF32) return;
        const std::vector<float> values = tensor.ToVector<float>();
        all.insert(all.end(), values.begin(), values.end());
      };
      for (const Parameter* p : model_->parameters()) append(p->value());
      for (const Buffer& buffer : model_->buffers()) append(buffer.value);
      return all;
    }

    const DevicePtr device;

   private:
    static std::unique_ptr<Model> NewModel(const TrainingCase& c, const DevicePtr& device) {
      if (c.on_images) return std::make_unique<ResNet>(MicroResNet(), device, c.dtype, 1);
      return std::make_unique<Transformer>(TiledTransformer(64), device, c.dtype, 1);
    }

    const std::unique_ptr<Model> model_;
    AdamW optimizer_;
    const Batch batch_;
  };
};

class LearningTest : public TrainingTest {};

inline std::string TrainingCaseName(const testing::TestParamInfo<TrainingCase>& test) {
  return test.param.name;
}

TEST_P(TrainingTest, IsDeterministic) {
  std::vector<std::vector<float>> results;
  for (int again = 0; again < 2; ++again) {
    Run run(GetParam());
    for (int step = 0; step < 2; ++step) run.Step();
    results.push_back(run.Values());
  }
  EXPECT_EQ(results[0], results[1]);
}

// After the second training step, the device's allocator takes no more memory from the system.
TEST_P(TrainingTest, SteadyStepsTakeNothingFromTheSystem) {
  Run run(GetParam());
  for (int step = 0; step < 2; ++step) run.Step();
  const CachingAllocator::Stats first = run.device->allocator().stats();
  for (int step = 2; step < 5; ++step) {
    run.Step();
    const CachingAllocator::Stats later = run.device->allocator().stats();
    EXPECT_EQ(later.source_allocations, first.source_allocations) << "step " << step;
    EXPECT_EQ(later.bytes_held, first.bytes_held) << "step " << step;
    EXPECT_EQ(later.bytes_in_use, first.bytes_in_use) << "step " << step;
  }
  run.device->Synchronize();
}

TEST_P(LearningTest, ABatchByHeart) {
  Run run(GetParam());
  const float before = run.Step().ToVector<float>()[0];
  for (int step = 1; step < 40; ++step) run.Step();
  EXPECT_LT(run.Step().ToVector<float>()[0], before / 2);
}

}  // namespace gradsync::model
