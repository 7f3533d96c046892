#pragma once

#include <string>
#include <vector>

#include "tools/tables/parts/table.h"

namespace gradsync::tools {

struct Shown {
  std::string text{};      // empty without a value
  bool is_strong = false;  // true for text that Table::MarkLast has marked
  Warnings warnings{};     // the warnings in `text`; those that all rows have are left out
};

// Some columns of a table, of all rows, as users see them.
struct Section {
  std::string title{};  // title; may be empty
  std::vector<std::string> headers{};
  std::vector<bool> is_text{};  // whether a column has text, by column
  std::vector<std::vector<Shown>> rows{};
};

bool IsShown(const Table& table, bool with_details);

// Returns the sections of a table, or only the first section unless `with_details`. Leaves out columns of
// numbers in which no row has a value.
std::vector<Section> MakeSections(const Table& table, bool with_details = true);

// Returns the values that all rows share, which are printed once above the table: "batch_size 2, warnings
// one-launch"; empty if there are none.
std::string ConstantsOf(const Table& table);

std::string MarkdownOf(const Shown& cell);
// Returns Markdown lines with the command, time and machine of each run; of many runs, only the number.
std::vector<std::string> RunLines(const std::vector<RunText>& runs);

}  // namespace gradsync::tools
