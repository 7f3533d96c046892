#include "tools/tables/summarize.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "model/error.h"
#include "tools/records/launches.h"
#include "tools/tables/builder.h"
#include "tools/tables/cost.h"
#include "tools/tables/runs.h"

namespace gradsync::tools {
namespace {

// Above this many records, intervals are not worth more time than reading takes.
constexpr int64_t kManyRecords = 20000;
constexpr int kResamplesForMany = 200;

int ResamplesFor(const SummarizeOptions& options, int64_t num_records) {
  if (options.resamples) return *options.resamples;
  return num_records > kManyRecords ? kResamplesForMany : BootstrapOptions().resamples;
}

// Of the records, in their order; the empty one of those that have none is left out.
std::vector<std::string> StrategiesOf(const RecordSet& records) {
  std::vector<std::string> names;
  for (const Group& group : records.groups) {
    for (const Measurement& measurement : group) {
      std::string name = measurement.strategy();
      if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
  }
  return names;
}

void RequireStrategy(const std::string& wanted, const std::vector<std::string>& strategies) {
  if (std::ranges::find(strategies, wanted) != strategies.end()) return;
  std::string names;
  for (const std::string& name : strategies) names += (names.empty() ? "" : ", ") + name;
  throw InvalidInput(Join("--baseline_row=", wanted, ": expected a strategy of the records, which have ",
                          names.empty() ? "none" : names));
}

bool HasPeers(const std::vector<std::string>& strategies) {
  return std::ranges::any_of(strategies,
                             [](const std::string& name) { return name.starts_with(kPeerPrefix); });
}

const TableBuilder* FindBuilder(const TableBuilders& builders, std::string_view experiment) {
  const auto found = std::find_if(builders.begin(), builders.end(), [&](const auto& candidate) {
    return candidate->experiment() == experiment;
  });
  return found == builders.end() ? nullptr : found->get();
}

}  // namespace

std::string_view DefaultBaseline(const TableBuilders& builders, std::string_view experiment) {
  const TableBuilder* builder = FindBuilder(builders, experiment);
  return builder == nullptr ? "" : builder->default_baseline();
}

std::string WhyUnusable(const TableBuilders& builders, const bench::Record& record) {
  const TableBuilder* builder = FindBuilder(builders, record.experiment);
  if (builder == nullptr) return Join("no table for experiment \"", record.experiment, "\"");
  if (record.published.contains(std::string(builder->main_samples()))) return "";
  const auto samples = record.samples.find(std::string(builder->main_samples()));
  if (samples == record.samples.end()) return Join("no samples \"", builder->main_samples(), "\"");
  return samples->second.empty() ? "no steps" : "";
}

std::string_view MainSamples(const TableBuilders& builders, const bench::Record& record) {
  return FindBuilder(builders, record.experiment)->main_samples();
}

TableBuilders MakeTableBuilders(const TableOptions& options) {
  TableBuilders builders;
  builders.push_back(MakeAllReduceTable(options));
  builders.push_back(MakeDdpTable(options));
  if (options.with_peers) builders.push_back(MakePeersTable(options));
  builders.push_back(MakeGridTable(options));
  builders.push_back(MakeCompareTable(options));
  if (options.with_peers) builders.push_back(MakeComparePeersTable(options));
  return builders;
}

Summary Summarize(const SummarizeOptions& options) {
  Summary summary;
  const TableBuilders any = MakeTableBuilders({});
  RecordSet records = ReadRecords(
      options.inputs, [&](const bench::Record& record) { return WhyUnusable(any, record); },
      &summary.problems);
  JoinLaunches(&records);
  summary.num_records = records.num_records;
  const std::vector<std::string> strategies = StrategiesOf(records);
  const bool has_wish = !options.baseline_row.empty();
  if (has_wish && records.num_records > 0) RequireStrategy(options.baseline_row, strategies);

  const TableBuilders builders =
      MakeTableBuilders({.bootstrap = {.resamples = ResamplesFor(options, records.num_records)},
                         .with_peers = HasPeers(strategies)});
  RunsTable runs;
  int64_t without_baseline = 0;
  for (const Group& group : records.groups) {
    const std::string_view wanted =
        has_wish ? options.baseline_row : DefaultBaseline(builders, group.front().record.experiment);
    const Measurement* const found = FindStrategy(group, wanted);
    without_baseline += found == nullptr && !group.front().strategy().empty();
    const Measurement& baseline = found == nullptr ? group.front() : *found;
    for (const Measurement& measurement : group) runs.Add(measurement.record);
    for (const auto& builder : builders) {
      std::vector<Measured> rows;
      for (const Measurement& own : group) {
        const Measurement* const floor = FindStrategy(group, bench::FloorOf(own.strategy()));
        if (builder->Takes(own)) rows.push_back({own, baseline, floor});
      }
      builder->AddGroup(rows);
    }
  }
  for (const auto& builder : builders) builder->Finish(&summary.report.tables);
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
