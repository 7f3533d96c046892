#include "tools/timelines/timeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "model/error.h"
#include "tools/timelines/canvas.h"
#include "tools/timelines/transfer_times.h"

namespace gradsync::tools {
namespace {

// At the width of a README, about 900 pixels, the smallest text is 10 pixels high.
constexpr double kWidth = 960, kLeft = 78, kRight = 148, kTop = 97, kMargin = 14;
constexpr double kComputeHeight = 28, kOpsHeight = 6, kLaneHeight = 17, kMaxLanesHeight = 68,
                 kQueueHeight = 13, kRowGap = 3, kRankGap = 9, kPanelGap = 16, kTitleHeight = 24,
                 kAxisHeight = 60;
constexpr double kTextSize = 12, kSmallSize = 11;

// Okabe and Ito's palette keeps apart for every kind of colour vision. Not CSS variables but rules, which
// rsvg-convert knows too.
constexpr char kStyle[] =
    R"(.gradsync-timeline{max-width:100%;height:auto;font:12px 'DejaVu Sans',Helvetica,Arial,sans-serif}
.gradsync-timeline .paper{fill:#fff}
.gradsync-timeline text{fill:#333}
.gradsync-timeline .h1{font-size:16px;font-weight:bold;fill:#111}
.gradsync-timeline .h2{font-size:14px;font-weight:bold;fill:#111}
.gradsync-timeline .num{font-size:15px;font-weight:bold;fill:#111}
.gradsync-timeline .soft{fill:#666}
.gradsync-timeline .end{text-anchor:end}
.gradsync-timeline .mid{text-anchor:middle}
.gradsync-timeline .on-dark{text-anchor:middle;fill:#fff}
.gradsync-timeline .on-light{text-anchor:middle;fill:#0c2233}
.gradsync-timeline .tag{text-anchor:middle;font-size:11px;fill:#241400}
.gradsync-timeline .small{font-size:11px;fill:#666}
.gradsync-timeline .grid{stroke:#e2e2e2;stroke-width:1}
.gradsync-timeline .rule{stroke:#c8c8c8;stroke-width:1}
.gradsync-timeline .mark{stroke:#0072b2;stroke-width:1.2;stroke-dasharray:3 2}
.gradsync-timeline .cut{stroke:#fff;stroke-width:.8;fill:none}
.gradsync-timeline .lane{fill:#f3f3f3}
.gradsync-timeline .forward{fill:#56b4e9}
.gradsync-timeline .backward{fill:#0072b2}
.gradsync-timeline .op{fill:#8cc5ea}
.gradsync-timeline .op2{fill:#4f9fd3}
.gradsync-timeline .optimizer{fill:#008a64}
.gradsync-timeline .idle{fill:#dcdcdc}
.gradsync-timeline .hidden{fill:#f2c078}
.gradsync-timeline .exposed{fill:#e06a1b}
.gradsync-timeline .queued{fill:#a8a8a8}
@media (prefers-color-scheme:dark){
.gradsync-timeline .paper{fill:#16181c}
.gradsync-timeline text{fill:#cfd3d8}
.gradsync-timeline .h1,.gradsync-timeline .h2,.gradsync-timeline .num{fill:#f2f4f6}
.gradsync-timeline .soft,.gradsync-timeline .small{fill:#9aa1a9}
.gradsync-timeline .on-dark{fill:#fff}
.gradsync-timeline .on-light{fill:#0c2233}
.gradsync-timeline .tag{fill:#241400}
.gradsync-timeline .grid{stroke:#2b2f35}
.gradsync-timeline .rule{stroke:#444a52}
.gradsync-timeline .mark{stroke:#6cb8ee}
.gradsync-timeline .cut{stroke:#16181c}
.gradsync-timeline .lane{fill:#22262b}
.gradsync-timeline .idle{fill:#3a3f46}
.gradsync-timeline .queued{fill:#7d848c}
}
)";

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

double StepLengthUs(const std::map<int, RankStep>& ranks) {
  double longest_us = 0;
  for (const auto& [rank, step] : ranks) longest_us = std::max(longest_us, step.step.duration_us());
  return longest_us;
}

// A strategy's step. Time counts from the begin of its earliest rank.
struct Panel {
  StepKey key;
  const std::map<int, RankStep>* ranks;
  double begin_us;
  double end_us;
};

Panel PanelOf(const StepKey& key, const std::map<int, RankStep>& ranks) {
  Panel panel{key, &ranks, std::numeric_limits<double>::infinity(), 0};
  for (const auto& [rank, step] : ranks) {
    panel.begin_us = std::min(panel.begin_us, step.step.begin_us);
    panel.end_us = std::max(panel.end_us, step.step.end_us);
  }
  return panel;
}

int NumLanes(const RankStep& step) {
  int lanes = 1;
  for (const Transfer& transfer : step.transfers) lanes = std::max(lanes, transfer.lane + 1);
  return lanes;
}

double LanesHeight(const RankStep& step) { return std::min(kMaxLanesHeight, NumLanes(step) * kLaneHeight); }

double RankHeight(const RankStep& step) {
  return kComputeHeight + kRowGap + LanesHeight(step) + (step.transfers.empty() ? 0 : 1 + kQueueHeight);
}

double PanelHeight(const Panel& panel) {
  double height = kTitleHeight;
  for (const auto& [rank, step] : *panel.ranks) height += RankHeight(step) + kRankGap;
  return height;
}

// Draws on one scale of time.
class Picture {
 public:
  explicit Picture(double span_us) : span_us_(span_us) {}

  SvgCanvas& canvas() { return canvas_; }
  double X(double us) const { return kLeft + us / span_us_ * (kWidth - kLeft - kRight); }

  // Something that happened is seen, however short it was.
  void Box(double begin_us, double end_us, double y, double height, const char* css_class,
           const std::string& tip) {
    canvas_.Box(X(begin_us), y, std::max(0.8, X(end_us) - X(begin_us)), height, css_class, tip);
  }
  // The longest of the texts that fits into the middle of a box, if any does.
  void Label(double begin_us, double end_us, double y, double font_size, const char* css_class,
             const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      if (TextWidth(text, font_size) + 4 > X(end_us) - X(begin_us)) continue;
      canvas_.Text((X(begin_us) + X(end_us)) / 2, y, css_class, text);
      return;
    }
  }

  void DrawPhases(const RankStep& step, double begin_us, double y);
  void DrawTransfers(const RankStep& step, double begin_us, double y);
  void DrawQueue(const RankStep& step, double begin_us, double y);
  void DrawTotals(const Panel& panel, double y);
  void DrawPanel(const Panel& panel, double y);
  void DrawLegend();
  void DrawAxis(double top, double y);

 private:
  void DrawOps(const RankStep& step, double begin_us, double y);

  const double span_us_;
  SvgCanvas canvas_;
};

void Picture::DrawPhases(const RankStep& step, double begin_us, double y) {
  for (const Span& phase : step.phases) {
    const bool waits = phase.name == "sync_exposed", forward = phase.name == "forward";
    const char* const css_class = forward                     ? "forward"
                                  : phase.name == "backward"  ? "backward"
                                  : phase.name == "optimizer" ? "optimizer"
                                                              : "idle";
    const double from = phase.begin_us - begin_us, to = phase.end_us - begin_us;
    Box(from, to, y, kComputeHeight, css_class, phase.name + ", " + Milliseconds(phase.duration_us()));
    const std::string name = waits ? "waits" : phase.name;
    Label(from, to, y + 17, kTextSize,
          waits     ? "mid soft"
          : forward ? "on-light"
                    : "on-dark",
          {name + " " + Milliseconds(phase.duration_us()), name});
  }
  DrawOps(step, begin_us, y + kComputeHeight - kOpsHeight);
}

// A strip of the operations of backward in two alternating colours; a run of those too short to be told apart
// is one box of their count.
void Picture::DrawOps(const RankStep& step, double begin_us, double y) {
  constexpr double kVisible = 1.5;
  bool odd = false;
  for (size_t i = 0; i < step.ops.size();) {
    size_t last = i;
    while (last + 1 < step.ops.size() &&
           X(step.ops[last].end_us - begin_us) - X(step.ops[i].begin_us - begin_us) < kVisible) {
      ++last;
    }
    const double from = step.ops[i].begin_us, to = step.ops[last].end_us;
    const std::string what =
        last == i ? step.ops[i].name : Join(step.ops[i].name, " and ", last - i, " further operations");
    Box(from - begin_us, to - begin_us, y, kOpsHeight, odd ? "op2" : "op",
        what + ", " + Milliseconds(to - from));
    odd = !odd;
    i = last + 1;
  }
}

void Picture::DrawTransfers(const RankStep& step, double begin_us, double y) {
  const double backward_end_us = BackwardEndUs(step);
  const double lane_height = LanesHeight(step) / NumLanes(step);
  Box(step.step.begin_us - begin_us, step.step.end_us - begin_us, y, LanesHeight(step), "lane",
      "nothing in flight");
  for (const Transfer& transfer : step.transfers) {
    const Span& flight = transfer.in_flight;
    const double top = y + transfer.lane * lane_height + 0.5, height = lane_height - 1;
    const std::string tip =
        Join("#", transfer.number, " ", flight.name, ", ", Bytes(transfer.bytes), ": queued ",
             Milliseconds(QueuedUs(transfer)), ", in flight ", Milliseconds(InFlightUs(transfer)),
             ", exposed ", Milliseconds(ExposedUs(transfer, backward_end_us)));
    const double from = flight.begin_us - begin_us, to = flight.end_us - begin_us;
    const double split = std::clamp(backward_end_us, flight.begin_us, flight.end_us) - begin_us;
    if (split > from) Box(from, split, top, height, "hidden", tip);
    if (split < to) Box(split, to, top, height, "exposed", tip);
    canvas_.Line(X(from), top, X(from), top + height, "cut");
    if (height < kSmallSize) continue;
    Label(from, to, top + height / 2 + 4, kSmallSize, "tag",
          {Join("#", transfer.number, "  ", Bytes(transfer.bytes)), Join("#", transfer.number),
           Join(transfer.number)});
  }
  const double x = X(backward_end_us - begin_us);
  canvas_.Line(x, y - kRowGap, x, y + LanesHeight(step) + 1 + kQueueHeight, "mark");
}

// How many collectives wait for their turn, over time.
void Picture::DrawQueue(const RankStep& step, double begin_us, double y) {
  std::map<double, int> changes;
  for (const Transfer& transfer : step.transfers) {
    ++changes[transfer.issued_us];
    --changes[transfer.in_flight.begin_us];
  }
  int waiting = 0, most = 0;
  for (const auto& [us, change] : changes) most = std::max(most, waiting += change);
  if (most == 0) return;
  const double unit = (kQueueHeight - 2) / std::max(4, most), base = y + kQueueHeight - 1;
  std::string path = Format("M%.2f %.2f", X(changes.begin()->first - begin_us), base);
  for (const auto& [us, change] : changes) {
    waiting += change;
    path += Format("H%.2fV%.2f", X(us - begin_us), base - waiting * unit);
  }
  canvas_.Path(path + "Z", "queued", Join("collectives that wait for their turn: at most ", most));
}

void Picture::DrawTotals(const Panel& panel, double y) {
  BusyTime all;
  double exposed_us = 0;
  for (const auto& [rank, step] : *panel.ranks) {
    const BusyTime time = CommunicationOf(step);
    all.busy_us += time.busy_us;
    all.exposed_us += time.exposed_us;
    const Span* const waits = step.Phase("sync_exposed");
    if (waits != nullptr) exposed_us = std::max(exposed_us, waits->duration_us());
  }
  const double x = kWidth - kMargin;
  canvas_.Text(x, y + 14, "num end", "step " + Milliseconds(StepLengthUs(*panel.ranks)));
  if (all.busy_us == 0) return canvas_.Text(x, y + 32, "end", "no communication");
  canvas_.Text(x, y + 32, "end", "exposed " + Milliseconds(exposed_us));
  canvas_.Text(x, y + 49, "end", Format("hidden %.0f %%", 100 * (1 - all.exposed_us / all.busy_us)));
}

// "39 collectives, 35.5 MiB".
std::string Traffic(const Panel& panel) {
  const std::vector<Transfer>& transfers = panel.ranks->begin()->second.transfers;
  if (transfers.empty()) return "no communication";
  int64_t bytes = 0;
  for (const Transfer& transfer : transfers) bytes += transfer.bytes;
  return Join(transfers.size(), transfers.size() == 1 ? " collective, " : " collectives, ", Bytes(bytes));
}

void Picture::DrawPanel(const Panel& panel, double y) {
  canvas_.Text(kMargin, y + 15, "h2", panel.key.strategy);
  canvas_.Text(kMargin + 12 + TextWidth(panel.key.strategy, 15.5), y + 15, "soft", Traffic(panel));
  y += kTitleHeight;
  DrawTotals(panel, y);
  for (const auto& [rank, step] : *panel.ranks) {
    canvas_.Text(kLeft - 10, y + 18, "end", Join("rank ", rank));
    DrawPhases(step, panel.begin_us, y);
    const double lanes_y = y + kComputeHeight + kRowGap;
    canvas_.Text(kLeft - 10, lanes_y + LanesHeight(step) / 2 + 4, "small end", "in flight");
    DrawTransfers(step, panel.begin_us, lanes_y);
    if (!step.transfers.empty()) {
      const double queue_y = lanes_y + LanesHeight(step) + 1;
      canvas_.Text(kLeft - 10, queue_y + 10, "small end", "queued");
      DrawQueue(step, panel.begin_us, queue_y);
    }
    y += RankHeight(step) + kRankGap;
  }
}

// What ranks compute, and below what is on its way.
void Picture::DrawLegend() {
  double x = kMargin, y = 40;
  const auto name = [&](const char* text) {
    canvas_.Text(x + 18, y + 11, "", text);
    x += 36 + TextWidth(text, kTextSize);
  };
  const auto box = [&](const char* css_class, const char* text) {
    canvas_.Box(x, y, 13, 13, css_class);
    name(text);
  };
  box("forward", "forward");
  canvas_.Box(x, y, 13, 13 - kOpsHeight, "backward");
  for (int i = 0; i < 3; ++i) {
    canvas_.Box(x + i * 13.0 / 3, y + 13 - kOpsHeight, 13.0 / 3, kOpsHeight, i == 1 ? "op2" : "op");
  }
  name("backward (below: its operations)");
  box("idle", "waits for gradients");
  box("optimizer", "optimizer");
  x = kMargin;
  y += 21;
  box("hidden", "in flight during backward: hidden");
  box("exposed", "in flight after it: exposed");
  box("queued", "issued, not yet in flight");
  canvas_.Line(x + 6.5, y, x + 6.5, y + 13, "mark");
  name("last gradient computed");
}

void Picture::DrawAxis(double top, double y) {
  const double tick_us = TickUs(span_us_);
  for (int64_t tick = 0; static_cast<double>(tick) * tick_us <= span_us_; ++tick) {
    const double us = static_cast<double>(tick) * tick_us;
    canvas_.Line(X(us), top, X(us), y, "grid");
    canvas_.Text(X(us), y + 16, "mid soft", Format("%g", us / 1e3));
  }
  canvas_.Text((X(0) + X(span_us_)) / 2, y + 33, "mid soft", "ms since the step began on its first rank");
  canvas_.Text(kMargin, y + 52, "small",
               "exposed: the longest that a rank waits for gradients. hidden: of the time with anything in "
               "flight, the part before the rank's last gradient; over all ranks.");
}

std::string Heading(const Trace& trace, const StepKey& key) {
  std::string cell = Join("batch ", key.batch_size);
  if (key.seq_len > 0) cell += Join(", sequence ", key.seq_len);
  return "One training step by strategy: " + (trace.origin.empty() ? cell : trace.origin + ", " + cell);
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
  std::vector<Panel> panels;
  double span_us = 1, height = kTop;
  for (const StepKey& key : steps) {
    panels.push_back(PanelOf(key, trace.steps.at(key)));
    span_us = std::max(span_us, panels.back().end_us - panels.back().begin_us);
    height += PanelHeight(panels.back()) + kPanelGap;
  }
  height += kAxisHeight - kPanelGap / 2;

  Picture picture(span_us);
  picture.canvas().Box(0, 0, kWidth, height, "paper");
  const std::string heading = Heading(trace, steps.front());
  picture.canvas().Text(kMargin, 26, "h1", heading);
  picture.DrawLegend();
  picture.DrawAxis(kTop - 4, height - kAxisHeight);
  double y = kTop;
  for (const Panel& panel : panels) {
    picture.canvas().Line(kMargin, y - kPanelGap / 2 + 2, kWidth - kMargin, y - kPanelGap / 2 + 2, "rule");
    picture.DrawPanel(panel, y);
    y += PanelHeight(panel) + kPanelGap;
  }
  return picture.canvas().Svg(kWidth, height, "gradsync-timeline", kStyle, heading);
}

}  // namespace gradsync::tools
