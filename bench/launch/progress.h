#ifndef GRADSYNC_BENCH_LAUNCH_PROGRESS_H_
#define GRADSYNC_BENCH_LAUNCH_PROGRESS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace gradsync::bench {

// How far a run is and when it will end, on stderr: one line on a terminal, elsewhere a line now and then.
class Progress {
 public:
  // `total`: how many steps there will be; 0 if they go on for `budget_ns`. `launches`: this one and those
  // that come after it, as long as this one. `visible`: false silences it, for ranks other than 0.
  // `line_every_ns`: how long no line is written where there is no terminal.
  Progress(int64_t total, int64_t budget_ns, int64_t launches, bool visible,
           int64_t line_every_ns = 30'000'000'000);
  // Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // One more step is done; `what` says what is going on.
  void Step(std::string_view what);

 private:
  const int64_t total_, budget_ns_, launches_;
  const bool visible_, is_terminal_;
  const int64_t show_every_ns_;
  const int64_t begin_ns_;
  int64_t done_ = 0;
  int64_t shown_ns_;  // when last
};

// "batch 2, sequence 128: 12/70, 1m5s left"; without the time while nothing is known of it (done == 0). If
// `total` is 0, what is left is left of the budget; in either case with that of later launches.
std::string ProgressLine(std::string_view what, int64_t done, int64_t total, int64_t budget_ns,
                         int64_t elapsed_ns, int64_t launches);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LAUNCH_PROGRESS_H_
