#include "bench/collectives/run.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/collectives/memory_limit.h"
#include "bench/collectives/pattern.h"
#include "bench/launch/progress.h"
#include "bench/records/provenance.h"
#include "bench/records/record.h"
#include "bench/records/units.h"
#include "bench/timing/phase_timer.h"
#include "model/error.h"
#include "model/tensor.h"

namespace gradsync::bench {
namespace {

constexpr char kExperiment[] = "all_reduce";

class AllReduceJob : public RankJob {
 public:
  AllReduceJob(const AllReduceOptions& options, const comm::World& world, int argc, const char* const* argv)
      : options_(options),
        world_(world),
        provenance_(CollectProvenance(argc, argv)),
        placement_(options.ranks, world),
        device_(MakeDevice(options.ranks, world)),
        host_(model::CpuDevice()),
        timer_(MakePhaseTimer(*device_)) {
    // The first backend's group also tells all ranks the name of the run.
    const std::string& first = options.backends.front();
    group_ = JoinGroup(options.ranks, first == kMemoryLimit ? "shm" : first, world, device_, placement_);
    run_id_ = BroadcastText(*group_, device_, world.rank == 0 ? NewRunId() : "");
    ranks_on_gpu_ = CountRanksOnGpu(*group_, device_);
    group_->Clear();
    out_ = OutputDirectory(options.ranks, std::string(kExperiment) + "-" + run_id_);
    writer_.emplace(out_, kExperiment, run_id_, world.rank);
  }

  void Run() override {
    MeasureAll();
    group_->Barrier();
    if (world_.rank != 0) return;
    Summarize();
    if (!first_error_.empty()) throw std::runtime_error(first_error_);
  }

 private:
  void MeasureAll() {
    const int64_t configs = static_cast<int64_t>(options_.backends.size() * options_.sizes_bytes.size());
    Progress progress(configs * (1 + options_.warmup_iterations + options_.iterations), world_.rank == 0);
    for (const std::string& backend : options_.backends) {
      if (backend != kMemoryLimit && group_->backend() != backend) {
        group_ = JoinGroup(options_.ranks, backend, world_, device_, placement_);
      }
      for (const int64_t size_bytes : options_.sizes_bytes) Measure(backend, size_bytes, progress);
    }
  }

  // Runs one all-reduce on freshly filled memory; returns how long it took. `limit`: null, or what does it in
  // the group's place.
  int64_t Once(const model::Tensor& buffer, const model::Tensor& pattern, MemoryLimit* limit) {
    buffer.CopyFrom(pattern);
    group_->Barrier();
    timer_->Take(Mark::kStepBegin);
    limit != nullptr ? limit->Run() : group_->AllReduce(buffer, options_.reduce_op()).Wait();
    timer_->Take(Mark::kStepEnd);
    const int64_t time_ns = timer_->Read().step_ns();
    group_->Finish();
    group_->Clear();
    return time_ns;
  }

  int64_t WrongElements(const model::Tensor& buffer) {
    const model::Tensor result = buffer.device()->is_cpu() ? buffer : buffer.To(host_);
    return CountWrong(result, options_.reduce_op(), world_.size);
  }

  int64_t SumOverRanks(int64_t value) {
    const model::Tensor sum = model::Tensor::From<int64_t>(device_, {1}, std::vector<int64_t>{value});
    group_->AllReduce(sum, comm::ReduceOp::kSum).Wait();
    group_->Clear();
    return sum.ToVector<int64_t>().front();
  }

  void Measure(const std::string& backend, int64_t size_bytes, Progress& progress) {
    const int64_t numel = size_bytes / static_cast<int64_t>(SizeOf(options_.element_type()));
    const model::Tensor pattern = model::Tensor::Empty(host_, {numel}, options_.element_type());
    std::optional<MemoryLimit> limit;
    if (backend == kMemoryLimit) limit.emplace(*group_, device_, numel, options_.ranks.timeout);
    const model::Tensor buffer =
        limit ? limit->tensor() : group_->Allocate(device_, {numel}, options_.element_type());
    FillPattern(pattern, world_.rank);

    const std::string what = Join(backend, " ", FormatByteCount(size_bytes));
    Record record = NewRecord(backend, size_bytes, numel);
    std::vector<int64_t>& times_ns = record.samples["time_ns"];
    Once(buffer, pattern, limit ? &*limit : nullptr);
    int64_t wrong = WrongElements(buffer);
    progress.Step(what);
    for (int64_t i = 0; i < options_.warmup_iterations + options_.iterations; ++i) {
      const int64_t time_ns = Once(buffer, pattern, limit ? &*limit : nullptr);
      if (i >= options_.warmup_iterations) {
        record.samples["position"].push_back(position_++);
        times_ns.push_back(time_ns);
      }
      progress.Step(what);
    }
    wrong += WrongElements(buffer);
    record.checks.Set("wrong_elements", wrong);
    record.checks.Set("checked_elements", 2 * numel);
    writer_->Write(record);
    wrong = SumOverRanks(wrong);

    std::nth_element(times_ns.begin(), times_ns.begin() + options_.iterations / 2, times_ns.end());
    summary_.push_back({what, times_ns[static_cast<size_t>(options_.iterations / 2)], wrong});
    if (wrong > 0 && first_error_.empty()) {
      first_error_ = Join("all_reduce on ", what, ": ", wrong, " of ", 2 * numel * world_.size,
                          " checked elements are wrong");
    }
  }

  Record NewRecord(const std::string& backend, int64_t size_bytes, int64_t numel) const {
    Record record;
    record.experiment = kExperiment;
    record.run_id = run_id_;
    record.time_utc = NowUtc();
    record.rank = world_.rank;
    record.world_size = world_.size;
    SetRankConfig(options_.ranks, backend, record.config);
    record.config.Set("dtype", options_.dtype);
    record.config.Set("op", options_.op);
    record.config.Set("size_bytes", size_bytes);
    record.config.Set("iterations", options_.iterations);
    record.config.Set("warmup_iterations", options_.warmup_iterations);
    record.facts.Set("numel", numel);
    record.provenance = provenance_;
    SetRankFacts(*group_, device_, world_, placement_, ranks_on_gpu_, record);
    return record;
  }

  void Summarize() const {
    std::printf("%-20s %14s %10s\n", "rank 0", "median time", "wrong");
    for (const Row& row : summary_) {
      std::printf("%-20s %14s %10lld\n", row.what.c_str(),
                  ApproximateDuration(static_cast<double>(row.median_ns)).c_str(),
                  static_cast<long long>(row.wrong));
    }
    std::printf("records: %s\n", out_.c_str());
  }

  struct Row {
    std::string what;
    int64_t median_ns = 0;
    int64_t wrong = 0;
  };

  const AllReduceOptions& options_;
  const comm::World world_;
  const Provenance provenance_;  // Taken before this rank is confined to CPUs of its own.
  const ThreadPlacement placement_;
  const model::DevicePtr device_;
  const model::DevicePtr host_;
  const std::unique_ptr<PhaseTimer> timer_;
  std::unique_ptr<comm::RecordingProcessGroup> group_;
  std::string run_id_;
  int64_t ranks_on_gpu_ = 0;
  std::string out_;
  std::optional<RecordWriter> writer_;
  int64_t position_ = 0;
  std::vector<Row> summary_;
  std::string first_error_;
};

}  // namespace

std::unique_ptr<RankJob> MakeAllReduceJob(const AllReduceOptions& options, const comm::World& world, int argc,
                                          const char* const* argv) {
  return std::make_unique<AllReduceJob>(options, world, argc, argv);
}

}  // namespace gradsync::bench
