#include "tools/predict/measured_link.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "model/error.h"
#include "tools/records/reader.h"
#include "tools/statistics/statistics.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using bench::SampleName;
using nlohmann::json;

// By the name of the program that measured, such as /opt/build/all_reduce_perf.
CollectiveKind KindOfProgram(const std::string& program) {
  for (const char* const name : {"all_reduce", "reduce_scatter", "all_gather"})
    if (absl::StrContains(program, Join(name, "_perf"))) return KindOf(name);
  throw InvalidInput(
      Join("measured by ", program,
           ", expected all_reduce_perf, reduce_scatter_perf or all_gather_perf of nccl-tests"));
}

MeasuredLink LinkOf(const std::vector<CollectiveCost>& costs, int64_t world_size) {
  Require(world_size > 1, "measured by ", world_size, " ranks, expected 2 or more");
  return {LinkCosts(costs), world_size, /*has_processor=*/false};
}

// A result without times out of place, or in place, has null there.
MeasuredLink ParseJson(const std::string& text) {
  const json all = json::parse(text);
  const json& config = all.at("config");
  const CollectiveKind kind = KindOfProgram(all.at("args").at(0));
  std::vector<CollectiveCost> costs;
  for (const json& result : all.at("results")) {
    const json& in_place = result.at("in_place");
    const json& times = in_place.is_null() ? result.at("out_of_place") : in_place;
    const double bytes = result.at("size"), us = times.at("time");
    if (bytes > 0) costs.push_back({.kind = kind, .bytes = bytes, .seconds = 1e-6 * us});
  }
  // It lists processes, each of which has so many ranks.
  const int64_t processes = std::ssize(config.at("devices")), threads = config.at("nthreads");
  return LinkOf(costs, processes * threads * config.at("ngpus").get<int64_t>());
}

// What one program printed after another. Lines of "#" tell the program and name each rank; others end with
// time, algbw, busbw and #wrong out of place, and the same in place.
MeasuredLink ParseColumns(const std::string& text) {
  CollectiveKind kind = CollectiveKind::kAllReduce;  // older ones do not tell
  int64_t world_size = 0, num_named = 0;             // of all programs, of this one
  std::vector<CollectiveCost> costs;
  const auto end_program = [&] {
    if (num_named == 0) return;
    Require(world_size == 0 || world_size == num_named, "measured by ", world_size, " and by ", num_named,
            " ranks");
    world_size = std::exchange(num_named, 0);
  };
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    const std::vector<std::string> words(std::istream_iterator<std::string>(in), {});
    if (line.starts_with('#')) {
      if (line.starts_with("# Collective test starting: ")) kind = KindOfProgram(line);
      if (words.size() > 1 && words[1].starts_with("nThread")) end_program();  // each begins so
      if (words.size() > 1 && words[1] == "Rank") ++num_named;
      continue;
    }
    double bytes = 0, us = 0;
    constexpr size_t kFewest = 12;  // size, count, type, redop, and twice four
    if (words.size() < kFewest || !absl::SimpleAtod(words[0], &bytes) || bytes <= 0) continue;
    Require(absl::SimpleAtod(words[words.size() - 4], &us), "no time in \"", line, "\"");
    costs.push_back({.kind = kind, .bytes = bytes, .seconds = 1e-6 * us});
  }
  end_program();
  return LinkOf(costs, world_size);
}

// Records of all ranks of one collective.
using Ranks = std::vector<const Record*>;

std::vector<double> SecondsOf(const Record& record, SampleName name) {
  std::vector<double> seconds;
  for (const int64_t ns : record.samples.at(name)) seconds.push_back(1e-9 * static_cast<double>(ns));
  return seconds;
}

// Trimmed over steps, averaged over ranks.
double MeanOver(const Ranks& ranks, SampleName name) {
  std::vector<double> means;
  for (const Record* const rank : ranks) means.push_back(TrimmedMean(SecondsOf(*rank, name)));
  return Mean(means);
}

// In each step the rank that came last waited least.
double TimeOfCollective(const Ranks& ranks) {
  std::vector<double> least = SecondsOf(*ranks.front(), "time_ns");
  for (const Record* const rank : ranks) {
    const std::vector<double> own = SecondsOf(*rank, "time_ns");
    for (size_t i = 0; i < std::min(least.size(), own.size()); ++i) least[i] = std::min(least[i], own[i]);
  }
  return TrimmedMean(least);
}

// What records of //bench:all_reduce say; nothing of others.
std::optional<MeasuredLink> LinkOf(const std::vector<Record>& records) {
  const Record* any = nullptr;
  std::map<std::tuple<std::string, std::string, int64_t, int64_t>, Ranks> launches;
  for (const Record& record : records) {
    const std::string collective = record.config.StringOr("collective", "");
    const bool is_known = record.samples.contains("communication_cpu_ns");
    if (record.experiment != "all_reduce" || collective == "broadcast" || !is_known) continue;
    if (any == nullptr) any = &record;
    Require(record.variant.backend == any->variant.backend,
            "records of several backends: ", any->variant.backend, " and ", record.variant.backend);
    Require(record.world_size == any->world_size, "records of ", any->world_size, " and of ",
            record.world_size, " ranks");
    launches[{record.run_id + record.variant.name(), collective, record.config.IntOr("size_bytes", 0),
              record.config.IntOr("in_flight", 1)}]
        .push_back(&record);
  }
  if (any == nullptr) return std::nullopt;
  std::vector<CollectiveCost> costs;
  for (const auto& [key, ranks] : launches) {
    const auto& [run, collective, bytes, in_flight] = key;
    costs.push_back({.kind = KindOf(collective),
                     .in_flight = static_cast<int>(in_flight),
                     .bytes = static_cast<double>(bytes),
                     .seconds = TimeOfCollective(ranks),
                     .processor = MeanOver(ranks, "communication_cpu_ns") / MeanOver(ranks, "time_ns")});
  }
  // Shared memory has one communication thread, whatever was asked for.
  const std::string& backend = any->variant.backend;
  const bool has_threads = backend != "shm" && backend != "hierarchical";
  const auto channels = has_threads ? static_cast<int>(any->config.IntOr("comm_threads", 1)) : 1;
  return MeasuredLink{LinkCosts(costs, channels), any->world_size};
}

}  // namespace

MeasuredLink ParseNcclTests(const std::string& text) {
  return text.starts_with('{') ? ParseJson(text) : ParseColumns(text);
}

MeasuredLink ReadMeasuredLink(const std::string& path) {
  try {
    if (!std::filesystem::is_directory(path) && !path.ends_with(".gz")) {
      std::ifstream file(path);
      Require(file.good(), "cannot be read");
      const std::string text(std::istreambuf_iterator<char>(file), {});
      if (!absl::StrContains(text.substr(0, text.find('\n')), "\"gradsync.record/"))
        return ParseNcclTests(text);
    }
    std::optional<MeasuredLink> link = LinkOf(ReadAny({path}));
    Require(link.has_value(), "no records of //bench:all_reduce");
    return *std::move(link);
  } catch (const std::exception& error) {
    const std::string_view why = error.what();
    throw InvalidInput(why.starts_with(path) ? std::string(why) : Join(path, ": ", why));
  }
}

}  // namespace gradsync::tools
