#include "tools/tables/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace gradsync::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// A machine that drifts, on which strategies take turns.
class Machine {
 public:
  Place Measure(double batch_size, double seq_len, const std::vector<std::pair<std::string, double>>& means,
                size_t rounds = 20) {
    Place place{batch_size, seq_len, {}};
    for (const auto& [strategy, mean] : means) place.contenders.push_back({strategy, {}, 0.3, true, ""});
    double drift = 1;
    for (size_t round = 0; round < rounds; ++round) {
      drift *= std::exp(0.02 * normal_(random_));
      for (size_t i = 0; i < means.size(); ++i) {
        place.contenders[i].steps_s.push_back(drift * means[i].second * (0.94 + noise_(random_)));
      }
    }
    return place;
  }

 private:
  std::mt19937_64 random_{20261121};
  std::normal_distribution<double> normal_;
  std::gamma_distribution<double> noise_{2, 0.03};
};

constexpr BootstrapOptions kQuick = {.resamples = 500};

TEST(WinnerTest, SaysWhoIsFastestAndByHowMuch) {
  Machine machine;
  const Place place = machine.Measure(2, 128, {{"none", 0.5}, {"naive", 1.2}, {"core", 1}, {"flat", 1.5}});
  const std::vector<std::string> sentences = WinnerSentences({place});
  ASSERT_EQ(sentences.size(), 1u);
  EXPECT_THAT(sentences[0], StartsWith("core is fastest: -1"));
  EXPECT_THAT(sentences[0], HasSubstr(" against naive and -3"));
  EXPECT_THAT(sentences[0], HasSubstr("] against flat (95 % CI)."));
}

TEST(WinnerTest, NamesWhatIsNotDecided) {
  Machine machine;
  const Place place = machine.Measure(2, 128, {{"overlap", 1}, {"core", 1}, {"flat", 1.5}});
  const std::string sentence = WinnerSentences({place})[0];
  EXPECT_THAT(sentence, StartsWith("No strategy is shown to be fastest."));
  EXPECT_THAT(sentence, HasSubstr("decide nothing about its "));
  EXPECT_THAT(sentence, HasSubstr(", but show its -3"));
  EXPECT_THAT(sentence, HasSubstr("against flat"));
}

TEST(WinnerTest, CountsCells) {
  Machine machine;
  std::vector<Place> places;
  for (const double batch_size : {2.0, 4.0}) {
    for (const double seq_len : {128.0, 256.0, 512.0}) {
      const bool is_open = batch_size == 4 && seq_len == 512;
      places.push_back(machine.Measure(batch_size, seq_len,
                                       {{"naive", 1.3}, {"core", 1}, {"overlap", is_open ? 1 : 1.1}}));
    }
  }
  const std::string sentence = WinnerSentences(places)[0];
  EXPECT_THAT(sentence, StartsWith("core is fastest in 5 of 6 cells: -"));
  EXPECT_THAT(sentence, HasSubstr(" against overlap; in 4x512 no strategy is shown to be fastest"));
}

// With 400 sets the share has a standard error of 1.1 %.
TEST(WinnerTest, ClaimsNoWinnerWhereThereIsNone) {
  for (const size_t num_places : {size_t{1}, size_t{6}}) {
    Machine machine;
    int claims = 0;
    constexpr int kSets = 400;
    for (int set = 0; set < kSets; ++set) {
      std::vector<Place> places;
      for (size_t i = 0; i < num_places; ++i) {
        places.push_back(machine.Measure(2, static_cast<double>(i), {{"naive", 1}, {"core", 1}}));
      }
      const std::string sentence = WinnerSentences(places, kQuick)[0];
      claims += sentence.find(" is fastest") != std::string::npos ? 1 : 0;
    }
    EXPECT_LE(claims, 0.075 * kSets) << num_places << " places";
  }
}

// The one with the smallest mean was chosen because it is small; what is said of it must allow for that.
TEST(WinnerTest, ClaimsNoLoserWhereThereIsNone) {
  Machine machine;
  int claims = 0;
  constexpr int kSets = 400;
  for (int set = 0; set < kSets; ++set) {
    const Place place = machine.Measure(2, 128, {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}, {"f", 1}});
    const std::string sentence = WinnerSentences({place}, kQuick)[0];
    claims += sentence.find(" is fastest") != std::string::npos ||
                      sentence.find("but show its") != std::string::npos
                  ? 1
                  : 0;
  }
  EXPECT_LE(claims, 0.075 * kSets);
}

TEST(WinnerTest, FindsADifferenceOfATenth) {
  Machine machine;
  int found = 0;
  constexpr int kSets = 100;
  for (int set = 0; set < kSets; ++set) {
    const Place place = machine.Measure(2, 128, {{"naive", 1.1}, {"core", 1}, {"flat", 1.15}});
    found += WinnerSentences({place}, kQuick)[0].starts_with("core is fastest") ? 1 : 0;
  }
  EXPECT_GE(found, 95);
}

TEST(WinnerTest, RefusesWhereAFlagMakesTimesVoid) {
  Machine machine;
  for (const char* flag : {"world=1", "traced", "n<10", "published"}) {
    Place place = machine.Measure(2, 128, {{"naive", 1.2}, {"core", 1}});
    place.contenders[1].flags = std::string("dirty ") + flag + " n<100";
    EXPECT_THAT(
        WinnerSentences({place}),
        ElementsAre(::testing::AllOf(StartsWith("No strategy is called fastest: "), HasSubstr(flag))));
  }
  // Not a word that begins alike.
  Place place = machine.Measure(2, 128, {{"naive", 1.2}, {"core", 1}});
  place.contenders[1].flags = "n<100 oversubscribed";
  EXPECT_THAT(WinnerSentences({place})[0], StartsWith("core is fastest"));
  EXPECT_THAT(WinnerSentences({place})[0], HasSubstr("more threads than CPUs"));
}

TEST(WinnerTest, AWrongResultWinsNothing) {
  Machine machine;
  Place place = machine.Measure(2, 128, {{"naive", 1.2}, {"core", 1}, {"flat", 1.4}});
  place.contenders[1].flags = "unequal";
  EXPECT_THAT(WinnerSentences({place})[0], StartsWith("naive is fastest"));
  EXPECT_THAT(WinnerSentences({place})[0], Not(HasSubstr("core")));
}

TEST(WinnerTest, OneStrategyIsNoContest) {
  Machine machine;
  EXPECT_THAT(WinnerSentences({machine.Measure(2, 128, {{"none", 1}, {"core", 1}})}), IsEmpty());
}

std::vector<Place> Shares(const std::vector<double>& shares) {
  std::vector<Place> places;
  size_t i = 0;
  for (const double batch_size : {2.0, 4.0}) {
    for (const double seq_len : {128.0, 256.0, 512.0}) {
      places.push_back({batch_size, seq_len, {{"overlap", {}, shares[i++], true, ""}}});
    }
  }
  return places;
}

TEST(TrendTest, SaysWhereTheShareFalls) {
  EXPECT_THAT(TrendSentences(Shares({0.32, 0.26, 0.17, 0.27, 0.19, 0.13})),
              ElementsAre("In the means, the share of synchronisation under overlap falls with every larger "
                          "batch and falls with every larger sequence (13 to 32 %)."));
  EXPECT_THAT(TrendSentences(Shares({0.32, 0.26, 0.17, 0.33, 0.19, 0.13})),
              ElementsAre("In the means, the share of synchronisation under overlap falls with every larger "
                          "sequence (13 to 33 %)."));
  EXPECT_THAT(TrendSentences(Shares({0.32, 0.26, 0.27, 0.33, 0.19, 0.13})), IsEmpty());
}

TEST(TrendTest, LeavesOutOutliersAndSaysSo) {
  std::vector<Place> places = Shares({0.52, 0.51, 0.46, 0.51, 0.47, 0.90});
  EXPECT_THAT(TrendSentences(places), IsEmpty());
  places.back().contenders.front().flags = "published outlier-cell";
  EXPECT_THAT(
      TrendSentences(places),
      ElementsAre("In the means, the share of synchronisation under overlap falls with every larger "
                  "batch and falls with every larger sequence (46 to 52 %; without 4x512, off the trend)."));
}

}  // namespace
}  // namespace gradsync::tools
