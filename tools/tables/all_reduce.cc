#include <algorithm>
#include <map>
#include <utility>

#include "bench/records/record.h"
#include "model/base/error.h"
#include "model/base/text.h"
#include "tools/analysis/answers.h"
#include "tools/tables/all_tables.h"
#include "tools/tables/machines.h"
#include "tools/tables/parts/views.h"

// The table about collectives. Its rows are backends, and its settings are sizes.
namespace gradsync::tools {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kGB = 1e9;

constexpr SampleName kTime = "time_ns";

double BytesOf(const View& view) { return Number("size_bytes")(view); }

std::string SizeOf(const View& view) { return SizeText(static_cast<int64_t>(BytesOf(view))); }

// Returns a text such as " broadcast"; empty for an all-reduce.
std::string OperationOf(const View& view) {
  const std::string collective = Text("collective")(view);
  return collective == "all_reduce" ? "" : " " + collective;
}

// The bandwidth is a number of bytes divided by the time, whose 95 % interval is computed from the
// iterations. With few iterations the interval of the time may reach zero. Then the bandwidth has no upper
// bound and is unknown.
Interval BandwidthInterval(const View& view) {
  std::vector<size_t> launches;
  for (const Launch& launch : view.measured().launches) launches.push_back(launch.num_steps);
  const std::vector<double>& times = MainTimes(view.measured()).max;
  if (times.size() < kFewestForInterval) return {};
  const Interval time =
      EstimateRounds(std::vector<RoundDifferences>{{.values = times}}, launches).front().interval;
  const double bytes = view.row.bus_bytes_per_second * view.row.step_s;
  return time.low > 0 ? Interval{bytes / time.high, bytes / time.low} : Interval{};
}

std::vector<Field<View>> Fields() {
  enum Section { kHeadline = 1, kDetails };
  std::vector<Field<View>> fields = {
      {{.name = "backend"}, &View::backend},
      {{.name = "data_size", .audience = Audience::kPeople}, [](const View& view) { return SizeOf(view); }},
      {{.name = "data_size (MB)", .audience = Audience::kMachines},  // the published tables' name for MiB
       [](const View& view) { return BytesOf(view) / kMiB; }},
      {{.name = "time_taken", .section = kDetails},
       OfTimes(kTime, [](const Series& series) { return Mean(series.rank_means); })},
      {{.name = "std_time", .digits = 3, .section = kDetails},
       OfTimes(kTime, [](const Series& series) { return Mean(series.rank_stds); })},
      {{.name = "time", .audience = Audience::kPeople, .section = kHeadline},
       [](const View& view) { return TimeText(view.row.step_s); }},
      {{.name = "time (s)", .audience = Audience::kMachines}, &View::step_s},
      {{.name = "delta (%)", .kind = Kind::kPercent, .section = kHeadline}, &View::delta_percent},
      {{.name = "time_max (s)", .section = kDetails}, MeanTime(kTime)},
      {{.name = "back_to_back (s)", .section = kDetails}, MeanTime("back_to_back_ns")},
      {{.name = "algbw (GB/s)", .section = kDetails},
       [](const View& view) { return BytesOf(view) / view.row.MeanOf(kTime) / kGB; }},
      {{.name = "busbw (GB/s)", .section = kHeadline},
       [](const View& view) { return view.row.bus_bytes_per_second / kGB; }},
      {{.name = "busbw_low (GB/s)", .audience = Audience::kMachines},
       [](const View& view) { return BandwidthInterval(view).low / kGB; }},
      {{.name = "busbw_high (GB/s)", .audience = Audience::kMachines},
       [](const View& view) { return BandwidthInterval(view).high / kGB; }},
      {{.name = "p50 (s)", .section = kDetails}, TimePercentile(kTime, 0.5)},
      {{.name = "p95 (s)", .section = kDetails, .marked_with = Warning::kTooFewForP95},
       TimePercentile(kTime, 0.95)},
      {{.name = "p99 (s)", .section = kDetails, .marked_with = Warning::kTooFewForP99},
       TimePercentile(kTime, 0.99)},
      {{.name = "wrong elements", .kind = Kind::kInteger, .section = kHeadline, .said_once = true},
       [](const View& view) {
         const std::optional<int64_t>& wrong = view.measured().wrong_elements;
         return wrong ? static_cast<double>(*wrong) : kNaN;
       }},
      {{.name = "collective", .section = kHeadline, .said_once = true}, Text("collective")},
      {{.name = "op", .section = kDetails, .said_once = true}, Text("op")},
      {{.name = "baseline", .section = kDetails, .said_once = true},
       [](const View& view) { return view.base() == nullptr ? "" : view.base()->backend(); }},
  };
  Append(RunFields(kDetails), &fields);
  fields.push_back({{.name = "warnings", .section = kHeadline}, &View::warnings});
  return fields;
}

// Returns "Bus bandwidth at 100MiB: gloo 1.43 GB/s and shm 14.1 GB/s.", for the size that most backends have;
// of several such sizes, the largest. Empty if there are no bandwidths.
std::string BandwidthsOf(const Settings& settings) {
  std::map<double, std::vector<std::string>> all;  // by size
  for (const NamedSetting& at : settings) {
    if (!at.setting->void_reason.empty()) continue;
    for (const Row& row : at.setting->rows) {
      const double bytes = BytesOf({at, row});
      if (row.measured->wrong_elements.value_or(0) > 0 || !(bytes > 0)) continue;
      all[bytes].push_back(Join(row.backend(), OperationOf({at, row}), " ",
                                Significant(row.bus_bytes_per_second / kGB, 3), " GB/s"));
    }
  }
  if (all.empty()) return "";
  const auto& [bytes, parts] = *std::ranges::max_element(
      all, {}, [](const auto& size) { return std::pair(size.second.size(), size.first); });
  return Join("Bus bandwidth at ", SizeText(static_cast<int64_t>(bytes)), ": ", Listed(parts), ".");
}

std::vector<std::string> FindingsOf(const Settings& settings) {
  std::vector<Answer> answers;
  size_t num_rows = 0, num_checked = 0, num_wrong = 0;
  for (const NamedSetting& at : settings) {
    for (const Row& row : at.setting->rows) {
      ++num_rows;
      num_checked += row.measured->wrong_elements.has_value();
      num_wrong += row.measured->wrong_elements.value_or(0) > 0;
      const View view{at, row};
      const Comparison own = view.comparison();
      // The limit of memory is not a backend that a user can choose.
      if (own.verdict == Verdict::kNone || row.backend() == bench::kMemoryLimit) continue;
      answers.push_back(
          {SizeOf(view) + OperationOf(view), row.backend(), own.base->backend(), own.verdict, own.estimate});
    }
  }
  std::vector<std::string> findings;
  if (num_wrong > 0)
    findings.push_back(
        Join("Wrong elements in ", num_wrong, " of ", num_rows, " rows, which have no verdict."));
  const std::string bandwidths = BandwidthsOf(settings);
  findings.push_back(bandwidths.empty() ? NoVerdict(settings) : bandwidths);
  Append(WriteSentences(answers), &findings);
  if (num_wrong == 0 && num_checked == num_rows) findings.emplace_back("No element of any result was wrong.");
  std::erase(findings, "");
  return findings;
}

}  // namespace

void AddAllReduceTables(const Settings& all, std::vector<Table>* tables) {
  Settings settings;
  std::ranges::copy_if(all, std::back_inserter(settings), [](const NamedSetting& at) {
    return at.setting->any().measured->Find(kTime) != nullptr;
  });
  if (settings.empty()) return;
  TableOf<View> table("all_reduce", "All-reduce", Fields());
  for (const NamedSetting& at : settings) {
    for (const Row& row : at.setting->rows) table.Add({at, row});
  }
  for (std::string& sentence : FindingsOf(settings)) table.AddFinding(std::move(sentence));
  table.AddNote(
      "1 GB/s = 10^9 bytes per second. time: 20 % trimmed mean of each iteration's "
      "slowest rank; delta: the difference to the first backend in the same iteration, with a simultaneous "
      "95 % CI at each size where backends took turns.");
  table.AddNote(
      "busbw: data_size / time x 2 (n - 1) / n; of reduce_scatter and all_gather half of that, of broadcast "
      "data_size / time. algbw: data_size / time_max.");
  table.SetSectionTitle(
      2,
      "time_taken, std_time: the mean over ranks of each rank's own mean and population std. time_max, "
      "algbw, p50, p95, p99: of each iteration's slowest rank. back_to_back: without a barrier in between");
  table.AddNote(MachinesText(settings));
  tables->push_back(std::move(table));
}

}  // namespace gradsync::tools
