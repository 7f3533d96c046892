#ifndef GRADSYNC_TOOLS_REPORTS_FIGURES_H_
#define GRADSYNC_TOOLS_REPORTS_FIGURES_H_

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/reports/style.h"
#include "tools/tables/table.h"

// The figures of the report. They show numbers that tables hold, and compute no statistic of their own.
namespace gradsync::tools {

struct Figure {
  std::string id{};
  std::vector<std::string> panels{};  // elements
  std::string key{};                  // HTML: what marks and colours mean; may be empty
  std::string title{};
  std::string caption{};          // HTML
  std::string table{};            // the name of the table whose numbers these are; empty: none
  std::set<std::string> flags{};  // of the rows drawn, without what follows ":"
  bool in_pairs = false;          // two panels in a row, where the page has the room for more
  bool is_wide = false;           // scrolls inside itself where the page is narrow
};

// Access to a table's cells by the names of columns.
class TableReader {
 public:
  explicit TableReader(const Table& table);

  size_t num_rows() const { return table_.num_rows(); }
  bool Has(std::string_view column) const { return columns_.contains(column); }
  // NaN, or empty, without such a column or where it holds the other kind.
  double Number(size_t row, std::string_view column) const;
  std::string Text(size_t row, std::string_view column) const;
  // For people: a text as it is, a number in full; empty without value.
  std::string Any(size_t row, std::string_view column) const;
  bool IsConstant(std::string_view column) const;

 private:
  const Table& table_;
  std::map<std::string, size_t, std::less<>> columns_;
};

// "n<100 outliers:2" -> adds "n<100" and "outliers".
void AddFlags(const std::string& flags, std::set<std::string>* words);

// Of each kind nothing if the table has no rows for it.

// The table "ddp": step time by strategy, stacked by phase, a panel for each cell that was compared.
std::optional<Figure> StepTimeFigure(const Table& table, const StrategyStyles& styles);
// The table "all_reduce": bus bandwidth over message size.
std::optional<Figure> BandwidthFigure(const Table& table);
// The table "grid": the part of a step that synchronisation takes, over sequence length, a panel for each
// batch size.
std::optional<Figure> GridFigure(const Table& table, const StrategyStyles& styles);

// The table "compare": difference to the baseline over bucket size, a panel for each phase.
std::optional<Figure> SweepFigure(const Table& table, const StrategyStyles& styles);

// A panel's title, what else tells it from its neighbours (may be empty), and its chart.
std::string PanelOf(std::string_view title, std::string_view facts, std::string_view svg);

// What a column holds in a row, for people: before it, behind it.
struct Fact {
  const char* column;
  const char* before = "";
  const char* behind = "";
};
// "gloo, 2 ranks": of the columns whose values differ within the table.
std::string FactsOf(const TableReader& table, size_t row, std::span<const Fact> facts);

// An entry of a figure's key: a small picture, HTML text.
std::string KeyEntry(std::string_view svg_content, std::string_view text);
// Entries as a list.
std::string KeyList(const std::vector<std::string>& entries);

// No more panels than this; a caption says how many there would be.
inline constexpr size_t kMaxPanels = 24;

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_FIGURES_H_
