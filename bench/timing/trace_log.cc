#include "bench/timing/trace_log.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "model/error.h"

namespace gradsync::bench {
namespace {

using Json = nlohmann::ordered_json;

// Rows of the trace, in the order in which they are shown.
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
  switch (row) {
    case kPhases:
      return "phases";
    case kBackward:
      return "backward";
    case kQueued:
      return "communication, queued";
    default:
      return Join("communication, in flight ", row - kInFlight);
  }
}

Json Metadata(const char* what, int rank, int row, const char* key, Json value) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", row}, {"args", {{key, std::move(value)}}}};
}

// Writes the events one at a time, so that a long trace is never in memory twice.
class EventStream {
 public:
  explicit EventStream(std::ostream& out) : out_(out) {
    out_ << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  }
  void Put(const Json& event) {
    out_ << (first_ ? "\n" : ",\n") << event.dump(-1, ' ', false, Json::error_handler_t::replace);
    first_ = false;
  }
  // `other`: what the format lets a program add.
  void Close(const Json& other) {
    out_ << "\n], \"otherData\": " << other.dump(-1, ' ', false, Json::error_handler_t::replace) << "}\n";
  }

 private:
  std::ostream& out_;
  bool first_ = true;
};

}  // namespace

std::vector<int> AssignLanes(std::span<const comm::Interval> intervals) {
  std::vector<size_t> by_start(intervals.size());
  std::iota(by_start.begin(), by_start.end(), size_t{0});
  std::stable_sort(by_start.begin(), by_start.end(),
                   [&](size_t a, size_t b) { return intervals[a].start_ns < intervals[b].start_ns; });
  std::vector<int> lanes(intervals.size());
  std::vector<int64_t> free_at_ns;  // of each lane
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

void TraceLog::SetOrigin(std::string origin, std::vector<std::string> strategies) {
  origin_ = std::move(origin);
  strategies_ = std::move(strategies);
}

void TraceLog::AddStep(const StepName& name, const StepMarks& marks, const std::vector<TracedOp>& ops,
                       std::span<const comm::RecordingProcessGroup::Entry> collectives) {
  const size_t step = steps_.size();
  steps_.push_back(name);
  const int64_t step_end_ns = marks[Mark::kStepEnd];
  events_.push_back({name.strategy, kPhases, marks[Mark::kStepBegin], step_end_ns, step});
  for (const Phase& phase : kPhaseList) {
    events_.push_back({phase.name, kPhases, marks[phase.from], marks[phase.to], step});
  }
  for (const TracedOp& op : ops) events_.push_back({op.name, kBackward, op.begin_ns, op.end_ns, step});

  const std::vector<int> lanes = AssignLanes(comm::Intervals(collectives));
  for (size_t i = 0; i < collectives.size(); ++i) {
    const auto& entry = collectives[i];
    const std::string what(comm::Name(entry.collective));
    events_.push_back({what, kQueued, entry.issue_ns, std::max(entry.issue_ns, entry.interval.start_ns), step,
                       entry.bytes, entry.sequence});
    events_.push_back({what, kInFlight + lanes[i], entry.interval.start_ns, entry.interval.end_ns, step,
                       entry.bytes, entry.sequence});
  }
}

void TraceLog::Write(const std::string& path) const {
  std::ofstream out(path);
  Require(out.good(), path, ": cannot be written: ", std::strerror(errno));
  EventStream stream(out);
  stream.Put(Metadata("process_name", rank_, 0, "name", Join("rank ", rank_)));
  int last_row = kQueued;
  for (const Event& event : events_) last_row = std::max(last_row, event.row);
  for (int row = kPhases; row <= last_row; ++row) {
    stream.Put(Metadata("thread_name", rank_, row, "name", RowName(row)));
    stream.Put(Metadata("thread_sort_index", rank_, row, "sort_index", row));
  }
  for (const Event& event : events_) {
    const StepName& step = steps_[event.step];
    Json args = {{"strategy", step.strategy},
                 {"step", step.step},
                 {"batch_size", step.batch_size},
                 {"seq_len", step.seq_len}};
    if (event.sequence >= 0) {
      args["sequence"] = event.sequence;
      args["bytes"] = event.bytes;
    }
    Json json = {
        {"name", event.name}, {"pid", rank_}, {"tid", event.row}, {"ts", Microseconds(event.begin_ns)}};
    if (event.row != kQueued) {
      json["ph"] = "X";
      json["dur"] = Microseconds(event.end_ns - event.begin_ns);
      json["args"] = std::move(args);
      stream.Put(json);
      continue;
    }
    // Waiting collectives overlap, which only asynchronous events may within one row.
    json["cat"] = "queued";
    json["id"] = event.sequence;
    json["ph"] = "b";
    json["args"] = std::move(args);
    stream.Put(json);
    json["ph"] = "e";
    json["ts"] = Microseconds(event.end_ns);
    json.erase("args");
    stream.Put(json);
  }
  stream.Close({{"origin", origin_}, {"strategies", strategies_}});
  out.close();
  Require(!out.fail(), path, ": cannot be written: ", std::strerror(errno));
}

}  // namespace gradsync::bench
