#include "tools/tables/all_reduce_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "model/error.h"

namespace gradsync::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr double kMiB = 1 << 20;

// A link with a latency and a bandwidth, whose times vary by about `noise`.
class Link {
 public:
  Transfer Send(const std::string& backend, double mebi, double latency_s, double bytes_per_second,
                double noise = 0.01, size_t iterations = 20) {
    Transfer transfer{.backend = backend, .size_bytes = mebi * kMiB, .world_size = 2, .wrong_elements = 0};
    std::normal_distribution<double> normal;
    for (size_t i = 0; i < iterations; ++i) {
      transfer.times.values.push_back((latency_s + transfer.size_bytes / bytes_per_second) *
                                      (1 + noise * normal(random_)));
    }
    return transfer;
  }

 private:
  std::mt19937_64 random_{20261121};
};

// 1, 10, 100 and 1000 MB, at 2 GB/s after a millisecond: 34, 84, 98.1 and 99.8 % of it.
std::vector<Transfer> FourSizes(double noise = 0.01) {
  Link link;
  std::vector<Transfer> transfers;
  for (const double mebi : {1000.0, 1.0, 100.0, 10.0}) {
    transfers.push_back(link.Send("gloo", mebi, 1e-3, 2e9, noise));
  }
  return transfers;
}

TEST(FastestBackendTest, WhatMemoryAllowsIsNoBackend) {
  Link link;
  std::vector<Transfer> transfers = {link.Send("gloo", 1, 1e-3, 1e9), link.Send("shm", 1, 1e-3, 4e9)};
  const std::vector<std::string> sentences = FastestBackendSentences(transfers);
  ASSERT_THAT(sentences, Not(IsEmpty()));
  EXPECT_THAT(sentences[0], StartsWith("shm is fastest"));
  transfers.push_back(link.Send("memory_limit", 1, 1e-4, 8e9));
  EXPECT_EQ(FastestBackendSentences(transfers), sentences);
}

TEST(SaturationTest, SaysFromWhereOnBandwidthIsAtItsHighest) {
  EXPECT_THAT(SaturationSentences(FourSizes()),
              ElementsAre("Bus bandwidth of gloo is highest at 1000 MB (2 GB/s); saturated from 100 MB on.",
                          "Bus bandwidth of gloo is within 10 % of that at 100 MB, lower at 1 MB and 10 MB "
                          "(simultaneous 95 % CI)."));
}

TEST(SaturationTest, StillRisingIsNotSaturated) {
  Link link;
  const std::vector<Transfer> transfers = {link.Send("gloo", 1, 1e-2, 2e9), link.Send("gloo", 10, 1e-2, 2e9)};
  const std::vector<std::string> sentences = SaturationSentences(transfers);
  ASSERT_EQ(sentences.size(), 2u);
  EXPECT_THAT(sentences[0], StartsWith("Bus bandwidth of gloo is highest at 10 MB ("));
  EXPECT_THAT(sentences[0], HasSubstr("); no saturation is shown."));
  EXPECT_EQ(sentences[1], "Bus bandwidth of gloo is lower at 1 MB (simultaneous 95 % CI).");
}

TEST(SaturationTest, AFallBehindThePeakIsNoSaturation) {
  Link link;
  const std::vector<Transfer> transfers = {link.Send("gloo", 1, 1e-2, 2e9), link.Send("gloo", 10, 0, 2e9),
                                           link.Send("gloo", 100, 0, 1e9)};
  const std::vector<std::string> sentences = SaturationSentences(transfers);
  ASSERT_EQ(sentences.size(), 2u);
  EXPECT_THAT(sentences[0], HasSubstr("highest at 10 MB ("));
  EXPECT_THAT(sentences[0], Not(HasSubstr("saturat")));
  EXPECT_THAT(sentences[1], HasSubstr("lower at 1 MB and 100 MB (simultaneous 95 % CI)."));
}

TEST(SaturationTest, NoiseDecidesNothing) {
  const std::vector<std::string> sentences = SaturationSentences(FourSizes(0.4));
  ASSERT_EQ(sentences.size(), 2u);
  EXPECT_THAT(sentences[0], Not(HasSubstr("saturat")));
  EXPECT_THAT(sentences[1], HasSubstr("undecided at "));
  EXPECT_THAT(sentences[1], Not(HasSubstr("within")));
}

// A size of just nine tenths of the highest bandwidth: neither may be said in more than one set of twenty.
// With 400 sets the share has a standard error of 1.1 %.
TEST(SaturationTest, AtTheBoundItIsRarelyCalled) {
  Link link;
  int called = 0;
  for (int set = 0; set < 400; ++set) {
    const std::string sentence = SaturationSentences(
        {link.Send("gloo", 10, 0, 1.8e9, 0.05), link.Send("gloo", 100, 0, 2e9, 0.05)}, {.resamples = 300})[1];
    called += sentence.find("undecided") == std::string::npos;
  }
  EXPECT_LT(called, 0.09 * 400);
}

TEST(SaturationTest, NothingIsSaidOfWhatWasNotMeasured) {
  Link link;
  EXPECT_THAT(SaturationSentences({link.Send("gloo", 10, 0, 1e9)}), IsEmpty());
  EXPECT_THAT(SaturationSentences({}), IsEmpty());
  std::vector<Transfer> alone = FourSizes();
  for (Transfer& transfer : alone) transfer.world_size = 1;
  EXPECT_THAT(SaturationSentences(alone), IsEmpty());
  std::vector<Transfer> wrong = FourSizes();
  for (Transfer& transfer : wrong) transfer.wrong_elements = 1;
  EXPECT_THAT(SaturationSentences(wrong), IsEmpty());
  EXPECT_THAT(SaturationSentences({link.Send("gloo", 1, 0, 1e9, 0, 9), link.Send("gloo", 2, 0, 1e9, 0, 9)}),
              IsEmpty());
}

// Each in words that fit in the first of 25, whatever differs.
TEST(SaturationTest, SeveralRunsAreToldApart) {
  std::vector<Transfer> transfers = FourSizes();
  for (Transfer& transfer : transfers) transfer.run = {"Run a", "all_gather", "cpu", "sum", "f32", "2 ranks"};
  for (Transfer transfer : FourSizes()) {
    transfer.run = {"Run b", "broadcast", "cuda", "mean", "bf16", "4 ranks"};
    transfers.push_back(std::move(transfer));
  }
  const std::vector<std::string> sentences = TransferSentences(transfers, {});
  ASSERT_EQ(sentences.size(), 5u);
  EXPECT_EQ(sentences[0],
            "Run a, all_gather, cpu, sum, f32, 2 ranks: Bus bandwidth of gloo is highest at 1000 MB "
            "(2 GB/s); saturated from 100 MB on.");
  EXPECT_LE(std::ranges::count(sentences[0], ' ') + 1, 25);
  EXPECT_THAT(sentences[2], StartsWith("Run b, broadcast, cuda, mean, bf16, 4 ranks: "));
  for (Transfer& transfer : transfers) transfer.run.resize(1);
  EXPECT_THAT(TransferSentences(transfers, {})[0], StartsWith("Run a: Bus bandwidth"));
  // Not each of many.
  for (const char* const run : {"Run c", "Run d", "Run e"}) {
    for (Transfer transfer : FourSizes()) {
      transfer.run = {run};
      transfers.push_back(std::move(transfer));
    }
  }
  EXPECT_THAT(TransferSentences(transfers, {}), ElementsAre("No element of any result was wrong."));
}

TEST(FastestBackendTest, CountsSizes) {
  Link link;
  std::vector<Transfer> transfers;
  for (const double mebi : {1.0, 10.0, 100.0}) {
    transfers.push_back(link.Send("gloo", mebi, mebi == 1 ? 1e-3 : 5e-3, 2e9));
    transfers.push_back(link.Send("local", mebi, mebi == 100 ? 5e-3 : 2e-3, 2e9));
  }
  const std::vector<std::string> sentences = FastestBackendSentences(transfers);
  EXPECT_THAT(sentences, ElementsAre("gloo is fastest at 1 of 3 sizes, local at 1; at 1 it is open."));
}

TEST(FastestBackendTest, OneBackendWinsNothing) {
  EXPECT_THAT(FastestBackendSentences(FourSizes()), IsEmpty());
}

TEST(CorrectnessTest, WrongElementsComeFirst) {
  std::vector<Transfer> transfers = FourSizes();
  EXPECT_THAT(CorrectnessSentences(transfers), ElementsAre("No element of any result was wrong."));
  transfers[1].wrong_elements = 3;
  transfers[3].wrong_elements = 1;
  EXPECT_THAT(
      CorrectnessSentences(transfers),
      ElementsAre("Wrong elements: 3 by gloo at 1 MB and 1 by gloo at 10 MB. Times of wrong results are "
                  "not compared."));
  for (Transfer& transfer : transfers) transfer.wrong_elements = 5;
  EXPECT_THAT(CorrectnessSentences(transfers)[0],
              StartsWith("Wrong elements: 5 by gloo at 1000 MB, 5 by gloo at 1 MB and 2 times more."));
  transfers = FourSizes();
  transfers[0].wrong_elements.reset();
  EXPECT_THAT(CorrectnessSentences(transfers), IsEmpty());
  EXPECT_THAT(CorrectnessSentences({}), IsEmpty());
}

}  // namespace
}  // namespace gradsync::tools
