// The training benchmark from its command line to its files, on a model of a few thousand weights.

#include "bench/training/programs/ddp_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "ddp/factory.h"
#include "model/files/safetensors.h"

namespace gradsync::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The variant that Micro's options make of `strategy`.
std::string VariantOf(const std::string& strategy) {
  const ddp::Traits& traits = ddp::TraitsOf(strategy);
  return strategy + (traits.has_buckets ? ":bucket_bytes=4Ki" : "") + (traits.communicates ? "@gloo" : "");
}

// A thread of this test uses a processor while the ranks take their steps.
TEST(DdpTest, ProcessorTimeOfOthersIsRecorded) {
  const std::string out = FreshDirectory();
  std::atomic<bool> is_over = false;
  std::thread other([&] {
    while (!is_over) {
    }
  });
  const ProgramResult result =
      RunProgram(kDdp, With(Micro(out, {"--strategies=naive", "--verify=false"}), "--steps", "300"));
  is_over = true;
  other.join();
  ASSERT_EQ(result.status, 0) << result.err;
  for (const Record& record : RecordsIn(out)) {
    const std::vector<int64_t>& others_ns = record.samples.at("others_cpu_ns");
    EXPECT_GT(std::accumulate(others_ns.begin(), others_ns.end(), int64_t{0}), 0);
  }
}

class OrderTest : public ::testing::TestWithParam<const char*> {};

TEST_P(OrderTest, EveryStrategyEqualsTheSingleProcessOnBothRanks) {
  const std::string out = FreshDirectory();
  const std::vector<std::string> strategies = ddp::ExactStrategyNames();
  std::string flag = "--strategies=";
  for (const std::string& strategy : strategies) flag += strategy + ",";
  flag.pop_back();
  const ProgramResult result =
      RunProgram(kDdp, With(Micro(out, {flag, std::string("--order=") + GetParam()}), "--seq_len", "8,12"));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const std::vector<Record> records = RecordsIn(out);
  EXPECT_EQ(records.size(), 2 * 2 * strategies.size());
  std::set<std::string> run_ids;
  std::map<std::string, int> count;
  for (const Record& record : records) {
    const std::string strategy = record.variant.qualified_strategy();
    ++count[strategy];
    run_ids.insert(record.run_id);
    EXPECT_EQ(record.world_size, 2);
    ExpectOneCompleteRecord(record, 3);
    EXPECT_EQ(record.variant.name(), VariantOf(strategy));
    // Values, gradients, two moments; or parts of them and buffers.
    const int64_t copies = ddp::TraitsOf(strategy).shards_values ? 2 : 4;
    EXPECT_GE(record.facts.IntOr("peak_bytes_in_use", 0), copies * record.facts.IntOr("gradient_bytes", -1));
    // One spot check in three rounds. With none ranks keep the gradients of their own batches.
    EXPECT_EQ(record.checks.IntOr("spot_checks", 0), 1);
    const ddp::Traits& traits = ddp::TraitsOf(strategy);
    EXPECT_EQ(record.checks.IntOr("equal_spot_checks", -1), traits.communicates ? 1 : 0);
    if (!traits.communicates) {
      EXPECT_FALSE(record.checks.BoolOr("replicas_equal", true));
    } else {
      ExpectEqualGradients(record);
      int64_t bytes = 0;
      for (const BucketRecord& bucket : record.buckets) bytes += bucket.bytes;
      EXPECT_GE(bytes, record.facts.IntOr("gradient_bytes", -1)) << strategy;
    }
  }
  for (const std::string& strategy : strategies) EXPECT_EQ(count[strategy], 4) << strategy;
  EXPECT_EQ(run_ids.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(All, OrderTest, ::testing::Values("interleaved", "blocks"));

// Muon, by every strategy that leaves matrices whole, in f32 and in bf16.
TEST(DdpTest, MuonUpdatesWholeMatrices) {
  for (const char* const dtype : {"f32", "bf16"}) {
    const std::string out = FreshDirectory();
    const ProgramResult result = RunProgram(
        kDdp, Micro(out, {"--variants=none,core,core_update,owned,owned:gather=forward,owned:clip_norm=0.01",
                          "--backend=gloo,shm", "--optimizer=muon", Join("--dtype=", dtype)}));
    ASSERT_EQ(result.status, 0) << result.err;
    int num_owned = 0;
    for (const Record& record : RecordsIn(out)) {
      EXPECT_THAT(SchemaFaults(record), IsEmpty());
      EXPECT_EQ(record.config.StringOr("optimizer", ""), "muon");
      EXPECT_EQ(record.config.StringOr("dtype", ""), dtype);
      EXPECT_EQ(record.facts.IntOr("gradient_bytes", 0), 4 * record.facts.IntOr("num_parameters", 0));
      if (record.variant.strategy == "none") continue;
      ExpectEqualGradients(record);
      const bool is_owned = record.variant.strategy == "owned";
      const double work = record.facts.DoubleOr("largest_work", 0);
      EXPECT_EQ(work > 0, is_owned);
      if (!is_owned) continue;
      ++num_owned;
      EXPECT_LE(work, 1.1);
      const double sent = record.facts.DoubleOr("theory_sent_bytes", 0);
      if (sent == 0) continue;  // in bf16 theory is another
      EXPECT_NEAR(record.facts.DoubleOr("sent_bytes_per_step", 0), sent, 0.05 * sent);
      const double kept = record.facts.DoubleOr("theory_bytes", 0);
      EXPECT_NEAR(static_cast<double>(record.facts.IntOr("weights_bytes", 0) +
                                      record.facts.IntOr("gradients_bytes", 0) +
                                      record.facts.IntOr("state_bytes", 0)),
                  kept, 0.1 * kept);
    }
    EXPECT_EQ(num_owned, 2 * 6);
  }
}

// Every strategy, as far as it clips: in the settings, of steps of one and of three passes, and in the
// checks.
TEST(DdpTest, AccumulatesAndClips) {
  const std::string out = FreshDirectory();
  std::string variants = "--variants=core:rows=1,core_update:rows=1,zero2:accumulate_parts=1,";
  variants += "local_sgd:clip_norm=0.01:learning_rate=0.01,";  // whose check must use that rate
  for (const std::string& strategy : ddp::StrategyNames()) {
    const ddp::Traits& traits = ddp::TraitsOf(strategy);
    variants += strategy + (traits.can_clip ? ":clip_norm=0.01," : ",");
  }
  variants.pop_back();
  const ProgramResult result =
      RunProgram(kDdp, With(Micro(out, {variants, "--backend=shm", "--optimizer=sgd", "--learning_rate=0.1",
                                        "--accumulation_steps=1,3"}),
                            "--vocab_size", "512"));
  ASSERT_EQ(result.status, 0) << result.err;
  std::map<int64_t, int64_t> tokens, peaks;  // by passes
  for (const Record& record : RecordsIn(out)) {
    EXPECT_THAT(SchemaFaults(record), IsEmpty());
    const int64_t parts = record.config.IntOr("accumulation_steps", 1);
    tokens[parts] = record.facts.IntOr("tokens_per_step", 0);
    const ddp::Traits& traits = ddp::TraitsOf(record.variant.qualified_strategy());
    const bool by_rows = record.variant.NumberOr("rows", 0) == 1;
    const bool in_parts = record.variant.NumberOr("accumulate_parts", 0) == 1;
    EXPECT_EQ(record.variant.NumberOr("clip_norm", 0), traits.can_clip && !by_rows && !in_parts ? 0.01 : 0);
    // Over shm weights are not sent: of each pass every rank sends half of the gradients to the other.
    if (in_parts) {
      double bytes = 0;
      for (const BucketRecord& bucket : record.buckets) bytes += static_cast<double>(bucket.bytes);
      EXPECT_EQ(record.facts.DoubleOr("sent_bytes_per_step", 0), bytes / 2);
      EXPECT_GE(bytes, static_cast<double>(parts * record.facts.IntOr("gradient_bytes", 0)));
    }
    if (const double theory = record.facts.DoubleOr("theory_sent_bytes", 0); theory > 0) {
      EXPECT_NEAR(record.facts.DoubleOr("sent_bytes_per_step", 0), theory, 0.05 * theory)
          << record.variant.name();
    }
    // Each of the two ranks sends the weights once in a period.
    if (record.facts.IntOr("period", 1) > 1 && traits.agreement == ddp::Agreement::kDrifts) {
      double bytes = 0;
      for (const BucketRecord& bucket : record.buckets) bytes += static_cast<double>(bucket.bytes);
      EXPECT_EQ(record.facts.DoubleOr("sent_bytes_per_step", -1),
                bytes / static_cast<double>(record.facts.IntOr("period", 1)))
          << record.variant.name();
    }
    EXPECT_EQ(record.facts.Find("rows_save_bytes") != nullptr, by_rows);
    const bool shares_weights = traits.shards_state && !traits.shards_values;  // over shm
    EXPECT_EQ(record.facts.BoolOr("places_values", !shares_weights), shares_weights);
    // Each rank sends 64 bytes of the embeddings for each of its positions, and in some cache lines which.
    if (by_rows) {
      EXPECT_GT(record.facts.DoubleOr("rows_save_bytes", 0), 0);
      EXPECT_EQ(record.buckets.back().bytes, 2 * (tokens[parts] / 2 * 64 + 64 * (1 + parts)));
    }
    if (!traits.places_gradients)
      peaks[parts] = std::max(peaks[parts], record.facts.IntOr("peak_bytes_in_use", 0));
    if (!traits.communicates) continue;
    ExpectEqualGradients(record, traits.reference == nullptr ? "single_process" : "equation");
  }
  EXPECT_EQ(tokens, (std::map<int64_t, int64_t>{{1, 32}, {3, 96}}));
  // Passes follow one another: only the batch is larger.
  EXPECT_LT(peaks[3] - peaks[1], 64 << 10);
}

// Backends take turns in one run, above one floor.
TEST(DdpTest, VariantsOfAllBackendsTakeTurns) {
  const std::string out = FreshDirectory();
  const ProgramResult result =
      RunProgram(kDdp, With(Micro(out, {"--variants=none,core@gloo,naive,bucketed_async:bucket_bytes=1Ki@shm",
                                        "--backend=shm,hierarchical"}),
                            "--steps", "20"));
  ASSERT_EQ(result.status, 0) << result.err;
  std::map<std::string, std::vector<int64_t>> places;    // by variant, of one rank
  std::map<int64_t, std::set<std::string>> variants_at;  // by position, of both ranks
  for (const Record& record : RecordsIn(out)) {
    ExpectOneCompleteRecord(record, 20);
    const std::string variant = record.variant.name();
    EXPECT_EQ(record.variant.backend, variant == "none" ? "none" : variant.substr(variant.find('@') + 1));
    if (variant != "none") ExpectEqualGradients(record);
    EXPECT_GE(record.checks.IntOr("spot_checks", 0), 2);
    EXPECT_EQ(record.facts.StringOr("floor", ""), "none");
    std::vector<int64_t>& own = places[variant];
    own.clear();
    for (size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(record.samples.at("position")[i] / 5, static_cast<int64_t>(i));
      own.push_back(record.samples.at("position")[i] % 5);
      variants_at[record.samples.at("position")[i]].insert(variant);
    }
  }
  ASSERT_EQ(places.size(), 5u);
  EXPECT_EQ(variants_at.size(), 100u);
  for (const auto& [position, variants] : variants_at) EXPECT_EQ(variants.size(), 1u) << position;
  // In the ten rounds of a block each variant takes each place twice, and orders differ.
  for (const auto& [variant, own] : places) {
    for (int64_t place = 0; place < 5; ++place) {
      EXPECT_EQ(std::count(own.begin(), own.begin() + 10, place), 2) << variant << " " << place;
      EXPECT_EQ(std::count(own.begin() + 10, own.end(), place), 2) << variant << " " << place;
    }
  }
}

TEST(DdpTest, ATimeIsSpentInWholeBlocks) {
  const std::string out = FreshDirectory();
  Arguments arguments = Micro(out, {"--strategies=none,naive,core", "--time=1ms"});
  std::erase(arguments, "--steps=3");
  const ProgramResult result = RunProgram(kDdp, arguments);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(": 12 rounds are the fewest that decide anything\n"));
  const std::vector<Record> records = RecordsIn(out);
  EXPECT_EQ(records.size(), 6u);
  for (const Record& record : records) {
    // Blocks have six rounds; at least ten rounds.
    ExpectOneCompleteRecord(record, 12);
    EXPECT_EQ(record.config.StringOr("time", ""), "1ms");
    EXPECT_EQ(record.config.Find("steps"), nullptr);
  }
}

class DumpTest : public ::testing::Test {
 protected:
  DumpTest() {
    std::ofstream text(directory_ + "/text");
    for (int i = 0; i < 300; ++i) text << i * i << (i % 7 == 0 ? "\n" : ", ");
  }

  // The gradients of four windows of that text, in so many parts on each rank. `strategy`: empty for the
  // default.
  model::SafetensorsFile Dump(const std::string& strategy, int world_size, const std::string& dtype,
                              int parts = 1) const {
    const std::string path = Join(directory_, "/", strategy, world_size, dtype, parts);
    Arguments arguments = {"--d_model=16",
                           "--d_ff=32",
                           "--num_layers=2",
                           "--num_heads=2",
                           "--vocab_size=256",
                           "--dtype=" + dtype,
                           "--warmup_steps=0",
                           "--steps=1",
                           "--corpus=" + directory_ + "/text",
                           "--seq_len=8",
                           Join("--batch_size=", 4 / world_size / parts),
                           Join("--accumulation_steps=", parts),
                           "--dump_grads=" + path,
                           "--world_size=" + std::to_string(world_size),
                           "--out=" + FreshDirectory()};
    if (!strategy.empty()) arguments.push_back("--strategies=" + strategy);
    const ProgramResult result = RunProgram(kDdp, arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return model::SafetensorsFile::Open(path);
  }

  // The largest difference of two elements.
  static double Difference(const model::SafetensorsFile& a, const model::SafetensorsFile& b) {
    const model::DevicePtr host = model::CpuDevice();
    EXPECT_EQ(a.entries().size(), 3u + 2u * 9u + 1u);
    EXPECT_EQ(a.entries().size(), b.entries().size());
    double largest = 0;
    for (const auto& entry : a.entries()) {
      const std::vector<double> x = ToDoubles(a.Load(entry.name, host));
      const std::vector<double> y = ToDoubles(b.Load(entry.name, host));
      EXPECT_EQ(x.size(), y.size()) << entry.name;
      for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
        EXPECT_TRUE(std::isfinite(x[i] - y[i])) << entry.name;
        largest = std::fmax(largest, std::fabs(x[i] - y[i]));
      }
    }
    return largest;
  }

 private:
  static std::vector<double> ToDoubles(const model::Tensor& tensor) {
    return model::DispatchFloat(tensor.dtype(), "test", [&]<class T>() {
      const std::vector<T> elements = tensor.ToVector<T>();
      return std::vector<double>(elements.begin(), elements.end());
    });
  }

  const std::string directory_ = FreshDirectory();
};

TEST_F(DumpTest, GradientsAreThoseOfOneProcessOnTheSameBatch) {
  const model::SafetensorsFile alone = Dump("naive", 1, "f64");
  for (const std::string strategy : {"core", "flat"}) {
    EXPECT_LT(Difference(alone, Dump(strategy, 2, "f64")), 1e-12) << strategy;
    EXPECT_LT(Difference(alone, Dump(strategy, 2, "f64", /*parts=*/2)), 1e-12) << strategy;
  }
  // By default the first variant is `none`, of which each rank has gradients of its own.
  EXPECT_EQ(Difference(Dump("naive", 2, "f64"), Dump("", 2, "f64")), 0);
  // In parts indeed, whose sum is rounded otherwise.
  EXPECT_GT(Difference(alone, Dump("naive", 1, "f64", /*parts=*/2)), 0);
}

TEST_F(DumpTest, GradientsHaveTheErrorsOfTheActivationsType) {
  const model::SafetensorsFile exact = Dump("naive", 1, "f64");
  const double f32 = Difference(exact, Dump("naive", 1, "f32"));
  const double bf16 = Difference(exact, Dump("naive", 1, "bf16"));
  EXPECT_GT(f32, 1e-10);
  EXPECT_LT(f32, 1e-5);
  EXPECT_GT(bf16, 1e-5);
  EXPECT_LT(bf16, 1e-2);
}

TEST(DdpTest, AGradientThatIsNotFiniteIsNamed) {
  // The first step's update is the end of the weights.
  const Arguments diverges = Micro(FreshDirectory(), {"--strategies=core", "--optimizer=sgd",
                                                      "--learning_rate=1e30", "--check_gradients"});
  const ProgramResult result = RunProgram(kDdp, diverges);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr(", step 1 of strategy 'core': the gradient of 'lm_head.weight' is NaN or "
                                    "infinite at element "));
  EXPECT_THAT(result.err, HasSubstr("; in backward of core:bucket_bytes=4Ki@gloo, batch 2, sequence 8\n"));
}

// Timed steps too, which else would be the end of the weights.
TEST(DdpTest, EveryStepClips) {
  const ProgramResult result =
      RunProgram(kDdp, Micro(FreshDirectory(), {"--variants=core:clip_norm=1e-20", "--optimizer=sgd",
                                                "--learning_rate=1e20", "--check_gradients"}));
  EXPECT_EQ(result.status, 0) << result.err;
}

}  // namespace
}  // namespace gradsync::bench
