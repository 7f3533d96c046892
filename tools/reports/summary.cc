#include "tools/reports/summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "model/error.h"
#include "tools/render/text.h"
#include "tools/reports/figures.h"

namespace gradsync::tools {
namespace {

const Table* Find(const std::vector<Table>& tables, std::string_view name) {
  const auto found =
      std::find_if(tables.begin(), tables.end(), [&](const Table& table) { return table.name() == name; });
  return found == tables.end() || found->num_rows() == 0 ? nullptr : &*found;
}

// The different values of a column: texts in the order of their first rows, numbers in ascending order.
std::vector<std::string> Values(const TableReader& table, std::string_view column) {
  std::vector<std::string> values;
  std::set<std::string> seen;
  std::set<double> numbers;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    const double number = table.Number(row, column);
    if (!std::isnan(number)) numbers.insert(number);
  }
  for (const double number : numbers) values.push_back(Join(number));
  if (!numbers.empty()) return values;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    std::string value = table.Text(row, column);
    if (!value.empty() && seen.insert(value).second) values.push_back(std::move(value));
  }
  return values;
}

std::string Counted(size_t count, std::string_view one, std::string_view several) {
  return Join(CountWord(count), " ", count == 1 ? one : several);
}

// "4 KiB to 64 MiB"
std::string SizesOf(const TableReader& table) {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    const double mib = table.Number(row, "data_size (MB)");
    least = std::fmin(least, mib);
    most = std::fmax(most, mib);
  }
  const std::string from = ReadableBytes(least * 1048576), to = ReadableBytes(most * 1048576);
  return from == to ? from : from + " to " + to;
}

std::string Escaped(std::vector<std::string> items) {
  for (std::string& item : items) item = EscapeXml(item);
  return Listed(items);
}

// "sum all-reduces of 4 KiB to 64 MiB over gloo"
std::vector<std::string> WorkOf(const std::vector<Table>& tables) {
  std::vector<std::string> work;
  if (const Table* table = Find(tables, "all_reduce")) {
    const TableReader reader(*table);
    work.push_back(Join("all-reduces of ", SizesOf(reader), " over ", Escaped(Values(reader, "backend"))));
  }
  if (const Table* table = Find(tables, "ddp")) {
    const TableReader reader(*table);
    const std::vector<std::string> batches = Values(reader, "batch_size"),
                                   lengths = Values(reader, "seq_len");
    const std::vector<std::string> strategies = Values(reader, "strategy");
    const auto num_peers = static_cast<size_t>(std::ranges::count_if(
        strategies, [](const std::string& name) { return name.starts_with("pytorch_"); }));
    std::string text = Join("data-parallel training of ", Escaped(Values(reader, "model_size")), " with ",
                            Counted(strategies.size() - num_peers, "strategy", "strategies"),
                            " of gradient synchronisation");
    if (num_peers > 0) text += Join(" and ", CountWord(num_peers), " of PyTorch’s");
    if (!batches.empty()) text += Join(", batch size ", Escaped(batches));
    if (!lengths.empty()) text += Join(", sequence length ", Escaped(lengths));
    work.push_back(text + Join(", over ", Escaped(Values(reader, "backend"))));
  }
  if (const Table* table = Find(tables, "compare")) {
    work.push_back("a sweep of bucket sizes on " + Escaped(Values(TableReader(*table), "model")));
  }
  return work;
}

// "a, b", or the one of them that is there.
std::string Together(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + ", " + b;
}

// The first sentences of the tables that people see, once each; empty if there is none.
std::string FindingsOf(const std::vector<Table>& tables) {
  constexpr size_t kMostOfTable = 3;
  std::string list;
  size_t left_out = 0;
  std::set<std::string> said;
  for (const Table& table : tables) {
    if (table.audience() == Audience::kMachines) continue;
    size_t said_of_table = 0;
    for (const std::string& finding : table.findings()) {
      if (!said.insert(finding).second) continue;
      if (++said_of_table <= kMostOfTable) list += "<li>" + WithCode(finding) + "</li>\n";
      if (said_of_table > kMostOfTable) ++left_out;
    }
  }
  if (left_out > 0) list += Join("<li>And ", left_out, " more, above the tables.</li>\n");
  return list.empty() ? "" : "<ul class=\"findings\">\n" + list + "</ul>\n";
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

std::string SummaryOf(const std::vector<Table>& tables) {
  const Table* runs_table = Find(tables, "runs");
  if (runs_table == nullptr) return "";
  const TableReader runs(*runs_table);
  const std::vector<std::string> worlds = Values(runs, "world_size"), hosts = Values(runs, "host"),
                                 work = WorkOf(tables);
  std::string text = Join("<p class=\"abstract\">", Listed(worlds),
                          worlds.size() == 1 && worlds[0] == "1" ? " rank" : " ranks");
  if (!hosts.empty())
    text += " on " + (hosts.size() > 3 ? Counted(hosts.size(), "host", "hosts") : Escaped(hosts));
  if (hosts.size() == 1) {
    std::string machine;
    for (const std::string& part : {CpuOf(runs, 0), MemoryOf(runs, 0), runs.Text(0, "gpu")}) {
      if (!part.empty()) machine += (machine.empty() ? "" : ", ") + EscapeXml(part);
    }
    if (!machine.empty()) text += " (" + machine + ")";
  }
  for (size_t i = 0; i < work.size(); ++i)
    text += (i == 0 ? " ran " : i + 1 == work.size() ? "; and " : "; ") + work[i];
  text += ". ";
  text +=
      "Times are those of the slowest rank. Where a number should not be relied on, the row that holds it "
      "says why.</p>\n";
  return text + FindingsOf(tables);
}

std::vector<Machine> MachinesOf(const Table& table) {
  const TableReader runs(table);
  std::vector<Machine> machines;
  for (size_t row = 0; row < runs.num_rows(); ++row) {
    Machine machine;
    const auto add = [&](const char* name, std::string value) {
      if (!value.empty()) machine.facts.emplace_back(name, std::move(value));
    };
    add("host", runs.Text(row, "host"));
    add("processor", CpuOf(runs, row));
    add("memory", MemoryOf(runs, row));
    add("GPU", runs.Text(row, "gpu"));
    add("system", Together(runs.Text(row, "os"), runs.Text(row, "kernel")));
    add("gradsync", CommitOf(runs, row));
    add("build", Together(runs.Text(row, "build"), runs.Text(row, "compiler")));
    add("libraries", runs.Text(row, "libraries"));
    add("clock", runs.Text(row, "clock"));
    auto same = std::find_if(machines.begin(), machines.end(),
                             [&](const Machine& other) { return other.facts == machine.facts; });
    if (same == machines.end()) same = machines.insert(machines.end(), std::move(machine));
    same->runs.push_back(runs.Text(row, "experiment") + " " + runs.Text(row, "run"));
  }
  return machines;
}

bool ExplainsFlag(const std::string& note) {
  return note.starts_with('`') && note.find("`: ", 1) != std::string::npos;
}

std::map<std::string, std::string> FlagLegend(const std::vector<Table>& tables) {
  std::map<std::string, std::string> legend;
  for (const Table& table : tables) {
    for (const std::string& note : table.notes()) {
      if (!ExplainsFlag(note)) continue;
      const size_t end = note.find("`: ", 1);
      legend.emplace(note.substr(1, end - 1), note.substr(end + 3));
    }
  }
  return legend;
}

}  // namespace gradsync::tools
