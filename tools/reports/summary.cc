#include "tools/reports/summary.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "model/error.h"
#include "tools/render/text.h"
#include "tools/reports/rows.h"

namespace gradsync::tools {
namespace {

// "a, b, c": of these the ones that are there.
std::string Together(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() || part.empty() ? "" : ", ") + part;
  return text;
}

std::string CpuOf(const TableReader& runs, size_t row) {
  const std::string model = runs.Text(row, "cpu_model");
  return model.empty() ? "" : Join(runs.Any(row, "cpu_count"), " × ", model);
}

std::string MemoryOf(const TableReader& runs, size_t row) {
  const double bytes = runs.Number(row, "memory_bytes");
  return bytes > 0 ? Join(std::llround(bytes / (1 << 30)), " GiB") : "";
}

std::string CommitOf(const TableReader& runs, size_t row) {
  return runs.Text(row, "gradsync_commit").substr(0, 12) +
         (runs.Number(row, "dirty") == 1 ? ", with uncommitted changes" : "");
}

}  // namespace

std::string FindingsOf(const std::vector<Table>& tables) {
  std::string list;
  for (const Table& table : tables) {
    if (table.audience() == Audience::kMachines || table.findings().empty()) continue;
    list += "<li>" + WithCode(table.findings().front()) + "</li>\n";
  }
  return list.empty() ? "" : "<ul class=\"findings\">\n" + list + "</ul>\n";
}

std::vector<Machine> MachinesOf(const std::vector<const Table*>& tables) {
  std::vector<Machine> machines;
  for (const Table* table : tables) {
    const TableReader runs(*table);
    for (size_t row = 0; row < runs.num_rows(); ++row) {
      Machine machine{.facts = {{"host", runs.Text(row, "host")},
                                {"processor", CpuOf(runs, row)},
                                {"memory", MemoryOf(runs, row)},
                                {"GPU", runs.Text(row, "gpu")},
                                {"system", Together({runs.Text(row, "os"), runs.Text(row, "kernel")})},
                                {"gradsync", CommitOf(runs, row)},
                                {"build", Together({runs.Text(row, "build"), runs.Text(row, "compiler")})},
                                {"libraries", runs.Text(row, "libraries")},
                                {"clock", runs.Text(row, "clock")}},
                      .runs = {}};
      std::erase_if(machine.facts, [](const auto& fact) { return fact.second.empty(); });
      auto same = std::ranges::find(machines, machine.facts, &Machine::facts);
      if (same == machines.end()) same = machines.insert(machines.end(), std::move(machine));
      same->runs.push_back(runs.Text(row, "experiment") + " " + runs.Text(row, "run"));
    }
  }
  return machines;
}

}  // namespace gradsync::tools
