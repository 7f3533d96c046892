#include "tools/import/records.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "model/error.h"

namespace gradsync::tools {
namespace {

using bench::Fields;
using bench::Record;

// How the published experiments were measured, as far as it was read in their programs. One row for each kind
// of table; a published table of another protocol needs the flags of the program, or a row here.
struct Protocol {
  std::string_view experiment;
  std::string_view model;
  std::string_view backend;  // empty: the table says
  int64_t world_size;
  int64_t batch_size;  // 0: the table says, or there is none
  int64_t seq_len;
  int64_t warmup_steps;
  int64_t steps;  // behind each figure; 0: not known
  std::string_view optimizer;
  std::string_view clock;
  std::string_view ranks_behind_times;
  std::string_view step_covers;
  std::string_view sync_covers;
  bool phases_synchronised;  // whether backward had ended when the time of synchronisation began
};

constexpr Protocol kAllReduce = {"all_reduce",     "",  "", 4, 0, 0, 0, 0, "", "host", "all, mean", "",
                                 "one all-reduce", true};
// One rank only: found in the program's arguments, and borne out by the rate that its times would mean.
constexpr Protocol kDdp = {"ddp",
                           "xl",
                           "",
                           1,
                           4,
                           256,
                           5,
                           20,
                           "none",
                           "host, timeit.default_timer",
                           "rank 0",
                           "forward, backward, synchronisation",
                           "from a device synchronisation after backward",
                           true};
constexpr Protocol kGrid = {"ddp",
                            "xl",
                            "nccl",
                            2,
                            0,
                            0,
                            10,
                            10,
                            "adamw",
                            "host, perf_counter",
                            "all, maximum",
                            "scatter, forward, backward, synchronisation, optimizer",
                            "the tail of backward too; flat: without flattening",
                            false};
constexpr Protocol kCompare = {"compare",
                               "resnet50",
                               "gloo",
                               2,
                               32,
                               0,
                               20,
                               20,
                               "sgd",
                               "CUDA events",
                               "rank 0",
                               "forward or backward, without input and optimizer",
                               "in backward",
                               true};

constexpr double kNsPerS = 1e9;
constexpr double kNsPerMs = 1e6;
constexpr int64_t kXlGradientBytes = int64_t{1998235200} * 4;
constexpr int64_t kResnetGradientBytes = int64_t{25557032} * 4;
// More than the fastest all-reduce in the same text, by so much, is more than its link carries.
constexpr double kLinkMargin = 1.25;

double Mebi(double value) { return value * (1 << 20); }

Record NewRecord(const Protocol& protocol, const ImportOptions& options) {
  Record record;
  record.experiment = protocol.experiment;
  record.run_id = options.run_id;
  record.world_size = options.world_size.value_or(protocol.world_size);
  Fields& config = record.config;
  if (!protocol.model.empty()) config.Set("model", protocol.model);
  if (!protocol.backend.empty()) config.Set("backend", protocol.backend);
  config.Set("device", "cuda");
  config.Set("dtype", "f32");
  if (protocol.batch_size > 0) config.Set("batch_size", protocol.batch_size);
  if (protocol.seq_len > 0) config.Set("seq_len", protocol.seq_len);
  config.Set("order", "blocks");
  if (protocol.steps > 0) {
    config.Set("warmup_steps", protocol.warmup_steps);
    config.Set("steps", protocol.steps);
  }
  if (!protocol.optimizer.empty()) config.Set("optimizer", protocol.optimizer);
  Fields& facts = record.facts;
  facts.Set("ranks_behind_times", protocol.ranks_behind_times);
  if (!protocol.step_covers.empty()) facts.Set("step_covers", protocol.step_covers);
  facts.Set("sync_covers", protocol.sync_covers);
  facts.Set("phases_synchronised", bench::Value(protocol.phases_synchronised));
  record.provenance.host = "as published";
  record.provenance.command_line = "tools/import_published " + options.source;
  record.provenance.clock = protocol.clock;
  return record;
}

Fields Statistics(const Protocol& protocol, double mean_ns) {
  Fields statistics;
  statistics.Set("mean_ns", bench::Value(mean_ns));
  if (protocol.steps > 0) statistics.Set("n", protocol.steps);
  return statistics;
}

void AddAllReduce(const Figures& figures, const ImportOptions& options, std::vector<Record>* records) {
  for (const AllReduceFigure& figure : figures.all_reduce) {
    Record& record = records->emplace_back(NewRecord(kAllReduce, options));
    record.config.Set("backend", figure.backend);
    // What gloo reduced was not said.
    if (figure.backend == "gloo") record.config.Set("device", "not said");
    record.config.Set("op", "sum");
    record.config.Set("size_bytes", std::llround(Mebi(figure.size_mb)));
    Fields& statistics = record.published["time_ns"] = Statistics(kAllReduce, figure.mean_s * kNsPerS);
    statistics.Set("std_ns", bench::Value(figure.std_s * kNsPerS));
  }
}

// The most that a rank's link carried in the all-reduces of the same backend; 0 if there are none.
double FastestBytesPerSecond(const Figures& figures, std::string_view backend) {
  double fastest = 0;
  const double ranks = static_cast<double>(kAllReduce.world_size);
  for (const AllReduceFigure& figure : figures.all_reduce) {
    if (figure.backend != backend) continue;
    fastest = std::max(fastest, Mebi(figure.size_mb) / figure.mean_s * 2 * (ranks - 1) / ranks);
  }
  return fastest;
}

void AddDdp(const Figures& figures, const ImportOptions& options, std::vector<Record>* records) {
  for (size_t i = 0; i < figures.ddp.size(); ++i) {
    const DdpFigure& figure = figures.ddp[i];
    Record& record = records->emplace_back(NewRecord(kDdp, options));
    record.config.Set("model", figure.model);
    record.config.Set("backend", figure.backend);
    const bool is_named = !figure.strategy.empty();
    Require(is_named || i < options.strategies.size(), "row ", i + 1,
            " of the DDP table has no strategy, and --strategies names ", options.strategies.size());
    record.config.Set("strategy", is_named ? figure.strategy : options.strategies[i]);
    if (figure.model == "xl") record.facts.Set("gradient_bytes", kXlGradientBytes);
    const double fastest = FastestBytesPerSecond(figures, figure.backend);
    if (fastest > 0) record.link.Set("limit_bytes_per_second", bench::Value(kLinkMargin * fastest));
    Fields& step = record.published["step_ns"] = Statistics(kDdp, figure.step_s * kNsPerS);
    step.Set("std_ns", bench::Value(figure.step_std_s * kNsPerS));
    step.Set("printed_ratio", bench::Value(figure.fraction_sync));
    Fields& sync = record.published["sync_exposed_ns"] = Statistics(kDdp, figure.sync_s * kNsPerS);
    sync.Set("std_ns", bench::Value(figure.sync_std_s * kNsPerS));
  }
}

void AddGrid(const Figures& figures, const ImportOptions& options, std::vector<Record>* records) {
  const std::string strategy = options.strategy.empty() ? figures.strategy_word : options.strategy;
  Require(figures.grid.empty() || !strategy.empty(),
          "a grid whose strategy the text does not name: give --strategy");
  for (const GridFigure& figure : figures.grid) {
    Record& record = records->emplace_back(NewRecord(kGrid, options));
    record.config.Set("strategy", strategy);
    record.config.Set("batch_size", figure.batch_size);
    record.config.Set("seq_len", figure.seq_len);
    record.facts.Set("gradient_bytes", kXlGradientBytes);
    // Its timer stood around the collective alone.
    if (strategy == "flat") record.facts.Set("copies_timed", bench::Value(false));
    Fields& step = record.published["step_ns"] = Statistics(kGrid, figure.step_s * kNsPerS);
    step.Set("printed_ratio", bench::Value(figure.ratio));
    // The numbers are printed with so many decimals.
    step.Set("rounding_ns", bench::Value(0.00005 * kNsPerS));
    record.published["sync_exposed_ns"] = Statistics(kGrid, figure.sync_s * kNsPerS);
  }
}

// Forward and backward of one strategy at one size are one record.
void AddCompare(const Figures& figures, const ImportOptions& options, std::vector<Record>* records) {
  constexpr std::string_view kNames[] = {"mean", "median", "p90", "p95", "p99"};
  const size_t first = records->size();
  for (const CompareFigure& figure : figures.compare) {
    const int64_t elements = std::llround(Mebi(figure.buffer_size_m));
    const auto is_same = [&](const Record& record) {
      return record.config.StringOr("strategy", "") == figure.strategy &&
             record.config.IntOr("buffer_elements", 0) == elements;
    };
    auto record =
        std::find_if(records->begin() + static_cast<std::ptrdiff_t>(first), records->end(), is_same);
    if (record == records->end()) {
      record = records->insert(records->end(), NewRecord(kCompare, options));
      record->config.Set("strategy", figure.strategy);
      record->config.Set("buffer_elements", elements);
      record->config.Set("units", "published");
      // One number for both: core takes it for MiB, the others for Mi elements of four bytes.
      const bool is_core = figure.strategy == "core";
      record->config.Set("bucket_bytes", is_core ? elements : 4 * elements);
      record->facts.Set("bucket_unit", is_core ? "MiB" : "Mi elements");
      record->facts.Set("gradient_bytes", kResnetGradientBytes);
      // Only core's module broadcast parameters and buffers.
      if (!is_core) record->facts.Set("replicas_start_equal", bench::Value(false));
    }
    Fields statistics = Statistics(kCompare, figure.times_ms[0] * kNsPerMs);
    for (size_t i = 0; i < 5; ++i) {
      if (i > 0) statistics.Set(Join(kNames[i], "_ns"), bench::Value(figure.times_ms[i] * kNsPerMs));
      statistics.Set(Join("printed_delta_", kNames[i], "_percent"), bench::Value(figure.deltas_percent[i]));
    }
    // Strategies that wait, wait inside of what was timed as backward.
    const bool is_backward = figure.phase == "backward";
    record->published[is_backward ? "backward_and_sync_ns" : "forward_ns"] = std::move(statistics);
  }
}

}  // namespace

std::vector<Record> RecordsOf(const Figures& figures, const ImportOptions& options) {
  Require(!figures.empty(), options.source, ": no figures of a known shape in it");
  std::vector<Record> records;
  AddAllReduce(figures, options, &records);
  AddDdp(figures, options, &records);
  AddGrid(figures, options, &records);
  AddCompare(figures, options, &records);
  return records;
}

}  // namespace gradsync::tools
