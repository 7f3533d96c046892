#include "tools/tables/test_tables.h"

#include <stdexcept>
#include <utility>
#include <vector>

#include "tools/records/test_records.h"

namespace gradsync::tools {

using bench::Record;

size_t ColumnOf(const Table& table, std::string_view name) {
  for (size_t i = 0; i < table.columns().size(); ++i) {
    if (table.columns()[i].name == name) return i;
  }
  throw std::out_of_range(std::string(name));
}

double Number(const Table& table, size_t row, std::string_view column) {
  return table.number(row, ColumnOf(table, column));
}

std::string Text(const Table& table, size_t row, std::string_view column) {
  return std::string(table.text(row, ColumnOf(table, column)));
}

Measurement Ddp(std::string_view strategy, int64_t factor, const std::function<void(Record&)>& change) {
  const int64_t ms = factor * kMs;
  std::vector<Record> ranks = {DdpRecord(strategy, 0, {10 * ms, 20 * ms, 30 * ms, 40 * ms}),
                               DdpRecord(strategy, 1, {20 * ms, 10 * ms, 30 * ms, 40 * ms})};
  for (Record& rank : ranks) {
    if (change) change(rank);
  }
  return CombineRanks(std::move(ranks));
}

Measurement AtPlace(std::string_view strategy, int64_t batch_size, int64_t seq_len, int64_t factor,
                    std::string_view run) {
  return Ddp(strategy, factor, [&](Record& rank) {
    rank.config.Set("batch_size", batch_size);
    rank.config.Set("seq_len", seq_len);
    rank.run_id = run;
  });
}

}  // namespace gradsync::tools
