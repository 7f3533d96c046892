#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gradsync::bench {

// Shows the progress of a run and its remaining time on stderr: one line that is updated on a terminal, or
// new lines at intervals if stderr is not a terminal.
class Progress {
 public:
  // `total` is the number of steps, or 0 if steps continue for `budget_ns`. `launches` is the number of
  // remaining launches, including this launch; all launches take equal time. `visible` is false for ranks
  // other than 0, which print nothing. `line_every_ns` is the time between lines if stderr is not a terminal.
  Progress(int64_t total, int64_t budget_ns, int64_t launches, bool visible,
           int64_t line_every_ns = 30'000'000'000);
  // Clears the progress line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Counts one more step. `what` names the current activity.
  void Step(std::string_view what);

 private:
  const int64_t total_, budget_ns_, launches_;
  const bool visible_, is_terminal_;
  const int64_t show_every_ns_;
  const int64_t begin_ns_;
  int64_t done_ = 0;
  int64_t shown_ns_;  // time at which the last line was printed
};

// Returns a line such as "batch 2, sequence 128: 12/70, 1m5s left". The line has no time while the time is
// unknown (done == 0). If `total` is 0, the remaining time is the rest of the budget. The time includes later
// launches.
std::string ProgressLine(std::string_view what, int64_t done, int64_t total, int64_t budget_ns,
                         int64_t elapsed_ns, int64_t launches);

}  // namespace gradsync::bench
