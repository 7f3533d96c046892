#ifndef GRADSYNC_TOOLS_TABLES_RUNS_H_
#define GRADSYNC_TOOLS_TABLES_RUNS_H_

#include <string>
#include <vector>

#include "bench/records/record.h"
#include "tools/tables/table.h"

namespace gradsync::tools {

// "host bench1, 8 x Some CPU, 16 GiB, Debian GNU/Linux 12 (bookworm), Linux 6.1.0".
std::string MachineOf(const bench::Provenance& provenance);
// "gradsync 0123456789ab (opt, gcc 12.2.0), gloo 0.5.0".
std::string SoftwareOf(const bench::Provenance& provenance);

// Describes where the tables come from: a few runs in sentences, for people, and all of them as a table, for
// machines.
class RunsTable {
 public:
  // `record`: one of a run's, without its samples. All of a run's must come one after the other.
  void Add(const bench::Record& record);

  // Markdown lines. More than a few runs are only counted.
  std::vector<std::string> Header() const;
  Table& table() { return table_; }

 private:
  static constexpr size_t kMaxDescribed = 6;

  std::vector<bench::Record> described_;  // one of each of the first runs
  std::string last_run_;                  // experiment and run_id
  Table table_{"runs", "Runs", Columns(), Audience::kMachines};

  static std::vector<Column> Columns();
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_RUNS_H_
