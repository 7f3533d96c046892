#include "tools/render/screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tools/measurements/test_records.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kMs = 1000000;

// Of two ranks, whose steps of 10 s vary a little, in rounds of 200 s.
std::string ScreenWith(const std::vector<std::string>& strategies,
                       const std::function<void(Record&)>& change = {}, int64_t num_settings = 1) {
  const std::string path = FreshTestDir("screen") + "/a.jsonl";
  std::vector<Record> records;
  for (int64_t batch_size = 1; batch_size <= num_settings; ++batch_size) {
    for (size_t k = 0; k < strategies.size(); ++k) {
      for (int64_t rank = 0; rank < 2; ++rank) {
        std::vector<int64_t> begins, steps;
        for (int64_t i = 0; i < 24; ++i) {
          begins.push_back(200000 * kMs * i);
          steps.push_back((10000 + i % (5 + static_cast<int64_t>(k))) * kMs);
        }
        Record& record = records.emplace_back(DdpRecord(strategies[k], rank, steps));
        record.samples["begin_ns"] = begins;
        record.config.Set("batch_size", batch_size);
        if (change) change(record);
      }
    }
  }
  WriteLines(path, records);
  return RenderScreen(Summarize({path}));
}

// Neither a verdict nor what the baseline costs; the reason is the baseline's, or another row's.
TEST(ScreenTest, TellsNothingOfWhatOthersDisturb) {
  const auto screen_with = [](std::string_view disturbed, int64_t num_settings) {
    return ScreenWith(
        {"zero1", "core", "none"},
        [&](Record& record) {
          if (record.variant.strategy == disturbed) record.samples["others_cpu_ns"] = Repeat(9600 * kMs, 24);
        },
        num_settings);
  };
  EXPECT_THAT(
      screen_with("zero1", 1),
      StartsWith(
          "This machine is disturbed: others used up to 12 % of its processors. Stop what else runs, and "
          "measure again.\nsmall b1 s128 over gloo  No answer: no two exact rows to compare; not judged: "
          "zero1 (disturbed:12%)\n"));
  EXPECT_THAT(screen_with("core", 1),
              HasSubstr("\nsmall b1 s128 over gloo  No answer: core disturbed:12%\n"));
  EXPECT_THAT(screen_with("", 7), StartsWith("best: "));
  EXPECT_THAT(screen_with("core", 7), HasSubstr("\nno verdict\n"));
}

// With less than a tenth of the processors others may be the reason, if half of the rows have the warning.
TEST(ScreenTest, AnUndecidedAnswerNamesWhatDisturbed) {
  const auto screen_with = [](std::string_view disturbed, int64_t zero1_ms) {
    return ScreenWith({"core", "zero1"}, [&](Record& record) {
      const bool is_zero1 = record.variant.strategy == "zero1";
      for (size_t i = 0; i < 24; ++i)
        SetStep(record, i,
                ((is_zero1 ? zero1_ms : 10000) + 1000 * static_cast<int64_t>(i % (is_zero1 ? 6 : 5))) * kMs);
      if (record.variant.strategy == disturbed)
        record.samples["others_cpu_ns"] = Repeat(zero1_ms / 2 * kMs, 24);
    });
  };
  EXPECT_THAT(screen_with("zero1", 10000), StartsWith("This machine is disturbed: others used up to "));
  EXPECT_THAT(screen_with("zero1", 10000), HasSubstr("\nsmall b1 s128 over gloo  Undecided: "));
  EXPECT_THAT(screen_with("", 10000), StartsWith("small b1 s128 over gloo  Undecided: "));
  EXPECT_THAT(screen_with("zero1", 20000), StartsWith("small b1 s128 over gloo  Use core: "));
}

// Two rows alone, for as long as whole turns of them take, with the steps that are not timed.
TEST(ScreenTest, TheCommandIsOfTwoRowsAndTheirTurns) {
  const auto screen_with = [](int64_t turn_steps) {
    return ScreenWith({"core", "zero1"}, [&](Record& record) {
      const size_t cycle = record.variant.strategy == "core" ? 5 : 6;
      for (size_t i = 0; i < 24; ++i)
        SetStep(record, i, (10000 + 1000 * static_cast<int64_t>(i % cycle)) * kMs);
      record.config.Set("accumulation_steps", 4);
      record.provenance.base_command = "bench/compare --width=8";
      if (record.variant.strategy == "core") return;
      record.facts.Set("period", 3);
      if (turn_steps > 0) record.facts.Set("turn_steps", turn_steps);
    });
  };
  // A turn of core has one step; one of zero1 has three, or with the one that is not timed four.
  const auto minutes = [&](int64_t turn_steps) {
    const std::string screen = screen_with(turn_steps);
    EXPECT_THAT(screen, HasSubstr("\n  ./bazelw run //bench:compare -- --width=8 --batch_size=1 "
                                  "--accumulation_steps=4 --seq_len=128 \\\n"
                                  "  --variants=core@gloo,zero1@gloo --time="));
    return std::stod(screen.substr(screen.find(" --time=") + 8));
  };
  EXPECT_NEAR(minutes(4) / minutes(0), 1.25, 0.05);
}

}  // namespace
}  // namespace gradsync::tools
