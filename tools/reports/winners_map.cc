#include "tools/reports/winners_map.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "model/error.h"
#include "tools/render/file.h"
#include "tools/reports/scale.h"
#include "tools/reports/svg.h"

namespace gradsync::tools {
namespace {

constexpr double kWidth = 420, kHeight = 300, kLeft = 62, kTop = 16, kRight = 12, kBottom = 44;
constexpr int kColumns = 16, kRows = 10;
constexpr double kLowestGbit = 0.05, kHighestGbit = 400;

constexpr char kStyle[] = R"css(
.winners .paper { fill: #fff; } .winners text { fill: #474b51; }
.winners .w { fill: #dcdcd6; } .winners .w0 { fill: #6f4ac7; } .winners .w1 { fill: #c78424; }
.winners .w2 { fill: #1a794c; } .winners .w3 { fill: #4d95c4; } .winners .w4 { fill: #e73c86; }
.winners .w5 { fill: #8c2304; } .winners .measured { stroke: #111; stroke-width: 1.5; } .winners .w6 { fill: #2c4497; } .winners .w7 { fill: #8a6d3b; }
)css";
constexpr size_t kNumColours = 8;

std::string ClassOf(std::optional<size_t> winner) { return winner ? Join("w", *winner % kNumColours) : "w"; }

double Between(double low, double high, double part) { return low * std::pow(high / low, part); }

Svg PanelOf(const WinnersPanel& panel, const std::vector<std::string>& names) {
  Svg svg(kWidth, kHeight, "rate of the link against " + panel.quantity);
  const Scale x = Scale::Log(kLowestGbit, kHighestGbit, kLeft, kWidth - kRight, 5);
  const Scale y = Scale::Log(panel.low, panel.high, kHeight - kBottom, kTop, 5);
  for (int column = 0; column < kColumns; ++column) {
    for (int row = 0; row < kRows; ++row) {
      const auto rate = [&](double at) { return Between(kLowestGbit, kHighestGbit, at / kColumns); };
      const auto value = [&](double at) { return Between(panel.low, panel.high, at / kRows); };
      const double gbit = rate(column + 0.5), quantity = value(row + 0.5);
      const std::optional<size_t> winner = panel.winner(gbit, quantity);
      const double left = x(rate(column)), top = y(value(row + 1.0));
      svg.Rect(ClassOf(winner), left, top, x(rate(column + 1.0)) - left, y(value(row)) - top,
               absl::StrFormat("%.3g Gbit/s, %.3g %s: %s", gbit, quantity, panel.quantity,
                               winner ? names[*winner] : "undecided"));
    }
  }
  for (const WinnersPanel::Point& point : panel.measured) {
    svg.Marker("measured " + ClassOf(point.winner), 0, x(point.gbit), y(point.value),
               absl::StrFormat("%.3g Gbit/s, measured: %s", point.gbit,
                               point.winner ? names[*point.winner] : "undecided"));
  }
  for (const Tick& tick : x.ticks())
    svg.Text("tick", x(tick.value), kHeight - kBottom + 16, "middle", tick.label);
  for (const Tick& tick : y.ticks()) svg.Text("tick", kLeft - 6, y(tick.value) + 4, "end", tick.label);
  svg.Text("axis", (kLeft + kWidth) / 2, kHeight - 8, "middle", "Gbit/s of a host's link");
  svg.Text("axis", 4, kTop - 4, "start", panel.quantity);
  return svg;
}

}  // namespace

void WriteWinnersMap(const std::string& path, const std::vector<std::string>& names,
                     const std::vector<WinnersPanel>& panels) {
  const double width = kWidth * static_cast<double>(panels.size()), line = 18;
  const double height = kHeight + line * static_cast<double>(names.size() + 1) + 8;
  Svg all(width, height, "which variant is fastest where");
  all.Rect("paper", 0, 0, width, height);
  for (size_t i = 0; i < panels.size(); ++i)
    all.Place(kWidth * static_cast<double>(i), 0, PanelOf(panels[i], names));
  for (size_t i = 0; i <= names.size(); ++i) {
    const bool is_name = i < names.size();
    const double y = kHeight + line * static_cast<double>(i);
    all.Rect(ClassOf(is_name ? std::optional(i) : std::nullopt), kLeft, y, 12, 12);
    all.Text("key", kLeft + 18, y + 11, "start", is_name ? names[i] : "undecided: intervals overlap");
  }
  const bool has_points =
      std::ranges::any_of(panels, [](const auto& panel) { return !panel.measured.empty(); });
  if (has_points)
    all.Text("key", kWidth, kHeight + 11, "start", "circles: measured, in the colour of the fastest");
  WriteFile(path, [&](std::ostream& file) { file << all.Document("winners", kStyle); });
}

}  // namespace gradsync::tools
