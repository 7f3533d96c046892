#ifndef GRADSYNC_TOOLS_REPORTS_FIGURES_H_
#define GRADSYNC_TOOLS_REPORTS_FIGURES_H_

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/reports/rows.h"
#include "tools/reports/style.h"
#include "tools/tables/table.h"

// The figures of the report. They show numbers that tables hold, and compute no statistic of their own.
namespace gradsync::tools {

struct Figure {
  std::string id{};
  std::string title{};
  std::string caption{};              // HTML
  std::string table{};                // the name of the table whose numbers these are; empty: none
  std::vector<std::string> panels{};  // elements, at most kMaxPanels
  size_t num_panels = 0;              // with those for which there is no room
  std::string key{};                  // HTML: what marks and colours mean; may be empty
  std::set<Flag> flags{};             // of the rows drawn
  bool in_pairs = false;              // two panels in a row, where the page has the room for more
  bool is_wide = false;               // scrolls inside itself where the page is narrow
};

inline constexpr size_t kMaxPanels = 24;

// Of each kind nothing if the table has no rows for it.

// The table "ddp": step time by strategy, stacked by phase, a panel for each cell that was compared.
std::optional<Figure> StepTimeFigure(const Table& table, const StrategyStyles& styles);
// The table "all_reduce": bus bandwidth over message size.
std::optional<Figure> BandwidthFigure(const Table& table, const StrategyStyles& styles);
// The table "grid": the part of a step that synchronisation takes, over sequence length, a panel for each
// batch size. With one sequence length the other way round.
std::optional<Figure> GridFigure(const Table& table, const StrategyStyles& styles);
// The table "compare": difference to the baseline over bucket size, a panel for each phase and baseline.
std::optional<Figure> SweepFigure(const Table& table, const StrategyStyles& styles);

// What the figures are made of.

// Adds a panel, if there is room: its title, what else tells it from its neighbours (may be empty), its
// chart.
void AddPanel(std::string_view title, std::string_view facts, std::string_view svg, Figure* figure);
// Adds the flags of a row. Returns them as the end of the row's tip: " (n<100)", or nothing.
std::string AddFlags(const TableReader& table, size_t row, Figure* figure);

// What a column holds in a row, for people: before it, behind it.
struct Fact {
  const char* column;
  const char* before = "";
  const char* behind = "";
};
// What was run, and then how and where.
inline constexpr Fact kFacts[] = {{"batch_size", "batch "},
                                  {"image_size", "images of "},
                                  {"seq_len", "sequence "},
                                  {"units", "units "},
                                  {"backend"},
                                  {"device"},
                                  {"dtype"},
                                  {"world_size", "", " ranks"},
                                  {"run"}};
inline constexpr std::span<const Fact> kRunFacts = std::span(kFacts).subspan(4);
// "gloo, 2 ranks": of the columns whose values differ within the table.
std::string FactsOf(const TableReader& table, size_t row, std::span<const Fact> facts);

// An entry of a figure's key: a small picture, HTML text.
std::string KeyEntry(std::string_view svg_content, std::string_view text);
std::string KeyList(const std::vector<std::string>& entries);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_FIGURES_H_
