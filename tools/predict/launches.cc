#include "tools/predict/launches.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "tools/statistics/statistics.h"

namespace gradsync::tools {

using bench::Record;
using bench::SampleName;

std::vector<Launch> LaunchesOf(const Records& records) {
  std::map<std::string, Launch> launches;
  for (const Record* const record : records) {
    const std::string size = std::to_string(record->config.IntOr("size_bytes", 0));
    launches[record->run_id + record->variant.name() + record->config.StringOr("collective", "") + size +
             "," + std::to_string(record->config.IntOr("in_flight", 1))]
        .push_back(record);
  }
  std::vector<Launch> all;
  for (auto& [key, launch] : launches) all.push_back(std::move(launch));
  return all;
}

double MeanOver(const Launch& launch, SampleName name) {
  std::vector<double> ranks;
  for (const Record* const rank : launch) ranks.push_back(TrimmedMean(SecondsOf(*rank, name)));
  return Mean(ranks);
}

bool Has(const Record& record, std::initializer_list<SampleName> names) {
  return std::ranges::all_of(names, [&](SampleName name) { return record.samples.contains(name); });
}

std::vector<double> SecondsOf(const Record& record, SampleName name) {
  std::vector<double> seconds;
  for (const int64_t ns : record.samples.at(name)) seconds.push_back(Seconds(ns));
  return seconds;
}

double BeginOf(const Record& rank, const Launch& launch, size_t step) {
  const bool one_host = std::ranges::all_of(
      launch, [&](const Record* const other) { return MachineOf(*other) == MachineOf(rank); });
  return one_host ? Seconds(rank.samples.at("begin_ns").at(step)) : 0;
}

double ComputedSeconds(const Record& rank, size_t step) {
  const auto sample = [&](SampleName name) { return Seconds(rank.samples.at(name).at(step)); };
  return sample("begin_step_ns") + sample("forward_ns") + sample("backward_ns") + sample("hooks_ns");
}

Ends EndsOf(const Launch& launch, const std::function<double(const Record& rank, size_t step)>& seconds) {
  std::vector<double> means, late;
  for (size_t s = 0; s < launch.front()->samples.at("step_ns").size(); ++s) {
    double begin = -std::numeric_limits<double>::infinity(), last = begin, sum = 0;
    for (const Record* const rank : launch) {
      const double own = BeginOf(*rank, launch, s), end = own + seconds(*rank, s);
      begin = std::max(begin, own);
      last = std::max(last, end);
      sum += end;
    }
    const double mean = sum / static_cast<double>(launch.size());
    means.push_back(mean - begin);
    late.push_back(last - mean);
  }
  return {TrimmedMean(means), TrimmedMean(late)};
}

CollectiveKind KindInStep(const Record& record, CollectiveKind kind) {
  const bool has_buckets =
      record.facts.BoolOr("copies_gradients", false) || record.facts.BoolOr("places_gradients", false);
  return kind == CollectiveKind::kAllReduce && !has_buckets ? CollectiveKind::kAllReduceUnplaced : kind;
}

}  // namespace gradsync::tools
