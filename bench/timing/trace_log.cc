#include "bench/timing/trace_log.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "model/base/error.h"

namespace gradsync::bench {
namespace {

using Json = nlohmann::ordered_json;

enum Row { kPhases = 1, kBackward = 2, kQueued = 3, kInFlight = 4 };

struct Phase {
  const char* name;
  Mark from, to;
};
constexpr Phase kPhaseList[] = {
    {"forward", Mark::kStepBegin, Mark::kForwardEnd},
    {"backward", Mark::kForwardEnd, Mark::kBackwardEnd},
    {"sync_exposed", Mark::kBackwardEnd, Mark::kSyncEnd},
    {"optimizer", Mark::kSyncEnd, Mark::kStepEnd},
};

double Microseconds(int64_t ns) { return static_cast<double>(ns) / 1e3; }

std::string RowName(int row) {
  constexpr const char* kNames[] = {"", "phases", "backward", "communication, queued"};
  return row < kInFlight ? kNames[row] : Join("communication, in flight ", row - kInFlight);
}

Json Metadata(const char* what, int rank, int row, const char* key, Json value) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", row}, {"args", {{key, std::move(value)}}}};
}

std::string Text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::vector<int> AssignLanes(std::span<const comm::Interval> intervals) {
  std::vector<size_t> by_start(intervals.size());
  std::iota(by_start.begin(), by_start.end(), size_t{0});
  std::stable_sort(by_start.begin(), by_start.end(),
                   [&](size_t a, size_t b) { return intervals[a].start_ns < intervals[b].start_ns; });
  std::vector<int> lanes(intervals.size());
  std::vector<int64_t> free_at_ns;  // time at which each lane becomes free
  for (const size_t i : by_start) {
    const auto lane = std::find_if(free_at_ns.begin(), free_at_ns.end(),
                                   [&](int64_t free_ns) { return free_ns <= intervals[i].start_ns; });
    lanes[i] = static_cast<int>(lane - free_at_ns.begin());
    if (lane == free_at_ns.end()) {
      free_at_ns.push_back(intervals[i].end_ns);
    } else {
      *lane = intervals[i].end_ns;
    }
  }
  return lanes;
}

TraceLog::TraceLog(int rank, std::string origin, std::vector<std::string> strategies)
    : rank_(rank), origin_(std::move(origin)), strategies_(std::move(strategies)), last_row_(kQueued) {}

void TraceLog::AddStep(const StepName& name, const StepMarks& marks, std::span<const StepWait> waits,
                       const std::vector<TracedOp>& ops,
                       std::span<const comm::RecordingProcessGroup::Entry> collectives) {
  const Json of_step = {{"strategy", name.strategy},
                        {"step", name.step},
                        {"batch_size", name.batch_size},
                        {"seq_len", name.seq_len}};
  const auto event = [&](std::string_view what, int row, int64_t begin_ns) -> Json {
    return {{"name", what}, {"pid", rank_}, {"tid", row}, {"ts", Microseconds(begin_ns)}};
  };
  const auto add = [&](std::string_view what, int row, int64_t begin_ns, int64_t end_ns, const Json& args) {
    Json json = event(what, row, begin_ns);
    json["ph"] = "X";
    json["dur"] = Microseconds(end_ns - begin_ns);
    json["args"] = args;
    events_.push_back(Text(json));
    last_row_ = std::max(last_row_, row);
  };
  add(name.strategy, kPhases, marks[Mark::kStepBegin], marks[Mark::kStepEnd], of_step);
  for (const Phase& phase : kPhaseList) add(phase.name, kPhases, marks[phase.from], marks[phase.to], of_step);
  for (const StepWait& wait : waits) {
    Json args = of_step;
    args["sequence"] = wait.sequence;
    args["counted"] = wait.is_counted;
    add("wait", kPhases, wait.begin_ns, wait.end_ns, args);
  }
  for (const TracedOp& op : ops) add(op.name, kBackward, op.begin_ns, op.end_ns, of_step);

  const std::vector<int> lanes = AssignLanes(comm::Intervals(collectives));
  for (size_t i = 0; i < collectives.size(); ++i) {
    const auto& [issue_ns, interval] = std::pair(collectives[i].issue_ns, collectives[i].interval);
    const std::string_view what = comm::Name(collectives[i].collective);
    Json args = of_step;
    args["sequence"] = collectives[i].sequence;
    args["bytes"] = collectives[i].bytes;
    // Waiting collectives overlap, and within one row only asynchronous events may overlap.
    Json queued = event(what, kQueued, issue_ns);
    queued["cat"] = "queued";
    queued["id"] = collectives[i].sequence;
    queued["ph"] = "b";
    queued["args"] = args;
    events_.push_back(Text(queued));
    queued["ph"] = "e";
    queued["ts"] = Microseconds(std::max(issue_ns, interval.start_ns));
    queued.erase("args");
    events_.push_back(Text(queued));
    add(what, kInFlight + lanes[i], interval.start_ns, interval.end_ns, args);
  }
}

void TraceLog::Write(const std::string& path) const {
  std::ofstream out(path);
  const std::string why_not_opened = std::strerror(errno);
  Require(out.good(), path, ": cannot be written: ", why_not_opened);
  out << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"
      << Text(Metadata("process_name", rank_, 0, "name", Join("rank ", rank_)));
  for (int row = kPhases; row <= last_row_; ++row) {
    out << ",\n"
        << Text(Metadata("thread_name", rank_, row, "name", RowName(row))) << ",\n"
        << Text(Metadata("thread_sort_index", rank_, row, "sort_index", row));
  }
  for (const std::string& event : events_) out << ",\n" << event;
  out << "\n], \"otherData\": " << Text({{"origin", origin_}, {"strategies", strategies_}}) << "}\n";
  out.close();
  const std::string why_not_written = std::strerror(errno);
  Require(!out.fail(), path, ": cannot be written: ", why_not_written);
}

}  // namespace gradsync::bench
