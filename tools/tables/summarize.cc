#include "tools/tables/summarize.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "model/error.h"
#include "tools/records/index.h"
#include "tools/records/measurement_stream.h"
#include "tools/tables/builder.h"
#include "tools/tables/runs.h"

namespace gradsync::tools {
namespace {

// Above this many records, intervals are not worth more time than reading takes.
constexpr size_t kManyRecords = 20000;
constexpr int kResamplesForMany = 200;

int ResamplesFor(const SummarizeOptions& options, size_t num_records) {
  if (options.resamples) return *options.resamples;
  return num_records > kManyRecords ? kResamplesForMany : BootstrapOptions().resamples;
}

void RequireStrategy(const std::string& name, const RecordIndex& index) {
  std::string names;
  for (const std::string& strategy : index.strategies()) {
    if (strategy == name) return;
    if (!strategy.empty()) names += (names.empty() ? "" : ", ") + strategy;
  }
  throw InvalidInput(Join("--baseline_row=", name, ": expected a strategy of the records, which have ",
                          names.empty() ? "none" : names));
}

bool HasPeers(const RecordIndex& index) {
  return std::ranges::any_of(index.strategies(),
                             [](const std::string& name) { return name.starts_with("pytorch_"); });
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
  if (builder == nullptr && !record.published.empty()) return "";  // PublishedTable takes it
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
  builders.push_back(MakePublishedTables(options));
  return builders;
}

Summary Summarize(const SummarizeOptions& options) {
  Summary summary;
  RecordIndex index(&summary.problems);
  for (const std::string& input : options.inputs) index.Add(input);
  index.Finish();
  const size_t num_entries = index.entries().size();
  const bool has_wish = !options.baseline_row.empty();
  if (has_wish && num_entries > 0) RequireStrategy(options.baseline_row, index);

  const TableBuilders builders = MakeTableBuilders(
      {.bootstrap = {.resamples = ResamplesFor(options, num_entries)}, .with_peers = HasPeers(index)});
  const auto baseline_of = [&](std::string_view experiment) {
    return has_wish ? options.baseline_row : std::string(DefaultBaseline(builders, experiment));
  };
  MeasurementStream stream(&index, baseline_of,
                           [&](const bench::Record& record) { return WhyUnusable(builders, record); });
  RunsTable runs;
  stream.ForEach([&](const Measurement& measurement, const Measurement& baseline) {
    runs.Add(measurement.record);
    for (const auto& builder : builders) {
      if (builder->Takes(measurement)) builder->Add(measurement, baseline);
    }
  });
  for (const auto& builder : builders) builder->Finish(&summary.report.tables);
  summary.report.header = runs.Header();
  if (runs.table().num_rows() > 0) summary.report.tables.push_back(std::move(runs.table()));
  summary.num_records = stream.num_records();
  if (has_wish && stream.cells_without_baseline() > 0) {
    summary.remarks.push_back(Join("--baseline_row=", options.baseline_row, ": missing from ",
                                   stream.cells_without_baseline(),
                                   " of the comparisons, where the first row takes its place"));
  }
  return summary;
}

}  // namespace gradsync::tools
