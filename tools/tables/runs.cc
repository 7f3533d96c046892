#include "tools/tables/runs.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "absl/strings/str_split.h"
#include "model/error.h"
#include "tools/tables/words.h"

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

std::string ReproducingCommand(const std::string& command_line) {
  const size_t program_end = std::min(command_line.find(' '), command_line.size());
  const std::string program = command_line.substr(0, program_end);
  const size_t name = program.rfind('/');
  if (name == std::string::npos || !("/" + program.substr(0, name)).ends_with("/bench")) return command_line;
  return Join("./bazelw run //bench:", program.substr(name + 1), " --", command_line.substr(program_end));
}

std::string CommandWithout(const std::string& command_line, const std::vector<std::string>& flags) {
  std::string kept;
  bool is_left_out = false;
  for (const std::string& word :
       std::vector<std::string>(absl::StrSplit(ReproducingCommand(command_line), ' '))) {
    if (word.starts_with("--") && word.size() > 2)
      is_left_out = std::ranges::count(flags, word.substr(2, word.find('=') - 2)) > 0;
    if (!is_left_out) kept += (kept.empty() ? "" : " ") + word;
  }
  return kept;
}

std::vector<std::string> RunLines(const std::vector<const Record*>& runs) {
  constexpr size_t kMostDescribed = 6;
  if (runs.size() > kMostDescribed) return {Join("From ", runs.size(), " runs.")};
  std::vector<std::string> lines;
  std::string last_machine, last_software;
  for (const Record* const run : runs) {
    const bool is_published = !run->published.empty();
    lines.push_back(Join("- ", run->experiment, ": run ", run->run_id, ", ",
                         is_published ? "figures that others published" : run->time_utc, ", ", RanksOf(*run),
                         ", ", Code(ReproducingCommand(run->provenance.command_line))));
    if (is_published) continue;
    std::string machine = MachineOf(run->provenance), software = SoftwareOf(run->provenance);
    if (machine != last_machine) lines.push_back("  - on " + machine);
    if (software != last_software) lines.push_back("  - with " + software);
    last_machine = std::move(machine);
    last_software = std::move(software);
  }
  return lines;
}

}  // namespace gradsync::tools
