#include "tools/timelines/transfer_times.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "model/error.h"
#include "tools/statistics/statistics.h"

namespace gradsync::tools {
namespace {

struct Samples {
  std::vector<double> issued_ms, queued_ms, in_flight_ms, exposed_ms;
};

// In the order of issue. One that is issued earlier never has a higher number in its step.
using TransferKey = std::tuple<int /*rank*/, int64_t /*bucket*/, int64_t /*bytes*/>;

std::map<TransferKey, Samples> Collect(const Trace& trace, const StepKey& cell) {
  std::map<TransferKey, Samples> rows;
  for (const auto& [key, ranks] : trace.steps) {
    if (key.strategy != cell.strategy || key.batch_size != cell.batch_size || key.seq_len != cell.seq_len) {
      continue;
    }
    for (const auto& [rank, step] : ranks) {
      for (const Transfer& transfer : step.transfers) {
        Samples& row = rows[{rank, transfer.number, transfer.bytes}];
        row.issued_ms.push_back((transfer.issued_us - step.step.begin_us) / 1e3);
        row.queued_ms.push_back(QueuedUs(transfer) / 1e3);
        row.in_flight_ms.push_back(InFlightUs(transfer) / 1e3);
        row.exposed_ms.push_back(ExposedUs(transfer, BackwardEndUs(step)) / 1e3);
      }
    }
  }
  return rows;
}

}  // namespace

double BackwardEndUs(const RankStep& step) {
  const Span* const backward = step.Phase("backward");
  return backward == nullptr ? step.step.end_us : backward->end_us;
}

double QueuedUs(const Transfer& transfer) { return transfer.in_flight.begin_us - transfer.issued_us; }

double InFlightUs(const Transfer& transfer) { return transfer.in_flight.duration_us(); }

double ExposedUs(const Transfer& transfer, double backward_end_us) {
  return std::max(0.0, transfer.in_flight.end_us - std::max(backward_end_us, transfer.in_flight.begin_us));
}

BusyTime CommunicationOf(const RankStep& step) {
  std::vector<std::pair<double, double>> flights;
  for (const Transfer& transfer : step.transfers) {
    flights.emplace_back(transfer.in_flight.begin_us, transfer.in_flight.end_us);
  }
  std::ranges::sort(flights);
  const double backward_end_us = BackwardEndUs(step);
  BusyTime time;
  double covered_until_us = step.step.begin_us;
  for (const auto& [begin_us, end_us] : flights) {
    const double from_us = std::max(begin_us, covered_until_us);
    if (end_us <= from_us) continue;
    time.busy_us += end_us - from_us;
    time.exposed_us += std::max(0.0, end_us - std::max(from_us, backward_end_us));
    covered_until_us = end_us;
  }
  return time;
}

Table TransferTable(const Trace& trace, const std::vector<StepKey>& steps) {
  Table table("transfers",
              steps.empty() ? "Collectives"
                            : Join("Collectives: batch ", steps.front().batch_size, ", sequence ",
                                   steps.front().seq_len),
              {{.name = "strategy", .kind = Kind::kText},
               {.name = "rank", .kind = Kind::kInteger},
               {.name = "bucket", .kind = Kind::kInteger},
               {.name = "bytes", .kind = Kind::kInteger},
               {.name = "issued_ms", .kind = Kind::kDecimal, .digits = 3},
               {.name = "queued_ms", .kind = Kind::kDecimal, .digits = 3},
               {.name = "in_flight_ms", .kind = Kind::kDecimal, .digits = 3},
               {.name = "exposed_ms", .kind = Kind::kDecimal, .digits = 3},
               {.name = "steps", .kind = Kind::kInteger, .said_once = true}});
  for (const StepKey& key : steps) {
    for (const auto& [transfer, samples] : Collect(trace, key)) {
      const auto& [rank, bucket, bytes] = transfer;
      table.AddRow({key.strategy, static_cast<double>(rank), static_cast<double>(bucket),
                    static_cast<double>(bytes), Median(samples.issued_ms), Median(samples.queued_ms),
                    Median(samples.in_flight_ms), Median(samples.exposed_ms),
                    static_cast<double>(samples.issued_ms.size())});
    }
  }
  table.AddNote("issued: after the step's begin; queued: from issue to start; in flight: from start to end");
  table.AddNote("exposed: the part of the flight that came after the last gradient had been computed");
  table.AddNote("medians over the steps");
  return table;
}

}  // namespace gradsync::tools
