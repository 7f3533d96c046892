#include "bench/collectives/run.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

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
    group_ = JoinGroup(options.ranks, options.backends.front(), world, device_, placement_);
    run_id_ = AgreeOnRunId(*group_, device_, launch_);
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
      if (group_->backend() != backend) {
        group_ = JoinGroup(options_.ranks, backend, world_, device_, placement_);
      }
      SetGroupRecord();
      for (const int64_t size_bytes : options_.sizes_bytes) Measure(size_bytes, progress);
    }
  }

  // Runs one all-reduce on freshly filled memory; returns how long it took.
  int64_t Once(const model::Tensor& buffer, const model::Tensor& pattern) {
    buffer.CopyFrom(pattern);
    group_->Barrier();
    timer_->Take(Mark::kStepBegin);
    group_->AllReduce(buffer, options_.reduce_op()).Wait();
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

  void Measure(int64_t size_bytes, Progress& progress) {
    const int64_t numel = size_bytes / static_cast<int64_t>(SizeOf(options_.element_type()));
    const model::Tensor pattern = model::Tensor::Empty(host_, {numel}, options_.element_type());
    const model::Tensor buffer = model::Tensor::Empty(device_, {numel}, options_.element_type());
    FillPattern(pattern, world_.rank);

    const std::string what = Join(group_->backend(), " ", FormatByteCount(size_bytes));
    Record record = NewRecord(size_bytes, numel);
    std::vector<int64_t>& times_ns = record.samples["time_ns"];
    Once(buffer, pattern);
    int64_t wrong = WrongElements(buffer);
    progress.Step(what);
    for (int64_t i = 0; i < options_.warmup_iterations + options_.iterations; ++i) {
      const int64_t time_ns = Once(buffer, pattern);
      if (i >= options_.warmup_iterations) {
        record.samples["position"].push_back(position_++);
        times_ns.push_back(time_ns);
      }
      progress.Step(what);
    }
    wrong += WrongElements(buffer);
    record.checks.Set("wrong_elements", wrong);
    record.checks.Set("checked_elements", 2 * numel);
    writer_->Begin(record);
    writer_->WriteToDisk();
    wrong = SumOverRanks(wrong);

    std::nth_element(times_ns.begin(), times_ns.begin() + options_.iterations / 2, times_ns.end());
    summary_.push_back({what, times_ns[static_cast<size_t>(options_.iterations / 2)], wrong});
    if (wrong > 0 && first_error_.empty()) {
      first_error_ = Join("all_reduce on ", what, ": ", wrong, " of ", 2 * numel * world_.size,
                          " checked elements are wrong");
    }
  }

  // What all records of the group have.
  void SetGroupRecord() {
    Record& record = group_record_ = {};
    record.experiment = kExperiment;
    record.run_id = run_id_;
    record.rank = world_.rank;
    record.world_size = world_.size;
    SetRankConfig(options_.ranks, group_->backend(), record.config);
    record.config.Set("dtype", options_.dtype);
    record.config.Set("op", options_.op);
    record.config.Set("iterations", options_.iterations);
    record.config.Set("warmup_iterations", options_.warmup_iterations);
    record.provenance = provenance_;
    SetRankFacts(*group_, device_, world_, options_.ranks, launch_, placement_, record);
    group_->Clear();
  }

  Record NewRecord(int64_t size_bytes, int64_t numel) const {
    Record record = group_record_;
    record.time_utc = NowUtc();
    record.config.Set("size_bytes", size_bytes);
    record.facts.Set("numel", numel);
    return record;
  }

  void Summarize() const {
    std::printf("%-16s %14s %10s\n", "rank 0", "median time", "wrong");
    for (const Row& row : summary_) {
      std::printf("%-16s %14s %10lld\n", row.what.c_str(),
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
  Launch launch_ = ThisLaunch();
  Record group_record_;
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
