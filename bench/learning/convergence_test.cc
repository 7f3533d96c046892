// //bench:convergence from its command line to its files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/records/record.h"
#include "bench/records/schema.h"
#include "bench/testing/run_program.h"

namespace gradsync::bench {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ProgramResult Learn(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"--num_layers=1",      "--d_model=16",        "--d_ff=32",
                                        "--num_heads=2",       "--seq_len=16",        "--batch_size=2",
                                        "--evaluate_every=2",  "--backend=shm",       "--seeds=2",
                                        "--text_bytes=300KiB", "--held_out_windows=8"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunProgram("bench/convergence", arguments);
}

TEST(ConvergenceProgramTest, EveryTrialIsARecord) {
  const std::string out = FreshDirectory();
  const ProgramResult result = Learn({"--variants=naive,core,none", "--steps=5", "--out=" + out});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, AllOf(HasSubstr("C++ headers"), ContainsRegex("\ncore@shm +[0-9.]+ +")));
  std::set<std::string> trials;
  std::map<std::string, std::vector<int64_t>> losses;
  std::map<std::string, std::vector<double>> bits;
  for (const Record& record : RecordsIn(out)) {
    EXPECT_EQ(record.experiment, "convergence");
    EXPECT_THAT(SchemaFaults(record), IsEmpty());
    const std::string name = record.variant.name() + std::to_string(record.config.IntOr("trial_seed", -1));
    trials.insert(name + std::to_string(record.rank));
    const std::vector<int64_t>& held_out = record.samples.at("held_out_loss_nano");
    ASSERT_EQ(held_out.size(), 5);
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(held_out[i] >= 0, i % 2 == 1 || i == 4) << i;
    EXPECT_EQ(record.config.StringOr("text_sha256", "").size(), 64);
    // In each step, of two ranks each sends every gradient once, and `core` in one of them what its order is.
    const double sent = record.facts.DoubleOr("sent_bytes_per_step", -1);
    const std::string strategy = record.variant.strategy;
    const double all = 4.0 * static_cast<double>(record.facts.IntOr("num_parameters", 0));
    EXPECT_LE(sent, 1.001 * all);
    EXPECT_EQ(sent > 0, strategy != "none");
    EXPECT_GE(strategy == "none" ? all : sent, all);
    losses[name] = record.samples.at("training_loss_nano");
    // In nats, the mean over ranks: random weights know nothing of 256 bytes.
    EXPECT_NEAR(1e-9 * static_cast<double>(losses[name][0]), std::log(256), 0.5) << name;
    bits[name.substr(0, name.size() - 1)].push_back(1e-9 * static_cast<double>(held_out.back()) /
                                                    std::log(2));
  }
  EXPECT_EQ(trials.size(), 3 * 2 * 2);
  // Printed in bits, the mean over seeds.
  for (const auto& [name, all] : bits) {
    const double mean = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
    EXPECT_THAT(result.out, ContainsRegex(absl::StrFormat("\n%s +%.4f", name, mean)));
  }
  // The same weights and batches; other ones from another seed.
  EXPECT_EQ(losses["naive@shm0"][0], losses["core@shm0"][0]);
  EXPECT_NE(losses["naive@shm0"][0], losses["naive@shm1"][0]);
}

// The setting that learns best on seeds of its own is judged, be it first, last or neither: weights that do
// not move learn nothing.
TEST(ConvergenceProgramTest, ChoosesSettingsOnOtherSeeds) {
  const std::string out = FreshDirectory();
  const ProgramResult result = Learn({"--variants=naive,local_sgd:period=2", "--steps=6", "--tune_seeds=1",
                                      "--tune=learning_rate=1e-9,1e-2,1e-8", "--out=" + out});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Best of 3 settings: naive:learning_rate=0.01@shm\n"));
  std::map<std::string, std::set<int64_t>> tried, judged;
  for (const Record& record : RecordsIn(out)) {
    EXPECT_THAT(SchemaFaults(record), IsEmpty());
    EXPECT_TRUE(record.variant.tuned);
    const bool is_tuning = record.facts.BoolOr("tuning", false);
    (is_tuning ? tried : judged)[record.variant.name()].insert(record.config.IntOr("trial_seed", -1));
    const std::vector<int64_t>& losses = record.samples.at("held_out_loss_nano");
    if (record.variant.NumberOr("learning_rate", 0) < 1e-3) {
      EXPECT_NEAR(static_cast<double>(losses[5] - losses[1]), 0, 1e4);
    } else {
      EXPECT_LT(losses[5], losses[1] - 1'000'000);
    }
  }
  const std::set<int64_t> third = {2}, others = {0, 1};
  EXPECT_EQ(tried,
            (std::map<std::string, std::set<int64_t>>{{"local_sgd:learning_rate=0.01,period=2@shm", third},
                                                      {"local_sgd:learning_rate=1e-08,period=2@shm", third},
                                                      {"local_sgd:learning_rate=1e-09,period=2@shm", third},
                                                      {"naive:learning_rate=0.01@shm", third},
                                                      {"naive:learning_rate=1e-08@shm", third},
                                                      {"naive:learning_rate=1e-09@shm", third}}));
  EXPECT_EQ(judged,
            (std::map<std::string, std::set<int64_t>>{{"local_sgd:learning_rate=0.01,period=2@shm", others},
                                                      {"naive:learning_rate=0.01@shm", others}}));
}

// Every variant with each optimizer, chosen among as many settings, on the same seeds.
TEST(ConvergenceProgramTest, OptimizersAreCompared) {
  const std::string out = FreshDirectory();
  const ProgramResult result = Learn({"--variants=owned", "--optimizer=adamw,muon", "--steps=6",
                                      "--tune_seeds=1", "--tune=learning_rate=1e-9,1e-2", "--out=" + out});
  ASSERT_EQ(result.status, 0) << result.err;
  std::map<std::string, std::set<int64_t>> judged;
  std::map<std::string, int64_t> losses;
  int num_tuning = 0;
  for (const Record& record : RecordsIn(out)) {
    EXPECT_THAT(SchemaFaults(record), IsEmpty());
    EXPECT_EQ(record.config.Find("optimizer"), nullptr);  // or rows would be of two settings
    num_tuning += record.facts.BoolOr("tuning", false);
    if (record.facts.BoolOr("tuning", false)) continue;
    judged[record.variant.name()].insert(record.config.IntOr("trial_seed", -1));
    losses[record.variant.name()] = record.samples.at("held_out_loss_nano").back();
  }
  const std::set<int64_t> seeds = {0, 1};
  EXPECT_EQ(judged, (std::map<std::string, std::set<int64_t>>{
                        {"owned:learning_rate=0.01,optimizer=adamw@shm", seeds},
                        {"owned:learning_rate=0.01,optimizer=muon@shm", seeds}}));
  EXPECT_NE(losses.begin()->second, losses.rbegin()->second);
  EXPECT_EQ(num_tuning, 2 * 2 * 2);
}

TEST(ConvergenceProgramTest, RefusesInOneLine) {
  const auto expect_refused = [](const std::vector<std::string>& arguments, const std::string& why) {
    const ProgramResult result = Learn(arguments);
    EXPECT_EQ(result.status, 2) << why;
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  };
  expect_refused({"--variants=naive", "--lr_schedule=cosine,min=7"},
                 "--lr_schedule=cosine,min=7: expected constant[,warmup=STEPS] or cosine");
  expect_refused({"--variants=naive", "--vocab_size=9"}, "--vocab_size: convergence has no such flag");
  expect_refused({"--variants=naive", "--model=small"}, "--model: convergence has no such flag");
  expect_refused({"--variants=naive", "--corpus=/nonexistent"}, "--corpus: /nonexistent: cannot be read");
}

}  // namespace
}  // namespace gradsync::bench
