#include "tools/reports/winners_map.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "absl/strings/str_format.h"
#include "model/error.h"
#include "tools/render/file.h"
#include "tools/reports/figures.h"
#include "tools/reports/scale.h"

namespace gradsync::tools {
namespace {

constexpr double kWidth = kChartWidth, kHeight = 290, kLeft = 48, kTop = 26, kRight = 8, kBottom = 40;
constexpr int kColumns = 16, kRows = 10;
constexpr double kLowestGbit = 0.05, kHighestGbit = 400;
constexpr char kOutlined[] = "interval total ";  // a circle that stands out from what is below it

std::string StyleOf(std::optional<size_t> winner) {
  return winner ? "marker " + SeriesStyle(*winner) : "cell open";
}

double Between(double low, double high, double part) { return low * std::pow(high / low, part); }

// `won`: how many places each name wins; the last number is of those that are undecided.
Svg PanelOf(const WinnersPanel& panel, const std::vector<std::string>& names, std::vector<size_t>* won) {
  Svg svg(kWidth, kHeight, "rate of the link against " + panel.quantity);
  const Scale x = Scale::Log(kLowestGbit, kHighestGbit, kLeft, kWidth - kRight, 5);
  const Scale y = Scale::Log(panel.low, panel.high, kHeight - kBottom, kTop, 5);
  for (int column = 0; column < kColumns; ++column) {
    for (int row = 0; row < kRows; ++row) {
      const auto rate = [&](double at) { return Between(kLowestGbit, kHighestGbit, at / kColumns); };
      const auto value = [&](double at) { return Between(panel.low, panel.high, at / kRows); };
      const double gbit = rate(column + 0.5), quantity = value(row + 0.5);
      const std::optional<size_t> winner = panel.winner(gbit, quantity);
      ++(*won)[winner.value_or(names.size())];
      const double left = x(rate(column)), top = y(value(row + 1.0));
      svg.Rect(StyleOf(winner), left, top, x(rate(column + 1.0)) - left, y(value(row)) - top,
               absl::StrFormat("%.3g Gbit/s, %.3g %s: %s", gbit, quantity, panel.quantity,
                               winner ? names[*winner] : "undecided"));
    }
  }
  for (const WinnersPanel::Point& point : panel.measured) {
    svg.Marker(kOutlined + StyleOf(point.winner), 0, x(point.gbit), y(point.value),
               absl::StrFormat("%.3g Gbit/s, measured: %s", point.gbit,
                               point.winner ? names[*point.winner] : "undecided"));
  }
  for (const Tick& tick : x.ticks())
    svg.Text("tick", x(tick.value), kHeight - kBottom + 16, "middle", tick.label);
  for (const Tick& tick : y.ticks()) svg.Text("tick", kLeft - 6, y(tick.value) + 4, "end", tick.label);
  svg.Text("axis", (kLeft + kWidth) / 2, kHeight - 5, "middle", "Gbit/s of a host's link");
  svg.Text("axis", 0, 12, "start", panel.quantity);
  return svg;
}

}  // namespace

void WriteWinnersMap(const std::string& path, const std::vector<std::string>& names,
                     const std::vector<WinnersPanel>& panels) {
  Figure figure;
  std::vector<size_t> won(names.size() + 1);
  std::set<std::optional<size_t>> shown;
  for (const WinnersPanel& panel : panels) {
    figure.panels.push_back({"", PanelOf(panel, names, &won)});
    for (const WinnersPanel::Point& point : panel.measured) shown.insert(point.winner);
  }
  const auto share = [&](size_t places) {
    const double part = static_cast<double>(places) / std::accumulate(won.begin(), won.end(), 0.0);
    return absl::StrFormat("%.0f %%", 100 * part);
  };
  for (size_t i = 0; i < names.size(); ++i) {
    if (won[i] > 0)
      figure.title +=
          Join(figure.title.empty() ? "Predicted fastest: " : ", ", names[i], " in ", share(won[i]));
    if (won[i] > 0 || shown.contains(i)) figure.key.push_back(BoxKey(StyleOf(i), names[i]));
  }
  figure.title += Join(figure.title.empty() ? "U" : " of the places; u", "ndecided in ", share(won.back()));
  figure.key.push_back(BoxKey(StyleOf(std::nullopt), "undecided: intervals overlap"));
  if (std::ranges::any_of(panels, [](const auto& panel) { return !panel.measured.empty(); })) {
    Svg& mark =
        figure.key.emplace_back(KeyEntry{Svg(kMarkWidth, kMarkHeight, ""), "measured; filled as its fastest"})
            .mark;
    mark.Marker(kOutlined + StyleOf(std::nullopt), 0, kMarkWidth / 2, kMarkHeight / 2, "");
  }
  WriteFile(path, [&](std::ostream& file) { file << PictureOf(figure); });
}

}  // namespace gradsync::tools
