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

// Divides the columns of a table into sections, by Column::section. Returns all sections; without
// `with_details`, only the first one. Leaves out columns with Audience::kMachines (only CSV and JSON show
// them), columns whose value ConstantsOf returns because all rows share it, and columns of numbers that are
// missing in all rows. Leaves out a column of warnings if ConstantsOf returns, or asterisks behind numbers
// show, all its warnings.
std::vector<Section> MakeSections(const Table& table, bool with_details = true);

// Returns what all rows of a table share: the values of columns with Column::said_once in which all rows
// agree and, if the table has at least two rows, the warnings that all rows have: "batch_size 2, warnings
// one-launch". Reports print this text once, above the table. The text is empty if the rows share neither a
// value of a column with Column::said_once nor a warning.
std::string ConstantsOf(const Table& table);

std::string MarkdownOf(const Shown& cell);
// Returns Markdown lines with the command and time of each run, and with its machine unless the previous run
// was on the same machine. For more than six runs, returns one line with the number of runs.
std::vector<std::string> RunLines(const std::vector<RunText>& runs);

}  // namespace gradsync::tools
