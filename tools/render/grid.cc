#include "tools/render/grid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "model/base/error.h"
#include "model/base/text.h"
#include "model/base/units.h"
#include "tools/render/screen.h"
#include "tools/tables/views.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kMostLabel = 34;   // characters of a row's name
constexpr size_t kFewestLines = 3;  // headers, a row and what is not shown

// Its difference, or the baseline's step; an asterisk behind what may be fastest.
std::string TextIn(const Choice& choice, const std::string& label, int decimals = 1) {
  const Comparison* const own = choice.Find(label);
  if (own == nullptr) return "";
  const std::string text =
      own == choice.base ? TimeText(own->row->step_s) : DifferenceText(own->estimate, decimals);
  const bool may_win = own == choice.best || std::ranges::count(choice.rivals, own) > 0;
  return text + (may_win ? " *" : "");
}

std::string CostText(const Choice& choice, const Comparison* own) {
  const Interval cost = own == nullptr ? Interval() : choice.setting().CostOf(*own->row).total.interval;
  return cost.is_known() ? TimeRange(cost) : "";
}

// What heads a column of one setting: "gloo", or "gloo, 1Mi" beside another baseline of the setting over
// gloo, which has buckets of another size. The baseline where it is that of rows over all backends.
std::string HeadOf(const Choice& choice, const std::vector<Choice>& choices) {
  const Row& base = *choice.base->row;
  if (choice.base->spans_backends) return base.label;
  const std::string& backend = base.backend();
  const auto is_alike = [&](const Choice& other) {
    return other.at.setting == choice.at.setting && other.base->row->backend() == backend;
  };
  if (std::ranges::count_if(choices, is_alike) == 1) return backend;
  const auto elements = static_cast<int64_t>(LabelledSize(*base.measured));
  return Join(backend, ", ",
              elements > 0 ? FormatCount(elements) : SizeText(base.facts().IntOr("bucket_bytes", 0)));
}

// The rows of all choices: first the baseline, then by their mean difference.
std::vector<std::string> LabelsOf(const std::vector<Choice>& choices) {
  std::vector<std::pair<double, std::string>> labels;
  for (const Choice& choice : choices) {
    for (const Comparison* const own : choice.comparisons()) {
      const std::string& label = own->row->label;
      if (std::ranges::count(labels, label, &std::pair<double, std::string>::second) > 0) continue;
      std::vector<double> deltas;
      for (const Choice& other : choices) {
        if (const Comparison* const same = other.Find(label))
          deltas.push_back(same == other.base ? 0 : same->estimate.value);
      }
      labels.emplace_back(own == choice.base ? -kInfinity : Mean(deltas), label);
    }
  }
  std::ranges::stable_sort(labels, {}, &std::pair<double, std::string>::first);
  std::vector<std::string> sorted;
  for (auto& [delta, label] : labels) sorted.push_back(std::move(label));
  return sorted;
}

}  // namespace

std::string Padded(std::string_view text, size_t width) {
  return std::string(text) + std::string(width - std::min(width, NumCharacters(text)), ' ');
}

void AddText(const std::string& head, const std::string& text, size_t most, Lines* lines, const char* end) {
  const std::string indent(NumCharacters(head), ' ');
  const size_t begin = lines->size();
  std::string line = head;
  bool is_first = true;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(text, ' '))) {
    if (!is_first && NumCharacters(line) + 1 + NumCharacters(word) > kScreenColumns - 2) {
      if (lines->size() - begin + 1 == most) {
        line += " …";
        break;
      }
      lines->push_back(line + end);
      line = indent;
      is_first = true;
    }
    line += is_first ? word : " " + word;
    is_first = false;
  }
  lines->push_back(Shortened(line, kScreenColumns));
}

std::vector<size_t> Grid::Widths() const {
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], NumCharacters(row[i]));
  }
  const size_t whole = std::accumulate(widths.begin(), widths.end(), 2 * (widths.size() - 1));
  size_t room = kScreenColumns - std::min(kScreenColumns, whole);
  for (size_t begin = 0, end = 1; begin < over.size(); begin = end++) {
    size_t width = widths[begin];
    for (; end < over.size() && over[end].empty(); ++end) width += 2 + widths[end];
    const size_t more =
        std::min(room, NumCharacters(over[begin]) - std::min(width, NumCharacters(over[begin])));
    widths[end - 1] += more;
    room -= more;
  }
  return widths;
}

bool Grid::fits() const {
  const std::vector<size_t> widths = Widths();
  return std::accumulate(widths.begin() + 1, widths.end(),
                         std::min(widths[0], kMostLabel) + 2 * (widths.size() - 1)) <= kScreenColumns;
}

void Grid::AddTo(size_t most, Lines* lines) const {
  const size_t room = most - std::min(most, size_t{!over.empty()});
  if (room < std::min(kFewestLines, rows.size())) return;
  const std::vector<size_t> widths = Widths();
  size_t label_width = kScreenColumns;
  for (size_t i = 1; i < widths.size(); ++i) label_width -= std::min(label_width, widths[i] + 2);
  label_width = std::max(label_width, kMostLabel);
  std::vector<size_t> begins = {0};
  for (size_t i = 0; i < widths.size(); ++i) {
    const size_t end = begins.back() + std::min(widths[i], i == 0 ? label_width : kMostLabel) + 2;
    if (end > kScreenColumns + 2) break;
    begins.push_back(end);
  }
  const size_t num_columns = begins.size() - 1;
  std::string above;
  for (size_t i = 0; i < std::min(num_columns, over.size()); ++i) {
    if (over[i].empty()) continue;
    size_t last = i;
    while (last + 1 < num_columns && over[last + 1].empty()) ++last;
    above = Padded(above, begins[i]) + Shortened(over[i], begins[last + 1] - begins[i] - 2);
  }
  if (!over.empty()) lines->push_back(above);
  const size_t kept = rows.size() <= room || room >= num_last + kFewestLines ? num_last : 0;
  const size_t first_last = rows.size() - kept;
  const size_t shown = rows.size() <= room ? first_last : room - kept - 1;
  std::vector<std::string> names;
  for (size_t row = 0; row < rows.size(); ++row) {
    if (row >= shown && row < first_last) {
      names.push_back(rows[row][0]);
      if (row + 1 == first_last) AddText("not shown: ", absl::StrJoin(names, ", "), 1, lines);
      continue;
    }
    std::string line;
    for (size_t i = 0; i < num_columns; ++i)
      line = Padded(line, begins[i]) + Shortened(rows[row][i], begins[i + 1] - begins[i] - 2);
    lines->push_back(line);
  }
}

std::string DifferenceText(const Estimate& estimate, int decimals) {
  if (std::isnan(estimate.value)) return "";
  const auto fixed = [&](double part) { return Fixed(100 * part, decimals); };
  const std::string value = fixed(estimate.value);
  const bool is_more = value.find_first_of("123456789") != std::string::npos && value[0] != '-';
  const auto [low, high] = estimate.interval;
  return Join(is_more ? "+" : "", value,
              estimate.interval.is_known() ? Join(" [", fixed(low), ", ", fixed(high), "]") : "");
}

std::string SentIn(const Row* row) {
  const double bytes = row == nullptr ? kNaN : row->facts().DoubleOr("sent_bytes_per_step", kNaN);
  return std::isnan(bytes) ? "" : Significant(1e-6 * bytes, 3);
}

std::string NameOf(const NamedSetting& at) {
  if (!at.name.empty()) return at.name;
  const bench::ConfigFields& config = at.setting->any().config();
  if (const int64_t bytes = config.IntOr("size_bytes", 0); bytes > 0) return SizeText(bytes);
  std::string name = config.StringOr("model", "");
  const auto add = [&](const char* word, bench::ConfigName field) {
    if (const int64_t value = config.IntOr(field, 0); value > 0) name += Join(word, value);
  };
  add(", batch ", "batch_size");
  add(", sequence ", "seq_len");
  add(", images of ", "image_size");
  return name;
}

std::string NameOf(const Choice& choice) {
  const std::string place = Brief(NameOf(choice.at));
  return choice.base->spans_backends ? place : Join(place, " over ", choice.base->row->backend());
}

Grid GridOf(const std::vector<Choice>& choices, int decimals) {
  const std::vector<std::string> labels = LabelsOf(choices);
  Grid grid;
  if (choices.size() == 1) {
    const Choice& choice = choices[0];
    grid.over = {NameOf(choice), "", "", "", ""};
    grid.rows = {{"", "step", "difference (%)", "cost", "sent (MB)"}};
    for (const std::string& label : labels) {
      const Comparison* const own = choice.Find(label);
      grid.rows.push_back({label, TimeText(own->row->step_s),
                           own == choice.base ? "baseline" : TextIn(choice, label), CostText(choice, own),
                           SentIn(own->row)});
    }
    if (const Row* const floor = choice.setting().CostOf(*choice.base->row).floor) {
      grid.rows.push_back({floor->label, TimeText(floor->step_s), "", "floor", SentIn(floor)});
      grid.num_last = 1;
    }
    return grid;
  }
  const bool in_lines = choices.size() > kMostSettings;
  std::vector<std::vector<std::string>> columns = {{""}};
  Append(labels, &columns[0]);
  Append({"floor (no sync)", "baseline's cost", "best row's step", "best row's cost"}, &columns[0]);
  const Setting* last = nullptr;
  for (const Choice& choice : choices) {
    std::vector<std::string>& column = columns.emplace_back();
    grid.over.resize(columns.size());
    if (choice.at.setting != last) grid.over.back() = NameOf(choice.at);
    last = choice.at.setting;
    column.push_back(in_lines ? NameOf(choice) : HeadOf(choice, choices));
    for (const std::string& label : labels) column.push_back(TextIn(choice, label, decimals));
    const Row* const floor = choice.setting().CostOf(*choice.base->row).floor;
    column.push_back(floor == nullptr ? "" : TimeText(floor->step_s));
    column.push_back(CostText(choice, choice.base));
    column.push_back(choice.best == nullptr ? "" : TimeText(choice.best->row->step_s));
    column.push_back(CostText(choice, choice.best));
  }
  if (in_lines) {
    grid.over.clear();
    grid.rows = std::move(columns);
    return grid;
  }
  for (size_t i = 0; i < columns[0].size(); ++i) {
    std::vector<std::string>& row = grid.rows.emplace_back();
    for (const auto& column : columns) row.push_back(column[i]);
    const bool is_empty =
        std::all_of(row.begin() + 1, row.end(), [](const std::string& text) { return text.empty(); });
    if (is_empty) grid.rows.pop_back();
    if (!is_empty && i > labels.size()) ++grid.num_last;
  }
  return grid;
}

}  // namespace gradsync::tools
