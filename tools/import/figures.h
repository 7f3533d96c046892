#ifndef GRADSYNC_TOOLS_IMPORT_FIGURES_H_
#define GRADSYNC_TOOLS_IMPORT_FIGURES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// The figures in a text that people wrote around the output of a benchmark. They are known by the shape of
// the blocks that hold them, wherever these stand.
namespace gradsync::tools {

// A row of a Markdown table with the columns backend, data_size (MB), time_taken and std_time.
struct AllReduceFigure {
  std::string backend;
  double size_mb = 0;
  double mean_s = 0;
  double std_s = 0;
};

// A row of a Markdown table with the columns model_size, backend, time_per_step, std_time_step,
// time_per_sync, std_time_sync and fraction_sync.
struct DdpFigure {
  std::string model;
  std::string backend;
  std::string strategy;  // empty: the table has no such column
  double step_s = 0;
  double step_std_s = 0;
  double sync_s = 0;
  double sync_std_s = 0;
  double fraction_sync = 0;
};

// A line that names local_bs and seq_len, and printed tensors behind it.
struct GridFigure {
  int64_t batch_size = 0;
  int64_t seq_len = 0;
  double step_s = 0;
  double sync_s = 0;
  double ratio = 0;
};

// A row under a heading that names a phase in brackets and ten columns: five statistics, each with its
// difference in percent to the first row.
struct CompareFigure {
  double buffer_size_m = 0;  // as printed: 3 for 3M
  std::string phase;         // "forward" or "backward"
  std::string strategy;      // "core", "bucketed_async", "bucketed_sync"
  // mean, median, p90, p95, p99
  double times_ms[5] = {};
  double deltas_percent[5] = {};
};

struct Figures {
  std::vector<AllReduceFigure> all_reduce;
  std::vector<DdpFigure> ddp;
  std::vector<GridFigure> grid;
  std::vector<CompareFigure> compare;
  // What the text calls the strategy of its grid: the first of overlap, flat and naive that it mentions.
  std::string strategy_word;
  // Columns that are not what their heading says, and lines that look like figures but cannot be read, with
  // their numbers; a line each.
  std::vector<std::string> remarks;

  bool empty() const { return all_reduce.empty() && ddp.empty() && grid.empty() && compare.empty(); }
};

Figures FindFigures(std::string_view text);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_IMPORT_FIGURES_H_
