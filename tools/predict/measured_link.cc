#include "tools/predict/measured_link.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "model/error.h"
#include "tools/predict/calibrate.h"
#include "tools/records/reader.h"

namespace gradsync::tools {
namespace {

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

// Lines of "#" tell the program and name each rank; others end with time, algbw, busbw and #wrong out of
// place, and the same in place.
MeasuredLink ParseColumns(const std::string& text) {
  CollectiveKind kind = CollectiveKind::kAllReduce;  // older ones do not tell
  int64_t world_size = 0;
  std::vector<CollectiveCost> costs;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    const std::vector<std::string> words(std::istream_iterator<std::string>(in), {});
    if (line.starts_with('#')) {
      if (line.starts_with("# Collective test starting: ")) kind = KindOfProgram(line);
      if (words.size() > 1 && words[1] == "Rank") ++world_size;
      continue;
    }
    double bytes = 0, us = 0;
    constexpr size_t kFewest = 12;  // size, count, type, redop, and twice four
    if (words.size() < kFewest || !absl::SimpleAtod(words[0], &bytes) || bytes <= 0) continue;
    Require(absl::SimpleAtod(words[words.size() - 4], &us), "no time in \"", line, "\"");
    costs.push_back({.kind = kind, .bytes = bytes, .seconds = 1e-6 * us});
  }
  return LinkOf(costs, world_size);
}

}  // namespace

MeasuredLink ParseNcclTests(const std::string& text) {
  return text.starts_with('{') ? ParseJson(text) : ParseColumns(text);
}

MeasuredLink ReadMeasuredLink(const std::string& path) {
  try {
    if (!std::filesystem::is_directory(path)) {
      std::ifstream file(path);
      Require(file.good(), "cannot be read");
      const std::string text(std::istreambuf_iterator<char>(file), {});
      if (!absl::StrContains(text.substr(0, text.find('\n')), "\"gradsync.record/"))
        return ParseNcclTests(text);
    }
    Problems problems;
    const std::vector<bench::Record> records = ReadEach({path}, &problems);
    Records all;
    for (const bench::Record& record : records) {
      const bool is_floor = record.variant.strategy == record.facts.StringOr("floor", "-");
      Require(is_floor || record.variant.backend == records.front().variant.backend,
              "records of several backends: ", records.front().variant.backend, " and ",
              record.variant.backend);
      all.push_back(&record);
    }
    const std::optional<Calibration> calibration =
        all.empty() ? std::nullopt : CalibrationOf(all, all.front()->variant.backend);
    Require(calibration.has_value(), "no records of //bench:all_reduce");
    return {calibration->link, records.front().world_size};
  } catch (const std::exception& error) {
    throw InvalidInput(Join(path, ": ", error.what()));
  }
}

}  // namespace gradsync::tools
