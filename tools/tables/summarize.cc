#include "tools/tables/summarize.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "model/error.h"
#include "tools/records/launches.h"
#include "tools/tables/fields.h"
#include "tools/tables/runs.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

void RequireRow(const std::string& wanted, const std::vector<Group>& groups) {
  std::vector<std::string> names;
  for (const Group& group : groups) {
    for (const Measurement& measurement : group) {
      const std::string name = measurement.strategy();
      if (name == wanted || measurement.variant() == wanted) return;
      if (!name.empty() && std::ranges::count(names, name) == 0) names.push_back(name);
    }
  }
  throw InvalidInput(Join("--baseline_row=", wanted,
                          ": expected a strategy or a variant of the records, which have ",
                          names.empty() ? "none" : Listed(names)));
}

}  // namespace

void AddAllTables(const std::vector<Cell>& cells, std::vector<Table>* tables) {
  for (const auto add : {AddAllReduceTables, AddResolutionTables, AddTrainingTables, AddLinksTables,
                         AddBucketTables, AddPeersTables, AddPublishedTables})
    add(cells, tables);
}

std::string WhyUnusable(const bench::Record& record) {
  std::string_view main = record.experiment == "all_reduce" ? "time_ns" : "step_ns";
  if (record.experiment != "all_reduce" && record.config.Find("strategy") == nullptr) {
    return Join("no table for experiment \"", record.experiment, "\"");
  }
  if (!record.published.empty()) return "";
  const auto samples = record.samples.find(std::string(main));
  if (samples == record.samples.end()) return Join("no samples \"", main, "\"");
  return samples->second.empty() ? "no steps" : "";
}

Summary Summarize(const SummarizeOptions& options) {
  Summary summary;
  RecordSet records = ReadRecords(options.inputs, WhyUnusable, &summary.problems);
  JoinLaunches(&records);
  summary.num_records = records.num_records;
  for (Group& group : records.groups) {
    (IsConvergence(group.front().record) ? summary.learning_groups : summary.groups)
        .push_back(std::move(group));
  }
  const bool has_wish = !options.baseline_row.empty();
  if (has_wish && summary.num_records > 0) RequireRow(options.baseline_row, summary.groups);

  RowOptions row_options{.baseline_row = options.baseline_row};
  int64_t without_baseline = 0;
  summary.cells = CellsOf(summary.groups, row_options, &without_baseline);
  AddAllTables(summary.cells, &summary.report.tables);
  summary.learning = LearningCellsOf(summary.learning_groups);
  AddConvergenceTable(summary.learning, &summary.report.tables);
  RunsTable runs;
  for (const std::vector<Group>* groups : {&summary.groups, &summary.learning_groups}) {
    for (const Group& group : *groups) {
      for (const Measurement& measurement : group) runs.Add(measurement.record);
    }
  }
  summary.report.header = runs.Header();
  if (runs.table().num_rows() > 0) summary.report.tables.push_back(std::move(runs.table()));
  if (has_wish && without_baseline > 0) {
    summary.remarks.push_back(Join("--baseline_row=", options.baseline_row, ": missing from ",
                                   without_baseline,
                                   " of the comparisons, where the first row takes its place"));
  }
  return summary;
}

}  // namespace gradsync::tools
