#include "tools/measurements/test_records.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <sstream>

#include "bench/records/step_times.h"
#include "model/base/error.h"

namespace gradsync::tools {
namespace {

using bench::Record;

Record CommonRecord(std::string_view experiment, int64_t rank) {
  Record record;
  record.experiment = experiment;
  record.run_id = "20261121T101500-4f2a";
  record.time_utc = "2026-11-21T10:15:00Z";
  record.rank = rank;
  record.world_size = 2;
  record.variant.backend = "gloo";
  record.config.Set("device", "cpu");
  record.config.Set("dtype", "f32");
  record.config.Set("threads_per_rank", 1);
  record.config.Set("comm_threads", 2);
  record.config.Set("seed", 0);
  record.facts.Set("receivers", 1);
  record.link.Set("limit_bytes_per_second", bench::Value(50e9));
  record.provenance.gradsync_commit = "0123456789abcdef0123456789abcdef01234567";
  record.provenance.host = "bench1";
  record.provenance.os = "Debian GNU/Linux 12 (bookworm)";
  record.provenance.kernel = "Linux 6.1.0";
  record.provenance.cpu_model = "Some CPU";
  record.provenance.cpu_count = 8;
  record.provenance.memory_bytes = int64_t{16} << 30;
  record.provenance.compiler = "gcc 12.2.0";
  record.provenance.build = "opt";
  record.provenance.libraries.Set("gloo", "0.5.0");
  record.provenance.command_line = "bench/ddp --model=small";
  return record;
}

std::vector<int64_t> Tenths(const std::vector<int64_t>& values, int64_t tenths) {
  std::vector<int64_t> parts;
  for (const int64_t value : values) parts.push_back(value * tenths / 10);
  return parts;
}

}  // namespace

Record DdpRecord(std::string_view variant, int64_t rank, const std::vector<int64_t>& steps_ns) {
  Record record = CommonRecord("ddp", rank);
  record.config.Set("model", "small");
  record.variant = bench::Variant::Parse(variant);
  const std::string& strategy = record.variant.strategy;
  const bool is_floor = strategy == "none", is_peer = !record.variant.framework.empty();
  if (record.variant.backend == bench::kNoBackend && (!is_floor || is_peer)) record.variant.backend = "gloo";
  bench::Variant floor = record.variant;
  floor.strategy = "none";
  record.facts.Set("floor", floor.qualified_strategy());
  record.facts.Set("agreement", is_floor ? "drifts" : "exact");
  record.facts.Set("overlaps", !is_floor);
  if (is_peer) {
    record.facts.Set("peer", record.variant.framework);
    record.facts.Set("twin", strategy.substr(0, strategy.find('_')));
  }
  record.config.Set("batch_size", 2);
  record.config.Set("seq_len", 128);
  record.config.Set("order", "interleaved");
  record.samples["forward_ns"] = Tenths(steps_ns, 2);
  record.samples["backward_ns"] = Tenths(steps_ns, 4);
  record.samples["sync_wait_ns"] = Tenths(steps_ns, 3);
  record.samples["optimizer_ns"] = Repeat(0, steps_ns.size());
  for (size_t i = 0; i < steps_ns.size(); ++i) SetStep(record, i, steps_ns[i]);
  record.samples["comm_busy_ns"] = Tenths(steps_ns, 6);
  record.samples["compute_cpu_ns"] = Tenths(steps_ns, 7);
  record.samples["communication_cpu_ns"] = Tenths(steps_ns, 2);
  record.samples["position"] = std::vector<int64_t>(steps_ns.size());
  record.buckets = {{1000, 2}, {2000, 3}};
  record.checks.Set("reference", "single_process");
  record.checks.Set("grads_equal", true);
  record.checks.Set("grad_rel_error", 1e-7);
  record.facts.Set("gradient_bytes", 3000);
  return record;
}

void SetStep(Record& record, size_t i, int64_t step_ns) {
  record.samples["optimizer_ns"][i] += step_ns - *bench::TimesAt(record.samples, i).step();
}

Record CompareRecord(std::string_view strategy, int64_t mebi, int64_t rank,
                     const std::vector<int64_t>& steps_ns) {
  const Record ddp = DdpRecord(strategy, rank, steps_ns);
  Record record = CommonRecord("ddp", rank);
  record.config.Set("model", "resnet50");
  record.variant = ddp.variant;
  record.variant.options["bucket_elements"] = Join(mebi, "Mi");
  record.config.Set("batch_size", 8);
  record.config.Set("image_size", 64);
  record.config.Set("order", "interleaved");
  record.samples = ddp.samples;
  record.buckets = ddp.buckets;
  record.checks = ddp.checks;
  record.facts = ddp.facts;
  record.facts.Set("bucket_bytes", mebi << 22);
  return record;
}

Record LearningRecord(std::string_view strategy, int64_t seed, int64_t rank, const std::vector<double>& bits,
                      int64_t step_ns) {
  Record record = DdpRecord(strategy, rank, std::vector<int64_t>(10 * bits.size(), step_ns));
  record.experiment = "convergence";
  record.config.Set("trial_seed", seed);
  record.config.Set("text", "some text");
  record.config.Set("text_sha256", "0123456789abcdef");
  record.config.Set("training_steps", 10 * bits.size());
  std::vector<int64_t> losses(10 * bits.size(), -1);
  for (size_t i = 0; i < bits.size(); ++i)
    losses[10 * i + 9] = std::llround(1e9 * std::numbers::ln2 * bits[i]);
  record.samples = {{"step_ns", Repeat(step_ns, losses.size())},
                    {"training_loss_nano", losses},
                    {"held_out_loss_nano", losses}};
  record.facts.Set("sent_bytes_per_step", bench::Value(3e6));
  return record;
}

Record AllReduceRecord(int64_t size_bytes, int64_t rank, const std::vector<int64_t>& times_ns) {
  Record record = CommonRecord("all_reduce", rank);
  record.config.Set("collective", "all_reduce");
  record.config.Set("op", "sum");
  record.config.Set("size_bytes", size_bytes);
  record.samples = {{"position", times_ns}, {"time_ns", times_ns}, {"back_to_back_ns", times_ns}};
  record.checks.Set("wrong_elements", 0);
  return record;
}

std::vector<int64_t> Repeat(int64_t value, size_t count) { return std::vector<int64_t>(count, value); }

std::string FreshTestDir(std::string_view name) {
  std::string dir = ::testing::TempDir() + "gradsync_" + std::string(name);
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  return dir;
}

void WriteLines(const std::string& path, const std::vector<Record>& records) {
  std::ofstream file(path);
  for (const Record& record : records) file << ToJsonLine(record) << "\n";
}

std::string ReadTestFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace gradsync::tools
