#include <algorithm>

#include "model/error.h"
#include "tools/charts/chart.h"
#include "tools/charts/scale.h"
#include "tools/charts/svg.h"
#include "tools/render/text.h"

namespace gradsync::tools {
namespace {

constexpr double kTop = 10, kRowHeight = 27, kBarHeight = 12, kBarTop = 4, kMarkTop = 20.5, kAxisHeight = 40,
                 kGap = 8, kValueWidth = 64;
constexpr size_t kLongestName = 17;
constexpr int kTicks = 5;

double EndOf(const BarChart& chart) {
  double end = 0;
  const auto include = [&end](double value) {
    if (IsDrawable(value)) end = std::max(end, value);
  };
  include(chart.reference);
  for (const Bar& bar : chart.bars) {
    double sum = 0;
    for (const BarPart& part : bar.parts) {
      if (IsDrawable(part.value)) sum += std::max(part.value, 0.0);
    }
    include(sum);
    include(bar.total);
    include(bar.high);
  }
  return end;
}

double LeftOf(const BarChart& chart) {
  double width = 0;
  for (const Bar& bar : chart.bars) width = std::max(width, TextWidth(Shortened(bar.name, kLongestName)));
  return width + kGap;
}

void DrawParts(const Bar& bar, const Scale& scale, double y, const std::string& unit, Svg& svg) {
  double sum = 0;
  for (const BarPart& part : bar.parts) {
    if (!IsDrawable(part.value) || part.value <= 0) continue;
    const double from = scale(sum);
    sum += part.value;
    svg.Rect(Join("part ", bar.style, " ", part.style), from, y, scale(sum) - from, kBarHeight,
             Join(bar.name, ", ", part.name, ": ", Readable(part.value, 4), " ", unit));
  }
}

// The total and its interval stand below the bar, on paper, where they can be told from its parts.
void DrawTotal(const Bar& bar, const Scale& scale, double y, const std::string& unit, Svg& svg) {
  if (IsDrawable(bar.low) && IsDrawable(bar.high)) {
    const double low = scale(bar.low), high = scale(bar.high);
    svg.Line("interval", low, y, high, y, bar.interval_tip);
    for (const double x : {low, high}) svg.Line("interval", x, y - 2.5, x, y + 2.5);
  }
  if (!IsDrawable(bar.total)) return;
  svg.Marker("total", 3, scale(bar.total), y, Join(bar.name, ": ", Readable(bar.total, 4), " ", unit));
}

}  // namespace

std::string DrawBars(const BarChart& chart) {
  const double left = LeftOf(chart), right = kChartWidth - kValueWidth;
  const double bottom = kTop + kRowHeight * static_cast<double>(chart.bars.size());
  const Scale scale = Scale::Linear(0, EndOf(chart), left, right, kTicks, Scale::Ends::kExact);
  Svg svg(kChartWidth, bottom + kAxisHeight, Join(chart.title, ": ", chart.x_label));
  for (const Tick& tick : scale.ticks()) {
    const double x = scale(tick.value);
    svg.Line("grid", x, kTop - 4, x, bottom + 3);
    svg.Text("tick", x, bottom + 16, "middle", tick.label);
  }
  if (IsDrawable(chart.reference)) {
    const double x = scale(chart.reference);
    svg.Line("reference", x, kTop - 4, x, bottom + 3, chart.reference_name);
  }
  double y = kTop;
  for (const Bar& bar : chart.bars) {
    const double middle = y + kRowHeight / 2;
    const std::string name = Shortened(bar.name, kLongestName);
    svg.Text("name", left - kGap, middle + 3, "end", name, name == bar.name ? "" : bar.name);
    DrawParts(bar, scale, y + kBarTop, chart.unit, svg);
    DrawTotal(bar, scale, y + kMarkTop, chart.unit, svg);
    svg.Text("value", kChartWidth, middle + 3, "end", Join(Readable(bar.total, 3), " ", chart.unit));
    y += kRowHeight;
  }
  svg.Text("axis", (left + right) / 2, bottom + 34, "middle", chart.x_label);
  return svg.Finish();
}

}  // namespace gradsync::tools
