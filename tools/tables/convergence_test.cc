#include "tools/tables/convergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "model/base/error.h"
#include "tools/measurements/test_records.h"
#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Measurement Trial(std::string_view strategy, int64_t seed, const std::vector<double>& bits,
                  int64_t step_ms = 10, const Change& change = {}) {
  std::vector<bench::Record> ranks;
  for (const int64_t rank : {0, 1}) {
    ranks.push_back(LearningRecord(strategy, seed, rank, bits, step_ms * kMs));
    if (change) change(ranks.back());
  }
  return CombineRanks(std::move(ranks));
}

// Five seeds, which differ by more than variants do. `delta`: what a variant's last loss is more than
// naive's.
void AddTrials(std::string_view strategy, const std::vector<double>& delta, int64_t step_ms, Group* group) {
  for (size_t seed = 0; seed < delta.size(); ++seed) {
    const double own = 0.2 * static_cast<double>(seed);
    group->push_back(Trial(strategy, static_cast<int64_t>(seed), {4, 3, 2 + own + delta[seed]}, step_ms));
  }
}

struct Learnt {
  explicit Learnt(std::vector<Group> all) : groups(std::move(all)), settings(MakeLearningSettings(groups)) {
    AddConvergenceTable(settings, &tables);
  }
  std::vector<Group> groups;
  std::vector<LearningSetting> settings;
  std::vector<Table> tables;

  const Table& table() const { return tables.front(); }
  std::string sentence() const { return table().findings().front(); }
};

Group WorseGroup() {
  Group group;
  AddTrials("naive", {0, 0, 0, 0, 0}, 10, &group);
  AddTrials("topk", {0.1, 0.11, 0.09, 0.1, 0.1}, 5, &group);
  AddTrials("bf16_wire", {0.01, -0.01, 0.01, -0.01, 0}, 8, &group);
  return group;
}

TEST(ConvergenceTest, SaysWhatIsShownWorse) {
  const Learnt learnt({WorseGroup()});
  const Table& table = learnt.table();
  ASSERT_EQ(table.num_rows(), 3);
  EXPECT_NEAR(Number(table, 0, "bits_per_byte"), 2.4, 1e-6);
  // 0.1 of 2.4, though seeds differ by eight times as much: it is paired.
  EXPECT_NEAR(Number(table, 1, "delta (%)"), 4.17, 0.01);
  EXPECT_GT(Number(table, 1, "delta_low (%)"), 3.5);
  EXPECT_LT(Number(table, 1, "delta_high (%)"), 4.9);
  EXPECT_TRUE(std::isnan(Number(table, 0, "delta (%)")));
  EXPECT_THAT(learnt.sentence(),
              AllOf(HasSubstr("Against naive@gloo, loss over 5 seeds: worse by 3."),
                    HasSubstr(" %: topk@gloo; "), HasSubstr(": bf16_wire@gloo"), Not(HasSubstr("better"))));
}

// Whichever ran first.
TEST(ConvergenceTest, OfSeveralOptimizersAdamWIsTheBaseline) {
  Group group;
  for (const char* const optimizer : {"muon", "adamw"}) {
    for (int64_t seed = 0; seed < 5; ++seed) {
      const double last = (*optimizer == 'm' ? 1.9 : 2.0) + 0.2 * static_cast<double>(seed);
      group.push_back(Trial("naive", seed, {4, 3, last}, 10,
                            [&](bench::Record& rank) { rank.variant.options["optimizer"] = optimizer; }));
    }
  }
  const Learnt learnt({group});
  EXPECT_NEAR(Number(learnt.table(), 0, "delta (%)"), -100 * 0.1 / 2.4, 0.01);
  EXPECT_TRUE(std::isnan(Number(learnt.table(), 1, "delta (%)")));
  EXPECT_THAT(learnt.sentence(), HasSubstr("Against naive:optimizer=adamw@gloo"));
}

TEST(ConvergenceTest, HasEveryLossByStepAndSeed) {
  Group group;
  AddTrials("naive", {0, 0, 0}, 10, &group);
  AddTrials("topk", {0.1, 0.1, 0.1}, 5, &group);
  group.push_back(Trial("topk", 7, {4.1, 3, 2}));  // of a seed that the baseline has not
  const Learnt learnt({group});
  const Table& table = learnt.tables.at(1);
  EXPECT_EQ(table.name(), "losses");
  EXPECT_EQ(table.audience(), Audience::kMachines);
  ASSERT_EQ(table.num_rows(), 3 * (3 + 4));
  // The second seed of topk, after its last step: 2.3 bits, and 2.2 of naive.
  constexpr size_t kRow = 3 * 4 + 2;
  EXPECT_EQ(Text(table, kRow, "variant"), "topk@gloo");
  EXPECT_EQ(Number(table, kRow, "world_size"), 2);
  EXPECT_EQ(Number(table, kRow, "seed"), 1);
  EXPECT_EQ(Number(table, kRow, "step"), 30);
  EXPECT_NEAR(Number(table, kRow, "bits_per_byte"), 2.3, 1e-6);
  EXPECT_NEAR(Number(table, kRow, "delta (%)"), 100 * 0.1 / 2.2, 1e-4);
  EXPECT_NEAR(Number(table, kRow - 1, "delta (%)"), 0, 1e-6);
  EXPECT_TRUE(std::isnan(Number(table, 3 * 6, "delta (%)")));
  EXPECT_EQ(Text(learnt.table(), 1, "baseline"), "naive@gloo");
  EXPECT_EQ(Text(learnt.table(), 1, "verdict"), "worse");
  EXPECT_EQ(Text(learnt.table(), 0, "verdict"), "");
  const Learnt without({{Trial("topk", 0, {4}), Trial("topk", 1, {4})}});
  EXPECT_TRUE(std::isnan(Number(without.tables.at(1), 0, "delta (%)")));
  EXPECT_EQ(Text(without.table(), 0, "baseline"), "");
}

TEST(ConvergenceTest, SaysWhatIsNotShownWorse) {
  Group group;
  AddTrials("naive", {0, 0, 0, 0, 0}, 10, &group);
  AddTrials("topk", {0.1, -0.2, 0.3, 0.1, -0.1}, 5, &group);
  AddTrials("core", {-0.1, -0.1, -0.11, -0.1, -0.09}, 5, &group);
  const Learnt learnt({group});
  EXPECT_THAT(learnt.sentence(),
              ContainsRegex("seeds: better by [0-9.]+ to [0-9.]+ %: core@gloo; open: topk@gloo \\(-"));
}

TEST(ConvergenceTest, OneSeedShowsNothing) {
  Group group;
  AddTrials("naive", {0}, 10, &group);
  AddTrials("topk", {1}, 5, &group);
  EXPECT_THAT(Learnt({group}).sentence(), HasSubstr("No verdict. Fewer than 3 seeds."));
  group.clear();
  AddTrials("topk", {1, 1}, 5, &group);
  EXPECT_THAT(Learnt({group}).sentence(), HasSubstr("naive is missing"));
}

TEST(ConvergenceTest, ANarrowIntervalAroundZeroIsEqual) {
  const auto sentence = [](double by) {
    Group group;
    AddTrials("naive", {0, 0, 0, 0, 0}, 10, &group);
    AddTrials("bf16_wire", {by, -by, by, -by, 0}, 8, &group);
    return Learnt({group}).sentence();
  };
  EXPECT_THAT(sentence(0.002), HasSubstr(": equal within 0.2 %: bf16_wire@gloo."));
  EXPECT_THAT(sentence(0.01), HasSubstr(": open: bf16_wire@gloo (-0.5 to 0.5 %)."));
}

TEST(ConvergenceTest, TheBaselineAloneIsComparedWithNothing) {
  Group group;
  AddTrials("naive", {0, 0, 0, 0, 0}, 10, &group);
  const Learnt learnt({group});
  EXPECT_EQ(learnt.table().num_rows(), 1);
  EXPECT_THAT(learnt.table().findings(), ::testing::IsEmpty());
}

TEST(ConvergenceTest, TimeIsADetailIfOnlyTheBaselineReachesItsLoss) {
  Group alone, equal = WorseGroup();
  AddTrials("naive", {0, 0, 0, 0, 0}, 10, &alone);
  AddTrials("core", {0, 0, 0, 0, 0}, 10, &equal);
  const auto section_of_time = [](const Group& group) {
    const Learnt learnt({group});
    return learnt.table().columns()[ColumnOf(learnt.table(), "time (s)")].section;
  };
  EXPECT_EQ(section_of_time(WorseGroup()), 2);
  EXPECT_EQ(section_of_time(equal), 1);
  EXPECT_EQ(section_of_time(alone), 1);
}

TEST(ConvergenceTest, TwoSeedsAreTooFew) {
  for (const size_t num_seeds : {2u, 3u}) {
    Group group;
    AddTrials("naive", std::vector<double>(num_seeds, 0), 10, &group);
    AddTrials("topk", std::vector<double>(num_seeds, 0.5), 10, &group);
    const Learnt learnt({group});
    EXPECT_EQ(learnt.settings[0].rows[1].verdict, num_seeds == 2 ? Verdict::kNone : Verdict::kSlower);
    EXPECT_EQ(learnt.sentence() == "No verdict. Fewer than 3 seeds.", num_seeds == 2);
  }
  // Each row for itself.
  Group group;
  AddTrials("naive", {0, 0, 0}, 10, &group);
  AddTrials("topk", {0.5, 0.5}, 10, &group);
  EXPECT_EQ(Learnt({group}).settings[0].rows[1].verdict, Verdict::kNone);
}

TEST(ConvergenceTest, CountsStepsSecondsAndBytesToTheBaselinesLoss) {
  Group group;
  group.push_back(Trial("naive", 0, {4, 3, 2}));
  group.push_back(Trial("naive", 1, {4, 3, 2}));
  // 2.002 is reached between the first and the second.
  group.push_back(Trial("core", 0, {3.002, 1.002, 1}, 4));
  group.push_back(Trial("core", 1, {3.002, 1.002, 1}, 4));
  group.push_back(Trial("topk", 0, {4, 3, 2}));
  group.push_back(Trial("topk", 1, {4, 3, 2.1}));
  const Learnt learnt({group});
  const Table& table = learnt.table();
  EXPECT_NEAR(Number(table, 1, "steps"), 15, 1e-6);
  EXPECT_NEAR(Number(table, 1, "time (s)"), 15 * 0.004, 1e-6);
  EXPECT_NEAR(Number(table, 1, "sent (MB)"), 15 * 3, 1e-4);
  EXPECT_NEAR(Number(table, 0, "steps"), 30, 1);
  EXPECT_TRUE(std::isnan(Number(table, 2, "steps")));
}

// The more rows there are, the wider each interval has to be.
TEST(ConvergenceTest, IntervalsOfARunHoldAtOnce) {
  const auto width_with = [](size_t num_others) {
    Group group;
    AddTrials("naive", {0, 0, 0, 0, 0}, 10, &group);
    AddTrials("topk", {0.1, 0.11, 0.09, 0.1, 0.1}, 10, &group);
    for (size_t i = 0; i < num_others; ++i)
      AddTrials(i == 0 ? "bf16_wire" : "powersgd", {0.01, -0.01, 0.01, -0.01, 0}, 10, &group);
    const Interval interval = Learnt({group}).settings[0].rows[1].against_baseline.interval;
    return interval.high - interval.low;
  };
  const auto critical = [](size_t count) { return StudentT(SidakCritical(count), 4); };
  EXPECT_NEAR(width_with(1) / width_with(0), critical(2) / critical(1), 1e-6);
  EXPECT_NEAR(width_with(2) / width_with(0), critical(3) / critical(1), 1e-6);
}

TEST(ConvergenceTest, ATrialThatWasStoppedIsLeftOut) {
  Group group = WorseGroup();
  group.push_back(Trial("topk", 5, {4, 3}));
  const Learnt learnt({group});
  EXPECT_NEAR(Number(learnt.table(), 1, "bits_per_byte"), 2.5, 1e-6);
  EXPECT_EQ(Number(learnt.table(), 1, "seeds"), 6);
}

TEST(ConvergenceTest, APeriodCountsAsAWhole) {
  const auto send_seldom = [](bench::Record& record) {
    record.facts.Set("period", 5);
    for (size_t i = 4; i < 20; i += 5) record.samples["step_ns"][i] += 50 * kMs;
    // One period of four is slow. With sixteen that overlapped, more than half would be.
    for (size_t i = 5; i < 10; ++i) record.samples["step_ns"][i] += 40 * kMs;
  };
  const Learnt learnt({{Trial("naive", 0, {3, 2}), Trial("local", 0, {3, 2}, 10, send_seldom)}});
  EXPECT_NEAR(Number(learnt.table(), 1, "step (s)"), 0.02, 1e-9);
}

TEST(ConvergenceTest, RefusesDifferentTexts) {
  const auto other = [](bench::Record& record) {
    record.run_id = "other";
    record.config.Set("text_sha256", "fedcba9876543210");
  };
  std::string error;
  try {
    Learnt({{Trial("naive", 0, {4, 3})}, {Trial("naive", 0, {4, 3}, 10, other)}});
  } catch (const InvalidInput& refused) {
    error = refused.what();
  }
  EXPECT_THAT(error, AllOf(HasSubstr("different texts cannot be compared"), HasSubstr("0123456789ab,"),
                           HasSubstr("other has fedcba987654")));
}

// What was tried on other seeds judges nothing, and stands in a table of its own.
TEST(ConvergenceTest, TriedSettingsAreNotJudged) {
  Group group = WorseGroup();
  const auto tuned = [](const std::string& rate, bool is_tuning) {
    return [=](bench::Record& record) {
      record.variant.options["learning_rate"] = rate;
      record.variant.tuned = true;
      record.facts.Set("agreement", "lossy");
      if (is_tuning) record.facts.Set("tuning", true);
    };
  };
  for (const int64_t seed : {7, 8}) {
    group.push_back(Trial("powersgd", seed, {9, 9, seed == 7 ? 5. : 6.}, 10, tuned("0.1", true)));
    group.push_back(Trial("powersgd", seed, {1, 1, 1}, 10, tuned("0.2", true)));
  }
  for (int64_t seed = 0; seed < 5; ++seed)
    group.push_back(Trial("powersgd", seed, {4, 3, 2}, 10, tuned("0.2", false)));
  const Learnt learnt({std::move(group)});
  ASSERT_EQ(learnt.tables.size(), 3u);
  EXPECT_EQ(learnt.table().num_rows(), 4u);
  EXPECT_EQ(Text(learnt.table(), 3, "variant"), "powersgd:learning_rate=0.2@gloo");
  EXPECT_EQ(Text(learnt.table(), 3, "settings"), "tuned");
  EXPECT_NEAR(Number(learnt.table(), 3, "bits_per_byte"), 2, 1e-9);
  EXPECT_EQ(Text(learnt.table(), 0, "settings"), "");
  const Table& tried = learnt.tables[2];
  EXPECT_EQ(tried.name(), "tuning");
  ASSERT_EQ(tried.num_rows(), 2u);
  EXPECT_EQ(Text(tried, 0, "variant"), "powersgd:learning_rate=0.1@gloo");
  EXPECT_NEAR(Number(tried, 0, "bits_per_byte"), 5.5, 1e-9);
  EXPECT_EQ(Number(tried, 0, "seeds"), 2);
  EXPECT_EQ(Text(tried, 0, "judged"), "");
  EXPECT_EQ(Text(tried, 1, "judged"), "yes");
}

TEST(ConvergenceTest, LossyRowsThatNobodyTunedSaySo) {
  Group group;
  AddTrials("naive", {0, 0, 0}, 10, &group);
  for (int64_t seed = 0; seed < 3; ++seed)
    group.push_back(Trial("topk", seed, {4, 3, 2}, 10,
                          [](bench::Record& record) { record.facts.Set("agreement", "lossy"); }));
  const Learnt learnt({std::move(group)});
  EXPECT_EQ(learnt.tables.size(), 2u);
  EXPECT_EQ(Text(learnt.table(), 0, "settings"), "");
  EXPECT_EQ(Text(learnt.table(), 1, "settings"), "untuned");
}

TEST(ConvergenceTest, WorldsArePlaces) {
  std::vector<Group> groups = {WorseGroup(), WorseGroup()};
  for (Measurement& measured : groups[1]) measured.record.world_size = 4;
  const Learnt learnt(std::move(groups));
  EXPECT_THAT(learnt.sentence(),
              AllOf(HasSubstr("2 ranks, against naive@gloo"), HasSubstr("4 ranks, against")));
}

}  // namespace
}  // namespace gradsync::tools
