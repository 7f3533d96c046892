#include "tools/predict/measured_link.h"

#include <filesystem>
#include <fstream>
#include <iterator>
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
    const std::vector<bench::Record> records = ReadAny({path});
    Records all;
    const bench::Record* of_link = nullptr;  // one that communicates
    for (const bench::Record& record : records) {
      all.push_back(&record);
      if (record.variant.strategy == record.facts.StringOr("floor", "-")) continue;
      if (of_link == nullptr) of_link = &record;
      const auto& [backend, world_size] = std::tie(of_link->variant.backend, of_link->world_size);
      Require(record.variant.backend == backend, "records of several backends: ", backend, " and ",
              record.variant.backend);
      Require(record.world_size == world_size, "records of ", world_size, " and of ", record.world_size,
              " ranks");
    }
    const std::optional<Calibration> calibration =
        of_link == nullptr ? std::nullopt : CalibrationOf(all, of_link->variant.backend);
    Require(calibration.has_value(), "no records of //bench:all_reduce");
    return {calibration->link, of_link->world_size};
  } catch (const std::exception& error) {
    const std::string_view why = error.what();
    throw InvalidInput(why.starts_with(path) ? std::string(why) : Join(path, ": ", why));
  }
}

}  // namespace gradsync::tools
