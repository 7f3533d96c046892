#include "tools/render/choice_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "model/base/error.h"
#include "model/base/text.h"
#include "model/base/units.h"
#include "tools/analysis/words.h"
#include "tools/tables/parts/views.h"

namespace gradsync::tools {
namespace {

constexpr size_t kMostHead = 14;  // maximum number of characters of a setting above a column
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Returns the difference of a row with its interval; with "[>= 0.4]" or "[<= -1.5]" if the advice rests on a
// one-sided bound.
std::string DifferenceIn(const Choice& choice, const Comparison* own, int decimals) {
  const auto found = choice.bounds.find(own);
  if (found == choice.bounds.end()) return DifferenceText(own->estimate, decimals);
  const double scale = std::pow(10, decimals), bound = found->second;
  const double towards_zero = std::trunc(100 * bound * scale) / scale + 0.0;  // no -0
  return Join(DifferenceText({own->estimate.value}, decimals),
              bound > 0 ? " [>= " : " [<= ", Fixed(towards_zero, decimals), "]");
}

// Returns the difference of a row, or the step of the baseline, followed by an asterisk if the row may be the
// fastest.
std::string TextIn(const Choice& choice, const std::string& label, int decimals) {
  const Comparison* const own = choice.Find(label);
  if (own == nullptr) return "";
  const std::string text =
      own == choice.base ? TimeText(own->row->step_s) : DifferenceIn(choice, own, decimals);
  return text + (std::ranges::count(choice.candidates, own) > 0 ? " *" : "");
}

std::string CostText(const Choice& choice, const Comparison* own) {
  const Interval cost = own == nullptr ? Interval() : choice.setting().CostOf(*own->row).total.interval;
  return cost.is_known() ? TimeRange(cost) : "";
}

// Returns the megabytes that a rank sends in a step; empty if unknown.
std::string SentIn(const Row& row) {
  const double bytes = row.facts().DoubleOr("sent_bytes_per_step", kNaN);
  return std::isnan(bytes) ? "" : Significant(1e-6 * bytes, 3);
}

// Returns the header of a column: "tiny b2 s64 gloo", without the setting if there is only one setting;
// "gloo, 1Mi" if the setting has several baselines over gloo with different bucket sizes; or the baseline, if
// it is the baseline of rows over all backends.
std::string HeadOf(const Choice& choice, const std::vector<Choice>& choices) {
  const auto has_setting = [&](const Choice& other) { return other.at.setting == choice.at.setting; };
  const std::string setting =
      std::ranges::all_of(choices, has_setting) ? "" : Shortened(Brief(NameOf(choice.at)), kMostHead) + " ";
  const Row& base = *choice.base->row;
  if (choice.base->spans_backends) return setting + base.label;
  const std::string& backend = base.backend();
  const auto is_alike = [&](const Choice& other) {
    return has_setting(other) && other.base->row->backend() == backend;
  };
  if (std::ranges::count_if(choices, is_alike) == 1) return setting + backend;
  const auto elements = static_cast<int64_t>(LabelledSize(*base.measured));
  return Join(setting, backend, ", ",
              elements > 0 ? FormatCount(elements) : SizeText(base.facts().IntOr("bucket_bytes", 0)));
}

// Returns the labels of the rows of all choices: first the baseline, then other rows ordered by their mean
// difference.
std::vector<std::string> LabelsOf(const std::vector<Choice>& choices) {
  std::vector<std::pair<double, std::string>> labels;
  for (const Choice& choice : choices) {
    for (const Comparison* const own : choice.comparisons()) {
      const std::string& label = own->row->label;
      if (std::ranges::count(labels, label, &std::pair<double, std::string>::second) > 0) continue;
      std::vector<double> deltas;
      for (const Choice& other : choices) {
        if (const Comparison* const same = other.Find(label)) deltas.push_back(same->estimate.value);
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

std::string DifferenceText(const Estimate& estimate, int decimals) {
  if (std::isnan(estimate.value)) return "";
  const auto fixed = [&](double part) { return Fixed(100 * part, decimals); };
  const std::string value = fixed(estimate.value);
  const bool is_more = value.find_first_of("123456789") != std::string::npos && value[0] != '-';
  const auto [low, high] = estimate.interval;
  return Join(is_more ? "+" : "", value,
              estimate.interval.is_known() ? Join(" [", fixed(low), ", ", fixed(high), "]") : "");
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

Grid MakeGrid(const std::vector<Choice>& choices, int decimals) {
  const std::vector<std::string> labels = LabelsOf(choices);
  Grid grid;
  if (choices.size() == 1) {
    const Choice& choice = choices[0];
    grid.rows = {{NameOf(choice), "step", "difference (%)", "synchronisation adds", "sent (MB)"}};
    for (const std::string& label : labels) {
      const Comparison* const own = choice.Find(label);
      grid.rows.push_back({label, TimeText(own->row->step_s),
                           own == choice.base ? "baseline" : DifferenceIn(choice, own, 1),
                           CostText(choice, own), SentIn(*own->row)});
      if (std::ranges::count(choice.candidates, own) > 0) grid.rows.back()[2] += " *";
    }
    if (const Row* const floor = choice.setting().CostOf(*choice.base->row).floor) {
      grid.rows.push_back({floor->label, TimeText(floor->step_s), "", "", SentIn(*floor)});
      grid.num_last = 1;
    }
    return grid;
  }
  const bool in_lines = choices.size() > kMostSettings;
  const bool is_one_setting = std::ranges::all_of(
      choices, [&](const Choice& other) { return other.at.setting == choices[0].at.setting; });
  std::vector<std::vector<std::string>> columns = {{is_one_setting ? NameOf(choices[0].at) : ""}};
  Append(labels, &columns[0]);
  Append({"no synchronisation", "the baseline adds", "the fastest adds"}, &columns[0]);
  for (const Choice& choice : choices) {
    std::vector<std::string>& column = columns.emplace_back();
    column.push_back(HeadOf(choice, choices));
    for (const std::string& label : labels) column.push_back(TextIn(choice, label, decimals));
    const Row* const floor = choice.setting().CostOf(*choice.base->row).floor;
    column.push_back(floor == nullptr ? "" : TimeText(floor->step_s));
    column.push_back(CostText(choice, choice.base));
    column.push_back(choice.candidates.empty() ? "" : CostText(choice, choice.candidates[0]));
  }
  if (in_lines) {
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
