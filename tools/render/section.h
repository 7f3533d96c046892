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

// Some columns of a table, for all its rows, with the texts that users see.
struct Section {
  std::string title{};  // title; may be empty
  std::vector<std::string> headers{};
  std::vector<bool> is_text{};  // whether a column has text, by column
  std::vector<std::vector<Shown>> rows{};
};

bool IsShown(const Table& table, bool with_details);

// Returns the sections of a table, or only the first section unless `with_details`. Leaves out columns for
// machines, columns whose value ConstantsOf returns, and columns of numbers or warnings in which no row has
// anything to show.
std::vector<Section> MakeSections(const Table& table, bool with_details = true);

// Returns the values of the columns with Column::said_once in which all rows agree, and the warnings that all
// rows (at least two) have: "batch_size 2, warnings one-launch". They are printed once above the table. Empty
// if there are none.
std::string ConstantsOf(const Table& table);

std::string MarkdownOf(const Shown& cell);
// Returns Markdown lines with the command, time and machine of each run; of more than six runs, only their
// number.
std::vector<std::string> RunLines(const std::vector<RunText>& runs);

}  // namespace gradsync::tools
