#include "tools/reports/summary.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "model/error.h"
#include "tools/render/text.h"
#include "tools/reports/rows.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

std::string Counted(size_t count, std::string_view one, std::string_view several) {
  return Join(CountWord(count), " ", count == 1 ? one : several);
}

// "4 KiB to 64 MiB"
std::string SizesOf(const TableReader& table) {
  double least_mib = HUGE_VAL, most_mib = 0;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    const double mib = table.Number(row, "data_size (MB)");
    least_mib = std::fmin(least_mib, mib);
    most_mib = std::fmax(most_mib, mib);
  }
  const std::string from = ReadableBytes(least_mib * 1048576), to = ReadableBytes(most_mib * 1048576);
  return from == to ? from : from + " to " + to;
}

std::string Escaped(std::vector<std::string> items) {
  for (std::string& item : items) item = EscapeXml(item);
  return Listed(items);
}

// "sum all-reduces of 4 KiB to 64 MiB over gloo"
std::vector<std::string> WorkOf(const std::vector<Table>& tables) {
  std::vector<std::string> work;
  if (const Table* table = FindTable(tables, "all_reduce")) {
    const TableReader reader(*table);
    work.push_back(Join("all-reduces of ", SizesOf(reader), " over ", Escaped(reader.Values("backend"))));
  }
  if (const Table* table = FindTable(tables, "ddp")) {
    const TableReader reader(*table);
    const std::vector<std::string> batches = reader.Values("batch_size"), lengths = reader.Values("seq_len");
    const std::vector<std::string> strategies = reader.Values("strategy");
    const auto num_peers = static_cast<size_t>(std::ranges::count_if(
        strategies, [](const std::string& name) { return name.starts_with("pytorch_"); }));
    std::string text = Join("data-parallel training of ", Escaped(reader.Values("model_size")), " with ",
                            Counted(strategies.size() - num_peers, "strategy", "strategies"),
                            " of gradient synchronisation");
    if (num_peers > 0) text += Join(" and ", CountWord(num_peers), " of PyTorch’s");
    if (!batches.empty()) text += Join(", batch size ", Escaped(batches));
    if (!lengths.empty()) text += Join(", sequence length ", Escaped(lengths));
    work.push_back(text + Join(", over ", Escaped(reader.Values("backend"))));
  }
  if (const Table* table = FindTable(tables, "compare")) {
    work.push_back("a sweep of bucket sizes on " + Escaped(TableReader(*table).Values("model")));
  }
  return work;
}

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

std::string SummaryOf(const std::vector<Table>& tables) {
  const Table* runs_table = FindTable(tables, "runs");
  if (runs_table == nullptr) return "";
  const TableReader runs(*runs_table);
  const std::vector<std::string> worlds = runs.Values("world_size"), hosts = runs.Values("host"),
                                 work = WorkOf(tables);
  std::string text = Join("<p class=\"abstract\">", Listed(worlds),
                          worlds.size() == 1 && worlds[0] == "1" ? " rank" : " ranks");
  if (!hosts.empty())
    text += " on " + (hosts.size() > 3 ? Counted(hosts.size(), "host", "hosts") : Escaped(hosts));
  if (hosts.size() == 1) {
    const std::string machine = Together({CpuOf(runs, 0), MemoryOf(runs, 0), runs.Text(0, "gpu")});
    if (!machine.empty()) text += " (" + EscapeXml(machine) + ")";
  }
  for (size_t i = 0; i < work.size(); ++i)
    text += (i == 0 ? " ran " : i + 1 == work.size() ? "; and " : "; ") + work[i];
  return text +
         ". Times are those of the slowest rank. Where a number should not be relied on, the row that holds "
         "it "
         "says why.</p>\n";
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
