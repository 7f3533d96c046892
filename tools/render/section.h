#pragma once

#include <string>
#include <vector>

#include "tools/tables/parts/table.h"

namespace gradsync::tools {

struct Shown {
  std::string text{};      // empty if the cell has no value
  bool is_strong = false;  // true if the text is printed in bold
  Warnings warnings{};     // the warnings that `text` names
};

// A part of a table as users see it: some of the columns, with the texts of the cells in all rows.
struct Section {
  std::string title{};  // may be empty
  std::vector<std::string> headers{};
  std::vector<bool> is_text{};  // for each column: true if it has texts
  std::vector<std::vector<Shown>> rows{};
};

bool IsShown(const Table& table, bool with_details);

// Divides the columns of `table` into sections. A column with Column::section 2 is in section 2, and a column
// with 0 is in every section. Leaves out columns with Audience::kMachines, with section kNowhere, or whose
// numbers are all NaN. Leaves out columns with Column::said_once whose value is equal in all rows;
// ConstantsOf returns this value, if there is one. Cells omit warnings that ConstantsOf returns or that
// asterisks show (Table::is_mark). A column of warnings whose cells are all empty is left out. If
// `with_details` is false, returns only the first section.
std::vector<Section> MakeSections(const Table& table, bool with_details = true);

// Returns values and warnings that all rows of `table` have, as a text: "batch_size 2, warnings one-launch".
// Only columns with Column::said_once give values. Warnings are left out if the table has one row, or if
// asterisks show them (Table::is_mark).
std::string ConstantsOf(const Table& table);

std::string MarkdownOf(const Shown& cell);
// Returns, for each run, a Markdown line with the members `experiment`, `run`, `time`, `ranks` and `command`
// of its RunText. A line with `machine` follows if it differs from that of the previous run that has a
// machine; likewise for `software`. A run with an empty `machine` has only the first line. For more than six
// runs, returns one line with the number of runs.
std::vector<std::string> RunLines(const std::vector<RunText>& runs);

}  // namespace gradsync::tools
