#include "tools/tables/summarize.h"

#include <algorithm>
#include <set>
#include <utility>

#include "bench/records/step_times.h"
#include "model/base/error.h"
#include "model/base/flags.h"
#include "model/base/text.h"
#include "tools/tables/all_tables.h"
#include "tools/tables/parts/runs.h"

namespace gradsync::tools {
namespace {

// Throws InvalidInput if no group is of this run.
void CheckRun(const std::string& wanted, const std::set<std::string>& names) {
  Require(names.contains(wanted), "--run=", wanted, ": no such run, but ",
          names.empty() ? "none" : Listed({names.begin(), names.end()}),
          DidYouMean(wanted, {names.begin(), names.end()}));
}

// Throws InvalidInput if no row has this name. Adds a remark with the number of settings that lack the row.
void CheckBaselineRow(const std::string& wanted, Summary* summary) {
  bool is_there = false;
  int64_t num_without = 0;
  std::vector<std::string> names;
  for (const auto& [setting, name] : summary->settings) {
    bool has_it = false;
    for (const Row& row : setting->rows) {
      has_it |= row.is_called(wanted);
      const std::string strategy = row.strategy();
      if (!strategy.empty() && std::ranges::count(names, strategy) == 0) names.push_back(strategy);
    }
    is_there |= has_it;
    num_without += !has_it && !setting->any().strategy().empty();
  }
  Require(is_there, "--baseline_row=", wanted,
          ": expected a strategy or a variant of the records, which have ",
          names.empty() ? "none" : Listed(names), DidYouMean(wanted, names));
  if (num_without > 0) {
    summary->remarks.push_back(Join("--baseline_row=", wanted, ": missing from ", num_without,
                                    " of the comparisons, where the first row takes its place"));
  }
}

}  // namespace

void AddAllTables(const Settings& settings, std::vector<Table>* tables) {
#define GRADSYNC_ADD(Name) Add##Name##Tables(settings, tables);
  GRADSYNC_TABLES(GRADSYNC_ADD)
#undef GRADSYNC_ADD
}

std::string WhyUnusable(const bench::Record& record) {
  if (record.experiment != "all_reduce" && record.variant.strategy.empty()) {
    return Join("no table for experiment \"", record.experiment, "\"");
  }
  if (!record.published.empty()) return "";
  if (!record.samples.empty() && record.samples.begin()->second.empty()) return "no steps";
  const bool has_main = record.experiment == "all_reduce"
                            ? record.samples.contains("time_ns")
                            : record.samples.contains("step_ns") || bench::TimesAt(record.samples, 0).step();
  return has_main ? "" : "no samples of whole times";
}

Summary Summarize(const std::vector<std::string>& inputs, const std::string& baseline_row,
                  const std::string& run) {
  Summary summary;
  RecordSet records = ReadRecords(inputs, WhyUnusable, &summary.problems);
  summary.num_records = records.num_records;
  std::set<std::string> runs;
  for (Group& group : records.groups) {
    const std::string own = group.front().record.facts.StringOr("launch_set", group.front().record.run_id);
    runs.insert(own);
    if (!run.empty() && own != run) continue;
    (IsConvergence(group.front().record) ? summary.learning_groups : summary.groups)
        .push_back(std::move(group));
  }
  if (!run.empty() && summary.num_records > 0) CheckRun(run, runs);
  summary.measured = MakeSettings(summary.groups, baseline_row.empty() ? kDefaultBaseline : baseline_row);
  summary.settings = NameSettings(summary.measured);
  if (!baseline_row.empty() && summary.num_records > 0) CheckBaselineRow(baseline_row, &summary);
  AddAllTables(summary.settings, &summary.report.tables);
  summary.learning = MakeLearningSettings(summary.learning_groups);
  AddConvergenceTable(summary.learning, &summary.report.tables);
  for (const std::vector<Group>* groups : {&summary.groups, &summary.learning_groups}) {
    for (const Group& group : *groups) {
      for (const Measurement& measurement : group) {
        const bench::Record& record = measurement.record;
        const bool is_same = !summary.runs.empty() && summary.runs.back()->run_id == record.run_id &&
                             summary.runs.back()->experiment == record.experiment;
        if (!is_same) summary.runs.push_back(&record);
      }
    }
  }
  summary.report.header = {"# gradsync: results"};
  summary.report.runs = DescribeRuns(summary.runs);
  return summary;
}

}  // namespace gradsync::tools
