#include "tools/predict/torch_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "model/error.h"
#include "tools/predict/test_torch_profiles.h"

namespace gradsync::tools {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kMiB = 1 << 20, kMs = 1e-3;

// A size that makes one bucket of all.
DdpRow OneBucket() { return {.name = "one", .bucket_bytes = 100 * kMiB, .first_bucket_bytes = 100 * kMiB}; }

double StepOf(const TorchProfile& profile, const DdpRow& row, const Elsewhere& elsewhere = {}) {
  return profile.Predict(row, elsewhere).step_s.value;
}

std::string ErrorOf(const json& launch) {
  try {
    ProfileOf({launch});
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "";
}

TEST(DdpBuckets, AddsATensorAndClosesTheBucketThatReachedItsSize) {
  using Buckets = std::vector<std::vector<size_t>>;
  const std::vector<double> bytes = {40, 60, 10, 100, 30};
  const std::vector<size_t> order = {4, 2, 0, 1, 3};
  EXPECT_EQ(DdpBuckets(bytes, order, 40, 100), (Buckets{{4, 2}, {0, 1}, {3}}));
  EXPECT_EQ(DdpBuckets(bytes, order, 41, 101), (Buckets{{4, 2, 0}, {1, 3}}));
  EXPECT_EQ(DdpBuckets(bytes, order, 1, 1), (Buckets{{4}, {2}, {0}, {1}, {3}}));
  EXPECT_EQ(DdpBuckets(bytes, order, 1000, 1), (Buckets{order}));
}

TEST(LargestZero1Share, GivesTheLargestFirstToWhoHasLeast) {
  const auto parameters = [](const std::vector<int64_t>& numels) {
    std::vector<TorchParameter> all;
    for (const int64_t numel : numels) all.push_back({.name = "", .numel = numel, .bytes = 4.0 * numel});
    return all;
  };
  EXPECT_DOUBLE_EQ(LargestZero1Share(parameters({1, 2, 3, 4}), 2), 0.5);
  EXPECT_DOUBLE_EQ(LargestZero1Share(parameters({6, 1, 1}), 2), 0.75);
  EXPECT_DOUBLE_EQ(LargestZero1Share(parameters({3, 3, 2, 2, 2}), 2), 7.0 / 12);
  EXPECT_DOUBLE_EQ(LargestZero1Share(parameters({1, 2, 3, 4}), 1), 1);
  EXPECT_DOUBLE_EQ(LargestZero1Share(parameters({1, 1}), 4), 0.5);
}

TEST(TorchProfile, ReadsWhatWasMeasured) {
  const TorchProfile profile = ProfileOf({TestTorchLaunch(), TestTorchLaunch()});
  EXPECT_EQ(profile.launches().size(), 2);
  EXPECT_DOUBLE_EQ(profile.total_bytes(), 4 * kMiB);
  EXPECT_NEAR(profile.Measured("none").value, 63 * kMs, 1e-9);
  EXPECT_NEAR(profile.Measured("ddp", "as the script has it").value, 90 * kMs, 1e-9);
  EXPECT_TRUE(std::isnan(profile.Measured("ddp", "another").value));
}

TEST(TorchProfile, ASecondRunIsDdpsInTheOtherLaunches) {
  const std::string row = "as the script has it";
  json slow = TestTorchLaunch();
  ForEachStep(&slow, "ddp", [](json& step) { step["step_ns"] = 99'000'000; });
  EXPECT_NEAR(ProfileOf({TestTorchLaunch(), slow, slow}).SecondRunError(row), 0.1, 1e-9);
  EXPECT_TRUE(std::isnan(ProfileOf({slow}).SecondRunError(row)));
  EXPECT_TRUE(std::isnan(ProfileOf({slow, slow}).SecondRunError("another")));
}

TEST(TorchProfile, AStepLastsFromTheLastRanksBeginToTheLastRanksEnd) {
  json launch = TestTorchLaunch();
  for (json& step : launch["ranks"][0]) step["begin_ns"] = 5'000'000;
  for (json& step : launch["ranks"][1]) step["step_ns"] = step["step_ns"].get<int64_t>() + 1'000'000;
  EXPECT_NEAR(ProfileOf({launch}).Measured("none").value, 63 * kMs, 1e-9);
  for (json& step : launch["ranks"][1]) step["step_ns"] = step["step_ns"].get<int64_t>() + 6'000'000;
  EXPECT_NEAR(ProfileOf({launch}).Measured("none").value, 65 * kMs, 1e-9);
  // Clocks of two hosts have nothing in common.
  launch["hosts"] = {"a", "b"};
  EXPECT_NEAR(ProfileOf({launch}).Measured("none").value, 70 * kMs, 1e-9);
}

TEST(TorchProfile, PutsParametersIntoBucketsInTheOrderInWhichRank0sAreReady) {
  json launch = TestTorchLaunch();
  for (json& step : launch["ranks"][1])
    if (step["mode"] == "probe") step["ready_ns"] = {1, 2, 3};
  launch["ranks"][0][1]["ready_ns"] = {1, 2, 3};  // one step that was disturbed
  const std::vector<PlannedBucket> buckets = ProfileOf({launch}).Buckets({.name = ""});
  ASSERT_EQ(buckets.size(), 2);
  EXPECT_EQ(buckets[0].parameters, (std::vector<size_t>{2}));
  EXPECT_EQ(buckets[1].parameters, (std::vector<size_t>{1, 0}));
  EXPECT_EQ(buckets[1].bytes, 3 * kMiB);
}

TEST(TorchProfile, AnAllReduceFollowsBackward) {
  const Prediction one = ProfileOf({TestTorchLaunch()}).Predict(OneBucket());
  EXPECT_NEAR(one.step_s.value, (20 + 40 + 40 + 1 + 6) * kMs, 1e-9);
  EXPECT_NEAR(one.exposed_s, 40 * kMs, 1e-9);
  EXPECT_NEAR(one.none_s, 63 * kMs, 1e-9);
  EXPECT_NEAR(one.cost_s.value, (107 - 63) * kMs, 1e-9);
  // 40 ms of collectives, which another launch's memory changes by 3 %.
  EXPECT_NEAR(one.step_s.interval.low, one.step_s.value - 40 * kMs * 1.96 * 0.03, 0.3 * kMs);
  EXPECT_NEAR(one.step_s.interval.high, one.step_s.value + 40 * kMs * 1.96 * 0.03, 0.3 * kMs);
}

TEST(TorchProfile, BucketsOverlapBackwardAndEachOther) {
  // The first goes from 10 to 20 ms, the second from 40 to 70.
  EXPECT_NEAR(StepOf(ProfileOf({TestTorchLaunch()}), {.name = ""}), (20 + 70 + 7) * kMs, 1e-9);
  // All three at once: the first is done before the others are ready; these go as two, of 10 and 20 ms of
  // their own: both at 10 / 8 of half the pace until one is done after 16, then 4 / 5 of the other's rest at
  // its own pace.
  json launch = TestTorchLaunch();
  ForEachStep(&launch, "probe", [](json& step) { step["ready_ns"] = {40'000'000, 40'000'000, 10'000'000}; });
  const DdpRow each{.name = "", .bucket_bytes = 1, .first_bucket_bytes = 1};
  EXPECT_NEAR(StepOf(ProfileOf({launch}), each), (20 + 40 + 16 + 10 + 7) * kMs, 1e-4);
}

TEST(TorchProfile, CommunicationTakesTheProcessor) {
  json launch = TestTorchLaunch();
  ForEachStep(&launch, "probe",
              [](json& step) { step["collectives"]["cpu_ns"] = step["collectives"]["wall_ns"]; });
  // While 10 ms of communication run, computation takes as long again.
  const double slowed = (20 + 50 + 30 + 7) * kMs;
  EXPECT_NEAR(StepOf(ProfileOf({launch}), {.name = ""}), slowed, 1e-9);
  // Each rank has a core to spare.
  launch["cores"] = 4;
  EXPECT_NEAR(StepOf(ProfileOf({launch}), {.name = ""}), 97 * kMs, 1e-9);
  // A host has as many for one rank as for two.
  launch["cores"] = 2;
  launch["hosts"] = {"a", "b"};
  EXPECT_NEAR(StepOf(ProfileOf({launch}), {.name = ""}), 97 * kMs, 1e-9);
  // More threads than cores have been as slow where they were recorded: three things want two cores.
  launch["hosts"] = {"a", "a"};
  launch["threads"] = 2;
  EXPECT_NEAR(StepOf(ProfileOf({launch}), {.name = ""}), (20 + 45 + 30 + 7) * kMs, 1e-9);
  launch["threads"] = 1;
  // The host's processors are not the GPU's.
  launch["device"] = "NVIDIA H100";
  EXPECT_NEAR(StepOf(ProfileOf({launch}), {.name = ""}), 97 * kMs, 1e-9);
}

TEST(TorchProfile, TheRankThatCameLastTellsWhatCollectivesTake) {
  json launch = TestTorchLaunch();
  for (json& step : launch["ranks"][0]) {
    if (!step.contains("collectives")) continue;
    json& sent = step["collectives"];
    sent["wall_ns"] = sent["wall_ns"].get<int64_t>() + 5'000'000;
    for (json& ns : sent["ns"]) ns = ns.get<int64_t>() + 5'000'000;
  }
  EXPECT_NEAR(StepOf(ProfileOf({launch}), {.name = ""}), (20 + 70 + 7) * kMs, 1e-9);
}

TEST(TorchProfile, RareLongCollectivesAreNotLost) {
  json launch = TestTorchLaunch();
  ForEachStep(&launch, "probe", [](json& step) {
    json& ns = step["collectives"]["ns"];
    if (ns.size() == 4) ns[2] = ns[2].get<int64_t>() + 40'000'000;
  });
  // A MiB takes (3 * 10 + 50) / 4 ms, 4 MiB 40, and 3 MiB lie between: the first goes from 10 to 30 ms.
  EXPECT_NEAR(StepOf(ProfileOf({launch}), {.name = ""}), (20 + 40 + 20 + 20.0 * 2 / 3 + 7) * kMs, 1e-9);
}

TEST(TorchProfile, NcclSendsOneAfterTheOther) {
  json launch = TestTorchLaunch();
  ForEachStep(&launch, "probe", [](json& step) { step["ready_ns"] = {40'000'000, 40'000'000, 40'000'000}; });
  launch["backend"] = "nccl";
  EXPECT_NEAR(StepOf(ProfileOf({launch}), {.name = "", .bucket_bytes = 1, .first_bucket_bytes = 1}),
              (20 + 40 + 40 + 7) * kMs, 1e-9);
}

TEST(TorchProfile, CopiesBackFollowCommunication) {
  json launch = TestTorchLaunch();
  ForEachStep(&launch, "probe", [](json& step) { step["copy_back_ns"] = 3'000'000; });
  EXPECT_NEAR(StepOf(ProfileOf({launch}), OneBucket()), 110 * kMs, 1e-9);
}

TEST(TorchProfile, WhatGotNoGradientIsReadyAfterBackward) {
  json launch = TestTorchLaunch();
  ForEachStep(&launch, "probe", [](json& step) { step["ready_ns"][2] = -1; });
  const DdpRow row{.name = ""};
  const TorchProfile profile = ProfileOf({launch});
  EXPECT_EQ(profile.Buckets(row)[0].parameters, (std::vector<size_t>{1}));
}

TEST(TorchProfile, Bf16SendsHalfAndCasts) {
  DdpRow row = OneBucket();
  row.bf16 = true;
  // 4 ms to cast before, 12 + 1 ms a MiB.
  EXPECT_NEAR(StepOf(ProfileOf({TestTorchLaunch()}), row), (20 + 40 + 4 + 4 * 13 + 7) * kMs, 1e-9);
}

TEST(TorchProfile, Bf16OverALinkSendsTwoBytesOfEachElementAndCastsBack) {
  DdpRow bf16 = OneBucket();
  bf16.bf16 = true;
  Elsewhere elsewhere;
  elsewhere.wire = Wire{4 * kMiB / (100 * kMs), 0};
  // Half the bytes, 4 ms to cast and 4 to cast back; the first of two buckets is cast back beside the other.
  EXPECT_NEAR(StepOf(ProfileOf({TestTorchLaunch()}), bf16, elsewhere), (67 + 4 + 50 + 4) * kMs, 1e-6);
  DdpRow two = bf16;
  two.first_bucket_bytes = kMiB;
  EXPECT_NEAR(StepOf(ProfileOf({TestTorchLaunch()}), two, elsewhere), (67 + 4 + 37.5 + 3) * kMs, 1e-6);
  // A model in bf16 is not cast and sends what it has sent, one in f64 a quarter.
  for (const auto& [elements_of_byte, sent_ms] : {std::pair(0.5, 100.0), std::pair(0.125, 25.0)}) {
    json launch = TestTorchLaunch();
    for (json& one : launch["parameters"])
      one["numel"] = static_cast<int64_t>(elements_of_byte * one["bytes"].get<double>());
    ForEachStep(&launch, "probe", [](json& step) {
      json& sent = step["collectives"];
      if (sent.contains("in_ns")) sent["in_ns"] = sent["out_ns"] = json::array({0, 0, 0, 0});
    });
    EXPECT_NEAR(StepOf(ProfileOf({launch}), bf16, elsewhere), (67 + sent_ms) * kMs, 1e-6);
    // Where it was recorded a MiB takes 12 ms, whatever its bytes were before.
    EXPECT_NEAR(StepOf(ProfileOf({launch}), bf16), (67 + 4 * 12) * kMs, 1e-9);
  }
}

TEST(TorchProfile, Bf16GainsAsMuchByBeingTwoAtOnce) {
  json launch = TestTorchLaunch();
  ForEachStep(&launch, "probe", [](json& step) { step["ready_ns"] = {40'000'000, 40'000'000, 10'000'000}; });
  // Two of 13 ms take 2 * 13 / 1.25, and then 13 are left of the larger one.
  const DdpRow each{.name = "", .bucket_bytes = 1, .first_bucket_bytes = 1, .bf16 = true};
  EXPECT_NEAR(StepOf(ProfileOf({launch}), each), (20 + 44 + 20.8 + 13 + 7) * kMs, 1e-4);
  // A model in bf16 sends all of its bytes, and gains what others of as many do: 1.25 at a MiB, more at 2.
  for (json& one : launch["parameters"]) one["numel"] = one["bytes"].get<int64_t>() / 2;
  ForEachStep(&launch, "probe", [](json& step) {
    json& sent = step["collectives"];
    if (sent["bytes"].size() == 1) sent["ns"] = {80'000'000};
    if (sent.contains("in_ns")) sent["in_ns"] = sent["out_ns"] = json::array({0, 0, 0, 0});
  });
  EXPECT_NEAR(StepOf(ProfileOf({launch}), each), (20 + 40 + 19.2 + 12 + 7) * kMs, 1e-4);
}

TEST(TorchProfile, Zero1UpdatesPartsAndBroadcastsThem) {
  DdpRow row = OneBucket();
  row.zero1 = true;
  EXPECT_NEAR(StepOf(ProfileOf({TestTorchLaunch()}), row), (20 + 40 + 40 + 1 + 3 + 30) * kMs, 1e-9);
  Elsewhere slower;
  slower.pace = 2;
  EXPECT_NEAR(StepOf(ProfileOf({TestTorchLaunch()}), row, slower), (20 + 40 + 80 + 1 + 3 + 60) * kMs, 1e-9);
}

TEST(TorchProfile, MorePassesAddWhatDoesNotSynchroniseAndTheirAdditions) {
  DdpRow row = OneBucket();
  row.passes = 3;
  // Two passes of 19 + 38 ms; to add 4 MiB to gradients takes as long as two casts.
  json launch = TestTorchLaunch();
  ForEachStep(&launch, "probe", [](json& step) {
    if (step["collectives"].contains("out_ns"))
      step["collectives"]["out_ns"] = json::array({1, 1, 1, 8'000'000 - 3});
  });
  const Prediction three = ProfileOf({launch}).Predict(row);
  EXPECT_NEAR(three.step_s.value, (2 * 57 + 20 + 40 + 4 + 8 + 40 + 7) * kMs, 1e-9);
  EXPECT_NEAR(three.cost_s.value, three.step_s.value - 3 * 63 * kMs, 1e-9);
  // Without casts as long as a probe's copy: 40 - 38.
  ForEachStep(&launch, "probe", [](json& step) {
    if (step["collectives"]["kind"] == "bf16") step.erase("collectives");
  });
  EXPECT_NEAR(StepOf(ProfileOf({launch}), row), (2 * 57 + 20 + 42 + 40 + 7) * kMs, 1e-9);
  // A script that accumulates has its additions in its own steps.
  launch = TestTorchLaunch();
  launch["passes"] = 3;
  EXPECT_NEAR(StepOf(ProfileOf({launch}), row), 107 * kMs, 1e-9);
  row.passes = 6;
  EXPECT_NEAR(StepOf(ProfileOf({launch}), row), (57 + 107) * kMs, 1e-9);
}

TEST(TorchProfile, TheLastRankDecidesWhatMorePassesTake) {
  DdpRow row = OneBucket();
  row.passes = 2;
  json launch = TestTorchLaunch();
  EXPECT_NEAR(StepOf(ProfileOf({launch}), row), (57 + 20 + 40 + 8 + 40 + 7) * kMs, 1e-9);
  // In each round one of the ranks takes 10 ms longer; in two passes both do.
  for (size_t r = 0; r < 2; ++r) {
    size_t round = 0;
    for (json& step : launch["ranks"][r])
      if (step["mode"] == "none" && round++ % 2 == r) step["before_ns"] = 29'000'000;
  }
  EXPECT_NEAR(StepOf(ProfileOf({launch}), row), (67 + 20 + 40 + 8 + 40 + 7) * kMs, 1e-9);
  row.passes = 3;
  EXPECT_NEAR(StepOf(ProfileOf({launch}), row), (2 * 57 + 10 + 20 + 40 + 8 + 40 + 7) * kMs, 1e-9);
}

TEST(TorchProfile, WhatIsLeftBehindPiecesOfOneSizeIsNotOfTheirSize) {
  json launch = TestTorchLaunch();
  ForEachStep(&launch, "probe", [](json& step) {
    json& sent = step["collectives"];
    for (int i = 0; i < 2 && sent["kind"] == "all_reduce" && sent["in_flight"] == 1; ++i) {
      sent["bytes"].push_back(100);
      sent["ns"].push_back(1'000'000'000);
    }
  });
  EXPECT_NEAR(StepOf(ProfileOf({launch}), OneBucket()), 107 * kMs, 1e-9);
}

TEST(TorchProfile, NothingOfDdpsOwnStepsEnters) {
  json launch = TestTorchLaunch();
  const DdpRow row{.name = "as the script has it"};
  const Prediction before = ProfileOf({launch}).Predict(row);
  ForEachStep(&launch, "ddp", [](json& step) {
    for (const char* const name : {"before_ns", "backward_ns", "rest_ns", "optimizer_ns", "step_ns"})
      step[name] = 7;
    step["ready_ns"] = {1, 2, 3};
  });
  launch["rows"][0]["rebuilt_bucket_bytes"] = {4 << 20};
  const Prediction after = ProfileOf({launch}).Predict(row);
  EXPECT_EQ(after.step_s, before.step_s);
  EXPECT_EQ(after.cost_s, before.cost_s);
  EXPECT_EQ(after.exposed_s, before.exposed_s);
  EXPECT_EQ(after.floor_s, before.floor_s);
}

TEST(TorchProfile, OnlyProbesThatDoWhatDdpDoesLeaveMemoryAsItDoes) {
  json launch = TestTorchLaunch();
  ForEachStep(&launch, "probe", [](json& step) {
    json& sent = step["collectives"];
    const bool part = sent["kind"] == "all_reduce" && sent["bytes"].size() == 4 && sent["in_flight"] == 1;
    if (part) sent["bytes"].erase(3), sent["ns"].erase(3);
    if (part || sent["kind"] != "all_reduce") step["optimizer_ns"] = 1'000'000'000;
  });
  EXPECT_NEAR(StepOf(ProfileOf({launch}), OneBucket()), 107 * kMs, 1e-9);
}

TEST(TorchProfile, LaunchesAreAveragedAndSpanTheInterval) {
  json slow = TestTorchLaunch();
  ForEachStep(&slow, "probe", [](json& step) { step["optimizer_ns"] = 26'000'000; });
  const Prediction both = ProfileOf({TestTorchLaunch(), slow}).Predict(OneBucket());
  EXPECT_NEAR(both.step_s.value, 117 * kMs, 1e-9);
  EXPECT_NEAR(both.exposed_s, 40 * kMs, 1e-9);
  EXPECT_LT(both.step_s.interval.low, 107 * kMs);
  EXPECT_GT(both.step_s.interval.high, 127 * kMs);
}

TEST(TorchProfile, ComputationIsScaledToWhereTheAnswerHoldsAndTheLinkIsNot) {
  Elsewhere elsewhere;
  elsewhere.none_s = 126 * kMs;
  const Prediction there = ProfileOf({TestTorchLaunch()}).Predict(OneBucket(), elsewhere);
  EXPECT_NEAR(there.step_s.value, (2 * 67 + 40) * kMs, 1e-9);
  EXPECT_NEAR(there.none_s, 126 * kMs, 1e-9);
}

TEST(TorchProfile, TakesTheLinkOfAnotherRecording) {
  json other = TestTorchLaunch();
  ForEachStep(&other, "probe", [](json& step) {
    for (json& ns : step["collectives"]["ns"]) ns = 3 * ns.get<int64_t>();
  });
  const TorchProfile link = ProfileOf({other});
  Elsewhere elsewhere;
  elsewhere.link_of = &link;
  EXPECT_NEAR(StepOf(ProfileOf({TestTorchLaunch()}), OneBucket(), elsewhere), (67 + 120) * kMs, 1e-9);
}

TEST(TorchProfile, ALinkIsARing) {
  Elsewhere elsewhere;
  elsewhere.wire = Wire{4 * kMiB / (100 * kMs), 1 * kMs};
  const TorchProfile profile = ProfileOf({TestTorchLaunch()});
  // Between 2 ranks the bytes of an all-reduce travel once: 100 ms, and two latencies. A data sheet tells it
  // to 10 %.
  const Estimate over = profile.Predict(OneBucket(), elsewhere).step_s;
  EXPECT_NEAR(over.value, (67 + 102) * kMs, 1e-6);
  EXPECT_NEAR(over.interval.low, over.value - 102 * kMs * 1.96 * 0.095, 2 * kMs);
  EXPECT_NEAR(over.interval.high, over.value + 102 * kMs * 1.96 * 0.105, 2 * kMs);
  elsewhere.world_size = 8;
  EXPECT_NEAR(StepOf(profile, OneBucket(), elsewhere), (67 + 14 * (1 + 12.5)) * kMs, 1e-6);
  // Weights are broadcast by one rank after the other: all bytes travel once.
  DdpRow zero = OneBucket();
  zero.zero1 = true;
  elsewhere.world_size = 2;
  EXPECT_NEAR(StepOf(profile, zero, elsewhere), (64 + 102 + 102) * kMs, 1e-6);
  // Four ranks share three equal parameters.
  json equal = TestTorchLaunch();
  equal["parameters"][1]["numel"] = equal["parameters"][0]["numel"];
  elsewhere.world_size = 4;
  EXPECT_NEAR(StepOf(ProfileOf({equal}), zero, elsewhere), (61 + 2 + 6 * (1 + 25) + 4 * (1 + 25)) * kMs,
              1e-6);
  elsewhere.world_size = 2;
  json busy = TestTorchLaunch();
  ForEachStep(&busy, "probe",
              [](json& step) { step["collectives"]["cpu_ns"] = step["collectives"]["wall_ns"]; });
  EXPECT_NEAR(StepOf(profile, {.name = ""}, elsewhere), (20 + 40 + 77 + 7) * kMs, 1e-6);
  // Where bytes take the processor, 10 ms a MiB, they take it over a wire too, beside the wire's time for
  // frames: so much of the first bucket's time slows down the 30 ms of backward that are left.
  const double mib = 25.0 * 1514 / 1448 + 10, first = mib + 2, second = 3 * mib + 2;
  EXPECT_NEAR(StepOf(ProfileOf({busy}), {.name = ""}, elsewhere),
              (20 + 10 + first + 30 * 10 / first + second + 7) * kMs, 1e-6);
}

TEST(TorchProfile, WithoutProcessesOnlyALinkThatIsNamedTells) {
  json alone = TestTorchLaunch();
  alone["world_size"] = 1;
  alone["hosts"] = {"a"};
  alone["cores"] = 1;
  alone["ranks"].erase(1);
  ForEachStep(&alone, "probe", [](json& step) { step.erase("collectives"); });
  const TorchProfile profile = ProfileOf({alone});
  EXPECT_THROW(profile.Predict(OneBucket()), InvalidInput);
  Elsewhere elsewhere;
  elsewhere.wire = Wire{4 * kMiB / (100 * kMs), 0};
  elsewhere.world_size = 2;
  EXPECT_NEAR(StepOf(profile, OneBucket(), elsewhere), 167 * kMs, 1e-6);
}

TEST(TorchProfile, MoreRanksTakeTheRecordedLinkAroundARing) {
  Elsewhere elsewhere;
  elsewhere.world_size = 4;
  // Each hop as long for half of the bytes, and three times as many.
  EXPECT_NEAR(StepOf(ProfileOf({TestTorchLaunch()}), OneBucket(), elsewhere), (67 + 60) * kMs, 1e-6);
}

TEST(TorchProfile, RefusesWhatIsNoLaunch) {
  json launch = TestTorchLaunch();
  EXPECT_EQ(ErrorOf(launch), "");
  EXPECT_THAT(ErrorOf("text"), HasSubstr("FILE, line 1: "));
  EXPECT_THAT(ErrorOf(json::object()), HasSubstr("\"gradsync_torch\" is 0, expected 1"));
  const auto broken = [](const std::string& pointer, const json& value) {
    json changed = TestTorchLaunch();
    changed[json::json_pointer(pointer)] = value;
    return ErrorOf(changed);
  };
  EXPECT_THAT(broken("/parameters", json::array()), HasSubstr("no parameters"));
  EXPECT_THAT(broken("/world_size", 3), HasSubstr("2 ranks on 2 hosts, expected 3"));
  EXPECT_THAT(broken("/hosts", json::array({"a"})), HasSubstr("2 ranks on 1 hosts, expected 2"));
  EXPECT_THAT(broken("/ranks/1", json::array()), HasSubstr("different numbers of steps"));
  EXPECT_THAT(broken("/ranks/1/0/mode", "ddp"), HasSubstr("step 0 differs between ranks"));
  EXPECT_THAT(broken("/ranks/0/0/ready_ns", json::array({1})),
              HasSubstr("step 0 lacks its row or ready times"));
  EXPECT_THAT(broken("/rows", json::array()), HasSubstr("step 6 lacks its row or ready times"));
  EXPECT_THAT(broken("/ranks/0/1/collectives/ns", json::array({1})),
              HasSubstr("step 1 lacks times of its collectives"));
  EXPECT_THAT(broken("/ranks/0/1/collectives/wall_ns", 0), HasSubstr("step 1 lacks times"));
  EXPECT_THAT(broken("/ranks/0/1/collectives/bytes", json::array()), HasSubstr("step 1 lacks times"));
  EXPECT_THAT(broken("/ranks/0/4/collectives/out_ns", json::array()), HasSubstr("step 4 lacks times"));
  EXPECT_THAT(broken("/ranks/0/4/collectives/in_ns", json::array()), HasSubstr("step 4 lacks times"));
  EXPECT_THAT(broken("/parameters/0/bytes", "many"), HasSubstr("FILE, line 1: "));
  for (const auto& [text, said] : {std::pair("{\"gradsync_torch\": 1, ", "cut off, error at byte 23"),
                                   {"{1}", "not JSON, error at byte 2"},
                                   {"notes", "not JSON, error at byte 2"}}) {
    std::istringstream lines(text);
    EXPECT_THAT([&] { TorchProfile(lines, "FILE"); },
                ThrowsMessage<InvalidInput>(testing::StrEq(Join("FILE, line 1: ", said))))
        << text;
  }
  for (const auto& [name, value] :
       {std::pair<const char*, json>("threads", 2), {"command", {"train.py", "8"}}}) {
    json other = TestTorchLaunch();
    other[name] = value;
    EXPECT_THAT(
        [&] {
          ProfileOf({launch, other});
        },
        ThrowsMessage<InvalidInput>(HasSubstr("FILE, line 2: another script, model, world or machine")));
  }
  EXPECT_THROW(ProfileOf({}), InvalidInput);
}

}  // namespace
}  // namespace gradsync::tools
