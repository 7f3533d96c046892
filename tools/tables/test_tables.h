#ifndef GRADSYNC_TOOLS_TABLES_TEST_TABLES_H_
#define GRADSYNC_TOOLS_TABLES_TEST_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "bench/records/record.h"
#include "tools/records/measurement.h"
#include "tools/tables/table.h"

// What tests of tables put in, and how they read what comes out.
namespace gradsync::tools {

inline constexpr int64_t kMs = 1000000;

// Throws std::out_of_range if the table has no such column.
size_t ColumnOf(const Table& table, std::string_view name);
double Number(const Table& table, size_t row, std::string_view column);
std::string Text(const Table& table, size_t row, std::string_view column);

// Two ranks of DdpRecord, after `change`. The slowest ranks' steps: 20, 20, 30, 40 ms, times `factor`.
Measurement Ddp(std::string_view strategy, int64_t factor,
                const std::function<void(bench::Record&)>& change = {});

// The same at a batch size and sequence length.
Measurement AtPlace(std::string_view strategy, int64_t batch_size, int64_t seq_len, int64_t factor,
                    std::string_view run = "run1");

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_TEST_TABLES_H_
