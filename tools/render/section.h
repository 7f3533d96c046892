#pragma once

#include <string>
#include <vector>

#include "tools/tables/table.h"

namespace gradsync::tools {

// A cell as users see it.
struct Shown {
  std::string text{};      // text of the cell; empty without a value
  bool is_strong = false;  // true for marked text
  Warnings warnings{};     // the warnings of the text, without warnings that all rows have
};

// A part of a table as users see it, for text formats: some columns of all rows.
struct Section {
  std::string title{};  // title; may be empty
  std::vector<std::string> headers{};
  std::vector<bool> is_text{};  // whether a column has text, by column
  std::vector<std::vector<Shown>> rows{};
};

// Returns whether users see the table.
bool IsShown(const Table& table, bool with_details);

// Returns the sections of a table; without details, only the first section. Omits columns of numbers without
// any value, and sections without other columns.
std::vector<Section> MakeSections(const Table& table, bool with_details = true);

// Returns the values that are printed once, above the table: "batch_size 2, warnings one-launch". Empty if
// there are no such values.
std::string ConstantsOf(const Table& table);

// Returns a cell in Markdown. Marked text is bold.
std::string MarkdownOf(const Shown& cell);
// Returns Markdown lines about runs. If there are many runs, returns only their number.
std::vector<std::string> RunLines(const std::vector<RunText>& runs);

}  // namespace gradsync::tools
