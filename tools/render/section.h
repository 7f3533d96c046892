#ifndef GRADSYNC_TOOLS_RENDER_SECTION_H_
#define GRADSYNC_TOOLS_RENDER_SECTION_H_

#include <cstddef>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/tables/table.h"

namespace gradsync::tools {

// A part of a table as people see it, for the formats that they read: some of its columns, of all of its
// rows.
struct Section {
  std::string title{};  // empty: none
  std::vector<std::string> headers{};
  std::vector<bool> is_text{};                   // of each column
  std::vector<std::vector<std::string>> rows{};  // of cells; one without value is empty
  std::set<std::pair<size_t, size_t>> strong{};  // row and column of texts that are marked
};

// The sections of a table with its first `max_rows` rows, leading columns first. Columns of numbers without a
// single value, and sections of nothing but such, are left out.
std::vector<Section> SectionsOf(const Table& table, size_t max_rows = std::numeric_limits<size_t>::max());

// What is said once, above the table: "batch_size 2, seq_len 128". Empty if there is nothing.
std::string ConstantsOf(const Table& table);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RENDER_SECTION_H_
