// //bench:ddp and //bench:compare --with_peers, with a program in the place of PyTorch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bench/records/record.h"
#include "bench/records/schema.h"
#include "bench/records/step_times.h"
#include "bench/testing/run_program.h"
#include "model/base/error.h"
#include "model/files/safetensors.h"

namespace gradsync::bench {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Environment = std::vector<std::pair<std::string, std::string>>;

ProgramResult RunDdp(const std::string& out, const std::vector<std::string>& more,
                     const Environment& environment = {}) {
  std::vector<std::string> arguments = {
      "--d_model=16",    "--d_ff=32",      "--num_layers=1",   "--num_heads=2", "--seq_len=8",
      "--vocab_size=64", "--batch_size=2", "--warmup_steps=1", "--steps=3",     "--out=" + out};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunProgram("bench/ddp", arguments, environment);
}

std::vector<std::string> WithFake(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"--with_peers=pytorch", "--peer_python=bench/peers/fake_peer"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(DdpPeersTest, PeersTakeTheirStepsInTurn) {
  const std::string out = FreshDirectory();
  const ProgramResult result =
      RunDdp(out, WithFake({"--strategies=naive,bucketed_async,core", "--verify=false"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, testing::HasSubstr(" or their own equation, 6 were not checked"));
  std::map<std::string, int> count;
  std::map<int64_t, std::set<int64_t>> positions;  // by round
  for (const Record& record : RecordsIn(out)) {
    const std::string strategy = record.variant.qualified_strategy();
    ++count[strategy];
    const std::vector<int64_t>& order = record.samples.at("position");
    for (size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(order[i] / 6, static_cast<int64_t>(i));
      positions[static_cast<int64_t>(i)].insert(order[i]);
    }
    if (!strategy.starts_with("pytorch_")) {
      EXPECT_EQ(record.provenance.libraries.Find("pytorch"), nullptr);
      continue;
    }
    EXPECT_EQ(record.provenance.libraries.StringOr("pytorch", ""), "9.9");
    EXPECT_EQ(record.provenance.libraries.StringOr("mmap_max", ""), "0");
    EXPECT_EQ(record.facts.StringOr("malloc", ""),
              "MALLOC_MMAP_MAX_=0 MALLOC_TOP_PAD_=67108864 MALLOC_TRIM_THRESHOLD_=17179869184");
    EXPECT_EQ(record.config.StringOr("model", ""), "tiny");
    EXPECT_EQ(record.provenance.clock, "a sundial");
    EXPECT_EQ(record.samples.at("begin_ns"), (std::vector<int64_t>{7, 7, 7}));
    const StepTimes times = TimesAt(record.samples, 2);
    EXPECT_EQ(times.step(), 1000 + 2500 + 300);
    EXPECT_EQ(times.after_forward(), 2500);
    EXPECT_EQ(times.backward.has_value(), strategy == "pytorch_naive");
    EXPECT_EQ(times.waits().has_value(), strategy == "pytorch_naive");
    for (const SampleName unknown :
         std::initializer_list<SampleName>{"comm_busy_ns", "compute_cpu_ns", "communication_cpu_ns"}) {
      EXPECT_FALSE(record.samples.contains(unknown)) << unknown.text();
    }
    EXPECT_THAT(SchemaFaults(record), Each(StartsWith("no \"")));
    EXPECT_EQ(record.facts.IntOr("peak_bytes_in_use", 0), strategy == "pytorch_naive" ? 4096 : 0);
    EXPECT_TRUE(record.buckets.empty());
    EXPECT_EQ(record.facts.StringOr("bucket_sizes", ""), strategy == "pytorch_naive" ? "" : "4096, 8192");
    EXPECT_EQ(record.facts.StringOr("peer", ""), "pytorch");
    EXPECT_EQ(record.facts.StringOr("floor", ""), "pytorch_none");
    EXPECT_EQ(record.facts.StringOr("twin", ""), strategy == "pytorch_naive" ? "naive"
                                                 : strategy == "pytorch_ddp" ? "bucketed_async"
                                                                             : "core");
  }
  EXPECT_EQ(count, (std::map<std::string, int>{{"bucketed_async", 2},
                                               {"core", 2},
                                               {"naive", 2},
                                               {"pytorch_ddp", 2},
                                               {"pytorch_ddp_view", 2},
                                               {"pytorch_naive", 2}}));
  for (const auto& [round, places] : positions) EXPECT_EQ(places.size(), 6u) << round;
}

// Also after the steps of an earlier setting.
TEST(DdpPeersTest, PeersBeginWithTheInitialWeightsInEverySetting) {
  const std::string out = FreshDirectory(), log = out + "/log";
  const ProgramResult result =
      RunProgram("bench/ddp",
                 WithFake({"--d_model=16", "--d_ff=32", "--num_layers=1", "--num_heads=2", "--seq_len=8",
                           "--vocab_size=64", "--batch_size=2,3", "--warmup_steps=1", "--steps=3",
                           "--strategies=naive", "--world_size=1", "--verify=false", "--out=" + out}),
                 {{"FAKE_PEER_LOG", log}});
  ASSERT_EQ(result.status, 0) << result.err;
  std::istringstream lines(ReadText(log));
  std::vector<std::string> weights;
  for (std::string line; std::getline(lines, line);) weights.push_back(line.substr(line.rfind(", weights ")));
  ASSERT_EQ(weights.size(), 2u);
  EXPECT_EQ(weights[0], weights[1]);
}

TEST(DdpPeersTest, ImagesAndTheirBucketsReachThePeerToo) {
  const std::string out = FreshDirectory(), log = out + "/log";
  const ProgramResult result =
      RunProgram("bench/compare",
                 WithFake({"--width=4", "--image_size=16", "--batch_size=3", "--buffer_elements=1Ki,1Mi",
                           "--units=published", "--warmup_steps=0", "--steps=1", "--world_size=1",
                           "--threads_per_rank=1", "--verify=false", "--out=" + out}),
                 {{"FAKE_PEER_LOG", log}});
  ASSERT_EQ(result.status, 0) << result.err;
  // All peers begin at once: for each size `ddp_view`, the peer of core, and `ddp`, the peer of
  // bucketed_async, whose elements are counted.
  const std::string begins = ReadText(log);
  EXPECT_THAT(begins, HasSubstr(R"("bucket_bytes":{"ddp:4096":4096,"ddp:4194304":4194304,)"
                                R"("ddp_view:1024":1024,"ddp_view:1048576":1048576})"));
  EXPECT_THAT(begins, HasSubstr(R"("image_size":16)"));
  EXPECT_THAT(begins, HasSubstr(R"("width":4)"));
  std::map<std::string, int> count;
  for (const Record& record : RecordsIn(out)) {
    const std::string strategy = record.variant.qualified_strategy();
    ++count[strategy];
    const bool elements_are_mib = strategy.ends_with("core") || strategy.ends_with("view");
    EXPECT_EQ(record.facts.IntOr("bucket_bytes", 0),
              record.variant.NumberOr("published_size", 0) * (elements_are_mib ? 1 : 4));
  }
  EXPECT_EQ(count, (std::map<std::string, int>{{"bucketed_async", 2},
                                               {"bucketed_sync", 2},
                                               {"core", 2},
                                               {"pytorch_ddp", 2},
                                               {"pytorch_ddp_view", 2}}));
}

TEST(DdpPeersTest, EagerAndCompiledTakeTurns) {
  const std::string out = FreshDirectory();
  // What the user has set for its memory stays.
  const ProgramResult result = RunDdp(out,
                                      WithFake({"--strategies=none,core", "--peer_modes=eager,compiled",
                                                "--world_size=1", "--threads_per_rank=1", "--verify=false"}),
                                      {{"MALLOC_MMAP_MAX_", "7"}});
  ASSERT_EQ(result.status, 0) << result.err;
  std::set<std::string> strategies;
  for (const Record& record : RecordsIn(out)) {
    const std::string strategy = record.variant.qualified_strategy();
    strategies.insert(strategy);
    const bool compiled = strategy.ends_with("_compiled"), is_peer = strategy.starts_with("pytorch_");
    EXPECT_EQ(record.provenance.libraries.StringOr("mmap_max", ""), is_peer ? "7" : "");
    EXPECT_EQ(record.facts.StringOr("malloc", "").starts_with("MALLOC_MMAP_MAX_=7 "), is_peer);
    EXPECT_EQ(record.facts.StringOr("compiled", ""), compiled ? "a model" : "");
    EXPECT_EQ(record.facts.IntOr("compile_ns", 0), compiled ? 77 : 0);
    // What the peer says.
    EXPECT_EQ(record.facts.IntOr("peak_bytes_in_use", 0) == 4096, strategy.starts_with("pytorch_none"))
        << strategy;
  }
  EXPECT_EQ(strategies,
            (std::set<std::string>{"core", "none", "pytorch_ddp_view", "pytorch_ddp_view_compiled",
                                   "pytorch_none", "pytorch_none_compiled"}));
}

TEST(DdpPeersTest, WhatPyTorchLacksIsRefused) {
  const auto refusal_of = [](const std::vector<std::string>& arguments, const char* fault) {
    const ProgramResult result = RunDdp(FreshDirectory(), arguments, {{"FAKE_PEER", fault}});
    EXPECT_EQ(result.status, 2);
    return result.err;
  };
  EXPECT_EQ(refusal_of(WithFake({}), "uninstalled"),
            "--with_peers=pytorch: this has no PyTorch: install it\n");
  EXPECT_THAT(refusal_of({"--with_peers=pytorch", "--peer_python=/nowhere/python"}, ""),
              HasSubstr("--peer_python=/nowhere/python: cannot be run: No such file"));
  EXPECT_EQ(refusal_of(WithFake({"--peer_modes=compiled"}), "compilerless"),
            "--with_peers=pytorch: no compiler for cpu\n");
  EXPECT_EQ(RunDdp(FreshDirectory(), WithFake({"--verify=false"}), {{"FAKE_PEER", "compilerless"}}).status,
            0);
}

// Writes what a peer may answer: each tensor of the file `dump`, changed by `made`, is a parameter and its
// gradient. Returns the path of the answer.
std::string WriteAnswer(const std::string& dump, const std::function<model::Tensor(model::Tensor)>& made) {
  const model::SafetensorsFile file = model::SafetensorsFile::Open(dump);
  std::vector<std::pair<std::string, model::Tensor>> tensors;
  for (const auto& entry : file.entries()) {
    const model::Tensor tensor = made(file.Load(entry.name, model::CpuDevice()));
    tensors.emplace_back(entry.name, tensor);
    tensors.emplace_back("grad." + entry.name, tensor);
  }
  std::string path = dump + ".answer";
  model::WriteSafetensors(path, tensors);
  return path;
}

TEST(DdpPeersTest, APeerThatComputesSomethingElseIsFound) {
  const std::string dump = FreshDirectory() + "/dump";
  ASSERT_EQ(RunDdp(FreshDirectory(), {"--strategies=naive", "--verify=false", "--dump_grads=" + dump}).status,
            0);
  // Gradients in the parameters' places, too.
  const std::string wrong = WriteAnswer(dump, [](model::Tensor gradient) { return gradient; });
  const std::string out = FreshDirectory();
  const ProgramResult result = RunDdp(out, WithFake({"--strategies=naive"}), {{"FAKE_PEER_RESULT", wrong}});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("pytorch_naive@gloo: "));
  EXPECT_THAT(result.err, HasSubstr("differs from a single process's"));
  for (const Record& record : RecordsIn(out)) {
    const bool own = record.variant.qualified_strategy() == "naive";
    EXPECT_EQ(record.checks.BoolOr("params_equal", !own), own);
  }
}

TEST(DdpPeersTest, ACheckThatFailsLosesNoTimes) {
  const std::string out = FreshDirectory();
  const ProgramResult result =
      RunDdp(out, WithFake({"--strategies=naive"}), {{"FAKE_PEER_RESULT", "/nowhere"}});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("fake_peer was killed by signal 6"));
  const std::vector<Record> records = RecordsIn(out);
  EXPECT_EQ(records.size(), 4u);
  for (const Record& record : records) {
    EXPECT_EQ(record.samples.at("forward_ns").size(), 3u);
    const bool own = record.variant.qualified_strategy() == "naive";
    EXPECT_EQ(record.checks.StringOr("reference", ""), own ? "single_process" : "");
  }
}

// Rounding explains much of images' gradients, but no error as large as the gradient.
TEST(DdpPeersTest, APeerOnImagesThatComputesNothingIsFound) {
  const std::string dump = FreshDirectory() + "/dump";
  const auto compare = [](const std::vector<std::string>& more, const Environment& environment = {}) {
    std::vector<std::string> arguments = {
        "--width=4", "--image_size=16",       "--batch_size=3", "--strategies=core",   "--warmup_steps=0",
        "--steps=1", "--buffer_elements=1Mi", "--world_size=1", "--threads_per_rank=1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunProgram("bench/compare", arguments, environment);
  };
  ASSERT_EQ(compare({"--verify=false", "--dump_grads=" + dump, "--out=" + FreshDirectory()}).status, 0);
  const std::string zeros = WriteAnswer(dump, [](model::Tensor gradient) {
    gradient.Zero();
    return gradient;
  });
  const std::string out = FreshDirectory();
  const ProgramResult result = compare(WithFake({"--out=" + out}), {{"FAKE_PEER_RESULT", zeros}});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("pytorch_ddp_view:bucket_elements=1Mi@gloo: the gradient of "));
  for (const Record& record : RecordsIn(out)) {
    const bool own = record.variant.qualified_strategy() == "core";
    EXPECT_EQ(record.checks.BoolOr("grads_equal", !own), own);
    EXPECT_NEAR(record.checks.DoubleOr("grad_rel_error", -1), own ? 0 : 1, 0.01);
  }
}

// On images in bf16 nothing tells a peer's gradients from wrong ones. It is not even asked for them: the fake
// has none.
TEST(DdpPeersTest, GradientsOfAPeerOnImagesInBF16AreNotChecked) {
  const std::string out = FreshDirectory();
  const ProgramResult result = RunProgram(
      "bench/compare", WithFake({"--width=4", "--image_size=16", "--batch_size=3", "--dtype=bf16",
                                 "--buffer_elements=1Mi", "--strategies=core", "--warmup_steps=0",
                                 "--steps=1", "--world_size=1", "--threads_per_rank=1", "--out=" + out}));
  ASSERT_EQ(result.status, 0) << result.err;
  std::map<std::string, std::string> references;
  for (const Record& record : RecordsIn(out)) {
    EXPECT_EQ(record.config.StringOr("dtype", ""), "bf16");
    references[record.variant.qualified_strategy()] = record.checks.StringOr("reference", "");
  }
  EXPECT_EQ(references,
            (std::map<std::string, std::string>{{"core", "single_process"}, {"pytorch_ddp_view", "none"}}));
}

// Its weights do not follow from the mean of gradients, as those of gradsync's own do not either.
TEST(DdpPeersTest, APeerIsNotCheckedForWhatItDoesNotClaim) {
  const std::string out = FreshDirectory();
  const ProgramResult result = RunDdp(out, WithFake({"--strategies=local_sgd"}));
  ASSERT_EQ(result.status, 0) << result.err;
  std::map<std::string, std::string> references;
  for (const Record& record : RecordsIn(out))
    references[record.variant.qualified_strategy()] = record.checks.StringOr("reference", "");
  EXPECT_EQ(references, (std::map<std::string, std::string>{{"local_sgd", "equation"},
                                                            {"pytorch_post_local_sgd", "none"}}));
}

TEST(DdpPeersTest, APeerThatFailsEndsTheRunAndTheLineSaysHow) {
  // Ranks have to start within the time of the one that hangs, too.
  const auto seconds = kPatience.count() / 60;
  const struct {
    const char* fault;
    std::string timeout, line;
  } cases[] = {
      {"dies", "1m", "fake_peer exited with status 3: RuntimeError: out of luck"},
      {"garbles", "1m", "the peer's answer to hello is no JSON object: nonsense"},
      {"hangs", Join(seconds, "s"), Join("fake_peer: gave no answer within ", 1000 * seconds, " ms")}};
  for (const auto& [fault, timeout, line] : cases) {
    const ProgramResult result = RunDdp(
        FreshDirectory(), WithFake({"--timeout=" + timeout, "--strategies=naive"}), {{"FAKE_PEER", fault}});
    EXPECT_EQ(result.status, 1) << fault;
    EXPECT_THAT(result.err, HasSubstr(line));
  }
}

}  // namespace
}  // namespace gradsync::bench
