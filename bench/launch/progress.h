#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gradsync::bench {

// Shows a benchmark's finished steps and its remaining time on stderr: on a terminal, one line that is
// updated; otherwise, a new line when a step has ended and `line_every_ns` have passed since the last line.
class Progress {
 public:
  // `total` is the number of steps; if it is 0, steps continue for `budget_ns`. `launches` is how often the
  // program still runs all steps, including this time; the remaining time is for all of them. If `visible` is
  // false, nothing is printed.
  Progress(int64_t total, int64_t budget_ns, int64_t launches, bool visible,
           int64_t line_every_ns = 30'000'000'000);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Counts one more step. Shows the progress line if the last one is old enough: 0.2 s on a terminal,
  // otherwise `line_every_ns`. The line begins with `what`.
  void Step(std::string_view what);

 private:
  const int64_t total_, budget_ns_, launches_;
  const bool visible_, is_terminal_;
  const int64_t show_every_ns_;
  const int64_t begin_ns_;
  int64_t done_ = 0;
  int64_t shown_ns_;  // time at which the last line was printed
};

// Returns a line such as "batch 2, sequence 128: 12/70, 1m5s left", for `what` = "batch 2, sequence 128".
// Without a finished step (`done` == 0), the line has no remaining time, because it is unknown.
std::string ProgressLine(std::string_view what, int64_t done, int64_t total, int64_t budget_ns,
                         int64_t elapsed_ns, int64_t launches);

}  // namespace gradsync::bench
