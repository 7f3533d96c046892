#include "tools/analysis/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tools/analysis/answers.h"
#include "tools/measurements/test_records.h"
#include "tools/tables/parts/views.h"
#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::HasSubstr;

TEST(RowsTest, StepsInBlocksHaveNoInterval) {
  const auto in_blocks = [](Record& rank) { rank.config.Set("order", "blocks"); };
  // Several launches have no interval either.
  Group group = {Made("core", Steps({}), 0, "a", in_blocks),
                 Made("naive", Steps({.exposed = 3}), 0, "a", in_blocks)};
  for (const char* const run : {"b", "c"}) {
    AddLaunch(Made("core", Steps({}), 0, run, in_blocks), &group[0]);
    AddLaunch(Made("naive", Steps({.exposed = 3}), 0, run, in_blocks), &group[1]);
  }
  const Tabled t({group});
  EXPECT_NEAR(t.comparison("naive@gloo").estimate.value, 3 / 22.2, 1e-3);
  EXPECT_FALSE(t.comparison("naive@gloo").estimate.interval.is_known());
  EXPECT_EQ(t.comparison("naive@gloo").verdict, Verdict::kNone);
  EXPECT_FALSE(t.comparison("core@gloo").may_be_fastest);
  EXPECT_THAT(t.findings("ddp"), HasSubstr("No verdict. `in-blocks`"));
}

TEST(RowsTest, FewerThanTenRoundsHaveNoInterval) {
  const Tabled t(
      {{Made("none", Steps({}, 9)), Made("core", Steps({}, 9)), Made("naive", Steps({.exposed = 3}, 9))}});
  EXPECT_FALSE(t.comparison("naive@gloo").estimate.interval.is_known());
  EXPECT_FALSE(t.cost("naive@gloo").total.interval.is_known());
  EXPECT_THAT(t.findings("ddp"), HasSubstr("`n<10`"));
}

TEST(RowsTest, LaunchesOfASetAreOneCell) {
  Group group = {Made("none", Steps({}), 0, "a"), Made("core", Steps({.exposed = 3}), 0, "a")};
  for (const auto& [run, exposed] : {std::pair{"b", 4.0}, {"c", 8.0}}) {
    AddLaunch(Made("none", Steps({}), 0, run), &group[0]);
    AddLaunch(Made("core", Steps({.exposed = exposed}), 0, run), &group[1]);
  }
  const Tabled t({group});
  EXPECT_EQ(t.measured[0].num_rounds, 72u);
  EXPECT_EQ(t.measured[0].num_launches, 3u);
  // Within a launch nothing varies; between launches it does.
  const Interval& interval = t.cost("core@gloo").total.interval;
  EXPECT_LT(interval.low, 3e-3);
  EXPECT_GT(interval.high, 7e-3);
}

// Over shm a step is compared with shm's, and a size with the same size.
TEST(RowsTest, TheBaselineIsTheMostAlike) {
  const Change shm = [](Record& rank) { rank.variant.backend = "shm"; };
  const Tabled t({{Made("none", Steps({})), Made("core", Steps({.exposed = 9})),
                   Made("naive", Steps({.exposed = 9})), Made("core", Steps({.exposed = 1}), 0, "run", shm),
                   Made("naive", Steps({.exposed = 1}), 0, "run", shm)}});
  EXPECT_NEAR(t.comparison("naive@gloo").estimate.value, 0, 1e-9);
  EXPECT_NEAR(t.comparison("naive@shm").estimate.value, 0, 1e-9);
  EXPECT_NEAR(1e3 * t.cost("core@shm").total.value, 1, 1e-6);  // `none` is every backend's floor
  EXPECT_EQ(t.comparison("none").base, nullptr);

  const auto sized = [](const char* strategy, int64_t mebi, int64_t ms) {
    return CombineRanks({CompareRecord(strategy, mebi, 0, Repeat(ms * kMs, 12)),
                         CompareRecord(strategy, mebi, 1, Repeat(ms * kMs, 12))});
  };
  const Tabled sweep({{sized("core", 3, 10), sized("bucketed_sync", 3, 20), sized("core", 8, 40),
                       sized("bucketed_sync", 8, 50)}});
  EXPECT_NEAR(sweep.comparison("bucketed_sync:bucket_elements=3Mi@gloo").estimate.value, 1, 1e-9);
  EXPECT_NEAR(sweep.comparison("bucketed_sync:bucket_elements=8Mi@gloo").estimate.value, 0.25, 1e-9);
}

// Between backends the difference would be theirs. A variant that is asked for is compared with all.
TEST(RowsTest, ABackendWithoutBaselineIsNotCompared) {
  const Change shm = [](Record& rank) { rank.variant.backend = "shm"; };
  const Group group = {Made("none", Steps({})),
                       Made("core", Steps({.exposed = 9})),
                       Made("flat", Steps({.exposed = 9})),
                       Made("naive", Steps({.exposed = 1}), 0, "run", shm),
                       Made("flat", Steps({.exposed = 1}), 0, "run", shm),
                       Made("pytorch_core", Steps({.exposed = 9}))};
  const Tabled t({group});
  EXPECT_EQ(t.comparison("flat@gloo").base, &t.row("core@gloo"));
  EXPECT_EQ(t.comparison("flat@shm").base, nullptr);
  EXPECT_FALSE(t.comparison("flat@shm").may_be_fastest);
  EXPECT_NEAR(1e3 * t.cost("flat@shm").total.value, 1, 1e-6);
  EXPECT_THAT(t.findings("ddp"),
              HasSubstr("Not compared, because there is no core over shm: naive@shm (23.2 ms) "
                        "and flat@shm (23.2 ms). `summarize DIR --baseline_row=core@gloo` "));
  for (const NamedSetting& at : t.settings) EXPECT_EQ(MakeChoices({at}).size(), 1u);
  const Tabled by_variant({group}, "core@gloo");
  EXPECT_LT(by_variant.comparison("flat@shm").estimate.value, -0.2);
  EXPECT_EQ(NotCompared(by_variant.settings), "");
  // The same holds where the first row takes the place of a baseline.
  const Tabled first(
      {{Made("naive", Steps({})), Made("flat", Steps({})), Made("flat", Steps({}), 0, "run", shm)}});
  EXPECT_EQ(first.comparison("flat@gloo").base, &first.row("naive@gloo"));
  EXPECT_THAT(NotCompared(first.settings), HasSubstr("no naive over shm: flat@shm ("));
  // Many are counted.
  Group many = {Made("core", Steps({}))};
  for (const char* const name : {"naive", "flat", "overlap", "zero1", "zero2", "topk", "diloco"})
    many.push_back(Made(name, Steps({}), 0, "run", shm));
  const Tabled counted({many});
  EXPECT_THAT(NotCompared(counted.settings), HasSubstr("no core over shm: 7 rows. "));
}

TEST(RowsTest, AnotherBaselineCanBeAskedFor) {
  Group group = {Made("core", Steps({})), Made("naive", Steps({.exposed = 3})),
                 Made("flat", Steps({.exposed = 3}))};
  const Tabled by_strategy({group}, "naive");
  EXPECT_NEAR(by_strategy.comparison("flat@gloo").estimate.value, 0, 1e-9);
  const Tabled by_variant({group}, "naive@gloo");
  EXPECT_NEAR(by_variant.comparison("flat@gloo").estimate.value, 0, 1e-9);
}

TEST(RowsTest, BoldMeansNotShownSlowerThanAnyOther) {
  const Tabled t({{Steady("none", Wobble(90, 24, 0)), Steady("core", Wobble(100, 24, 1)),
                   Steady("overlap", Wobble(100.3, 24, 2)), Steady("naive", Wobble(130, 24, 3))}});
  EXPECT_TRUE(t.comparison("core@gloo").may_be_fastest);
  EXPECT_TRUE(t.comparison("overlap@gloo").may_be_fastest);
  EXPECT_FALSE(t.comparison("naive@gloo").may_be_fastest);
  EXPECT_FALSE(t.comparison("none").may_be_fastest);
  // The baseline too may be shown slower; and one row that is shown slower than another is not bold, though
  // it is not shown slower than the baseline.
  const Tabled slow({{Steady("core", Wobble(130, 24, 1)), Steady("overlap", Wobble(100, 24, 2)),
                      Steady("naive", Wobble(130.3, 24, 3))}});
  EXPECT_FALSE(slow.comparison("core@gloo").may_be_fastest);
  EXPECT_TRUE(slow.comparison("overlap@gloo").may_be_fastest);
  EXPECT_FALSE(slow.comparison("naive@gloo").may_be_fastest);
}

TEST(RowsTest, AWrongResultTakesNoPart) {
  const Tabled t({{Steady("core", Wobble(100, 24, 1)), Steady("naive", Wobble(80, 24, 2), [](Record& rank) {
                     rank.checks.Set("grads_equal", false);
                   })}});
  EXPECT_EQ(t.comparison("naive@gloo").verdict, Verdict::kNone);
  EXPECT_FALSE(t.comparison("naive@gloo").may_be_fastest);
}

// Steps of which others took this part of the processors.
Measurement Disturbed(std::string_view strategy, double mean_ms, int phase, double share) {
  return Steady(strategy, Wobble(mean_ms, 24, phase), [=](Record& rank) {
    rank.provenance.cpu_count = 2;
    rank.samples["others_cpu_ns"] = Repeat(std::llround(share * 2 * mean_ms * kMs), 24);
  });
}

TEST(RowsTest, ADisturbedRowHasNoVerdict) {
  const auto group = [](double core, double naive) {
    return Group{Disturbed("core", 100, 1, core), Disturbed("naive", 130, 2, naive),
                 Steady("flat", Wobble(130, 24, 3))};
  };
  const Tabled naive({group(0.05, 0.11)});
  EXPECT_EQ(naive.comparison("naive@gloo").verdict, Verdict::kNone);
  EXPECT_TRUE(naive.comparison("naive@gloo").estimate.interval.is_known());
  EXPECT_FALSE(naive.comparison("naive@gloo").may_be_fastest);
  EXPECT_EQ(naive.comparison("flat@gloo").verdict, Verdict::kSlower);
  EXPECT_THAT(naive.findings("ddp"), HasSubstr("%: flat; no verdict: naive (disturbed:11%)."));
  EXPECT_EQ(Text(naive.table("ddp"), 1, "verdict"), "disturbed:11%");
  EXPECT_EQ(Text(naive.table("ddp"), 2, "verdict"), "slower");
  // It does not keep others from being the fastest either.
  const Tabled fast({{Steady("core", Wobble(100, 24, 1)), Disturbed("naive", 70, 2, 0.11),
                      Steady("flat", Wobble(130, 24, 3))}});
  EXPECT_TRUE(fast.comparison("core@gloo").may_be_fastest);
  // Less disturbs less.
  EXPECT_EQ(Tabled({group(0, 0.09)}).comparison("naive@gloo").verdict, Verdict::kSlower);
  // What nobody knows of the baseline nobody knows of a difference to it.
  const Tabled core({group(0.2, 0)});
  EXPECT_EQ(core.comparison("flat@gloo").verdict, Verdict::kNone);
  EXPECT_FALSE(core.comparison("core@gloo").may_be_fastest);
  EXPECT_THAT(core.findings("ddp"),
              "Against core: no verdict: naive (core disturbed:20%) and flat (core disturbed:20%).");
}

TEST(RowsTest, WithoutAllRanksThereIsNoVerdict) {
  const Tabled t(
      {{Steady("core", Wobble(100, 24, 1)), CombineRanks({DdpRecord("naive", 0, Repeat(130 * kMs, 24))})}});
  EXPECT_EQ(t.comparison("naive@gloo").verdict, Verdict::kNone);
  EXPECT_THAT(t.findings("ddp"), HasSubstr("no verdict: naive (ranks-missing:1/2)"));
}

TEST(RowsTest, SettingsAreNamedByWhatDiffers) {
  const Tabled t({{AtPlace("core", 2, 128, 1)}, {AtPlace("core", 4, 128, 1)}});
  EXPECT_EQ(t.settings[0].name, "batch 2");
  EXPECT_EQ(t.settings[1].name, "batch 4");
  const Tabled one({{AtPlace("core", 2, 128, 1)}});
  EXPECT_EQ(one.settings[0].name, "");
  const auto of_size = [](int64_t bytes) { return Group{CombineRanks({AllReduceRecord(bytes, 0, {kMs})})}; };
  EXPECT_EQ(Tabled({of_size(8), of_size(1 << 20)}).settings[1].name, "1MiB");
}

TEST(RowsTest, TablesNameSettingsBriefly) {
  const Tabled t({{AtPlace("core", 2, 128, 1)}, {AtPlace("core", 4, 64, 1)}});
  EXPECT_EQ((View{t.settings[0], t.measured[0].rows[0]}.name()), "b2 s128: core@gloo");
}

}  // namespace
}  // namespace gradsync::tools
