#include "tools/reports/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "model/error.h"

namespace gradsync::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Rows of the trace, as bench/timing/trace_log.cc writes them.
constexpr int kPhases = 1, kBackward = 2, kQueued = 3, kInFlight = 4;

constexpr const char* kPhaseNames[] = {"forward", "backward", "sync_exposed", "optimizer"};

Json ReadJson(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  Require(!fs::exists(status) || fs::is_regular_file(status), path, ": cannot be read: not a regular file");
  std::ifstream file(path);
  Require(file.good(), path, ": cannot be read: ", std::strerror(errno));
  Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  Require(json.is_object() && json.contains("traceEvents") && json["traceEvents"].is_array(), path,
          ": is no trace: expected a JSON object with an array 'traceEvents'");
  return json;
}

// What the benchmark says of the run.
void ReadOrigin(const Json& json, Trace& trace) {
  const auto other = json.find("otherData");
  if (other == json.end()) return;
  trace.origin = other->value("origin", "");
  for (const std::string name : other->value("strategies", Json::array())) {
    if (std::ranges::find(trace.strategies, name) == trace.strategies.end()) trace.strategies.push_back(name);
  }
}

// Numbers the collectives of each step, and forgets the strategies that took none.
void Complete(Trace& trace) {
  for (auto& [key, ranks] : trace.steps) {
    for (auto& [rank, step] : ranks) {
      std::ranges::stable_sort(step.transfers, {}, &TracedCollective::issued_us);
      for (size_t i = 0; i < step.transfers.size(); ++i) step.transfers[i].number = static_cast<int64_t>(i);
    }
  }
  std::erase_if(trace.strategies, [&](const std::string& name) {
    return std::ranges::none_of(trace.steps, [&](const auto& entry) { return entry.first.strategy == name; });
  });
}

// Adds the event to the trace. `issued` remembers, by sequence number, what waits for its interval in flight.
void AddEvent(const Json& event, std::map<int64_t, double>& issued, Trace& trace) {
  const std::string kind = event.at("ph");
  if (kind == "M" || kind == "e") return;
  const Json& args = event.at("args");
  const StepKey key{args.at("batch_size"), args.at("seq_len"), args.at("strategy"), args.at("step")};
  if (std::ranges::find(trace.strategies, key.strategy) == trace.strategies.end()) {
    trace.strategies.push_back(key.strategy);
  }
  RankStep& step = trace.steps[key][event.at("pid").get<int>()];
  const int row = event.at("tid");
  const double begin_us = event.at("ts");
  if (row == kQueued) {
    issued[args.at("sequence")] = begin_us;
    return;
  }
  const Span span{event.at("name"), begin_us, begin_us + event.at("dur").get<double>()};
  if (row == kBackward) {
    step.ops.push_back(span);
  } else if (row >= kInFlight) {
    const auto found = issued.find(args.at("sequence").get<int64_t>());
    step.transfers.push_back({.in_flight = span,
                              .issued_us = found == issued.end() ? begin_us : found->second,
                              .bytes = args.at("bytes"),
                              .lane = row - kInFlight});
  } else if (row == kPhases && std::ranges::find(kPhaseNames, span.name) != std::end(kPhaseNames)) {
    step.phases.push_back(span);
  } else {
    step.step = span;
  }
}

}  // namespace

const Span* RankStep::Phase(const std::string& name) const {
  const auto found = std::ranges::find(phases, name, &Span::name);
  return found == phases.end() ? nullptr : &*found;
}

double RankStep::backward_end_us() const {
  const Span* const backward = Phase("backward");
  return backward == nullptr ? step.end_us : backward->end_us;
}

BusyTime RankStep::Communication() const {
  std::vector<std::pair<double, double>> flights;
  for (const TracedCollective& transfer : transfers) {
    flights.emplace_back(transfer.in_flight.begin_us, transfer.in_flight.end_us);
  }
  std::ranges::sort(flights);
  const double end_of_backward_us = backward_end_us();
  BusyTime time;
  double covered_until_us = step.begin_us;
  for (const auto& [begin_us, end_us] : flights) {
    const double from_us = std::max(begin_us, covered_until_us);
    if (end_us <= from_us) continue;
    time.busy_us += end_us - from_us;
    time.exposed_us += std::max(0.0, end_us - std::max(from_us, end_of_backward_us));
    covered_until_us = end_us;
  }
  return time;
}

std::set<std::string> TraceDirectories(const std::string& directory) {
  const std::string traces = fs::path(directory) / "traces";
  return fs::is_directory(traces) ? std::set{directory, traces} : std::set{directory};
}

std::map<std::string, std::vector<std::string>> FindTraces(const std::set<std::string>& directories) {
  std::map<std::string, std::vector<std::string>> traces;
  for (const std::string& directory : directories) {
    for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
      const std::string path = entry.path().string();
      // "ddp.20261121T101500-4f2a.rank0.trace.json" without the rank.
      if (path.ends_with(".trace.json")) traces[path.substr(0, path.rfind(".rank"))].push_back(path);
    }
  }
  for (auto& [run, paths] : traces) std::ranges::sort(paths);
  return traces;
}

Trace ReadTraces(const std::vector<std::string>& paths) {
  Trace trace;
  for (const std::string& path : paths) {
    const Json json = ReadJson(path);
    std::map<int64_t, double> issued;
    try {
      ReadOrigin(json, trace);
      for (const Json& event : json["traceEvents"]) AddEvent(event, issued, trace);
    } catch (const Json::exception& error) {
      throw InvalidInput(Join(path, ": is no trace of a gradsync benchmark: ", error.what()));
    }
  }
  Complete(trace);
  return trace;
}

}  // namespace gradsync::tools
