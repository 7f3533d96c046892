
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/training/verification/verifier.h"
#include "comm/testing/local_process_group.h"
#include "comm/testing/rank_threads.h"
#include "model/transformer/transformer.h"

namespace gradsync::bench {
namespace {

using model::Batch;
using model::DType;
using model::Tensor;

TrainingVariant VariantOf(const std::string& text) {
  const std::vector<std::string> texts = {text};
  return MakeVariants("variants", texts, {.backends = {"gloo"}, .bucket_bytes = {512}}).front();
}

// The steps of one variant under the name of another.
class Disguised : public Stepper {
 public:
  Disguised(const Setting& setting, const TrainingVariant& name, Stepper& inner)
      : Stepper(setting, name), inner_(inner) {}

  StepResult Step(const Batch& batch, model::Tracer* tracer) override { return inner_.Step(batch, tracer); }
  double loss_scale() const override { return inner_.loss_scale(); }
  void StepFromStart(const Batch& batch) override { inner_.StepFromStart(batch); }
  void StepOn(const Batch& batch) override { inner_.StepOn(batch); }
  void Introduce(Record& record) const override { inner_.Introduce(record); }
  void Describe(FactFields& facts) const override { inner_.Describe(facts); }

 private:
  Stepper& inner_;
};

// The agreement of rank 0 on `name`. Both ranks take the steps of `taken`.
Agreement AgreementOn(const std::string& name, const std::string& taken) {
  auto groups = comm::MakeLocalGroups(2);
  std::vector<Agreement> agreements(2);
  comm::RunRanks(2, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    comm::RecordingProcessGroup group(std::move(groups[r]));
    const model::DevicePtr device = model::CpuDevice();
    model::TransformerConfig config;
    config.d_model = config.d_ff = 16;
    config.num_layers = config.num_heads = 1;
    config.vocab_size = 32;
    config.context_length = 8;
    Trainer trainer(std::make_unique<model::Transformer>(config, device, DType::kF32, 0), {}, device, group,
                    CpuClock(ThreadIds()));
    const Tensor ids = Tensor::Empty(device, {4, 8}, DType::kI32);
    for (int i = 0; i < 32; ++i) ids.data<int32_t>()[i] = (i * i + 7 * i + 11 * rank) % 32;
    const Setting setting;
    const TrainingVariant claimed = VariantOf(name), variant = VariantOf(taken);
    const std::unique_ptr<Stepper> inner = MakeOwnStepper(setting, variant, trainer, group);
    Disguised stepper(setting, claimed, *inner);
    agreements[r] = CheckEquation(stepper, {ids, ids}, trainer);
  });
  EXPECT_EQ(agreements[0].passed(), agreements[1].passed());
  return agreements[0];
}

TEST(EquationTest, StepsOfTheVariantPass) {
  std::vector<std::string> variants = {"powersgd:rank=1", "topk:percent=20",
                                       "diloco:period=2,outer_rate=1,outer_momentum=0"};
  for (const std::string& name : ddp::StrategyNames()) {
    const ddp::Traits& traits = ddp::TraitsOf(name);
    if (traits.reference == nullptr) continue;
    const std::string_view period = traits.OptionFor(ddp::Option::Role::kPeriod);
    if (period.empty()) variants.push_back(name);
    for (const char* steps : {"=1", "=3"})
      if (!period.empty()) variants.push_back(Join(name, ":", period, steps));
  }
  for (const std::string& name : variants) EXPECT_EQ(DescribeFault(name, AgreementOn(name, name)), "");
}

TEST(EquationTest, StepsOfAnotherAreFound) {
  const std::pair<const char*, const char*> pairs[] = {
      {"powersgd:rank=2", "powersgd:rank=1"},
      {"powersgd:rank=1", "powersgd:rank=2"},
      {"powersgd:rank=2", "naive"},
      {"topk:percent=10", "topk:percent=11"},
      {"topk:percent=10", "naive"},
      {"topk:percent=10", "topk:percent=10,feedback=0"},  // from the second step on
      {"bf16_wire", "topk:percent=90"},
      {"local_sgd:period=2", "local_sgd:period=3"},
      {"local_sgd:period=2", "diloco:period=2"},
      {"diloco:period=2", "local_sgd:period=2"},
      {"diloco:period=2", "diloco:period=2,outer_momentum=0"},
      {"diloco:period=2", "diloco:period=2,outer_rate=0.6"},
  };
  for (const auto& [name, taken] : pairs) {
    const Agreement agreement = AgreementOn(name, taken);
    EXPECT_FALSE(agreement.grads_equal() && agreement.params_equal()) << name << ", taken: " << taken;
    EXPECT_TRUE(agreement.replicas_equal) << taken;
  }
}

TEST(EquationTest, ReplicasThatPartAreFound) {
  EXPECT_FALSE(AgreementOn("local_sgd:period=2", "none").passed());
}

}  // namespace
}  // namespace gradsync::bench
