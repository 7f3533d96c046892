#include "tools/timeline.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "model/error.h"

namespace gradsync::tools {
namespace {

constexpr double kWidth = 1200, kLeft = 150, kRight = 24, kTop = 64;
constexpr double kComputeHeight = 26, kLaneHeight = 13, kMaxLanesHeight = 52, kRowGap = 5, kRankGap = 12,
                 kPanelGap = 26;
constexpr double kTitleHeight = 26, kAxisHeight = 44;

// Okabe and Ito's palette keeps apart for every kind of colour vision.
constexpr char kForward[] = "#56b4e9", kBackward[] = "#0072b2", kOptimizer[] = "#009e73", kIdle[] = "#e8e8e8";
constexpr char kHidden[] = "#f0c07a", kExposed[] = "#d55e00", kQueued[] = "#cccccc";

template <class... Args>
std::string Format(const char* format, Args... args) {
  const int length = std::snprintf(nullptr, 0, format, args...);
  std::string text(static_cast<size_t>(length), '\0');
  std::snprintf(text.data(), text.size() + 1, format, args...);
  return text;
}

std::string Escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string Milliseconds(double us) {
  return Format(us < 10000 ? "%.2f ms" : us < 100000 ? "%.1f ms" : "%.0f ms", us / 1e3);
}

std::string Bytes(int64_t bytes) {
  if (bytes >= int64_t{1} << 20) return Format("%.1f MiB", std::ldexp(static_cast<double>(bytes), -20));
  return Format("%.1f KiB", std::ldexp(static_cast<double>(bytes), -10));
}

// A duration that divides `span_us` into 5 to 12 parts: 1, 2 or 5 times a power of ten.
double TickUs(double span_us) {
  const double power = std::pow(10.0, std::floor(std::log10(span_us / 5)));
  for (const double factor : {5.0, 2.0}) {
    if (span_us / (power * factor) >= 5) return power * factor;
  }
  return power;
}

class Picture {
 public:
  explicit Picture(double span_us) : span_us_(span_us) {}

  double X(double us) const { return kLeft + us / span_us_ * (kWidth - kLeft - kRight); }

  void Box(double begin_us, double end_us, double y, double height, const char* fill,
           const std::string& tip) {
    // Something that happened is seen, however short it was.
    const double width = std::max(0.6, X(end_us) - X(begin_us));
    body_ += Format("<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f' fill='%s'><title>", X(begin_us), y,
                    width, height, fill) +
             Escape(tip) + "</title></rect>\n";
  }

  void Line(double x1, double y1, double x2, double y2, const char* stroke, double width) {
    body_ += Format("<line x1='%.2f' y1='%.2f' x2='%.2f' y2='%.2f' stroke='%s' stroke-width='%.2f'/>\n", x1,
                    y1, x2, y2, stroke, width);
  }

  void Text(double x, double y, const char* style, const std::string& text) {
    body_ += Format("<text x='%.2f' y='%.2f' %s>", x, y, style) + Escape(text) + "</text>\n";
  }

  // A label in the middle of a box, if it is wide enough.
  void Label(double begin_us, double end_us, double y, const char* style, const std::string& text) {
    if (X(end_us) - X(begin_us) < 7.0 * static_cast<double>(text.size()) + 4) return;
    Text((X(begin_us) + X(end_us)) / 2, y, style, text);
  }

  std::string Svg(double height) const {
    return Format(
               "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' viewBox='0 0 %.0f %.0f' "
               "font-family='DejaVu Sans, Helvetica, Arial, sans-serif' font-size='12'>\n",
               kWidth, height, kWidth, height) +
           "<rect width='100%' height='100%' fill='#ffffff'/>\n" + body_ + "</svg>\n";
  }

 private:
  const double span_us_;
  std::string body_;
};

constexpr char kMiddleWhite[] = "text-anchor='middle' fill='#ffffff'";
constexpr char kEnd[] = "text-anchor='end' fill='#444444'";
constexpr char kPlain[] = "fill='#444444'";
constexpr char kBold[] = "font-weight='bold' font-size='15' fill='#111111'";

struct Drawn {
  StepKey key;
  const std::map<int, RankStep>* ranks;
  double begin_us;  // of the earliest rank
  double end_us;    // of the latest
};

int NumLanes(const RankStep& rank) {
  int lanes = 1;
  for (const Transfer& transfer : rank.transfers) lanes = std::max(lanes, transfer.lane + 1);
  return lanes;
}

double CommHeight(const RankStep& rank) {
  return std::min(kMaxLanesHeight, NumLanes(rank) * kLaneHeight + 3);
}

double PanelHeight(const Drawn& drawn) {
  double height = kTitleHeight;
  for (const auto& [rank, step] : *drawn.ranks)
    height += kComputeHeight + kRowGap + CommHeight(step) + kRankGap;
  return height;
}

void DrawCompute(const RankStep& rank, double begin_us, double y, Picture& picture) {
  for (const Span& phase : rank.phases) {
    const char* fill = phase.name == "forward"     ? kForward
                       : phase.name == "backward"  ? kBackward
                       : phase.name == "optimizer" ? kOptimizer
                                                   : kIdle;
    const double from = phase.begin_us - begin_us, to = phase.end_us - begin_us;
    picture.Box(from, to, y, kComputeHeight, fill, phase.name + ", " + Milliseconds(phase.duration_us()));
    if (phase.name != "sync_exposed") picture.Label(from, to, y + 17, kMiddleWhite, phase.name);
    if (phase.name == "sync_exposed")
      picture.Label(from, to, y + 17, "text-anchor='middle' fill='#666666'", "waits");
  }
  // Thin cuts where one operation of backward ends and the next begins.
  for (const Span& op : rank.ops) {
    const double x = picture.X(op.end_us - begin_us);
    picture.Line(x, y + kComputeHeight - 6, x, y + kComputeHeight, "#ffffff", 0.4);
  }
}

void DrawTransfers(const RankStep& rank, double begin_us, double y, Picture& picture) {
  const Span* backward = rank.Phase("backward");
  const double last_gradient_us = backward == nullptr ? rank.step.end_us : backward->end_us;
  const double lane_height = CommHeight(rank) / NumLanes(rank);
  picture.Box(0, rank.step.end_us - begin_us, y, CommHeight(rank), "#f6f6f6", "nothing in flight");
  for (const Transfer& transfer : rank.transfers) {
    const Span& flight = transfer.in_flight;
    const double top = y + transfer.lane * lane_height + 1, height = lane_height - 2;
    const double waited_us = flight.begin_us - transfer.issued_us;
    const std::string tip = Join(flight.name, " of ", Bytes(transfer.bytes), ": waited ",
                                 Milliseconds(waited_us), ", in flight ", Milliseconds(flight.duration_us()));
    picture.Line(picture.X(transfer.issued_us - begin_us), top + height / 2,
                 picture.X(flight.begin_us - begin_us), top + height / 2, kQueued, 1);
    const double split_us = std::clamp(last_gradient_us, flight.begin_us, flight.end_us);
    if (split_us > flight.begin_us) {
      picture.Box(flight.begin_us - begin_us, split_us - begin_us, top, height, kHidden, tip + " (hidden)");
    }
    if (split_us < flight.end_us) {
      picture.Box(split_us - begin_us, flight.end_us - begin_us, top, height, kExposed, tip + " (exposed)");
    }
    const double x = picture.X(flight.begin_us - begin_us);
    picture.Line(x, top, x, top + height, "#ffffff", 0.5);
    picture.Label(flight.begin_us - begin_us, flight.end_us - begin_us, top + height - 1.5,
                  "text-anchor='middle' font-size='9' fill='#333333'", Bytes(transfer.bytes));
  }
}

// The heading of a strategy: its step, and how much of its communication was exposed on the slowest rank.
std::string Heading(const Drawn& drawn) {
  double exposed_us = 0;
  size_t transfers = 0;
  int64_t bytes = 0;
  for (const auto& [rank, step] : *drawn.ranks) {
    const Span* exposed = step.Phase("sync_exposed");
    if (exposed != nullptr) exposed_us = std::max(exposed_us, exposed->duration_us());
    transfers = step.transfers.size();
    bytes = 0;
    for (const Transfer& transfer : step.transfers) bytes += transfer.bytes;
  }
  if (transfers == 0) return Join("step ", Milliseconds(drawn.end_us - drawn.begin_us), ", no communication");
  return Join("step ", Milliseconds(drawn.end_us - drawn.begin_us), ", of which ", Milliseconds(exposed_us),
              " exposed synchronisation; ", transfers, transfers == 1 ? " collective, " : " collectives, ",
              Bytes(bytes));
}

void DrawPanel(const Drawn& drawn, double y, Picture& picture) {
  picture.Text(14, y + 16, kBold, drawn.key.strategy);
  picture.Text(kLeft, y + 16, kPlain, Heading(drawn));
  y += kTitleHeight;
  for (const auto& [rank, step] : *drawn.ranks) {
    picture.Text(kLeft - 8, y + 17, kEnd, Join("rank ", rank, " computes"));
    DrawCompute(step, drawn.begin_us, y, picture);
    y += kComputeHeight + kRowGap;
    picture.Text(kLeft - 8, y + CommHeight(step) / 2 + 4, kEnd, "communicates");
    DrawTransfers(step, drawn.begin_us, y, picture);
    y += CommHeight(step) + kRankGap;
  }
}

void DrawLegend(Picture& picture) {
  const std::pair<const char*, const char*> entries[] = {{kForward, "forward"},
                                                         {kBackward, "backward"},
                                                         {kOptimizer, "optimizer"},
                                                         {kIdle, "waits for gradients"},
                                                         {kHidden, "in flight, hidden behind backward"},
                                                         {kExposed, "in flight, exposed"}};
  double x = 14;
  for (const auto& [fill, text] : entries) {
    const double us = (x - picture.X(0)) / (picture.X(1) - picture.X(0));
    const double width_us = 14 / (picture.X(1) - picture.X(0));
    picture.Box(us, us + width_us, 36, 12, fill, text);
    picture.Text(x + 19, 46, kPlain, text);
    x += 40 + 6.8 * static_cast<double>(std::string_view(text).size());
  }
}

void DrawAxis(double span_us, double top, double y, Picture& picture) {
  const double tick_us = TickUs(span_us);
  for (double us = 0; us <= span_us; us += tick_us) {
    picture.Line(picture.X(us), top, picture.X(us), y, "#dddddd", 0.5);
    picture.Text(picture.X(us), y + 16, "text-anchor='middle' fill='#444444'", Format("%g", us / 1e3));
  }
  picture.Text((picture.X(0) + picture.X(span_us)) / 2, y + 34, "text-anchor='middle' fill='#444444'",
               "ms since the step began");
}

double StepLengthUs(const std::map<int, RankStep>& ranks) {
  double longest_us = 0;
  for (const auto& [rank, step] : ranks) longest_us = std::max(longest_us, step.step.duration_us());
  return longest_us;
}

}  // namespace

std::vector<StepKey> ChooseSteps(const Trace& trace, const TimelineOptions& options) {
  Require(!trace.steps.empty(), "timeline: the traces hold no step");
  const auto in_cell = [&](const StepKey& key) {
    return options.batch_size.value_or(key.batch_size) == key.batch_size &&
           options.seq_len.value_or(key.seq_len) == key.seq_len;
  };
  const auto first =
      std::ranges::find_if(trace.steps, in_cell, [](const auto& entry) { return entry.first; });
  Require(first != trace.steps.end(), "timeline: there is no step of batch size ",
          options.batch_size.value_or(-1), " and sequence length ", options.seq_len.value_or(-1),
          " (-1: any) in the traces");
  const StepKey cell = first->first;
  std::vector<StepKey> chosen;
  for (const std::string& strategy : options.strategies.empty() ? trace.strategies : options.strategies) {
    std::vector<std::pair<double, StepKey>> candidates;
    for (const auto& [key, ranks] : trace.steps) {
      const bool same_cell = key.batch_size == cell.batch_size && key.seq_len == cell.seq_len;
      if (same_cell && key.strategy == strategy) candidates.emplace_back(StepLengthUs(ranks), key);
    }
    Require(!candidates.empty(), "timeline: there is no step of strategy '", strategy, "' in the traces");
    std::ranges::sort(candidates);
    chosen.push_back(candidates[candidates.size() / 2].second);
  }
  return chosen;
}

std::string DrawTimeline(const Trace& trace, const std::vector<StepKey>& steps) {
  std::vector<Drawn> panels;
  double span_us = 1;
  for (const StepKey& key : steps) {
    Drawn drawn{key, &trace.steps.at(key), std::numeric_limits<double>::infinity(), 0};
    for (const auto& [rank, step] : *drawn.ranks) {
      drawn.begin_us = std::min(drawn.begin_us, step.step.begin_us);
      drawn.end_us = std::max(drawn.end_us, step.step.end_us);
    }
    span_us = std::max(span_us, drawn.end_us - drawn.begin_us);
    panels.push_back(drawn);
  }
  Picture picture(span_us);
  picture.Text(14, 22, kBold,
               Join("One training step, batch ", steps.front().batch_size, ", sequence ",
                    steps.front().seq_len, ", by strategy"));
  DrawLegend(picture);
  double height = kTop;
  for (const Drawn& panel : panels) height += PanelHeight(panel) + kPanelGap;
  DrawAxis(span_us, kTop, height - kPanelGap / 2, picture);
  double y = kTop;
  for (const Drawn& panel : panels) {
    DrawPanel(panel, y, picture);
    y += PanelHeight(panel) + kPanelGap;
  }
  return picture.Svg(height - kPanelGap / 2 + kAxisHeight);
}

}  // namespace gradsync::tools
