// What the training benchmark says of memory, from its command line to its files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "bench/training/programs/ddp_test.h"

namespace gradsync::bench {
namespace {

// What a rank keeps and sends is what theory says, but for padding to cache lines and to equal parts, and for
// buffers; while it is checked against a single process.
TEST(DdpMemoryTest, MemoryIsAsInTheory) {
  const std::string out = FreshDirectory();
  const Arguments arguments =
      Micro(out, {"--variants=none,core,zero1,zero1:gather=forward,zero2,zero3,zero3:prefetch=0,"
                  "zero3:keep=1,zero1@shm,zero3:shared=1@shm,core:rows=1,topk"});
  const ProgramResult result =
      RunProgram(kDdp, With(With(arguments, "--vocab_size", "1024"), "--bucket_bytes", "25MiB"));
  ASSERT_EQ(result.status, 0) << result.err;
  std::map<std::string, double> theory, sent;  // bytes for each parameter, and vectors
  for (const Record& record : RecordsIn(out)) {
    const std::string name = record.variant.name();
    ExpectOneCompleteRecord(record, 3);
    if (record.variant.strategy != "none")
      ExpectEqualGradients(record, record.variant.strategy == "topk" ? "equation" : "single_process");
    const auto fact = [&](FactName name_of) {
      return record.facts.DoubleOr(name_of, -1) / record.facts.DoubleOr("num_parameters", 0);
    };
    const double kept = fact("weights_bytes") + fact("gradients_bytes") + fact("state_bytes");
    EXPECT_GE(fact("after_update_bytes"), kept) << name;
    EXPECT_GE(fact("before_update_bytes"), kept) << name;
    EXPECT_GE(fact("built_bytes"), kept) << name;
    EXPECT_LE(fact("after_update_bytes"), fact("peak_bytes_in_use")) << name;
    EXPECT_EQ(record.facts.Find("peak_resident_bytes"), nullptr) << name;
    if (record.facts.Find("theory_bytes") == nullptr) continue;
    EXPECT_GE(kept, fact("theory_bytes") * 0.999) << name;
    EXPECT_LE(kept, fact("theory_bytes") * 1.05) << name;
    EXPECT_GE(fact("sent_bytes_per_step"), fact("theory_sent_bytes") * 0.999) << name;
    EXPECT_LE(fact("sent_bytes_per_step"), fact("theory_sent_bytes") * 1.05) << name;
    theory[name] = fact("theory_bytes");
    sent[name] = fact("theory_sent_bytes") / 2;  // each rank sends half of each vector
    if (name != "zero1:gather=forward@gloo") continue;
    EXPECT_EQ(record.facts.IntOr("period", 1), 3);
    EXPECT_TRUE(record.samples.contains("forward_wait_ns"));
  }
  EXPECT_EQ(theory, (std::map<std::string, double>{{"core@gloo", 16},
                                                   {"zero1@gloo", 12},
                                                   {"zero1:gather=forward@gloo", 12},
                                                   {"zero2@gloo", 10},
                                                   {"zero3@gloo", 8},
                                                   {"zero3:prefetch=0@gloo", 8},
                                                   {"zero3:keep=1@gloo", 8},
                                                   {"zero1@shm", 10},
                                                   {"zero3:shared=1@shm", 8}}));
  EXPECT_EQ(sent["core@gloo"], 2);
  EXPECT_EQ(sent["zero1@shm"], 1);
  EXPECT_EQ(sent["zero3:shared=1@shm"], 1);
  EXPECT_EQ(sent["zero3:keep=1@gloo"], sent["zero2@gloo"]);
  // Four units: the embedding and the head have 16 Ki elements each, blocks 2.6 Ki.
  EXPECT_NEAR(sent["zero3@gloo"], 3 - 0.5, 0.1);
  EXPECT_NEAR(sent["zero3:prefetch=0@gloo"], 3 - 0.43, 0.1);
}

// What a variant needs is the same whatever else is in memory: other variants, or what checks keep.
TEST(DdpMemoryTest, MemoryIsThatOfTheVariantAlone) {
  const auto peaks_of = [](const Arguments& more) {
    const std::string out = FreshDirectory();
    const ProgramResult result = RunProgram(kDdp, Micro(out, more));
    EXPECT_EQ(result.status, 0) << result.err;
    std::map<std::pair<std::string, int64_t>, int64_t> peaks;
    for (const Record& record : RecordsIn(out))
      peaks[{record.variant.qualified_strategy(), record.rank}] = record.facts.IntOr("peak_bytes_in_use", 0);
    return peaks;
  };
  // The allocator hands out blocks of up to an eighth more than was asked for.
  const auto expect_near = [](const auto& found, const auto& expected) {
    for (const auto& [key, bytes] : found) {
      const auto wanted = static_cast<double>(expected.at(key));
      EXPECT_NEAR(static_cast<double>(bytes), wanted, 0.06 * wanted) << key.first << " " << key.second;
    }
  };
  const auto interleaved = peaks_of({}), blocks = peaks_of({"--order=blocks"});
  expect_near(interleaved, blocks);
  expect_near(peaks_of({"--order=blocks", "--verify=false"}), blocks);
  expect_near(peaks_of({"--strategies=flat"}), interleaved);
  const auto of_rank_one = static_cast<double>(interleaved.at({"none", 1}));
  EXPECT_NEAR(static_cast<double>(interleaved.at({"none", 0})), of_rank_one, 0.06 * of_rank_one);
  EXPECT_GT(interleaved.at({"flat", 0}), interleaved.at({"none", 0}));
}

class ResidentMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "what the sanitizer keeps in memory counts as well";
#endif
  }
};

// What the system has counted for one setting does not count for the next: batches of 256 take some 400 MiB
// more than of 1, which is far more than what of code and libraries happens to be resident.
TEST_F(ResidentMemoryTest, ResidentMemoryIsThatOfTheSetting) {
  const std::string out = FreshDirectory();
  Arguments arguments = Micro(out, {"--strategies=naive", "--verify=false"});
  for (const auto& [flag, value] :
       {std::pair{"--batch_size", "256,1"}, {"--seq_len", "128"}, {"--d_model", "64"}, {"--d_ff", "256"}})
    arguments = With(arguments, flag, value);
  const ProgramResult result = RunProgram(kDdp, arguments);
  ASSERT_EQ(result.status, 0) << result.err;
  std::map<int64_t, int64_t> saved;  // bytes, by rank
  for (const Record& record : RecordsIn(out))
    saved[record.rank] +=
        record.facts.IntOr("peak_resident_bytes", 0) * (record.config.IntOr("batch_size", 0) == 256 ? 1 : -1);
  ASSERT_EQ(saved.size(), 2u);
  for (const auto& [rank, bytes] : saved) EXPECT_GT(bytes, 200 << 20) << rank;
}

// A spot check gathers all weights, which no step does. They would be 4 bytes for each parameter. What a
// process needs besides tensors (code and libraries) is known from a model of few weights.
TEST_F(ResidentMemoryTest, ResidentMemoryIsWithoutThatOfSpotChecks) {
  struct Memory {
    int64_t besides_tensors = 0, num_parameters = 0;  // bytes, of the rank with the most
  };
  const auto memory_of = [](const Arguments& sizes) {
    const std::string out = FreshDirectory();
    Arguments arguments = Micro(out, {"--strategies=zero3", "--verify=false"});
    for (size_t i = 0; i < sizes.size(); i += 2) arguments = With(arguments, sizes[i], sizes[i + 1]);
    const ProgramResult result = RunProgram(kDdp, arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    Memory most;
    for (const Record& record : RecordsIn(out)) {
      EXPECT_EQ(record.checks.IntOr("spot_checks", 0), 1);
      most.num_parameters = record.facts.IntOr("num_parameters", 0);
      most.besides_tensors = std::max(most.besides_tensors, record.facts.IntOr("peak_resident_bytes", 0) -
                                                                record.facts.IntOr("peak_bytes_in_use", 0));
    }
    return most;
  };
  const Memory few = memory_of({});
  const Memory many = memory_of({"--num_layers", "8", "--d_model", "512", "--d_ff", "4096"});
  EXPECT_GT(few.besides_tensors, 0);
  EXPECT_GT(many.num_parameters, 50'000'000);
  EXPECT_LT(many.besides_tensors - few.besides_tensors, 2 * many.num_parameters);
}

// Each host has all parts. A rank that trains alone takes 4 bytes more for each parameter than on a single
// host, for what goes to the other one; a copy of its own of the weights would be as much again.
TEST_F(ResidentMemoryTest, ASecondHostTakesNoMoreOfARank) {
  if (comm::OuterAddress().empty()) GTEST_SKIP() << "this machine has no network";
  const auto bytes_of = [](bool two_hosts) {
    const std::string out = FreshDirectory();
    Arguments arguments =
        With(Micro(out, {"--backend=hierarchical", "--variants=zero3:within=host", "--verify=false"}),
             "--vocab_size", "262144");
    std::erase(arguments, "--bucket_bytes=4KiB");  // It has none.
    if (two_hosts) {
      RunOnTwoHosts(arguments);
    } else {
      const ProgramResult result = RunProgram(kDdp, arguments);
      EXPECT_EQ(result.status, 0) << result.err;
    }
    double most = 0;  // for each parameter
    for (const Record& record : RecordsIn(out))
      most = std::max(
          most, record.facts.DoubleOr("peak_resident_bytes", 0) / record.facts.DoubleOr("num_parameters", 1));
    return most;
  };
  EXPECT_LT(bytes_of(true), bytes_of(false) + 6);
}

}  // namespace
}  // namespace gradsync::bench
