#include "tools/tables/parts/runs.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "model/base/error.h"
#include "model/base/text.h"

namespace gradsync::tools {
namespace {

using bench::Provenance;
using bench::Record;

// Returns "gloo 0.5.0, onednn 2.6.3".
std::string LibrariesOf(const Provenance& provenance) {
  std::string text;
  for (const auto& [name, value] : provenance.libraries) {
    const std::string* version = std::get_if<std::string>(&value);
    if (version != nullptr) text += Join(text.empty() ? "" : ", ", name, " ", *version);
  }
  return text;
}

// Returns "host bench1, 8 x Some CPU, 16 GiB, Debian GNU/Linux 12 (bookworm), Linux 6.1.0".
std::string MachineOf(const Provenance& provenance) {
  const double memory_gib = static_cast<double>(provenance.memory_bytes) / (1 << 30);
  std::string text = Join("host ", provenance.host, ", ", provenance.cpu_count, " x ", provenance.cpu_model,
                          ", ", std::llround(memory_gib), " GiB");
  if (!provenance.gpu.empty()) text += ", " + provenance.gpu;
  return Join(text, ", ", provenance.os, ", ", provenance.kernel);
}

// Returns "gradsync 0123456789ab (opt, gcc 12.2.0), gloo 0.5.0, clock steady".
std::string SoftwareOf(const Provenance& provenance) {
  return Join("gradsync ", provenance.gradsync_commit.substr(0, 12), provenance.dirty ? " with changes" : "",
              " (", provenance.build, ", ", provenance.compiler, "), ", LibrariesOf(provenance), ", clock ",
              provenance.clock);
}

// Returns "2 ranks, each with compute threads: 1, communication threads: 2".
std::string RanksOf(const Record& record) {
  std::string text = RankCount(record.world_size);
  const int64_t compute = record.config.IntOr("threads_per_rank", 0);
  const int64_t communication = record.config.IntOr("comm_threads", 0);
  if (compute > 0)
    text += Join(", each with compute threads: ", compute, ", communication threads: ", communication);
  if (record.facts.Find("nccl_log_prefix") != nullptr)
    text += ", nccl_log_prefix: " + record.facts.StringOr("nccl_log_prefix", "");
  return text;
}

}  // namespace

std::string ReproducingCommand(const std::string& command_line) {
  const size_t program_end = std::min(command_line.find(' '), command_line.size());
  const std::string program = command_line.substr(0, program_end);
  const size_t name = program.rfind('/');
  if (name == std::string::npos || !("/" + program.substr(0, name)).ends_with("/bench")) return command_line;
  return Join("./bazelw run //bench:", program.substr(name + 1), " --", command_line.substr(program_end));
}

std::vector<RunText> DescribeRuns(const std::vector<const Record*>& runs) {
  std::vector<RunText> texts;
  for (const Record* const run : runs) {
    const bool is_published = !run->published.empty();
    texts.push_back({.experiment = run->experiment,
                     .run = run->run_id,
                     .time = is_published ? "figures that others published" : run->time_utc,
                     .ranks = RanksOf(*run),
                     .command = ReproducingCommand(run->provenance.command_line)});
    if (is_published) continue;
    texts.back().machine = MachineOf(run->provenance);
    texts.back().software = SoftwareOf(run->provenance);
  }
  return texts;
}

}  // namespace gradsync::tools
