#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/predict/network.h"
#include "tools/predict/step.h"

// What others have published of many GPUs, predicted as far as their figures allow. docs/prediction.md prints
// these errors.
namespace gradsync::tools {
namespace {

constexpr CollectiveKind kAllReduce = CollectiveKind::kAllReduce;

struct Point {
  int64_t ranks;
  double tokens_per_second;  // of each GPU
  double error;              // of its prediction, in per cent
};

double ErrorOf(double predicted, double measured) { return 100 * (predicted / measured - 1); }

// llm-foundry, scripts/train/benchmarking: H100 of 8 on a host, bf16, FULL_SHARD, sequences of 2048. Its
// figures tell parameters and batch, and not the link; 8 x 400 Gbit/s are assumed.
struct FullyShardedRun {
  double parameters, tokens;  // tokens of a GPU in a step
  std::vector<Point> points;  // the first is where computation is taken from
};

TEST(PublishedCurvesTest, FullyShardedTrainingHidesItsCommunication) {
  const std::vector<FullyShardedRun> runs = {
      {1'315'950'592, 20 * 2048, {{16, 46037, -0.06}, {32, 45130, 1.93}, {64, 44402, 3.59}}},
      {12'853'954'560, 2 * 2048, {{8, 4792, -0.37}, {16, 4767, 0.07}, {32, 4811, -0.88}, {64, 4800, -0.70}}},
      {760'470'528, 24 * 2048, {{16, 68551, -0.05}, {32, 67971, 0.79}}}};
  for (const FullyShardedRun& run : runs) {
    for (const Point& point : run.points) {
      // Two thirds are backward, in which each unit's gradients are sent when they are ready.
      const double compute_s = run.tokens / run.points.front().tokens_per_second;
      Round round{.forward_s = compute_s / 3, .backward_s = 2 * compute_s / 3, .ready_s = {}};
      StepInputs inputs{.world_size = point.ranks,
                        .link = CostsOver({point.ranks, 8, {400e9, 5e-6}, {450e9, 3e-6}})};
      constexpr int kUnits = 32;
      for (size_t unit = 0; unit < kUnits; ++unit) {
        const double bytes = 2 * run.parameters / kUnits;
        round.ready_s.push_back(round.backward_s * static_cast<double>(unit + 1) / kUnits);
        // A reduce-scatter, and the gather for backward; forward hides its own.
        for (const CollectiveKind kind : {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather})
          inputs.buckets.push_back({.parameters = {unit}, .bytes = bytes, .kind = kind});
      }
      inputs.rounds = {std::vector<Round>(12, round)};
      const double predicted = run.tokens / PredictStep(inputs).step_s.value;
      EXPECT_NEAR(ErrorOf(predicted, point.tokens_per_second), point.error, 0.02)
          << run.parameters << " parameters, " << point.ranks << " ranks";
    }
  }
}

// The Ultra-Scale Playbook's curve of pure data parallel, which tells neither model nor batch nor link: what
// nothing hides of a ring's bandwidth and latency comes from its second and third point.
TEST(PublishedCurvesTest, PureDataParallelGrowsByTheHopsOfARing) {
  const std::vector<Point> points = {{8, 40150, 0},     {16, 37610, 0},      {32, 35368, 0},
                                     {64, 31112, 1.59}, {128, 26446, -1.45}, {256, 15700, 22.90}};
  const auto ring = [](int64_t ranks, double seconds_per_byte, double latency_s) {
    // One byte, so that the rate is that of the whole vector.
    return CollectiveSeconds({ranks, 8, {1 / seconds_per_byte, latency_s}, {}, Algorithm::kRing}, kAllReduce,
                             1);
  };
  constexpr double kTiny = 1e-30;
  const auto per_token = [&](size_t i) { return 1 / points[i].tokens_per_second; };
  // Two equations: bandwidth x ring of bytes + latency x ring of hops is what a token takes more.
  const double a = ring(16, 1, 0), b = ring(16, kTiny, 1), c = ring(32, 1, 0), d = ring(32, kTiny, 1);
  const double more16 = per_token(1) - per_token(0), more32 = per_token(2) - per_token(0);
  const double bandwidth = (more16 * d - more32 * b) / (a * d - b * c),
               latency = (a * more32 - c * more16) / (a * d - b * c);
  EXPECT_GT(bandwidth, 0);
  EXPECT_GT(latency, 0);
  for (const Point& point : points) {
    const double more = point.ranks == 8 ? 0 : ring(point.ranks, bandwidth, latency);
    EXPECT_NEAR(ErrorOf(1 / (per_token(0) + more), point.tokens_per_second), point.error, 0.02)
        << point.ranks;
  }
}

}  // namespace
}  // namespace gradsync::tools
