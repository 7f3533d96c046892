#pragma once

#include <string>
#include <vector>

#include "tools/tables/table.h"

namespace gradsync::tools {

// A cell as people see it.
struct Shown {
  std::string text{};      // empty without value
  bool is_strong = false;  // a text that is marked
  Warnings warnings{};     // what the text says, of a cell of warnings: those that not all rows have
};

// A part of a table as people see it, for the formats that they read: some of its columns, of all of its
// rows.
struct Section {
  std::string title{};  // empty: none
  std::vector<std::string> headers{};
  std::vector<bool> is_text{};  // of each column
  std::vector<std::vector<Shown>> rows{};
};

// Whether people see the table.
bool IsShown(const Table& table, bool with_details);

// The sections of a table; without details the first section alone. Columns of numbers
// without a single value, and sections of nothing but such, are left out.
std::vector<Section> SectionsOf(const Table& table, bool with_details = true);

// What is said once, above the table: "batch_size 2, warnings one-launch". Empty if there is nothing.
std::string ConstantsOf(const Table& table);

// A cell in Markdown: text that is marked is bold.
std::string MarkdownOf(const Shown& cell);
// Markdown lines about what was run. More than a few runs are only counted.
std::vector<std::string> RunLines(const std::vector<RunText>& runs);

}  // namespace gradsync::tools
