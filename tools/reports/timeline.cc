#include "tools/reports/timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "bench/records/units.h"
#include "model/error.h"
#include "tools/render/text.h"
#include "tools/reports/scale.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

// Narrow, so that texts can be read on a phone.
constexpr double kWidth = 540, kLeft = 64, kRight = 14, kTop = 14, kMargin = 4;
constexpr double kComputeHeight = 28, kOpsHeight = 6, kLaneHeight = 17, kMaxLanesHeight = 68,
                 kQueueHeight = 13, kRowGap = 3, kRankGap = 9, kStripGap = 16, kTitleHeight = 42,
                 kAxisHeight = 40;
constexpr double kSmallSize = 11;
constexpr int kNumTicks = 6;

std::string Milliseconds(double us) { return Readable(us / 1e3, 3) + " ms"; }

double StepLengthUs(const std::map<int, RankStep>& ranks) {
  double longest_us = 0;
  for (const auto& [rank, step] : ranks) longest_us = std::max(longest_us, step.step.duration_us());
  return longest_us;
}

// The part of the time with anything in flight that lies before the rank's last gradient, over all ranks.
// None without communication.
std::optional<double> HiddenPercent(const std::map<int, RankStep>& ranks) {
  BusyTime all;
  for (const auto& [rank, step] : ranks) {
    const BusyTime time = step.Communication();
    all.busy_us += time.busy_us;
    all.exposed_us += time.exposed_us;
  }
  if (all.busy_us == 0) return std::nullopt;
  return 100 * (1 - all.exposed_us / all.busy_us);
}

// A strategy's step, to be drawn across the picture. Time counts from the begin of its earliest rank.
struct Strip {
  const std::string& strategy;
  const std::map<int, RankStep>& ranks;
  double begin_us = std::numeric_limits<double>::infinity();
  double end_us = 0;
};

Strip StripOf(const StepKey& key, const std::map<int, RankStep>& ranks) {
  Strip strip{key.strategy, ranks};
  for (const auto& [rank, step] : ranks) {
    strip.begin_us = std::min(strip.begin_us, step.step.begin_us);
    strip.end_us = std::max(strip.end_us, step.step.end_us);
  }
  return strip;
}

int NumLanes(const RankStep& step) {
  int lanes = 1;
  for (const TracedCollective& transfer : step.transfers) lanes = std::max(lanes, transfer.lane + 1);
  return lanes;
}

double LanesHeight(const RankStep& step) { return std::min(kMaxLanesHeight, NumLanes(step) * kLaneHeight); }

double RankHeight(const RankStep& step) {
  return kComputeHeight + kRowGap + LanesHeight(step) + (step.transfers.empty() ? 0 : 1 + kQueueHeight);
}

double StripHeight(const Strip& strip) {
  double height = kTitleHeight;
  for (const auto& [rank, step] : strip.ranks) height += RankHeight(step) + kRankGap;
  return height;
}

// "39 collectives, 35.5 MiB".
std::string Traffic(const RankStep& step) {
  if (step.transfers.empty()) return "no communication";
  double bytes = 0;
  for (const TracedCollective& transfer : step.transfers) bytes += static_cast<double>(transfer.bytes);
  const size_t count = step.transfers.size();
  return Join(count, count == 1 ? " collective, " : " collectives, ", bench::ApproximateBytes(bytes));
}

// "step 355 ms, exposed 5.00 ms, hidden 97 %".
std::string Totals(const Strip& strip) {
  double computed_us = 0, averaged_us = 0;  // by the last rank
  for (const auto& [rank, step] : strip.ranks) {
    const Span* const waits = step.Phase("sync_exposed");
    if (waits == nullptr) continue;
    computed_us = std::max(computed_us, waits->begin_us);
    averaged_us = std::max(averaged_us, waits->end_us);
  }
  const std::string step = "step " + Milliseconds(StepLengthUs(strip.ranks));
  const std::optional<double> hidden = HiddenPercent(strip.ranks);
  if (!hidden) return step;
  return Join(step, ", exposed ", Milliseconds(averaged_us - computed_us), ", hidden ", Fixed(*hidden, 0),
              " %");
}

// A phase, its class, that of the text on it, and its name there.
constexpr const char* kPhaseStyles[][4] = {{"forward", "forward", "on-light", "forward"},
                                           {"backward", "backward", "on-dark", "backward"},
                                           {"sync_exposed", "idle", "", "waits"},
                                           {"optimizer", "optimizer", "on-dark", "optimizer"}};

// Draws on one scale of time.
class Picture {
 public:
  Picture(double span_us, double height, const std::string& label)
      : height_(height),
        scale_(Scale::Linear(0, span_us / 1e3, kLeft, kWidth - kRight, kNumTicks, Scale::Ends::kExact)),
        svg_(kWidth, height, label) {
    DrawAxis();
  }

  void DrawStrip(const Strip& strip, double y) {
    origin_us_ = strip.begin_us;
    svg_.Line("grid", kMargin, y - kStripGap / 2 + 2, kWidth - kMargin, y - kStripGap / 2 + 2);
    svg_.Text("heading", kMargin, y + 15, "start", strip.strategy);
    svg_.Text("", kMargin + 12 + TextWidth(strip.strategy, 13), y + 15, "start",
              Traffic(strip.ranks.begin()->second));
    svg_.Text("", kMargin, y + 32, "start", Totals(strip));
    y += kTitleHeight;
    for (const auto& [rank, step] : strip.ranks) {
      const double lanes_y = y + kComputeHeight + kRowGap, queue_y = lanes_y + LanesHeight(step) + 1;
      svg_.Text("", kLeft - 10, y + 18, "end", Join("rank ", rank));
      DrawPhases(step, y);
      DrawOps(step, y + kComputeHeight - kOpsHeight);
      svg_.Text("tick", kLeft - 10, lanes_y + LanesHeight(step) / 2 + 4, "end", "in flight");
      DrawTransfers(step, lanes_y);
      if (!step.transfers.empty()) svg_.Text("tick", kLeft - 10, queue_y + 10, "end", "queued");
      DrawQueue(step, queue_y);
      y += RankHeight(step) + kRankGap;
    }
  }
  const Svg& svg() const { return svg_; }

 private:
  // The x of a moment in the strip that is drawn.
  double X(double us) const { return scale_((us - origin_us_) / 1e3); }
  // Something that happened is seen, however short it was.
  void Box(const char* classes, double begin_us, double end_us, double y, double height,
           const std::string& tip) {
    svg_.Rect(classes, X(begin_us), y, std::max(0.8, X(end_us) - X(begin_us)), height, tip);
  }
  // The longest of the texts that fits into the middle of a box, if any does.
  void Label(const char* classes, const Span& span, double y, double font_size,
             const std::vector<std::string>& texts) {
    const double from = X(span.begin_us), to = X(span.end_us);
    const auto text = std::ranges::find_if(
        texts, [&](const std::string& one) { return TextWidth(one, font_size) + 4 <= to - from; });
    if (text != texts.end()) svg_.Text(classes, (from + to) / 2, y, "middle", *text);
  }

  void DrawAxis() {
    const double y = height_ - kAxisHeight;
    for (const Tick& tick : scale_.ticks()) {
      const double x = scale_(tick.value);
      svg_.Line("grid", x, kTop - 4, x, y);
      svg_.Text("", x, y + 16, "middle", tick.label);
    }
    svg_.Text("", (kLeft + kWidth - kRight) / 2, y + 33, "middle",
              "ms since the step began on its first rank");
  }

  void DrawPhases(const RankStep& step, double y) {
    for (const auto& [name, box, text, label] : kPhaseStyles) {
      const Span* const phase = step.Phase(name);
      if (phase == nullptr) continue;
      const std::string duration = Milliseconds(phase->duration_us());
      Box(box, phase->begin_us, phase->end_us, y, kComputeHeight, Join(name, ", ", duration));
      Label(text, *phase, y + 17, kFontSize, {Join(label, " ", duration), label});
    }
  }

  // A strip of the operations of backward in two alternating colours; a run of those too short to be told
  // apart is one box of their count.
  void DrawOps(const RankStep& step, double y) {
    constexpr double kVisible = 1.5;
    bool odd = false;
    for (size_t i = 0; i < step.ops.size();) {
      const double from_us = step.ops[i].begin_us;
      size_t last = i;
      while (last + 1 < step.ops.size() && X(step.ops[last].end_us) - X(from_us) < kVisible) ++last;
      const double to_us = step.ops[last].end_us;
      const std::string more = last == i ? "" : Join(" and ", last - i, " further operations");
      Box(odd ? "op2" : "op", from_us, to_us, y, kOpsHeight,
          step.ops[i].name + more + ", " + Milliseconds(to_us - from_us));
      odd = !odd;
      i = last + 1;
    }
  }

  void DrawTransfers(const RankStep& step, double y) {
    const double backward_end_us = step.backward_end_us();
    const double lane_height = LanesHeight(step) / NumLanes(step), height = lane_height - 1;
    Box("lane", step.step.begin_us, step.step.end_us, y, LanesHeight(step), "nothing in flight");
    for (const TracedCollective& transfer : step.transfers) {
      const Span& flight = transfer.in_flight;
      const double top = y + transfer.lane * lane_height + 0.5;
      const std::string size = bench::ApproximateBytes(static_cast<double>(transfer.bytes));
      const std::string tip =
          Join("#", transfer.number, " ", flight.name, ", ", size, ": queued ",
               Milliseconds(transfer.queued_us()), ", in flight ", Milliseconds(flight.duration_us()),
               ", exposed ", Milliseconds(transfer.ExposedUs(backward_end_us)));
      const double split_us = std::clamp(backward_end_us, flight.begin_us, flight.end_us);
      if (split_us > flight.begin_us) Box("hidden", flight.begin_us, split_us, top, height, tip);
      if (split_us < flight.end_us) Box("exposed", split_us, flight.end_us, top, height, tip);
      svg_.Line("cut", X(flight.begin_us), top, X(flight.begin_us), top + height);
      if (height < kSmallSize) continue;
      Label("tag", flight, top + height / 2 + 4, kSmallSize,
            {Join("#", transfer.number, "  ", size), Join("#", transfer.number), Join(transfer.number)});
    }
    const double x = X(backward_end_us);
    svg_.Line("last", x, y - kRowGap, x, y + LanesHeight(step) + 1 + kQueueHeight);
  }

  // How many collectives wait for their turn, over time.
  void DrawQueue(const RankStep& step, double y) {
    std::map<double, int> changes;
    for (const TracedCollective& transfer : step.transfers) {
      ++changes[transfer.issued_us];
      --changes[transfer.in_flight.begin_us];
    }
    int waiting = 0, most = 0;
    for (const auto& [us, change] : changes) most = std::max(most, waiting += change);
    if (most == 0) return;
    const double unit = (kQueueHeight - 2) / std::max(4, most), base = y + kQueueHeight - 1;
    Svg::Points outline;
    for (const auto& [us, change] : changes) {
      outline.emplace_back(X(us), base - waiting * unit);
      waiting += change;
      outline.emplace_back(X(us), base - waiting * unit);
    }
    svg_.Polygon("queued", outline, Join("collectives that wait for their turn: at most ", most));
  }

  const double height_;
  const Scale scale_;  // of milliseconds
  Svg svg_;
  double origin_us_ = 0;
};

// "tiny, 2 ranks, gloo, batch 2, sequence 64".
std::string PlaceOf(const Trace& trace, const StepKey& key) {
  return Join(trace.origin, trace.origin.empty() ? "" : ", ", "batch ", key.batch_size,
              key.seq_len > 0 ? Join(", sequence ", key.seq_len) : "");
}

std::vector<KeyEntry> TimelineKey() {
  std::vector<KeyEntry> key;
  for (const auto& [style, text] : {std::pair{"forward", "forward"},
                                    {"backward", "backward (below: its operations)"},
                                    {"idle", "waits for gradients"},
                                    {"optimizer", "optimizer"},
                                    {"hidden", "in flight during backward: hidden"},
                                    {"exposed", "in flight after it: exposed"},
                                    {"queued", "issued, not yet in flight"}})
    key.push_back(BoxKey(style, text));
  Svg& last = key.emplace_back(KeyEntry{Svg(kMarkWidth, kMarkHeight, ""), "last gradient computed"}).mark;
  last.Line("last", kMarkWidth / 2, 0, kMarkWidth / 2, kMarkHeight);
  return key;
}

// "tiny, batch 2: a step hides 0 % (naive) to 92 % (core) of its time in flight behind backward".
std::string HiddenText(const Trace& trace, const std::vector<StepKey>& steps) {
  std::vector<std::pair<double, std::string>> parts;
  for (const StepKey& key : steps) {
    if (const std::optional<double> hidden = HiddenPercent(trace.steps.at(key)))
      parts.emplace_back(*hidden, key.strategy);
  }
  const auto text = [](const auto& part) { return Join(Fixed(part.first, 0), " % (", part.second, ")"); };
  const auto [least, most] = std::ranges::minmax_element(parts);
  return Join(PlaceOf(trace, steps.front()), ": ",
              parts.empty() ? "steps without communication"
                            : Join("a step hides ", text(*least), " to ", text(*most),
                                   " of its time in flight behind backward"));
}

}  // namespace

std::vector<StepKey> ChooseSteps(const Trace& trace, int64_t batch_size, int64_t seq_len) {
  std::vector<StepKey> chosen;
  for (const std::string& strategy : trace.strategies) {
    std::vector<std::pair<double, StepKey>> candidates;
    for (const auto& [key, ranks] : trace.steps) {
      const bool is_here = key.batch_size == batch_size && key.seq_len == seq_len;
      if (is_here && key.strategy == strategy) candidates.emplace_back(StepLengthUs(ranks), key);
    }
    std::ranges::sort(candidates);
    if (!candidates.empty()) chosen.push_back(candidates[candidates.size() / 2].second);
  }
  return chosen;
}

Figure TimelineFigure(const Trace& trace, int64_t batch_size, int64_t seq_len) {
  const std::vector<StepKey> steps = ChooseSteps(trace, batch_size, seq_len);
  std::vector<Strip> strips;
  double span_us = 1, height = kTop + kAxisHeight - kStripGap / 2;
  for (const StepKey& key : steps) {
    const Strip& strip = strips.emplace_back(StripOf(key, trace.steps.at(key)));
    span_us = std::max(span_us, strip.end_us - strip.begin_us);
    height += StripHeight(strip) + kStripGap;
  }
  Figure figure{
      .title = HiddenText(trace, steps),
      .caption =
          "One step of each strategy, the one of median length, on one scale of time. Tracing adds to "
          "a step, so its times are not those of the tables. exposed: from the last rank's last "
          "gradient until all are averaged. hidden: of the time with anything in flight, the part "
          "before the rank's last gradient; over all ranks.",
      .key = TimelineKey()};
  Picture picture(span_us, height, figure.title);
  double y = kTop;
  for (const Strip& strip : strips) {
    picture.DrawStrip(strip, y);
    y += StripHeight(strip) + kStripGap;
  }
  figure.panels.push_back({"", picture.svg()});
  return figure;
}

}  // namespace gradsync::tools
