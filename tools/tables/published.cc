#include <algorithm>
#include <cmath>

#include "model/error.h"
#include "tools/tables/all_tables.h"
#include "tools/tables/views.h"

// Rows of one label may compare buckets of different sizes; here they stand against the baseline's buckets of
// as many bytes.
namespace gradsync::tools {
namespace {

constexpr struct {
  const char* name;
  SampleName samples;
} kPhases[] = {{"forward", "forward_ns"}, {"backward_and_sync", "backward_and_sync_ns"}};

struct Fair {
  View own;          // View::part: the phase
  const Row& base;   // of the same label
  const Row& equal;  // of as many bytes

  double Against(const Row& other) const {
    const SampleName samples = kPhases[own.part].samples;
    return own.row.MeanOf(samples) / other.MeanOf(samples) - 1;
  }
};

}  // namespace

void AddPublishedTables(const std::vector<Cell>& cells, std::vector<Table>* tables) {
  TableOf<Fair> table(
      "published", "Published differences at equal bytes per bucket",
      {{{.name = "variant", .kind = Kind::kText}, [](const Fair& fair) { return fair.own.row.variant(); }},
       {{.name = "phase", .kind = Kind::kText},
        [](const Fair& fair) { return std::string(kPhases[fair.own.part].name); }},
       {{.name = "bucket_bytes", .kind = Kind::kInteger},
        [](const Fair& fair) { return Fact("bucket_bytes")(fair.own); }},
       {{.name = "of one label (%)", .kind = Kind::kPercent},
        [](const Fair& fair) { return 100 * fair.Against(fair.base); }},
       {{.name = "of equal bytes (%)", .kind = Kind::kPercent},
        [](const Fair& fair) { return 100 * fair.Against(fair.equal); }},
       {{.name = "baseline", .kind = Kind::kText}, [](const Fair& fair) { return fair.equal.variant(); }}});
  for (const Cell& cell : cells) {
    for (const Row& row : cell.rows) {
      if (!row.measured->is_published() || row.baseline == Row::kNone) continue;
      const Row& base = cell.rows[row.baseline];
      const auto bytes = [](const Row& of) { return of.facts().DoubleOr("bucket_bytes", kNaN); };
      const auto equal = std::ranges::find_if(cell.rows, [&](const Row& other) {
        return other.strategy() == base.strategy() && bytes(other) == bytes(row);
      });
      if (bytes(base) == bytes(row) || equal == cell.rows.end()) continue;
      for (size_t part = 0; part < std::size(kPhases); ++part) {
        const Fair fair{{cell, row, part}, base, *equal};
        if (std::isnan(fair.Against(base))) continue;
        table.Add(fair);
      }
    }
  }
  if (table.num_rows() == 0) return;
  table.SetDetail();
  tables->push_back(std::move(table));
}

}  // namespace gradsync::tools
