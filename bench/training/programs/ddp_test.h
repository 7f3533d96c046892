#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/records/record.h"
#include "bench/records/schema.h"
#include "bench/records/step_times.h"
#include "bench/testing/run_program.h"
#include "comm/testing/rank_threads.h"
#include "ddp/factory.h"
#include "model/base/flags.h"

// Helpers of tests that run the program //bench:ddp on a model of a few thousand weights, and check the
// records that it writes.
namespace gradsync::bench {

using Arguments = std::vector<std::string>;

inline constexpr char kDdp[] = "bench/ddp";

// Returns flags that make //bench:ddp train a tiny transformer and write its records to the directory `out`,
// followed by the flags `more`. The program takes two untimed steps, because a strategy may allocate memory
// in the second step too (`core` does), and tests require that timed steps allocate nothing.
inline Arguments Micro(const std::string& out, const Arguments& more = {}) {
  Arguments arguments = {"--d_model=16",     "--d_ff=32",      "--num_layers=2", "--num_heads=2",
                         "--vocab_size=64",  "--batch_size=2", "--seq_len=8",    "--bucket_bytes=4KiB",
                         "--warmup_steps=2", "--steps=3",      "--out=" + out};
  for (const std::string& argument : more) {
    constexpr std::string_view kStrategies = "--strategies=";
    const auto has_buckets = [](const std::string& name) { return ddp::TraitsOf(name).has_buckets; };
    if (argument.starts_with(kStrategies) &&
        std::ranges::none_of(SplitCommas(argument.substr(kStrategies.size())), has_buckets))
      std::erase(arguments, "--bucket_bytes=4KiB");
    arguments.push_back(argument);
  }
  return arguments;
}

inline Arguments With(Arguments arguments, const std::string& flag, const std::string& value) {
  for (std::string& argument : arguments) {
    if (argument.starts_with(flag + "=")) argument = flag + "=" + value;
  }
  return arguments;
}

inline std::vector<std::string> FilesIn(const std::string& directory, const std::string& suffix) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().string().ends_with(suffix)) paths.push_back(entry.path().string());
  }
  return paths;
}

// Runs //bench:ddp with four ranks, which act as two hosts with two ranks each. Expects that all four
// processes exit with status 0.
inline void RunOnTwoHosts(const Arguments& arguments) {
  const std::string meeting = comm::FreeTcpUrl(comm::OuterAddress());
  std::vector<std::unique_ptr<RunningProgram>> ranks;
  for (const int rank : {0, 1, 2, 3}) {
    ranks.push_back(std::make_unique<RunningProgram>(
        kDdp, arguments,
        std::vector<std::pair<std::string, std::string>>{{"GRADSYNC_RANK", std::to_string(rank)},
                                                         {"GRADSYNC_WORLD_SIZE", "4"},
                                                         {"GRADSYNC_LOCAL_RANK", std::to_string(rank % 2)},
                                                         {"GRADSYNC_LOCAL_WORLD_SIZE", "2"},
                                                         {"GRADSYNC_HOST", rank < 2 ? "a" : "b"},
                                                         {"GRADSYNC_RENDEZVOUS", meeting}}));
  }
  for (const auto& rank : ranks) {
    const ProgramResult result = rank->Wait();
    EXPECT_EQ(result.status, 0) << result.err;
  }
}

inline void ExpectOneCompleteRecord(const Record& record, size_t steps) {
  EXPECT_THAT(SchemaFaults(record), ::testing::IsEmpty());
  const auto& samples = record.samples;
  for (const auto& [name, series] : samples) EXPECT_EQ(series.size(), steps) << name;
  for (size_t i = 0; i < steps; ++i) {
    for (const auto& [name, part] : kStepParts) {
      EXPECT_TRUE(!samples.contains(name) || samples.at(name)[i] >= 0) << name.text();
    }
    EXPECT_TRUE(samples.contains("begin_step_ns") && samples.contains("hooks_ns"));
    EXPECT_GE(samples.at("comm_busy_ns")[i], 0);
    EXPECT_LE(samples.at("comm_busy_ns")[i], TimesAt(samples, i).step());
    EXPECT_GT(samples.at("compute_cpu_ns")[i], 0);
    EXPECT_GE(samples.at("communication_cpu_ns")[i], 0);
  }
  EXPECT_EQ(record.facts.IntOr("allocations_in_timed_steps", -1), 0)
      << record.variant.name() << ", seq_len " << record.config.IntOr("seq_len", 0);
  EXPECT_EQ(record.config.StringOr("model", ""), "tiny");
  EXPECT_EQ(record.config.IntOr("d_model", 0), 16);
}

inline void ExpectEqualGradients(const Record& record, const char* reference = "single_process") {
  const std::string strategy = record.variant.qualified_strategy();
  EXPECT_EQ(record.checks.StringOr("reference", ""), reference) << strategy;
  EXPECT_TRUE(record.checks.BoolOr("grads_equal", false))
      << strategy << " " << record.checks.DoubleOr("grad_rel_error", -1);
  EXPECT_TRUE(record.checks.BoolOr("params_equal", false))
      << strategy << " " << record.checks.DoubleOr("param_rel_error", -1);
  EXPECT_TRUE(record.checks.BoolOr("replicas_equal", false)) << strategy;
}

}  // namespace gradsync::bench
