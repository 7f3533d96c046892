#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gradsync::bench {

// Shows the progress of a run and its remaining time on stderr: one line on a terminal, elsewhere a line from
// time to time.
class Progress {
 public:
  // `total`: the number of steps; 0 if they continue for `budget_ns`. `launches`: this launch and later ones,
  // which take as long. `visible`: false for ranks other than 0, which print nothing. `line_every_ns`: time
  // between lines without a terminal.
  Progress(int64_t total, int64_t budget_ns, int64_t launches, bool visible,
           int64_t line_every_ns = 30'000'000'000);
  // Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // One more step is done. `what`: the current activity.
  void Step(std::string_view what);

 private:
  const int64_t total_, budget_ns_, launches_;
  const bool visible_, is_terminal_;
  const int64_t show_every_ns_;
  const int64_t begin_ns_;
  int64_t done_ = 0;
  int64_t shown_ns_;  // time of the last line
};

// "batch 2, sequence 128: 12/70, 1m5s left"; without a time while it is unknown (done == 0). If `total` is 0,
// the rest of the budget is left. The time includes later launches.
std::string ProgressLine(std::string_view what, int64_t done, int64_t total, int64_t budget_ns,
                         int64_t elapsed_ns, int64_t launches);

}  // namespace gradsync::bench
