#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "bench/launch/flags.h"
#include "model/error.h"
#include "tools/render/file.h"
#include "tools/reports/timeline.h"
#include "tools/run_tool.h"

namespace gradsync::tools {
namespace {

namespace fs = std::filesystem;

// The traces of the latest run in a directory: run ids begin with the time.
std::vector<std::string> LatestRun(const std::string& directory) {
  const auto traces = FindTraces(TraceDirectories(directory));
  Require(!traces.empty(), directory,
          ": there is no trace (*.trace.json) in it, nor in its folder traces; run //bench:ddp with --trace");
  return std::ranges::max_element(traces, {}, [](const auto& run) { return fs::path(run.first).filename(); })
      ->second;
}

int RunTimeline(int argc, char** argv) {
  std::vector<std::string> inputs;
  std::string out;
  TimelineOptions options;
  bench::FlagTable flags("timeline",
                         "Draws one step of each strategy from the traces of //bench:ddp --trace, as SVG.\n"
                         "  bazel run //tools:timeline -- DIR --out=timeline.svg");
  flags.AllowPaths(&inputs, "the trace files of one run, or a directory, of whose runs it takes the latest");
  flags.Add("strategies", &options.strategies, bench::Text("a strategy of the trace"),
            "What to draw. Default: all.");
  flags.Add("batch_size", &options.batch_size, bench::Integer(1), "The cell to draw. Default: the first.");
  flags.Add("seq_len", &options.seq_len, bench::Integer(1), "The cell to draw. Default: the first.");
  flags.Add("out", &out, bench::Path("a file such as timeline.svg"),
            "Where the picture goes. Default: timeline.svg beside the traces.");
  return RunTool("timeline", &flags, argc, argv, std::cout, std::cerr, [&] {
    Require(!inputs.empty(), "no traces given, expected files or a directory");
    std::vector<std::string> paths;
    for (const std::string& input : inputs) {
      const std::vector<std::string> found = fs::is_directory(input) ? LatestRun(input) : std::vector{input};
      paths.insert(paths.end(), found.begin(), found.end());
    }
    const Trace trace = ReadTraces(paths);
    const std::string picture = DrawTimeline(trace, ChooseSteps(trace, options));
    if (out.empty()) out = (fs::path(paths.front()).parent_path() / "timeline.svg").string();
    WriteFile(out, [&](std::ostream& file) { file << picture; });
    std::cout << out << std::endl;
    return kDone;
  });
}

}  // namespace
}  // namespace gradsync::tools

int main(int argc, char** argv) { return gradsync::tools::RunTimeline(argc, argv); }
