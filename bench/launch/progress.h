#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gradsync::bench {

// Shows on stderr how many steps (training steps or collectives) a benchmark has finished, and its remaining
// time. On a terminal, Progress updates one line. If stderr is no terminal, Progress prints a new line at the
// end of a step, but at most one line per `line_every_ns` (constructor).
class Progress {
 public:
  // `total` is the number of calls of Progress::Step in one launch (start of all ranks). If `total` is 0, the
  // ranks take steps for about `budget_ns` nanoseconds in each launch instead. `launches` is the number of
  // launches that are not finished, the present launch included. The remaining time that is shown covers all
  // of these launches. If `visible` is false, this Progress prints nothing.
  Progress(int64_t total, int64_t budget_ns, int64_t launches, bool visible,
           int64_t line_every_ns = 30'000'000'000);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Counts one more finished step. Prints the progress line if at least 0.2 s (on a terminal) or
  // `line_every_ns` (otherwise) have passed since the last line. Before the first line, `line_every_ns` count
  // from the constructor; on a terminal, the first call of Step prints a line. The line begins with `what`, a
  // text that says what the step measured, such as "batch 2, sequence 128".
  void Step(std::string_view what);

 private:
  const int64_t total_, budget_ns_, launches_;
  const bool visible_, is_terminal_;
  const int64_t show_every_ns_;
  const int64_t begin_ns_;
  int64_t done_ = 0;
  int64_t shown_ns_;  // time at which the last line was printed
};

// Returns a progress line such as "batch 2, sequence 128: 12/70, 1m5s left", for `what` = "batch 2, sequence
// 128". Without a finished step (`done` == 0), the line has no remaining time, because it is unknown.
std::string ProgressLine(std::string_view what, int64_t done, int64_t total, int64_t budget_ns,
                         int64_t elapsed_ns, int64_t launches);

}  // namespace gradsync::bench
