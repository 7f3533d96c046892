#include "bench/launch/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/time/time.h"
#include "comm/process_group.h"
#include "model/base/error.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kRefreshNs = 200'000'000;
constexpr char kClearLine[] = "\r\033[K";
// If a narrow terminal broke the line, it could not be cleared completely.
constexpr char kDoNotBreak[] = "\033[?7l", kBreak[] = "\033[?7h";

}  // namespace

std::string ProgressLine(std::string_view what, int64_t done, int64_t total, int64_t budget_ns,
                         int64_t elapsed_ns, int64_t launches) {
  const std::string line = Join(what, ": ", done, total == 0 ? "" : Join("/", total));
  if (done == 0) return line;
  const auto elapsed = static_cast<double>(elapsed_ns);
  const double launch_ns = total == 0 ? static_cast<double>(budget_ns)
                                      : elapsed * static_cast<double>(total) / static_cast<double>(done);
  const double left_ns = std::max(launch_ns - elapsed, 0.0) + static_cast<double>(launches - 1) * launch_ns;
  const auto left = absl::Seconds(std::llround(left_ns / 1e9));
  return Join(line, ", ", absl::FormatDuration(left), " left");
}

Progress::Progress(int64_t total, int64_t budget_ns, int64_t launches, bool visible, int64_t line_every_ns)
    : total_(total),
      budget_ns_(budget_ns),
      launches_(launches),
      visible_(visible),
      is_terminal_(isatty(STDERR_FILENO) == 1),
      show_every_ns_(is_terminal_ ? kRefreshNs : line_every_ns),
      begin_ns_(comm::Now()),
      shown_ns_(is_terminal_ ? 0 : begin_ns_) {}

Progress::~Progress() {
  if (visible_ && is_terminal_ && shown_ns_ != 0) std::fputs(kClearLine, stderr);
}

void Progress::Step(std::string_view what) {
  ++done_;
  if (!visible_) return;
  const int64_t now_ns = comm::Now();
  if (now_ns - shown_ns_ < show_every_ns_) return;
  shown_ns_ = now_ns;
  const std::string line = ProgressLine(what, done_, total_, budget_ns_, now_ns - begin_ns_, launches_);
  const std::string text = is_terminal_ ? Join(kClearLine, kDoNotBreak, line, kBreak) : line + "\n";
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace gradsync::bench
