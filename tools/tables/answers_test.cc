#include "tools/analysis/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/base/error.h"
#include "model/base/text.h"
#include "tools/analysis/words.h"
#include "tools/measurements/test_records.h"
#include "tools/tables/test_tables.h"

// Every form of sentence, with a set of records that supports it and one that does not.
namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Lt;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

std::string Sentences(const Group& group) { return Tabled({group}).findings("ddp"); }

Measurement Of(std::string_view strategy, double mean_ms, int phase, const Change& change = {}) {
  return Steady(strategy, Wobble(mean_ms, 24, phase), change);
}

TEST(SentencesTest, EachVerdictHasOneForm) {
  const std::vector<Answer> answers = {
      {"over gloo", "flat", "core", Verdict::kSlower, {0, {0.112, 0.2}}, ""},
      {"over gloo", "naive", "core", Verdict::kSlower, {0, {0.084, 0.3}}, ""},
      {"over gloo", "zero1", "core", Verdict::kFaster, {0, {-0.10, -0.05}}, ""},
      {"over gloo", "overlap", "core", Verdict::kEqual, {0, {-0.01, 0.02}}, ""},
      {"over gloo", "diloco", "core", Verdict::kOpen, {0, {-0.031, 0.242}}, "`--time=18m`"},
      {"over gloo", "wrong", "core", Verdict::kNone, {}, ""},
      {"over shm", "flat", "core", Verdict::kSlower, {0, {0.05, 0.1}}, ""}};
  EXPECT_THAT(
      WriteSentences(answers),
      ElementsAre("Over gloo, against core: slower by at least 8 %: flat and naive; faster by 5 to 10 "
                  "%: zero1; equal within 2.0 %: overlap; open: diloco (-3 to 24 %, decided with "
                  "`--time=18m`).",
                  "Over shm, against core: slower by 5 to 10 %: flat."));
  EXPECT_THAT(WriteSentences({answers[5]}), IsEmpty());
}

TEST(SentencesTest, BoundsAreTheEndsNearestToZero) {
  EXPECT_THAT(WriteSentences({{"", "a", "b", Verdict::kFaster, {0, {-0.30, -0.09}}, ""},
                              {"", "c", "b", Verdict::kFaster, {0, {-0.20, -0.11}}, ""}}),
              ElementsAre("Against b: faster by at least 9 %: a and c."));
}

TEST(SentencesTest, FewerRowsThanPlacesAreListedByRow) {
  std::vector<Answer> answers;
  for (const char* const place : {"1 MB", "10 MB"})
    answers.push_back({place, "shm", "gloo", Verdict::kFaster, {0, {-0.9, -0.8}}, ""});
  answers.push_back({"100 MB", "shm", "gloo", Verdict::kOpen, {0, {-0.1, 0.2}}, ""});
  EXPECT_THAT(
      WriteSentences(answers, {"worse", "better", "loss"}),
      ElementsAre("shm against gloo, loss: better by at least 80 %: 1 MB and 10 MB; open: 100 MB (-10 "
                  "to 20 %)."));
  for (int i = 0; i < 5; ++i)
    answers.push_back({Join("place ", i), "shm", "gloo", Verdict::kFaster, {0, {-0.9, -0.8}}, ""});
  EXPECT_THAT(WriteSentences(answers)[0], HasSubstr("faster by at least 80 %: 7 places;"));
}

TEST(FindingsTest, RowsAreComparedWithTheBaseline) {
  EXPECT_THAT(Sentences({Of("none", 90, 0), Of("core", 100, 1), Of("flat", 112, 2), Of("naive", 125, 3)}),
              MatchesRegex("Against core: slower by at least 9 %: flat and naive\\. core costs "
                           "[0-9.]+ to 1[0-9.]+ ms of its [0-9.]+ ms step\\."));
  EXPECT_THAT(
      Sentences({Of("core", 100, 1), Of("flat", 100.2, 2), Of("naive", 125, 3)}),
      MatchesRegex("Against core: slower by 2[0-9.]+ to 2[0-9.]+ %: naive; equal within [0-9.]+ %: flat\\."));
  EXPECT_THAT(
      Sentences({Of("core", 125, 1), Of("overlap", 100, 2), Of("naive", 150, 3)}),
      MatchesRegex("Against core: slower by [0-9.]+ to [0-9.]+ %: naive; faster by [0-9.]+ to [0-9.]+ "
                   "%: overlap\\."));
  const std::string open = Sentences({Of("core", 100, 1), Steady("overlap", WithWideNoise(101))});
  EXPECT_THAT(open, MatchesRegex("Against core: open: overlap \\(-.*, decided with `--time=.*`\\)\\."));
}

// Options of a backend make it another one; a floor has none.
TEST(FindingsTest, RowsOverSeveralBackendsAreNamedWithThem) {
  const Tabled t({{Of("none", 90, 0), Of("core@gloo", 110, 1), Of("core@hierarchical", 100, 2),
                   Of("core@hierarchical:outer=mpi", 105, 3), Of("naive@gloo", 130, 4)}});
  EXPECT_THAT(
      t.findings("ddp"),
      ContainsRegex("Against core@hierarchical: slower by [0-9. to]+ %: core@hierarchical:outer=mpi"));
  EXPECT_THAT(t.findings("ddp"), ContainsRegex("Over gloo, against core: slower by [0-9. to]+ %: naive\\."));
  EXPECT_EQ(t.row("none").label, "none");
  EXPECT_EQ(Tabled({{Of("none", 90, 0), Of("core", 110, 1)}}, "none").row("core@gloo").label, "core");
}

std::string ChoiceOf(const Group& group) {
  const Tabled t({group});
  const std::vector<Choice> choices = MakeChoices(t.settings);
  EXPECT_EQ(choices.size(), 1);
  return WriteSentence(choices[0]);
}

TEST(ChoiceTest, SaysWhatToUseAndHowSureThatIs) {
  const Measurement none = Of("none", 90, 0), core = Of("core", 100, 1), naive = Of("naive", 125, 3);
  EXPECT_THAT(ChoiceOf({none, core, Of("flat", 112, 2), naive}),
              MatchesRegex("Use core: all other exact rows take at least (9|10) % longer"));
  EXPECT_THAT(ChoiceOf({none, core, Of("zero1", 100.5, 2), naive}),
              MatchesRegex("Equal within [0-9.]+ %: use core or zero1"));
  EXPECT_THAT(ChoiceOf({none, core, Of("zero1", 80, 2), naive}),
              MatchesRegex("Use zero1: [0-9. to]+ % faster than core"));
  EXPECT_THAT(ChoiceOf({none, core, Of("zero1", 80, 2), Of("zero2", 80.5, 4)}),
              MatchesRegex("Equal within [0-9.]+ %: use zero1 or zero2"));
  EXPECT_EQ(ChoiceOf({core, Steady("zero1", WithWideNoise(100)), naive}),
            "Undecided: zero1 and core differ by less than can be told (-8 to 8 %)");
  // What is behind the fastest by less than it takes to matter may be used, whatever is the fastest.
  EXPECT_THAT(ChoiceOf({core, Steady("zero1", WithWideNoise(106)), naive}),
              MatchesRegex("Use core: no other exact row is more than [12][0-9.]* % faster"));
  EXPECT_THAT(
      ChoiceOf({core, Steady("zero1", WithWideNoise(87)), Of("zero2", 80, 4)}),
      MatchesRegex("Use zero2: [0-9. to]+ % faster than core; zero1 may be up to [0-9.]+ % faster still"));
}

// Where the baseline's steps vary more than others, intervals of differences to it tell nothing of these.
TEST(ChoiceTest, ComparesTheBestWithItsRivalsDirectly) {
  const Measurement core = Steady("core", WithWideNoise(120));
  const auto choice = [&](double zero2_ms) {
    return ChoiceOf({core, Of("zero1", 90, 1), Of("zero2", zero2_ms, 1)});
  };
  EXPECT_THAT(choice(91.5), MatchesRegex("Use zero1: [0-9. to]+ % faster than core"));
  EXPECT_THAT(choice(90), MatchesRegex("Equal within 0.0 %: use zero1 or zero2"));
  const Tabled t({{core, Of("zero1", 90, 1), Of("zero2", 91.5, 1)}});
  const auto interval = [&](const char* row) { return t.comparison(row).estimate.interval; };
  EXPECT_GT(interval("zero1@gloo").high, interval("zero2@gloo").low);
  EXPECT_TRUE(t.comparison("zero1@gloo").may_be_fastest);
  EXPECT_FALSE(t.comparison("zero2@gloo").may_be_fastest || t.comparison("core@gloo").may_be_fastest);
}

// To one side, and of two rows: this tells more than intervals of all rows to both sides.
TEST(ChoiceTest, TheBaselineIsARivalToo) {
  const Measurement core = Steady("core", WithWideNoise(108));
  EXPECT_THAT(ChoiceOf({core, Of("zero1", 100, 1), Of("naive", 150, 3), Of("flat", 150, 4)}),
              MatchesRegex("Use zero1: at least 0\\.[0-9]+ % faster than core"));
}

TEST(ChoiceTest, TakesNoRowThatIsLossyOrWrong) {
  const auto with = [](const Change& change) {
    return ChoiceOf({Of("core", 100, 1), Of("flat", 120, 2), Of("zero1", 80, 3, change)});
  };
  EXPECT_THAT(with({}), StartsWith("Use zero1: "));
  EXPECT_THAT(with([](Record& rank) { rank.facts.Set("agreement", std::string("lossy")); }),
              StartsWith("Use core: "));
  EXPECT_THAT(with([](Record& rank) { rank.checks.Set("grads_equal", false); }), StartsWith("Use core: "));
  // Fewer than ten rounds.
  EXPECT_EQ(ChoiceOf({Steady("core", Wobble(100, 6, 1)), Steady("flat", Wobble(120, 6, 2))}), "");
}

TEST(ChoiceTest, EachBackendHasItsOwn) {
  const Change shm = [](Record& rank) { rank.variant.backend = "shm"; };
  const Tabled t(
      {{Of("core", 100, 1), Of("zero1", 120, 2), Of("core", 100, 3, shm), Of("zero1", 80, 4, shm)}});
  const std::vector<Choice> choices = MakeChoices(t.settings);
  ASSERT_EQ(choices.size(), 2);
  EXPECT_EQ(choices[0].base->row->backend(), "gloo");
  EXPECT_EQ(choices[0].candidates[0]->row->variant(), "core@gloo");
  EXPECT_EQ(choices[1].candidates[0]->row->variant(), "zero1@shm");
}

// What makes a row one of a launch that chooses ("choosing") or of one that decides ("deciding").
Change OfStage(const char* stage) {
  return [stage](Record& rank) {
    rank.run_id = stage;
    rank.facts.Set("launch_set", "set");
    rank.facts.Set("stage", stage);
    if (rank.variant.strategy == "bf16_wire") rank.facts.Set("agreement", "lossy");
  };
}

// These rows, with wobbles that differ by row.
Group InStage(const char* stage, const std::vector<std::pair<const char*, double>>& rows) {
  Group group;
  int phase = 0;
  for (const auto& [strategy, mean_ms] : rows)
    group.push_back(Of(strategy, mean_ms, ++phase, OfStage(stage)));
  return group;
}

// 24 rounds or more are 30 in whole blocks of five rows. The baseline, the floor and what is not exact stay,
// however slow.
TEST(ChoiceTest, AFirstLaunchLeavesWhatItDoesNotShowToBeSlower) {
  const Group choosing = InStage("choosing", {{"none", 90},
                                              {"core", 104},
                                              {"flat", 125},
                                              {"naive", 130},
                                              {"zero1", 100},
                                              {"core_update", 100.6},
                                              {"bf16_wire", 140}});
  EXPECT_EQ(ChooseForLaunches(Tabled({choosing}).settings),
            "--variants=none,core@gloo,zero1@gloo,core_update@gloo,bf16_wire@gloo --steps=30\n"
            "5 of 7 variants go on. The fastest so far: zero1@gloo\n");
  const Group deciding =
      InStage("deciding", {{"none", 90}, {"core", 104}, {"zero1", 100}, {"core_update", 100.6}});
  const Tabled alone({choosing}), together({choosing, deciding});
  ASSERT_EQ(together.measured.size(), 1u);
  EXPECT_EQ(together.measured[0].num_rounds, 24u);
  EXPECT_DOUBLE_EQ(alone.measured[0].confidence.chance, 0.01);
  EXPECT_DOUBLE_EQ(together.measured[0].confidence.chance, 0.04);
  // A row's own difference is that of the launch that it took part in.
  EXPECT_EQ(together.comparison("flat@gloo").estimate.value, alone.comparison("flat@gloo").estimate.value);
  EXPECT_EQ(together.comparison("flat@gloo").base, &together.row("core@gloo"));
  EXPECT_EQ(together.cost("naive@gloo").total.value, alone.cost("naive@gloo").total.value);
  EXPECT_NEAR(together.comparison("core_update@gloo").estimate.value, -3.4 / 104, 0.002);
  EXPECT_EQ(together.row("zero1@gloo").measured->launches.size(), 1u);
  const Choice choice = MakeChoices(together.settings)[0];
  EXPECT_THAT(WriteSentence(choice), MatchesRegex("Equal within [0-9.]+ %: use zero1 or core_update"));
  ASSERT_EQ(choice.left_early.size(), 3u);
  EXPECT_EQ(choice.left_early[0]->row->variant(), "flat@gloo");
  EXPECT_FALSE(together.comparison("flat@gloo").may_be_fastest);
}

// The launches that decide measure the baseline and the floor alone. A row that left early by a small
// difference bounds what is said of all others.
TEST(ChoiceTest, ABaselineThatIsFasterThanAllOthersInTheFirstLaunchIsTheAnswer) {
  const Group deciding = InStage("deciding", {{"none", 90}, {"core", 100}});
  for (const double flat_ms : {125.0, 110.0}) {
    const Group choosing =
        InStage("choosing", {{"none", 90}, {"core", 100}, {"naive", 140}, {"flat", flat_ms}});
    EXPECT_THAT(ChooseForLaunches(Tabled({choosing}).settings), StartsWith("--variants=none,core@gloo "));
    const Tabled t({choosing, deciding});
    EXPECT_TRUE(t.comparison("core@gloo").may_be_fastest);
    const Choice choice = MakeChoices(t.settings)[0];
    ASSERT_EQ(choice.candidates.size(), 1u);
    EXPECT_THAT(choice.doubtful, IsEmpty());
    EXPECT_EQ(choice.lead, choice.Find("flat")->estimate.interval.low);
    EXPECT_NEAR(choice.lead, flat_ms / 100 - 1, 0.03);
    EXPECT_THAT(WriteSentence(choice),
                MatchesRegex("Use core: all other exact rows take at least [0-9.]+ % longer"));
  }
  const Tabled alone({deciding});
  EXPECT_EQ(WriteSentence(MakeChoices(alone.settings)[0]), "No answer: no two exact rows to compare");
  EXPECT_FALSE(alone.comparison("core@gloo").may_be_fastest);
}

// A rival that stays does not hide one that left.
TEST(ChoiceTest, TheLeadCountsRowsThatLeftEarly) {
  Group choosing = InStage("choosing", {{"none", 80}, {"core", 100}, {"flat", 103}});
  choosing.push_back(Steady("zero1", WithWideNoise(108), OfStage("choosing")));
  EXPECT_THAT(ChooseForLaunches(Tabled({choosing}).settings),
              StartsWith("--variants=none,core@gloo,zero1@gloo "));
  const auto deciding = [](double zero1_ms) {
    return InStage("deciding", {{"none", 80}, {"core", 100}, {"zero1", zero1_ms}});
  };
  const Tabled slower({choosing, deciding(108)});
  const Choice choice = MakeChoices(slower.settings)[0];
  ASSERT_EQ(choice.candidates.size(), 1u);
  EXPECT_GT(choice.Find("zero1")->estimate.interval.low, 0.05);
  EXPECT_EQ(choice.lead, choice.Find("flat")->estimate.interval.low);
  EXPECT_THAT(choice.lead, AllOf(Gt(0), Lt(0.03)));

  // What left early bounds only what is said of all others.
  choosing.back() = Steady("zero1", WithWideNoise(92), OfStage("choosing"));
  const Tabled faster({choosing, deciding(92)}), open({choosing, deciding(99.9)});
  EXPECT_GT(MakeChoices(faster.settings)[0].lead, 0.05);
  EXPECT_EQ(MakeChoices(open.settings)[0].candidates[0]->row->label, "core");
  EXPECT_TRUE(std::isnan(MakeChoices(open.settings)[0].lead));
}

// Over gloo zero1 is slow with one batch and fast with another. Rows over shm are compared with core@shm.
TEST(ChoiceTest, ARowLeavesIfItIsSlowerThanItsRivalsInEverySetting) {
  const auto choosing = [](int64_t batch_size, double zero1_ms) {
    Group group = InStage("choosing", {{"none", 60},
                                       {"core@gloo", 100},
                                       {"flat@gloo", 130},
                                       {"zero1@gloo", zero1_ms},
                                       {"core@shm", 80},
                                       {"zero1@shm", 70}});
    for (Measurement& row : group) row.record.config.Set("batch_size", batch_size);
    return group;
  };
  EXPECT_THAT(ChooseForLaunches(Tabled({choosing(8, 90), choosing(4, 120)}).settings),
              StartsWith("--variants=none,core@gloo,zero1@gloo,core@shm,zero1@shm --steps=30\n"
                         "5 of 6 variants go on. The fastest so far: zero1@gloo at "));
}

// What the first launch showed may be the launch: rows are then not known to be slower.
TEST(ChoiceTest, WhereLaunchesDifferARowMayHaveLeftByChance) {
  const Group choosing =
      InStage("choosing", {{"none", 90}, {"core", 100}, {"flat", 106}, {"zero1", 90}, {"zero2", 104}});
  const Group deciding = InStage("deciding", {{"none", 90}, {"core", 100}, {"zero1", 106}, {"zero2", 92}});
  const Tabled t({choosing, deciding});
  const Choice choice = MakeChoices(t.settings)[0];
  EXPECT_EQ(choice.state, State::kUndecided);
  EXPECT_EQ(WriteSentence(choice),
            "Undecided: launches differ so much that flat may have left early by chance");
}

// Although of the rows that remained one is clearly the fastest.
TEST(ChoiceTest, ARowThatMayHaveLeftByChanceLeavesTheAnswerOpen) {
  const Group choosing =
      InStage("choosing", {{"none", 90}, {"core", 300}, {"flat", 106}, {"zero1", 100}, {"zero2", 300}});
  const Group deciding = InStage("deciding", {{"none", 90}, {"core", 300}, {"zero1", 110}, {"zero2", 296}});
  const Tabled t({choosing, deciding});
  const Choice choice = MakeChoices(t.settings)[0];
  ASSERT_EQ(choice.candidates.size(), 1u);
  EXPECT_EQ(choice.candidates[0]->row->variant(), "zero1@gloo");
  ASSERT_EQ(choice.doubtful.size(), 1u);
  EXPECT_EQ(choice.doubtful[0]->row->variant(), "flat@gloo");
  EXPECT_EQ(choice.state, State::kUndecided);
}

// 24 rounds, which take 250 ms on the watch, with what is not timed; the half-width has to become 2 % / 1.3,
// or so, and the rounds are whole blocks of two, and half of one.
TEST(FindingsTest, WhatIsOpenSaysWhatItWouldTake) {
  const Change watch = [](Record& rank) {
    std::vector<int64_t>& begins = rank.samples["begin_ns"];
    for (int64_t i = 0; i < 24; ++i) begins.push_back(250 * kMs * i);
  };
  const Tabled t({{Of("core", 100, 1, watch), Steady("overlap", WithWideNoise(101), watch)}});
  const Estimate estimate = t.comparison("overlap@gloo").estimate;
  const double half = estimate.interval.half_width();
  const double wanted = std::max(std::abs(estimate.value), 0.03 - std::abs(estimate.value));
  EXPECT_NEAR(t.measured[0].round_s, 0.25, 1e-9);
  const double rounds = std::pow(1.3 * half / wanted, 2) * 24,
               seconds = SecondsToDecide(t.measured[0], estimate);
  EXPECT_NEAR(seconds, 2 * (std::ceil(rounds / 2) + 0.5) * 0.25, 1e-9);
  EXPECT_THAT(t.findings("ddp"), HasSubstr(Join("decided with `--time=", DurationFlag(seconds), "`).")));
  EXPECT_NEAR(Tabled({{Of("core", 100, 1), Of("naive", 101, 2)}}).measured[0].round_s, 0.201, 0.003);
  const Change in_turns = [](Record& rank) { rank.facts.Set("turn_steps", 4); };
  EXPECT_NEAR(Tabled({{Of("core", 100, 1), Of("naive", 101, 2, in_turns)}}).measured[0].round_s, 0.504,
              0.005);
  const Tabled decided({{Of("core", 100, 1), Of("naive", 125, 2)}});
  EXPECT_THAT(decided.findings("ddp"), Not(HasSubstr("decided")));
  // Of an interval that is cut at -100 %, the other half counts.
  const Estimate whole{-0.01, {-1.52, 1.5}}, cut{-0.01, {-1, 1.5}};
  EXPECT_NEAR(SecondsToDecide(t.measured[0], cut), SecondsToDecide(t.measured[0], whole), 1e-9);
}

// `core` and `overlap`, whose steps have such a mean in each launch.
Group InLaunches(const std::vector<double>& means_ms, bool is_wide, const Change& change = {}) {
  Group group;
  for (const double mean_ms : means_ms) {
    const Change launch = [&](Record& rank) {
      rank.run_id = Join("launch ", mean_ms);
      if (change) change(rank);
    };
    const Group own = {Of("core", 100, 1, launch),
                       Steady("overlap", is_wide ? WithWideNoise(mean_ms) : Wobble(mean_ms, 24, 2), launch)};
    if (group.empty()) {
      group = own;
    } else {
      for (size_t i = 0; i < own.size(); ++i) AddLaunch(own[i], &group[i]);
    }
  }
  return group;
}

// Launches share the time; those of a run that may end early are all that were planned.
TEST(FindingsTest, TimeIsThatOfAllLaunches) {
  const auto blocks_of_launches = [](const Tabled& t, double num_launches) {
    return SecondsToDecide(t.measured[0], t.comparison("overlap@gloo").estimate) /
           (num_launches * 2 * t.measured[0].round_s);
  };
  const Tabled all({InLaunches({101, 101.1}, true)});
  EXPECT_THAT(all.findings("ddp"), HasSubstr(" --repeats=2`)."));
  const Tabled early({InLaunches({101, 101.1}, true, [](Record& rank) {
    rank.config.Set("precision", bench::Value(0.02));
    rank.facts.Set("launches", 4);
  })});
  EXPECT_THAT(early.findings("ddp"), Not(HasSubstr("--repeats")));
  for (const double blocks : {blocks_of_launches(all, 2), blocks_of_launches(early, 4)}) {
    EXPECT_GT(blocks, 1);
    EXPECT_NEAR(blocks, std::floor(blocks) + 0.5, 1e-9);
  }
  // More than all rounds so far, and not only than those of one launch.
  EXPECT_GT(blocks_of_launches(all, 2) * 2 * 2, 48);
}

TEST(FindingsTest, WhereLaunchesAreTheSamplesMoreLaunchesDecide) {
  const Tabled t({InLaunches({96, 100, 104}, false)});
  EXPECT_THAT(t.findings("ddp"), HasSubstr("decided with `--repeats="));
  // The launches should stay as long as they are.
  const Tabled timed(
      {InLaunches({96, 100, 104}, false, [](Record& rank) { rank.config.Set("time", "1m"); })});
  EXPECT_THAT(timed.findings("ddp"), ContainsRegex("decided with `--time=[0-9]+[ms][^ ]* --repeats="));
  EXPECT_EQ(Text(t.table("ddp"), 0, "samples"), "3 launches");
}

Change AtSize(const char* strategy, int64_t mebi) {
  return [=](Record& rank) {
    rank.variant = bench::Variant::Parse(Join(strategy, ":bucket_elements=", mebi, "Mi@gloo"));
  };
}

TEST(FindingsTest, SizesOfBucketsAreCompared) {
  const auto sized = [](const char* strategy, double mean_ms, int phase, int64_t mebi) {
    return Of(strategy, mean_ms, phase, AtSize(strategy, mebi));
  };
  const std::string text =
      Sentences({sized("core", 100, 1, 1), sized("core", 110, 1, 3), sized("core", 100.1, 3, 7),
                 sized("naive", 125, 2, 1), sized("naive", 125, 2, 3), sized("naive", 125, 2, 7)});
  EXPECT_THAT(text, HasSubstr("Against core:bucket_elements=1Mi: slower by at least 10 %: "
                              "naive:bucket_elements=1Mi and core:bucket_elements=3Mi; equal within 1.8 %: "
                              "core:bucket_elements=7Mi."));
  // Nothing is said of a size whose steps others disturb, nor against it.
  const auto disturbed = [](double core_ms, int64_t mebi) {
    return Of("core", core_ms, 1, [=](Record& rank) {
      AtSize("core", mebi)(rank);
      rank.samples["others_cpu_ns"] = Repeat(std::llround(0.11 * 8 * core_ms * kMs), 24);
    });
  };
  EXPECT_THAT(Sentences({sized("core", 100, 1, 1), disturbed(110, 3)}),
              "Against core:bucket_elements=1Mi: no verdict: core:bucket_elements=3Mi (disturbed:11%).");
  EXPECT_THAT(Sentences({disturbed(100, 1), sized("core", 110, 1, 3)}),
              "Against core:bucket_elements=1Mi: no verdict: core:bucket_elements=3Mi "
              "(core:bucket_elements=1Mi disturbed:11%).");
  const auto wide = [](int64_t mebi, int sign) {
    std::vector<double> steps = Wobble(100, 24, 1);
    for (size_t i = 0; i < steps.size(); ++i) steps[i] += i % 2 == 0 ? sign * 20 : sign * -20;
    return Steady("core", steps, AtSize("core", mebi));
  };
  EXPECT_THAT(
      Sentences({wide(1, 1), wide(7, -1), sized("naive", 225, 2, 1), sized("naive", 225, 2, 7)}),
      ContainsRegex("; open: core:bucket_elements=7Mi \\(.*, decided with `--time=[0-9]+[smh]`\\)\\."));
}

TEST(FindingsTest, ACostThatIsNotShownIsAtMostItsLimit) {
  EXPECT_THAT(Sentences({Of("none", 100, 0), Of("core", 100.1, 1), Of("flat", 120, 2)}),
              ContainsRegex("\\. core costs at most [0-9.]+ ms of its [0-9.]+ ms step\\."));
  EXPECT_THAT(Sentences({Of("none", 90, 0), Of("core", 100, 1)}),
              MatchesRegex("core costs [0-9.]+ to 1[0-9.]+ ms of its [0-9.]+ ms step\\."));
  EXPECT_THAT(Sentences({Of("core", 100, 1), Of("naive", 125, 2)}), Not(HasSubstr("costs")));
}

TEST(FindingsTest, NoCostIsToldOfADisturbedRowOrFloor) {
  const Change disturbed = [](Record& rank) { rank.samples["others_cpu_ns"] = Repeat(100 * kMs, 24); };
  EXPECT_THAT(Sentences({Of("none", 90, 0), Of("core", 100, 1)}), HasSubstr("costs"));
  EXPECT_THAT(Sentences({Of("none", 90, 0), Of("core", 100, 1, disturbed)}), Not(HasSubstr("costs")));
  EXPECT_THAT(Sentences({Of("none", 90, 0, disturbed), Of("core", 100, 1)}), Not(HasSubstr("costs")));
}

TEST(FindingsTest, EachBackendIsAPlace) {
  const Change shm = [](Record& rank) { rank.variant.backend = "shm"; };
  EXPECT_THAT(
      Sentences({Of("none", 90, 0), Of("core", 100, 1), Of("naive", 125, 2), Of("flat", 125, 3),
                 Of("core", 92, 3, shm), Of("naive", 105, 4, shm)}),
      MatchesRegex("Over gloo, against core: slower by at least [0-9.]+ %: naive and flat\\. Over shm, "
                   "against core: slower by [0-9.]+ to [0-9.]+ %: naive\\. core costs .* step over "
                   "gloo; core costs .* step over shm\\."));
  EXPECT_THAT(Sentences({Of("core", 100, 1), Of("naive", 125, 2)}), Not(HasSubstr("ver gloo")));
}

TEST(FindingsTest, AVoidRunSaysWhyAndNothingElse) {
  for (const auto& [word, change] : std::vector<std::pair<std::string, Change>>{
           {"`traced`", [](Record& rank) { rank.config.Set("traced", true); }},
           {"`in-blocks`", [](Record& rank) { rank.config.Set("order", "blocks"); }},
           {"`shared-cpu`", [](Record& rank) { rank.provenance.cpu_count = 1; }},
           {"`shared-gpu`", [](Record& rank) { rank.facts.Set("ranks_per_gpu", 2); }}}) {
    const std::string text =
        Sentences({Of("none", 90, 0, change), Of("core", 100, 1, change), Of("naive", 125, 2, change)});
    EXPECT_THAT(text, StartsWith("No verdict. " + word));
    EXPECT_THAT(text, Not(HasSubstr("core")));
  }
}

TEST(WordsTest, RangesShowTheirWidth) {
  EXPECT_EQ(PercentRange({0.14, 0.19}), "14 to 19 %");
  EXPECT_EQ(PercentRange({0.004, 0.014}), "0.4 to 1.4 %");
  EXPECT_EQ(PercentRange({0.002, 0.05}), "0.2 to 5.0 %");
  EXPECT_EQ(PercentRange({0.0004, 0.05}), "up to 5 %");
  EXPECT_EQ(PercentAtLeast(0.0496), "4 %");
  EXPECT_EQ(PercentAtLeast(0.04), "4 %");
  EXPECT_EQ(PercentAtLeast(0.0129), "1.2 %");
  EXPECT_EQ(PercentAtLeast(0.00042), "0.04 %");
  EXPECT_EQ(PercentAtMost(0.0841), "9 %");
  EXPECT_EQ(PercentAtMost(0.0121), "1.3 %");
  EXPECT_EQ(TimeRange({0.31, 0.36}), "0.31 to 0.36 s");
  EXPECT_EQ(TimeRange({0.0091, 0.0134}), "9 to 13 ms");
  EXPECT_EQ(TimeText(0.1183), "118 ms");
  EXPECT_EQ(TimeText(1.13), "1.1 s");
  EXPECT_EQ(DurationFlag(31), "40s");
  EXPECT_EQ(DurationFlag(91), "2m");
  EXPECT_EQ(DurationFlag(1e4), "3h");
  EXPECT_EQ(Listed({"a", "b", "c"}), "a, b and c");
}

}  // namespace
}  // namespace gradsync::tools
