// The program //bench:all_reduce. Each rank runs for each collective and size, over each backend: an untimed
// collective that is checked element by element, warm-up, the timed collectives, and a check of the last one.
// In each iteration all backends take a turn, in a new order (bench/timing/schedule.h), so that a machine
// that becomes slower affects all of them.
//
// A sample of "time_ns" is the time of this rank from leaving a barrier until Wait returns. The input is
// written before each barrier, so it is as warm in the cache as a newly computed gradient, and sums never
// overflow. A sample of "back_to_back_ns" is, as in nccl-tests, the time of several collectives in a row,
// from one barrier to the end of the last, divided by their number: it does not wait for late ranks in
// between, and the start of a call may overlap with the previous call.
//
// The exit status is 1 also if an element was wrong, after all records have been written.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bench/collectives/exercise.h"
#include "bench/collectives/options.h"
#include "bench/collectives/pattern.h"
#include "bench/launch/rank_program.h"
#include "bench/records/record.h"
#include "bench/timing/cpu_clock.h"
#include "bench/timing/phase_timer.h"
#include "bench/timing/schedule.h"
#include "model/base/error.h"
#include "model/base/flags.h"
#include "model/base/units.h"
#include "model/tensor/tensor.h"

namespace gradsync::bench {
namespace {

using comm::Collective;
using model::Tensor;

// The number of consecutive collectives is chosen so that together they move this number of bytes, within
// limits.
constexpr int64_t kBytesInARow = int64_t{1} << 20;
constexpr int64_t kFewestInARow = 2;
constexpr int64_t kMostInARow = 20;

// The measurement of one backend in a collective of one size.
struct RunningVariant {
  std::string name;
  Record record;
  std::unique_ptr<Exercise> exercise;
  int64_t wrong = 0;  // number of wrong elements of this rank
};

class AllReduceJob : public RankJob {
 public:
  AllReduceJob(const AllReduceOptions& options, Rank& rank)
      : options_(options), rank_(rank), timer_(MakePhaseTimer(*rank.device())) {
    rank.Join(options.GroupBackends());
    Record record;
    record.experiment = "all_reduce";
    rank.SetRecords(std::move(record));
  }

  void Run() override {
    rank_.Expect(std::ssize(options_.backends) * std::ssize(options_.collectives) *
                 std::ssize(options_.sizes_bytes) * std::ssize(options_.in_flight) *
                 (1 + options_.warmup_iterations + options_.iterations));
    for (const Collective collective : options_.collectives) {
      for (const int64_t size_bytes : options_.sizes_bytes) {
        for (const int64_t in_flight : options_.in_flight) Measure(collective, size_bytes, in_flight);
      }
    }
    rank_.Conclude("");
  }

 private:
  // Returns the backend of the group in which a backend is measured.
  static std::string GroupOf(const std::string& backend) {
    return backend == kMemoryLimit ? kMemoryLimitGroup : backend;
  }

  Record NewRecord(const std::string& backend) const {
    Record record = rank_.RecordOf(GroupOf(backend));
    record.time_utc = NowUtc();
    record.variant.backend = backend;
    record.config.Set("dtype", Name(options_.dtype));
    record.config.Set("op", Name(options_.op));
    record.config.Set("order", "interleaved");
    record.config.Set("iterations", options_.iterations);
    record.config.Set("warmup_iterations", options_.warmup_iterations);
    return record;
  }

  // Allocates the buffers of all backends for one size.
  std::vector<RunningVariant> Prepare(Collective collective, int64_t size_bytes, int64_t in_flight) {
    const int64_t numel = size_bytes / static_cast<int64_t>(SizeOf(options_.dtype));
    const Tensor pattern = Tensor::Empty(
        model::CpuDevice(), {collective == Collective::kAllGather ? numel / rank_.world().size : numel},
        options_.dtype);
    FillPattern(pattern, rank_.world().rank);
    std::vector<RunningVariant> all;
    for (const std::string& backend : options_.backends) {
      RunningVariant& running = all.emplace_back(
          Join(backend, " ", Name(collective), " ", in_flight > 1 ? Join(in_flight, " x ") : "",
               FormatByteCount(size_bytes)),
          NewRecord(backend),
          std::make_unique<Exercise>(rank_.Of(GroupOf(backend)), options_, backend == kMemoryLimit,
                                     rank_.device(), collective, pattern, numel, in_flight));
      running.record.config.Set("collective", Name(collective));
      running.record.config.Set("size_bytes", size_bytes);
      if (in_flight > 1) running.record.config.Set("in_flight", in_flight);
    }
    return all;
  }

  void Measure(Collective collective, int64_t size_bytes, int64_t in_flight) {
    std::vector<RunningVariant> all = Prepare(collective, size_bytes, in_flight);
    for (RunningVariant& running : all) {
      running.exercise->Prepare();
      running.exercise->Measure(*timer_, 1);
      running.wrong = running.exercise->CountWrongElements();
      rank_.Step(running.name);
    }
    const int num_backends = static_cast<int>(all.size());
    const int64_t in_a_row = std::clamp(kBytesInARow / size_bytes, kFewestInARow, kMostInARow);
    const uint64_t seed =
        OrderSeed(rank_.seed(), Join(rank_.launch().run_id, Name(collective), size_bytes, in_flight));
    for (int64_t i = -options_.warmup_iterations; i < options_.iterations; ++i) {
      const bool is_timed = i >= 0;
      for (const int k : RoundOrder(num_backends, is_timed ? i : ~i, is_timed ? seed : ~seed)) {
        RunningVariant& running = all[static_cast<size_t>(k)];
        running.exercise->Prepare();
        const int64_t row_ns = running.exercise->Measure(*timer_, in_a_row);
        running.exercise->Prepare();
        const int64_t before_ns = ProcessCpuNs();
        const int64_t time_ns = running.exercise->Measure(*timer_, 1);
        const int64_t cpu_ns = ProcessCpuNs() - before_ns;
        rank_.Step(running.name);
        if (!is_timed) continue;
        running.record.samples["position"].push_back(position_++);
        running.record.samples["time_ns"].push_back(time_ns);
        // The thread that waits may also communicate.
        running.record.samples["communication_cpu_ns"].push_back(cpu_ns);
        running.record.samples["back_to_back_ns"].push_back(row_ns / in_a_row);
      }
    }
    for (RunningVariant& running : all) Conclude(running);
    rank_.writer().WriteToDisk();
  }

  // Checks the last collective, and writes the record.
  void Conclude(RunningVariant& running) {
    const int64_t num_checked = 2 * running.exercise->num_checked();
    running.wrong += running.exercise->CountWrongElements();
    running.record.checks.Set("wrong_elements", running.wrong);
    running.record.checks.Set("checked_elements", num_checked);
    rank_.DescribeThrottling(running.record.facts);
    rank_.writer().Begin(running.record);
    const int64_t wrong = rank_.Reduce(running.wrong, comm::ReduceOp::kSum);
    if (wrong == 0) return;
    rank_.AddFault(Join(running.name, ": ", wrong, " of ", rank_.Reduce(num_checked, comm::ReduceOp::kSum),
                        " checked elements are wrong"));
  }

  const AllReduceOptions& options_;
  Rank& rank_;
  const std::unique_ptr<PhaseTimer> timer_;
  int64_t position_ = 0;
};

int RunAllReduceProgram(int argc, char** argv) {
  AllReduceOptions options;
  FlagTable flags("all_reduce",
                  "Measures an all-reduce between ranks, by backend and size, and checks every sum.\n"
                  "  ./bazelw run //bench:all_reduce -- --sizes=1MiB,100MiB --world_size=2 --out=DIR");
  options.AddTo(flags);
  const auto plan = [&](const comm::World& world) {
    const bool reduces = std::ranges::any_of(options.collectives, [](Collective collective) {
      return collective == Collective::kAllReduce || collective == Collective::kReduceScatter;
    });
    Require(reduces || !flags.given("op"), "--op: none of --collectives reduces");
    CheckAllReduceOptions(options, world);
    return options.GroupBackends();
  };
  const auto check = [&](const comm::World& world) { CheckAllReduceMemory(options, world); };
  const auto prepare = [&](Rank& rank) { return std::make_unique<AllReduceJob>(options, rank); };
  return RunRankProgram(argc, argv, {"all_reduce", flags, options.ranks, plan, check, prepare});
}

}  // namespace
}  // namespace gradsync::bench

int main(int argc, char** argv) { return gradsync::bench::RunAllReduceProgram(argc, argv); }
