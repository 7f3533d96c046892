#include "tools/tables/runs.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "model/error.h"

namespace gradsync::tools {
namespace {

using bench::Provenance;
using bench::Record;

// "gloo 0.5.0, onednn 2.6.3"
std::string LibrariesOf(const Provenance& provenance) {
  std::string text;
  for (const auto& [name, value] : provenance.libraries) {
    const std::string* version = std::get_if<std::string>(&value);
    if (version != nullptr) text += Join(text.empty() ? "" : ", ", name, " ", *version);
  }
  return text;
}

// "2 ranks, each 1 compute and 2 communication threads"
std::string RanksOf(const Record& record) {
  std::string text = Join(record.world_size, record.world_size == 1 ? " rank" : " ranks");
  const int64_t compute = record.config.IntOr("threads_per_rank", 0);
  const int64_t communication = record.config.IntOr("comm_threads", 0);
  if (compute > 0)
    text += Join(", each with compute threads: ", compute, ", communication threads: ", communication);
  const std::string placement = record.config.StringOr("placement", "");
  if (!placement.empty()) text += ", placement: " + placement;
  return text;
}

// "bench/ddp --model=small", whatever directories Bazel put before it.
std::string ShortCommand(const std::string& command_line) {
  const size_t program_end = std::min(command_line.find(' '), command_line.size());
  size_t begin = command_line.rfind('/', program_end);
  if (begin != std::string::npos && begin > 0) begin = command_line.rfind('/', begin - 1);
  return begin == std::string::npos ? command_line : command_line.substr(begin + 1);
}

// Backquotes inside would end the code that a command line is shown as.
std::string Code(std::string text) {
  std::replace(text.begin(), text.end(), '`', '\'');
  return "`" + text + "`";
}

}  // namespace

std::string MachineOf(const Provenance& provenance) {
  const double memory_gib = static_cast<double>(provenance.memory_bytes) / (1 << 30);
  std::string text = Join("host ", provenance.host, ", ", provenance.cpu_count, " x ", provenance.cpu_model,
                          ", ", std::llround(memory_gib), " GiB");
  if (!provenance.gpu.empty()) text += ", " + provenance.gpu;
  return Join(text, ", ", provenance.os, ", ", provenance.kernel);
}

std::string SoftwareOf(const Provenance& provenance) {
  return Join("gradsync ", provenance.gradsync_commit.substr(0, 12), provenance.dirty ? " with changes" : "",
              " (", provenance.build, ", ", provenance.compiler, "), ", LibrariesOf(provenance));
}

std::vector<Column> RunsTable::Columns() {
  std::vector<Column> columns;
  for (const char* name :
       {"run", "experiment", "time_utc", "host", "os", "kernel", "cpu_model", "gpu", "compiler", "build",
        "libraries", "gradsync_commit", "placement", "clock", "command_line"}) {
    columns.push_back({.name = name, .kind = Kind::kText});
  }
  for (const char* name : {"world_size", "cpu_count", "memory_bytes", "dirty"}) {
    columns.push_back({.name = name, .kind = Kind::kInteger});
  }
  return columns;
}

void RunsTable::Add(const Record& record) {
  std::string run = record.experiment + " " + record.run_id;
  if (run == last_run_) return;
  last_run_ = std::move(run);
  if (described_.size() <= kMaxDescribed) described_.push_back(record);
  const Provenance& provenance = record.provenance;
  table_.AddRow({record.run_id, record.experiment, record.time_utc, provenance.host, provenance.os,
                 provenance.kernel, provenance.cpu_model, provenance.gpu, provenance.compiler,
                 provenance.build, LibrariesOf(provenance), provenance.gradsync_commit,
                 record.config.StringOr("placement", ""), provenance.clock, provenance.command_line,
                 static_cast<double>(record.world_size), static_cast<double>(provenance.cpu_count),
                 static_cast<double>(provenance.memory_bytes), provenance.dirty ? 1.0 : 0.0});
}

std::vector<std::string> RunsTable::Header() const {
  std::vector<std::string> lines = {"# gradsync: results", ""};
  if (described_.size() > kMaxDescribed) {
    lines.push_back(Join("From ", table_.num_rows(), " runs; --format=csv lists them in its table `runs`."));
    return lines;
  }
  std::string last_machine;
  std::string last_software;
  for (const Record& record : described_) {
    const Provenance& provenance = record.provenance;
    if (!record.published.empty()) {
      lines.push_back(Join("- ", record.experiment, ": ", record.run_id, ", ", RanksOf(record),
                           ", figures that others published, ", Code(ShortCommand(provenance.command_line))));
      continue;
    }
    lines.push_back(Join("- ", record.experiment, ": run ", record.run_id, ", ", record.time_utc, ", ",
                         RanksOf(record), ", ", Code(ShortCommand(provenance.command_line))));
    const std::string machine = MachineOf(provenance);
    const std::string software = SoftwareOf(provenance);
    if (machine != last_machine) lines.push_back("  - on " + machine);
    if (software != last_software) lines.push_back("  - with " + software);
    last_machine = machine;
    last_software = software;
  }
  return lines;
}

}  // namespace gradsync::tools
