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

// A part of a table as people see it: some of its columns, with the texts of their cells in all rows.
struct Section {
  std::string title{};  // title; may be empty
  std::vector<std::string> headers{};
  std::vector<bool> is_text{};  // whether a column has text, by column
  std::vector<std::vector<Shown>> rows{};
};

bool IsShown(const Table& table, bool with_details);

// Returns a section for each value of Column::section above 0, with the columns that have this value or 0. If
// `with_details` is false, returns only the section with the smallest number. Leaves out columns with
// Audience::kMachines (only CSV and JSON show them), columns whose value ConstantsOf returns because all rows
// share it, and columns of numbers that are missing in all rows. Leaves out a column of warnings if each of
// its warnings is in the text of ConstantsOf, or is shown by an asterisk behind a number in another column.
std::vector<Section> MakeSections(const Table& table, bool with_details = true);

// Returns the text that Markdown and LaTeX show above `table`: "batch_size 2, warnings one-launch". For each
// column with Column::said_once in which all rows have the same value, the text has this value. If the table
// has at least two rows, the text also has the warnings that all rows have.
std::string ConstantsOf(const Table& table);

std::string MarkdownOf(const Shown& cell);
// Returns Markdown lines with the command and time of each run, and with its machine unless the previous run
// was on the same machine. For more than six runs, returns one line with the number of runs.
std::vector<std::string> RunLines(const std::vector<RunText>& runs);

}  // namespace gradsync::tools
