#include "bench/training/held_memory.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "bench/training/variant.h"
#include "comm/testing/rank_threads.h"
#include "ddp/buckets/bucket.h"
#include "model/transformer/transformer.h"

namespace gradsync::bench {
namespace {

using model::Tensor;

TEST(HeldMemoryTest, WhatTensorsShareCountsOnce) {
  const Tensor all = Tensor::Zeros(model::CpuDevice(), {100}, model::DType::kF32);
  const Tensor other = Tensor::Zeros(model::CpuDevice(), {10}, model::DType::kF32);
  EXPECT_EQ(DistinctBytes({}), 0);
  EXPECT_EQ(DistinctBytes(std::vector{all, other}), 440);
  // Within one another, the same twice, one after the other, overlapping, in any order.
  EXPECT_EQ(DistinctBytes(std::vector{all.Slice(10, {20}), all, all.Slice(90, {10})}), 400);
  EXPECT_EQ(DistinctBytes(std::vector{other, other}), 40);
  EXPECT_EQ(DistinctBytes(std::vector{all.Slice(50, {50}), all.Slice(0, {50})}), 400);
  EXPECT_EQ(DistinctBytes(std::vector{all.Slice(30, {40}), all.Slice(0, {40}), all.Slice(20, {5})}), 280);
}

// On two hosts of two ranks, of 8 bytes an element: half of a vector travels within a host; between hosts, as
// much as an all-reduce of the other half takes.
TEST(HeldMemoryTest, PartsWithinHostsAreAsInTheory) {
  if (comm::OuterAddress().empty()) GTEST_SKIP() << "this machine has no network";
  model::TransformerConfig config;
  config.d_model = config.d_ff = config.vocab_size = 64;
  config.num_layers = config.num_heads = 2;
  config.context_length = 4;
  const std::vector<std::pair<std::string, double>> vectors_kept = {
      {"zero1:within=host", 0.5 + 1 + 1},
      {"zero1:gather=forward:within=host", 1 + 1 + 1},
      {"zero3:within=host", 0.5 + 0.5 + 1}};
  auto groups = comm::MakeGroups("hierarchical", 4, std::chrono::seconds(60), 2);
  comm::RunRanks(4, [&](int rank) {
    comm::RecordingProcessGroup group(std::move(groups[static_cast<size_t>(rank)]));
    const model::DevicePtr device = model::CpuDevice();
    Trainer trainer(std::make_unique<model::Transformer>(config, device, model::DType::kF64, 0), {}, device,
                    group, CpuClock(ThreadIds()));
    trainer.Restart();
    const Tensor ids = Tensor::Zeros(device, {2, 4}, model::DType::kI32);
    const auto bytes = 8 * static_cast<double>(trainer.num_elements());
    for (const auto& [name, kept] : vectors_kept) {
      const TrainingVariant variant =
          MakeVariants("variants", std::vector{name + "@hierarchical"},
                       {.backends = {}, .bucket_bytes = {kDefaultBucketBytes}, .element_bytes = 8})
              .front();
      const auto strategy = trainer.NewStrategy(variant.strategy, variant.strategy_options(), group);
      for (int step = 0; step < 2; ++step) trainer.Step({*strategy, group}, {ids, ids});
      FactFields facts;
      DescribeMemory(trainer, *strategy, variant, 4, 1, facts);
      const auto fact = [&](FactName fact_name) { return facts.DoubleOr(fact_name, -1) / bytes; };
      EXPECT_DOUBLE_EQ(fact("theory_bytes"), kept) << name;
      EXPECT_NEAR(fact("weights_bytes") + fact("gradients_bytes") + fact("state_bytes"), kept, 0.03 * kept)
          << name;
      const double gathers = variant.traits->gathers == nullptr ? strategy->places_values() ? 0 : 1 : 1.5;
      EXPECT_NEAR(fact("theory_sent_bytes"), (1 + gathers) / 2 + 0.5, 0.15) << name;
      EXPECT_NEAR(strategy->plan().SentBytes(4) / bytes, fact("theory_sent_bytes"), 0.02) << name;
    }
  });
}

}  // namespace
}  // namespace gradsync::bench
