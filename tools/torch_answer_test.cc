#include "tools/torch_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "model/error.h"
#include "tools/predict/test_torch_profiles.h"

namespace gradsync::tools {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

std::string AnswerOf(const TorchProfile& profile, const Elsewhere& elsewhere = {},
                     const TorchProfile* measured = nullptr) {
  std::ostringstream out;
  PrintTorchAnswer(profile, elsewhere, measured, out);
  return out.str();
}

// The same in 64 parameters.
json ManyParameters() {
  json launch = TestTorchLaunch();
  json ready = json::array();
  launch["parameters"] = json::array();
  for (int i = 0; i < 64; ++i) {
    launch["parameters"].push_back({{"name", "p"}, {"numel", 1 << 14}, {"bytes", 1 << 16}});
    ready.push_back((64 - i) * 40'000'000LL / 64);
  }
  for (const char* mode : {"none", "probe"})
    ForEachStep(&launch, mode, [&](json& step) { step["ready_ns"] = ready; });
  return launch;
}

TEST(TorchAnswer, IsOneScreen) {
  const std::string answer = AnswerOf(ProfileOf({ManyParameters()}));
  EXPECT_LE(std::ranges::count(answer, '\n'), 30);
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 110) << line;
}

TEST(TorchAnswer, TellsTheStepWithAndWithoutSynchronisation) {
  const std::string answer = AnswerOf(ProfileOf({TestTorchLaunch()}));
  EXPECT_THAT(answer, HasSubstr("3 parameters, 4.194 MB of gradients, SGD; 2 ranks over gloo on cpu"));
  EXPECT_THAT(answer, HasSubstr("Your step takes 63 ms without synchronisation."));
  EXPECT_THAT(answer, HasSubstr("with buckets of 25 MiB, the first 1 will take "));
  EXPECT_THAT(answer, HasSubstr("of which 30 ms are exposed"));
  EXPECT_THAT(answer, Not(HasSubstr("Assumed")));
}

TEST(TorchAnswer, ShowsSizesThatMakeOtherBucketsOfAsMany) {
  // 1.5, 0.5 and 2 MiB are ready in this order: 1 makes 1.5 and 2.5 of them, 2 makes 2 and 2.
  json launch = TestTorchLaunch();
  for (size_t i = 0; i < 3; ++i) launch["parameters"][i]["bytes"] = std::array{4, 1, 3}[i] << 19;
  const std::string answer = AnswerOf(ProfileOf({launch}));
  EXPECT_THAT(answer, testing::ContainsRegex("\n1  +2 "));
  EXPECT_THAT(answer, testing::ContainsRegex("\n2  +2 "));
  EXPECT_THAT(answer, testing::ContainsRegex("\n5  +1 "));
  EXPECT_THAT(answer, Not(testing::ContainsRegex("\n10  +")));  // one bucket too
}

TEST(TorchAnswer, RefusesARecordingOfAnotherModel) {
  const TorchProfile profile = ProfileOf({TestTorchLaunch()});
  for (const char* const pointer : {"/parameters/0/bytes", "/passes"}) {
    json other = TestTorchLaunch();
    other[json::json_pointer(pointer)] = 8;
    const TorchProfile measured = ProfileOf({other});
    EXPECT_THROW(AnswerOf(profile, {}, &measured), InvalidInput) << pointer;
  }
}

TEST(TorchAnswer, ComparesWhatWasMeasured) {
  EXPECT_THAT(AnswerOf(ProfileOf({TestTorchLaunch()})), HasSubstr("90 ms +- 0.0 %         +7.8 %   \n"));
  EXPECT_THAT(AnswerOf(ProfileOf({TestTorchLaunch(), TestTorchLaunch()})),
              HasSubstr("90 ms +- 0.0 %         +7.8 %   +0.0 %\n"));
  // 97 ms beside 45 that were measured elsewhere.
  json there = TestTorchLaunch();
  ForEachStep(&there, "ddp", [](json& step) { step["step_ns"] = 45'000'000; });
  const TorchProfile measured = ProfileOf({there});
  Elsewhere elsewhere;
  elsewhere.none_s = 0.063;
  EXPECT_THAT(AnswerOf(ProfileOf({TestTorchLaunch()}), elsewhere, &measured), HasSubstr("+115.6 %"));
  elsewhere.none_s = 0.126;
  EXPECT_THAT(AnswerOf(ProfileOf({TestTorchLaunch()}), elsewhere), Not(HasSubstr("measured")));
}

TEST(TorchAnswer, SaysWhereDdpMadeOtherBuckets) {
  json launch = TestTorchLaunch();
  launch["rows"][0]["rebuilt_bucket_bytes"] = {4 << 20};
  EXPECT_THAT(AnswerOf(ProfileOf({launch})), HasSubstr("+7.8 %     DDP made other buckets"));
  launch["rows"][0]["rebuilt_bucket_bytes"] = {3 << 20, 1 << 20};
  EXPECT_THAT(AnswerOf(ProfileOf({launch})), HasSubstr("+7.8 %   \n"));
}

TEST(TorchAnswer, CountsWhetherTheFasterSizeIsPredictedFaster) {
  // One bucket of all is predicted to take 107 ms, and the script's own two 97.
  json launch = TestTorchLaunch();
  json one = launch["rows"][0];
  one["name"] = "one";
  one["first_bucket_bytes"] = 25 << 20;
  one["rebuilt_bucket_bytes"] = json::array();
  json again = one;
  again["name"] = "the same buckets";
  launch["rows"].push_back(one);
  launch["rows"].push_back(again);
  for (json& rank : launch["ranks"]) {
    for (int row = 1; row < 3; ++row) {
      for (int i = 0; i < 12; ++i)
        rank.push_back({{"mode", "ddp"}, {"row", row}, {"begin_ns", 0}, {"step_ns", (95 + row) * 1'000'000}});
    }
  }
  const std::string counted =
      "Sizes of buckets that differ by more than intervals: 2 pairs, the faster one predicted: ";
  EXPECT_THAT(AnswerOf(ProfileOf({launch})), HasSubstr(counted + "2\n"));
  ForEachStep(&launch, "ddp", [](json& step) {
    if (step["row"] == 1) step["step_ns"] = 89'000'000;
  });
  EXPECT_THAT(AnswerOf(ProfileOf({launch})), HasSubstr(counted + "1\n"));
  // Only sizes may differ.
  for (const auto& [name, value] :
       {std::pair<std::string, json>("bf16", true), {"zero1", true}, {"passes", 2}}) {
    json other = launch;
    other["rows"][1][name] = value;
    EXPECT_THAT(AnswerOf(ProfileOf({other})), HasSubstr("intervals: 1 pairs, the faster one predicted: 1\n"));
  }
  ForEachStep(&launch, "ddp", [](json& step) { step["step_ns"] = 90'000'000; });
  EXPECT_THAT(AnswerOf(ProfileOf({launch})), Not(HasSubstr("Sizes of buckets")));
}

TEST(TorchAnswer, NamesTheBestSizeOnlyIfItCanBeTold) {
  // The whole model in one bucket waits for backward.
  json late = ManyParameters();
  ForEachStep(&late, "probe", [](json& step) {
    for (json& ns : step["collectives"]["ns"]) ns = ns.get<int64_t>() / 20;
    step["collectives"]["wall_ns"] = step["collectives"]["wall_ns"].get<int64_t>() / 20;
  });
  EXPECT_THAT(AnswerOf(ProfileOf({late})), HasSubstr("The best bucket size"));
  // A launch much slower than another hides what sizes differ by.
  json slow = late;
  ForEachStep(&slow, "probe", [](json& step) { step["optimizer_ns"] = 600'000'000; });
  EXPECT_THAT(AnswerOf(ProfileOf({late, slow})), HasSubstr("they differ by less than can be told"));
}

TEST(TorchAnswer, SaysWhatOptionsGain) {
  const std::string answer = AnswerOf(ProfileOf({TestTorchLaunch()}));
  EXPECT_THAT(answer, testing::ContainsRegex("no_sync.*gains \\(-28.9 %\\)"));
  EXPECT_THAT(answer, testing::ContainsRegex("twice as long.*loses \\(\\+"));
  EXPECT_THAT(answer, testing::ContainsRegex("half as long.*gains \\(-"));
}

TEST(TorchAnswer, ManyRanksWaitForTheSlowest) {
  json launch = TestTorchLaunch();
  ForEachStep(&launch, "probe", [number = 0](json& step) mutable {
    if (number++ % 4 == 0) step["before_ns"] = 60'000'000;
  });
  EXPECT_THAT(AnswerOf(ProfileOf({launch})), Not(HasSubstr("slowest")));
  Elsewhere elsewhere;
  elsewhere.world_size = 64;
  EXPECT_THAT(
      AnswerOf(ProfileOf({launch}), elsewhere),
      HasSubstr("without synchronisation; that of the slowest of 64 ranks 107 ms, if all vary as here.\n"));
}

TEST(TorchAnswer, SaysWhatItAssumes) {
  json launch = TestTorchLaunch();
  launch["device"] = "NVIDIA H100";
  EXPECT_THAT(AnswerOf(ProfileOf({launch})),
              HasSubstr("Assumed: communication takes nothing from computation on the GPU."));
  Elsewhere elsewhere;
  elsewhere.world_size = 64;
  elsewhere.wire = Wire{1e9, 0};
  const std::string answer = AnswerOf(ProfileOf({launch}), elsewhere);
  EXPECT_THAT(answer, HasSubstr("Asked for 64 ranks (1 on a host), 8 Gbit/s and 0 us between hosts.\n"
                                "Assumed: the link is within 10 % of its data sheet.\n"));
  elsewhere.ranks_per_host = 8;
  elsewhere.within = Wire{25e9, 0};
  EXPECT_THAT(AnswerOf(ProfileOf({launch}), elsewhere),
              HasSubstr("of its data sheet; ranks of a host exchange 200 Gbit/s (--within).\n"));
  elsewhere.ranks_per_host = 1;
  EXPECT_THAT(answer, Not(HasSubstr("measured")));
  // Nobody knows what communication takes of processors where nothing was communicated, or tells it.
  const std::string assumed = "Assumed: communication takes nothing from computation.";
  launch = TestTorchLaunch();
  EXPECT_THAT(AnswerOf(ProfileOf({launch}), elsewhere), Not(HasSubstr(assumed)));
  launch["backend"] = "none";
  EXPECT_THAT(AnswerOf(ProfileOf({launch}), elsewhere), HasSubstr(assumed));
  const TorchProfile other = ProfileOf({TestTorchLaunch()});
  Elsewhere as_there;
  as_there.link_of = &other;
  EXPECT_THAT(AnswerOf(ProfileOf({launch}), as_there), Not(HasSubstr("Assumed")));
  elsewhere.processor = 0.1;
  EXPECT_THAT(AnswerOf(ProfileOf({launch}), elsewhere), Not(HasSubstr(assumed)));
  Elsewhere linked;
  linked.world_size = 4;
  EXPECT_THAT(AnswerOf(ProfileOf({TestTorchLaunch()}), linked),
              HasSubstr("Assumed: collectives go around a ring."));
  linked.world_size = 2;
  EXPECT_THAT(AnswerOf(ProfileOf({TestTorchLaunch()}), linked), Not(HasSubstr("Assumed")));
  linked.link = MeasuredLink{LinkCosts({{.bytes = 1 << 20, .seconds = 0.01}}), 2, false};
  EXPECT_THAT(AnswerOf(ProfileOf({TestTorchLaunch()}), linked), HasSubstr(assumed));
}

}  // namespace
}  // namespace gradsync::tools
