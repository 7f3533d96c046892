#include "tools/predict/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::ElementsAre;

constexpr int64_t kMs = 1'000'000;

// Two ranks, three steps alike; one parameter of 1000 bytes and one of 400'000.
Record ARecord(std::string_view variant, int64_t rank, const std::string& run = "run") {
  Record record;
  record.experiment = "ddp";
  record.run_id = run;
  record.rank = rank;
  record.world_size = 2;
  record.variant = bench::Variant::Parse(std::string(variant));
  record.config.Set("comm_threads", 2);
  record.config.Set("threads_per_rank", 1);
  record.facts.Set("floor", "none");
  record.facts.Set("gradient_bytes", 401'000);
  record.provenance.cpu_count = 2;
  return record;
}

void SetSamples(Record* record,
                std::initializer_list<bench::SeriesOf<bench::Part::kSamples>::Entry> samples) {
  for (const auto& [name, values] : samples) {
    for (int step = 0; step < 3; ++step) record->samples[name].push_back(values.front() * kMs);
  }
}

// Forward 100 ms, backward 200, optimizer 50; gradients are ready 250 and 150 ms after the step's begin.
Record Floor(int64_t rank, const std::string& run = "run") {
  Record record = ARecord("none", rank, run);
  record.parameter_bytes = {1000, 400'000};
  SetSamples(&record, {{"step_ns", {352}},
                       {"begin_ns", {1000 + rank}},
                       {"begin_step_ns", {1}},
                       {"forward_ns", {100}},
                       {"backward_ns", {199}},
                       {"hooks_ns", {1}},
                       {"optimizer_ns", {50}}});
  for (int step = 0; step < 3; ++step) {
    record.moments["gradient_ready_ns"].push_back(250 * kMs);
    record.moments["gradient_ready_ns"].push_back(150 * kMs);
  }
  return record;
}

// Backward ends at 301 ms. `issued`: after that, by bucket; rank 1 issues a millisecond later and waits as
// much less.
Record Probe(std::string_view variant, int64_t rank, const std::vector<int64_t>& issued_ms,
             const std::vector<int64_t>& took_ms, int64_t exposed_ms, const std::string& run = "run") {
  Record record = ARecord(variant, rank, run);
  SetSamples(&record, {{"step_ns", {301 + exposed_ms + 52}},
                       {"begin_ns", {1000}},
                       {"begin_step_ns", {1}},
                       {"forward_ns", {100}},
                       {"backward_ns", {199}},
                       {"hooks_ns", {1}},
                       {"sync_exposed_ns", {exposed_ms}},
                       {"optimizer_ns", {54}},
                       {"communication_cpu_ns", {10}}});
  for (int step = 0; step < 3; ++step) {
    for (size_t i = 0; i < issued_ms.size(); ++i) {
      const int64_t issued = 301 + issued_ms[i] + rank;
      record.moments["ready_ns"].push_back(150 * kMs);
      record.moments["issued_ns"].push_back((issued - 150) * kMs);
      record.moments["started_ns"].push_back(1 * kMs);
      record.moments["ended_ns"].push_back((took_ms[i] - 1 - rank) * kMs);
    }
  }
  return record;
}

Records Pointers(const std::vector<Record>& records) {
  Records pointers;
  for (const Record& record : records) pointers.push_back(&record);
  return pointers;
}

std::vector<Record> NaiveProbe() {
  std::vector<Record> records = {Floor(0), Floor(1)};
  for (const int64_t rank : {0, 1}) {
    // Rank 0 spends 4 ms on a pass, 31 ms on 400'000 bytes, 2 ms, 11 ms on 1000 bytes, and 2 ms. Rank 1
    // issues each collective 1 ms later, so it waits 1 ms less.
    Record& probe = records.emplace_back(Probe("naive@gloo", rank, {4, 37}, {31, 11}, 50));
    probe.buckets = {{400'000, 1, "all_reduce", {1}}, {1000, 1, "all_reduce", {0}}};
    probe.facts.Set("overlaps", bench::Value(false));
    probe.facts.Set("scales_gradients", bench::Value(true));
  }
  return records;
}

std::vector<Record> Sweep(std::string_view collective, int64_t in_flight, int64_t bytes, int64_t ms,
                          int64_t cpu_ms) {
  std::vector<Record> records;
  for (const int64_t rank : {0, 1}) {
    Record& record = records.emplace_back();
    record.experiment = "all_reduce";
    record.run_id = "sweep";
    record.rank = rank;
    record.world_size = 2;
    record.variant.backend = "gloo";
    record.config.Set("collective", std::string(collective));
    record.config.Set("size_bytes", bytes);
    if (in_flight > 1) record.config.Set("in_flight", in_flight);
    record.provenance.cpu_count = 2;
    record.samples["time_ns"] = {ms * kMs + rank * kMs};  // rank 1 waits for rank 0
    record.samples["communication_cpu_ns"] = {cpu_ms * kMs};
  }
  return records;
}

TEST(CalibrateTest, TimesInsideAStepAreThoseOfTheLastRank) {
  std::vector<Record> records = NaiveProbe();
  // Whichever it is.
  std::ranges::reverse(records);
  EXPECT_NEAR(CalibrationOf(Pointers(records), "gloo")->link.Seconds(CollectiveKind::kAllReduce, 400'000),
              0.030, 1e-9);
  std::ranges::reverse(records);
  const std::optional<Calibration> calibration = CalibrationOf(Pointers(records), "gloo");
  ASSERT_TRUE(calibration.has_value());
  const LinkCosts& link = calibration->link;
  EXPECT_NEAR(link.Seconds(CollectiveKind::kAllReduce, 400'000), 0.030, 1e-9);
  EXPECT_NEAR(link.Seconds(CollectiveKind::kAllReduce, 1000), 0.010, 1e-9);
  EXPECT_NEAR(link.Processor(CollectiveKind::kAllReduce, 1000, 1), 10.0 / 40, 1e-9);
  EXPECT_EQ(link.channels(), 2);
  EXPECT_EQ(calibration->processors.available, 1);
  std::vector<Record> crowded = records;
  for (Record& record : crowded) record.config.Set("threads_per_rank", 3);
  EXPECT_EQ(CalibrationOf(Pointers(crowded), "gloo")->processors.crowding(), 1);
  // Rank 1 comes last, 5 ms after backward, spends 3 ms before the small one and 2 at the end: 10 in all,
  // less 3 for each.
  EXPECT_NEAR(calibration->blocking_s, 0.003, 1e-9);
  EXPECT_NEAR(calibration->scale * 401'000, 0.004, 1e-9);
  EXPECT_NEAR(calibration->remote_optimizer * 401'000, 0.004, 1e-9);
  EXPECT_EQ(calibration->copied_optimizer, 0);
  EXPECT_EQ(calibration->log_error, 0.03);  // of one launch nothing is known of the next
}

TEST(CalibrateTest, RareLongCollectivesAreNotLost) {
  // Six steps; in the first the larger one takes 10 ms longer, in the second the smaller one.
  std::vector<Record> records = NaiveProbe();
  for (Record& record : records) {
    for (auto* const part : {&record.samples.by_name(), &record.moments.by_name()}) {
      for (auto& [name, values] : *part) {
        const std::vector<int64_t> again = values;
        values.insert(values.end(), again.begin(), again.end());
      }
    }
    if (record.buckets.empty()) continue;
    std::vector<int64_t>&ended = record.moments["ended_ns"], &issued = record.moments["issued_ns"];
    ended[0] += 10 * kMs;
    issued[1] += 10 * kMs;  // it waits for the first
    ended[3] += 10 * kMs;
    for (const size_t step : {0, 1}) record.samples["sync_exposed_ns"][step] += 10 * kMs;
  }
  const std::optional<Calibration> calibration = CalibrationOf(Pointers(records), "gloo");
  const LinkCosts& link = calibration->link;
  // Two of 50 ms and four of 40: 42.5 if one of each end is left out. The larger one has 190 of 260 ms.
  EXPECT_NEAR(link.Seconds(CollectiveKind::kAllReduce, 400'000), 0.0425 * 190 / 260, 1e-9);
  EXPECT_NEAR(link.Seconds(CollectiveKind::kAllReduce, 1000), 0.0425 * 70 / 260, 1e-9);
  EXPECT_NEAR(calibration->scale * 401'000, 0.004, 1e-9);
}

TEST(CalibrateTest, ProcessorsAreUsedByTheCollectiveAndByTheByte) {
  // 0.5 ms each and 24.5 for 401'000 bytes: 25.5 as two, 25 as one, in 40 and 25 ms.
  std::vector<Record> records = NaiveProbe();
  for (Record& record : records) {
    if (!record.buckets.empty())
      record.samples["communication_cpu_ns"] = {25'500'000, 25'500'000, 25'500'000};
  }
  for (const int64_t rank : {0, 1}) {
    Record& probe = records.emplace_back(Probe("flat@gloo", rank, {8}, {26}, 8 + 26 + 12));
    probe.buckets = {{401'000, 2, "all_reduce", {1, 0}}};
    probe.facts.Set("overlaps", bench::Value(false));
    probe.facts.Set("copies_gradients", bench::Value(true));
    probe.samples["communication_cpu_ns"] = {25 * kMs, 25 * kMs, 25 * kMs};
  }
  const LinkCosts link = CalibrationOf(Pointers(records), "gloo")->link;
  const double a_byte = 0.0245 / 401'000;
  EXPECT_NEAR(link.Processor(CollectiveKind::kAllReduceUnplaced, 1000, 1), (0.0005 + 1000 * a_byte) / 0.010,
              1e-9);
  EXPECT_NEAR(link.Processor(CollectiveKind::kAllReduceUnplaced, 400'000, 1),
              (0.0005 + 400'000 * a_byte) / 0.030, 1e-9);
  EXPECT_NEAR(link.Processor(CollectiveKind::kAllReduce, 401'000, 1), 0.025 / 0.025, 1e-9);
}

TEST(CalibrateTest, StepsOfTheModelCountAloneWhereThereAreAny) {
  std::vector<Record> records = NaiveProbe();
  for (const int64_t rank : {0, 1}) {
    records.push_back(Floor(rank, "other"));
    Record& probe = records.emplace_back(Probe("naive@gloo", rank, {4, 57}, {51, 11}, 70, "other"));
    probe.buckets = {{400'000, 1, "all_reduce", {1}}, {1000, 1, "all_reduce", {0}}};
    probe.facts.Set("overlaps", bench::Value(false));
  }
  for (Record& record : records) record.config.Set("model", record.run_id == "other" ? "large" : "tiny");
  const auto seconds = [&](std::string_view model) {
    return CalibrationOf(Pointers(records), "gloo", model)->link.Seconds(CollectiveKind::kAllReduce, 400'000);
  };
  EXPECT_NEAR(seconds("tiny"), 0.030, 1e-9);
  EXPECT_NEAR(seconds("large"), 0.050, 1e-9);
  EXPECT_NEAR(seconds("another"), 0.040, 1e-9);
  // Sweeps train nothing, so they count for every model.
  for (const Record& record : Sweep("all_reduce", 1, 400'000, 20, 10)) records.push_back(record);
  for (const Record& record : Sweep("all_reduce", 2, 400'000, 30, 15)) records.push_back(record);
  EXPECT_NEAR(
      CalibrationOf(Pointers(records), "gloo", "large")->link.Gain(CollectiveKind::kAllReduce, 400'000, 2),
      40.0 / 30, 1e-9);
}

TEST(CalibrateTest, OtherBackendsSayNothing) {
  const std::vector<Record> records = NaiveProbe();
  EXPECT_FALSE(CalibrationOf(Pointers(records), "shm").has_value());
}

TEST(CalibrateTest, CopiesAreWhatLiesBeforeTheFirstAndAfter) {
  std::vector<Record> records = {Floor(0), Floor(1)};
  for (const int64_t rank : {0, 0}) {  // at the same moments
    Record& probe = records.emplace_back(Probe("flat@shm", rank, {8}, {20}, 8 + 20 + 12));
    probe.buckets = {{401'000, 2, "all_reduce", {1, 0}}};
    probe.facts.Set("overlaps", bench::Value(false));
    probe.facts.Set("copies_gradients", bench::Value(true));
  }
  const std::optional<Calibration> calibration = CalibrationOf(Pointers(records), "shm");
  ASSERT_TRUE(calibration.has_value());
  EXPECT_NEAR(calibration->copy_in.RatioAt(401'000) * 401'000, 0.008, 1e-9);
  EXPECT_NEAR(calibration->copy_out.RatioAt(401'000) * 401'000, 0.012, 1e-9);
  EXPECT_NEAR(calibration->copied_optimizer * 401'000, 0.004, 1e-9);
  EXPECT_EQ(calibration->remote_optimizer, 0);
  EXPECT_EQ(calibration->link.channels(), 1);
}

TEST(CalibrateTest, CopiesOfEqualBucketsAreBothBetweenThem) {
  // 1 ms for each wait, so 7 of the 8 between two buckets are copies.
  std::vector<Record> records = NaiveProbe();
  for (Record& record : records) {
    if (record.buckets.empty()) continue;
    for (int step = 0; step < 3; ++step) record.moments["issued_ns"][2 * step + 1] -= 2 * kMs;
  }
  for (const int64_t rank : {0, 1}) {
    Record& probe = records.emplace_back(Probe("bucketed_sync@gloo", rank, {3, 30}, {20, 20}, 61));
    probe.buckets = {{200'000, 1, "all_reduce", {1}}, {200'000, 1, "all_reduce", {0}}};
    probe.facts.Set("overlaps", bench::Value(false));
    probe.facts.Set("copies_gradients", bench::Value(true));
  }
  const std::optional<Calibration> calibration = CalibrationOf(Pointers(records), "gloo");
  EXPECT_NEAR(calibration->blocking_s, 0.001, 1e-9);
  // 4 ms before the first, and 3.5 that are half of what lies between them; after the last 11 less the wait.
  EXPECT_NEAR(calibration->copy_in.RatioAt(1) * 200'000, (0.004 + 0.0035) / 2, 1e-9);
  EXPECT_NEAR(calibration->copy_out.RatioAt(1) * 200'000, (0.0035 + 0.010) / 2, 1e-9);
  // Between buckets that differ it is not known whose copy takes how long.
  for (Record& record : records) {
    if (record.variant.strategy == "bucketed_sync") record.buckets[1].bytes = 100'000;
  }
  const std::optional<Calibration> uneven = CalibrationOf(Pointers(records), "gloo");
  EXPECT_NEAR(uneven->copy_in.RatioAt(1) * 200'000, 0.004, 1e-9);
  EXPECT_NEAR(uneven->copy_out.RatioAt(1) * 100'000, 0.010, 1e-9);
}

TEST(CalibrateTest, TensorsAsTheyLieHaveTimesOfTheirOwn) {
  std::vector<Record> records = NaiveProbe();
  for (const int64_t rank : {0, 1}) {
    Record& probe = records.emplace_back(Probe("flat@gloo", rank, {8}, {20}, 8 + 20 + 12));
    probe.buckets = {{401'000, 2, "all_reduce", {1, 0}}};
    probe.facts.Set("overlaps", bench::Value(false));
    probe.facts.Set("copies_gradients", bench::Value(true));
  }
  for (const Record& record : Sweep("all_reduce", 1, 400'000, 20, 10)) records.push_back(record);
  for (const Record& record : Sweep("all_reduce", 2, 400'000, 32, 10)) records.push_back(record);
  const LinkCosts link = CalibrationOf(Pointers(records), "gloo")->link;
  EXPECT_NEAR(link.Seconds(CollectiveKind::kAllReduce, 401'000), 0.019, 1e-9);
  EXPECT_NEAR(link.Seconds(CollectiveKind::kAllReduceUnplaced, 400'000), 0.030, 1e-9);
  for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllReduceUnplaced})
    EXPECT_NEAR(link.Gain(kind, 400'000, 2), 40.0 / 32, 1e-3);
}

TEST(CalibrateTest, AllIsAveragedWhenTheLastRankHasIt) {
  std::vector<Record> records = NaiveProbe();
  for (int64_t& ns : records[2].samples["sync_exposed_ns"]) ns += 2 * kMs;
  ASSERT_EQ(records[2].rank, 0);
  EXPECT_NEAR(CalibrationOf(Pointers(records), "gloo")->scale * 401'000, 0.006, 1e-9);
}

TEST(CalibrateTest, RanksOfSeveralHostsBeginTogether) {
  std::vector<Record> records = NaiveProbe();
  for (Record& record : records) {
    if (record.rank == 0) continue;
    record.facts.Set("boot", "another");
    for (int64_t& ns : record.samples["begin_ns"]) ns += 5'000 * kMs;
  }
  const std::optional<Calibration> calibration = CalibrationOf(Pointers(records), "gloo");
  EXPECT_NEAR(calibration->link.Seconds(CollectiveKind::kAllReduce, 400'000), 0.030, 1e-9);
  EXPECT_EQ(RoundsOf({&records[0], &records[1]})[1][0].begin_s, 0);
}

// Two buckets that travel beside backward, which they make 5 and 15 ms longer.
std::vector<Record> OverlappingProbe(int64_t step_ns) {
  std::vector<Record> records = NaiveProbe();
  for (Record& floor : records) {
    for (size_t i = 0; i < floor.moments["gradient_ready_ns"].size(); i += 2)
      floor.moments["gradient_ready_ns"][i] = 300 * kMs;  // the second is sent just before backward ends
  }
  for (const int64_t rank : {0, 1}) {
    Record& probe = records.emplace_back(Probe("core@gloo", rank, {0, 0}, {31, 11}, 20));
    probe.buckets = {{400'000, 1, "all_reduce", {1}}, {1000, 1, "all_reduce", {0}}};
    probe.facts.Set("overlaps", bench::Value(true));
    probe.facts.Set("places_gradients", bench::Value(true));
    probe.facts.Set("agreement", "exact");
    probe.facts.Set("updates", "whole");
    for (int64_t& ns : probe.samples["backward_ns"]) ns += (5 + 10 * rank) * kMs;
    for (int64_t& ns : probe.samples["step_ns"]) ns = step_ns;
    for (int64_t& ns : probe.samples["communication_cpu_ns"]) ns = 14 * kMs;
  }
  return records;
}

TEST(CalibrateTest, ALaunchThatOverlapsTellsHowUnevenProcessorsAreShared) {
  const std::vector<Record> records = OverlappingProbe(390 * kMs);
  // Backward ends on average 300.5 ms after the last rank's begin, on the last rank 0.5 ms later; with
  // communication after 311, and 5 ms later. Its optimizer and backward tell nothing of memory.
  const std::optional<Calibration> calibration = CalibrationOf(Pointers(records), "gloo");
  EXPECT_NEAR(calibration->processors.uneven, 4.5 / 10.5, 1e-9);
  EXPECT_EQ(calibration->placed_backward, 0);
  EXPECT_EQ(CalibrationOf(Pointers(NaiveProbe()), "gloo")->processors.uneven, 0);
  // Disturbed: more than all, or backward is shorter.
  for (const auto& [backward_ms, expected] : {std::pair(170, 0.0), std::pair(185, 1.0)}) {
    std::vector<Record> disturbed = records;
    for (Record& record : disturbed) {
      if (record.facts.BoolOr("overlaps", false) && record.rank == 0)
        record.samples["backward_ns"].assign(3, backward_ms * kMs);
    }
    EXPECT_EQ(CalibrationOf(Pointers(disturbed), "gloo")->processors.uneven, expected) << backward_ms;
  }
}

TEST(CalibrateTest, ALaunchThatOverlapsTellsWhatCollectivesTakeMoreBesideComputation) {
  const auto replayed = [](const std::vector<Record>& records, const Calibration& calibration) {
    return TypicalStep({.plan = *PlanOf(records.back()),
                        .rounds = RoundsOf({&records[0], &records[1]}),
                        .parameter_bytes = {1000, 400'000},
                        .calibration = calibration});
  };
  // A step that is shorter than the replay tells nothing.
  const std::vector<Record> records = OverlappingProbe(330 * kMs);
  const std::optional<Calibration> none = CalibrationOf(Pointers(records), "gloo");
  EXPECT_NEAR(none->link.beside().seconds, 0, 1e-5);
  // Alone they use 10 ms of a processor; 14 were used.
  EXPECT_NEAR(none->link.beside().processor_s, 0.002, 1e-9);
  const auto base_ns = static_cast<int64_t>(1e9 * replayed(records, *none));
  for (const int64_t more_ms : {1, 3}) {
    const std::vector<Record> longer = OverlappingProbe(base_ns + more_ms * kMs);
    const Calibration calibration = *CalibrationOf(Pointers(longer), "gloo");
    EXPECT_NEAR(replayed(longer, calibration), 1e-9 * static_cast<double>(base_ns + more_ms * kMs), 2e-5);
  }
}

TEST(CalibrateTest, OneBucketOfViewsTellsWhatPlacingCosts) {
  std::vector<Record> records = NaiveProbe();
  for (const int64_t rank : {0, 1}) {
    Record& probe = records.emplace_back(Probe("core@gloo", rank, {0}, {20}, 20));
    probe.buckets = {{401'000, 2, "all_reduce", {1, 0}}};
    probe.facts.Set("overlaps", bench::Value(true));
    probe.facts.Set("places_gradients", bench::Value(true));
    for (int64_t& ns : probe.samples["backward_ns"]) ns += 6 * kMs;
  }
  const std::optional<Calibration> calibration = CalibrationOf(Pointers(records), "gloo");
  EXPECT_NEAR(calibration->placed_backward * 401'000, 0.006, 1e-9);
  // What is sent when backward has ended is not a collective that blocks.
  EXPECT_NEAR(calibration->link.Seconds(CollectiveKind::kAllReduce, 400'000), 0.030, 1e-9);
}

TEST(CalibrateTest, LaunchesTellTheErrorOfTheNext) {
  std::vector<Record> records = NaiveProbe();
  const auto add_launch = [&](const std::string& run, int64_t longer_ms) {
    for (const int64_t rank : {0, 1}) {
      records.push_back(Floor(rank, run));
      Record& probe = records.emplace_back(
          Probe("naive@gloo", rank, {4, 37 + longer_ms}, {31 + longer_ms, 11}, 50 + longer_ms, run));
      probe.buckets = {{400'000, 1, "all_reduce", {1}}, {1000, 1, "all_reduce", {0}}};
      probe.facts.Set("overlaps", bench::Value(false));
    }
  };
  add_launch("other", 2);
  const std::optional<Calibration> two = CalibrationOf(Pointers(records), "gloo");
  // 40 and 42 ms.
  EXPECT_NEAR(two->log_error, std::log(42.0 / 40) / std::sqrt(2.0), 1e-9);
  EXPECT_NEAR(two->link.Seconds(CollectiveKind::kAllReduce, 400'000), 0.031, 1e-9);
  add_launch("third", 0);
  // Two of 40 and one of 42 ms: of three launches two degrees are left.
  EXPECT_NEAR(CalibrationOf(Pointers(records), "gloo")->log_error, std::log(42.0 / 40) / std::sqrt(3.0),
              1e-9);
}

TEST(CalibrateTest, SweepsAloneGiveTheirTimes) {
  std::vector<Record> records = Sweep("all_reduce", 1, 400'000, 20, 10);
  for (const Record& record : Sweep("all_gather", 1, 400'000, 8, 2)) records.push_back(record);
  for (const Record& record : Sweep("broadcast", 1, 400'000, 1, 2)) records.push_back(record);
  const std::optional<Calibration> calibration = CalibrationOf(Pointers(records), "gloo");
  EXPECT_NEAR(calibration->link.Seconds(CollectiveKind::kAllReduce, 400'000), 0.020, 1e-9);
  EXPECT_NEAR(calibration->link.Seconds(CollectiveKind::kAllGather, 400'000), 0.008, 1e-9);
  EXPECT_NEAR(calibration->link.Processor(CollectiveKind::kAllReduce, 1, 1), 10 / 20.5, 1e-9);
}

TEST(CalibrateTest, SweepsBesideProbesAreRatios) {
  std::vector<Record> records = NaiveProbe();
  for (const auto& sweep : {Sweep("all_reduce", 1, 400'000, 20, 10), Sweep("all_reduce", 2, 400'000, 30, 15),
                            Sweep("reduce_scatter", 1, 400'000, 12, 5)}) {
    records.insert(records.end(), sweep.begin(), sweep.end());
  }
  const std::optional<Calibration> calibration = CalibrationOf(Pointers(records), "gloo");
  const LinkCosts& link = calibration->link;
  EXPECT_NEAR(link.Seconds(CollectiveKind::kAllReduce, 400'000), 0.030, 1e-9);
  EXPECT_NEAR(link.Seconds(CollectiveKind::kReduceScatter, 400'000), 0.030 * 12 / 20, 1e-9);
  EXPECT_NEAR(link.Gain(CollectiveKind::kAllReduce, 400'000, 2), 40.0 / 30, 1e-9);
}

TEST(RoundsTest, AreOfAllRanksAndLaunches) {
  const std::vector<Record> records = {Floor(1), Floor(0), Floor(0, "other"), Floor(1, "other")};
  const auto rounds = RoundsOf(Pointers(records));
  ASSERT_EQ(rounds.size(), 2u);
  ASSERT_EQ(rounds[0].size(), 6u);
  const Round& round = rounds[1][0];
  EXPECT_NEAR(round.begin_s, 1.001, 1e-9);
  EXPECT_NEAR(round.forward_s, 0.101, 1e-9);
  EXPECT_NEAR(round.backward_s, 0.200, 1e-9);
  EXPECT_NEAR(round.optimizer_s, 0.050, 1e-9);
  EXPECT_NEAR(round.rest_s, 0.001, 1e-9);
  EXPECT_NEAR(round.ready_s[0], 0.149, 1e-9);
  EXPECT_NEAR(round.ready_s[1], 0.049, 1e-9);
}

TEST(RoundsTest, RecordsWithoutReadyTimesHaveNone) {
  Record old = Floor(0);
  old.moments.clear();
  EXPECT_TRUE(RoundsOf({&old}).empty());
  EXPECT_TRUE(RoundsOf({}).empty());
}

TEST(PlanTest, IsWhatTheRecordSays) {
  Record record = ARecord("zero1@gloo", 0);
  record.facts.Set("agreement", "exact");
  record.facts.Set("overlaps", bench::Value(true));
  record.facts.Set("places_gradients", bench::Value(true));
  record.facts.Set("updates", "parts");
  record.buckets = {{1024, 2, "reduce_scatter", {1, 0}}, {1024, 2, "all_gather", {1, 0}}};
  const std::optional<StepPlan> plan = PlanOf(record);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->sends, StepPlan::Sends::kDuringBackward);
  EXPECT_EQ(plan->updates, StepPlan::Updates::kParts);
  EXPECT_TRUE(plan->places_gradients);
  EXPECT_FALSE(plan->copies);
  ASSERT_EQ(plan->buckets.size(), 2u);
  EXPECT_THAT(plan->buckets[0].parameters, ElementsAre(1, 0));
  EXPECT_EQ(plan->buckets[0].bytes, 1024);
  EXPECT_EQ(plan->buckets[1].kind, CollectiveKind::kAllGather);
  std::swap(record.buckets[0], record.buckets[1]);
  EXPECT_FALSE(PlanOf(record).has_value()) << "gathers for forward";
  std::swap(record.buckets[0], record.buckets[1]);
  record.facts.Set("updates", "parts_within_hosts");
  EXPECT_FALSE(PlanOf(record).has_value());
  record.facts.Set("updates", "by_bucket");
  record.facts.Set("overlaps", bench::Value(false));
  record.facts.Set("copies_gradients", bench::Value(true));
  EXPECT_EQ(PlanOf(record)->updates, StepPlan::Updates::kByBucket);
  EXPECT_EQ(PlanOf(record)->sends, StepPlan::Sends::kAfterBackward);
  EXPECT_TRUE(PlanOf(record)->copies);
}

TEST(PlanTest, IsMissingWhereItCannotBePredicted) {
  Record record = ARecord("flat@gloo", 0);
  record.facts.Set("agreement", "exact");
  record.facts.Set("updates", "whole");
  record.buckets = {{1024, 2, "all_reduce", {1, 0}}};
  EXPECT_TRUE(PlanOf(record).has_value());
  record.facts.Set("agreement", "lossy");
  EXPECT_FALSE(PlanOf(record).has_value());
  record.facts.Set("agreement", "exact");
  record.buckets[0].parameters.clear();  // older
  EXPECT_FALSE(PlanOf(record).has_value());
  record.buckets.clear();
  EXPECT_FALSE(PlanOf(record).has_value());
}

}  // namespace
}  // namespace gradsync::tools
