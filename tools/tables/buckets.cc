#include "tools/tables/buckets.h"

#include <cstdio>
#include <utility>

#include "model/error.h"
#include "tools/tables/fields.h"

namespace gradsync::tools {
namespace {

// A bucket of a strategy.
struct BucketRow : Measured {
  size_t number = 0;

  const BucketTimes& times() const { return own.buckets[number]; }
};

}  // namespace

void AddBucketsTable(const std::string& name, const std::vector<Measured>& rows, std::vector<Table>* tables) {
  constexpr size_t kMostForPeople = 40;
  const auto seconds = [](double BucketTimes::*time) {
    return [time](const BucketRow& row) { return row.times().*time; };
  };
  const auto told = [](int64_t bench::BucketRecord::*what) {
    return [what](const BucketRow& row) { return row.own.record.buckets[row.number].*what; };
  };
  TableOf<BucketRow> table(
      name, "Buckets: when they are ready, and what of them the step waits for",
      {
          {{.name = "strategy", .kind = Kind::kText}, Text("strategy")},
          {{.name = "model_size", .kind = Kind::kText, .said_once = true}, Text("model")},
          {{.name = "batch_size", .kind = Kind::kInteger, .said_once = true}, Number("batch_size")},
          {{.name = "seq_len", .kind = Kind::kInteger, .said_once = true}, Number("seq_len")},
          {{.name = "bucket_bytes", .kind = Kind::kInteger, .said_once = true}, Number("bucket_bytes")},
          {{.name = "bucket", .kind = Kind::kInteger}, &BucketRow::number},
          {{.name = "bytes", .kind = Kind::kInteger}, told(&bench::BucketRecord::bytes)},
          {{.name = "tensors", .kind = Kind::kInteger}, told(&bench::BucketRecord::tensors)},
          {{.name = "ready (s)"}, seconds(&BucketTimes::ready)},
          {{.name = "queued (s)"}, seconds(&BucketTimes::queued)},
          {{.name = "waiting (s)"}, seconds(&BucketTimes::waiting)},
          {{.name = "moving (s)"}, seconds(&BucketTimes::moving)},
          {{.name = "ended (s)"}, seconds(&BucketTimes::ended)},
          {{.name = "exposed (s)"}, seconds(&BucketTimes::exposed)},
          {{.name = "run", .kind = Kind::kText, .said_once = true},
           [](const BucketRow& row) { return row.own.record.run_id; }},
      });
  const BucketTimes* most = nullptr;
  std::string finding;
  for (const Measured& row : rows) {
    for (size_t i = 0; i < row.own.buckets.size(); ++i) {
      const BucketRow bucket{row, i};
      table.Add(bucket);
      if (most != nullptr && bucket.times().exposed <= most->exposed) continue;
      most = &bucket.times();
      char milliseconds[32];
      std::snprintf(milliseconds, sizeof milliseconds, "%.3g", 1e3 * most->exposed);
      finding = Join("The step waits longest for bucket ", i, " of ", row.own.strategy(), ": ", milliseconds,
                     " ms after the last rank had computed.");
    }
  }
  if (table.num_rows() == 0) return;
  table.AddFinding(finding);
  if (table.num_rows() > kMostForPeople) table.SetAudience(Audience::kMachines);
  table.AddNote(
      "Means over steps. ready, ended: since the step's beginning, of the last rank. queued: until the "
      "collective was issued; waiting: until the last rank had issued its own; moving: until the last rank "
      "had the result. exposed: by how much the bucket moved the end of communication after the last rank "
      "had computed.");
  tables->push_back(std::move(table));
}

}  // namespace gradsync::tools
