#include "bench/collectives/run.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
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

using comm::Collective;
using model::Tensor;

constexpr char kExperiment[] = "all_reduce";

// How many run back to back: as many as move this much together, within limits.
constexpr int64_t kBytesInARow = int64_t{1} << 20;
constexpr int64_t kFewestInARow = 2;
constexpr int64_t kMostInARow = 20;

Collective CollectiveOf(const std::string& name) {
  for (const Collective collective :
       {Collective::kReduceScatter, Collective::kAllGather, Collective::kBroadcast}) {
    if (name == comm::Name(collective)) return collective;
  }
  return Collective::kAllReduce;
}

std::string Median(std::vector<int64_t> times_ns) {
  const auto middle = times_ns.begin() + static_cast<std::ptrdiff_t>(times_ns.size() / 2);
  std::nth_element(times_ns.begin(), middle, times_ns.end());
  return ApproximateDuration(static_cast<double>(*middle));
}

// One collective of this rank, on inputs whose result is known. All ranks make it, and call all of it, alike.
class Exercise {
 public:
  // `numel`: of the whole vector: that of all_reduce and broadcast, what reduce_scatter takes and all_gather
  // gives.
  Exercise(comm::ProcessGroup& group, const model::DevicePtr& device, const comm::Request& request,
           model::DType dtype, int64_t numel)
      : group_(group), request_(request), part_(numel / group.size()) {
    const bool gathers = request.collective == Collective::kAllGather;
    const bool scatters = request.collective == Collective::kReduceScatter;
    request_.input = group.Allocate(device, {gathers ? part_ : numel}, dtype);
    request_.output = request_.input;
    if (gathers || scatters) request_.output = group.Allocate(device, {gathers ? numel : part_}, dtype);
    pattern_ = Tensor::Empty(model::CpuDevice(), request_.input.shape(), dtype);
    FillPattern(pattern_, group.rank());
  }

  // Writes the inputs anew. Run after Run works on what the first one left.
  void Fill() { request_.input.CopyFrom(pattern_); }
  // Once, to its end.
  void Run() { group_.Issue(request_).Wait(); }

  // The elements of this rank's output that are not what one run makes of the inputs; the output's length.
  int64_t NumWrong() const {
    const Tensor& there = request_.output;
    const Tensor output = there.device()->is_cpu() ? there : there.To(model::CpuDevice());
    if (request_.collective == Collective::kBroadcast) return CountDifferent(output, request_.root);
    if (request_.collective == Collective::kAllGather) {
      int64_t wrong = 0;
      for (int rank = 0; rank < group_.size(); ++rank) {
        wrong += CountDifferent(output.Slice(rank * part_, {part_}), rank);
      }
      return wrong;
    }
    const bool scatters = request_.collective == Collective::kReduceScatter;
    return CountWrong(output, request_.op, group_.size(), scatters ? group_.rank() * part_ : 0);
  }
  int64_t num_checked() const { return request_.output.numel(); }

 private:
  comm::ProcessGroup& group_;
  comm::Request request_;
  const int64_t part_;  // of each rank
  Tensor pattern_;      // on the host
};

class AllReduceJob : public RankJob {
 public:
  AllReduceJob(const AllReduceOptions& options, const comm::World& world, int argc, const char* const* argv)
      : options_(options),
        world_(world),
        provenance_(CollectProvenance(argc, argv)),
        placement_(options.ranks, world),
        device_(MakeDevice(options.ranks, world)),
        timer_(MakePhaseTimer(*device_)) {
    // The first backend's group also tells all ranks the name of the run.
    JoinBackend(options.backends.front());
    launch_ = AgreeOnLaunch(*group_, device_);
    out_ = OutputDirectory(options.ranks, std::string(kExperiment) + "-" + launch_.run_id);
    writer_.emplace(out_, kExperiment, launch_.run_id, world.rank);
  }

  void Run() override {
    MeasureAll();
    group_->Barrier();
    if (world_.rank != 0) return;
    absl::PrintF("%-32s %12s %12s %10s\n%srecords: %s\n", "rank 0, medians", "time", "in a row", "wrong",
                 summary_, out_);
    if (!first_error_.empty()) throw std::runtime_error(first_error_);
  }

 private:
  void JoinBackend(const std::string& backend) {
    const bool is_limit = backend == kMemoryLimit;
    limit_.reset();
    group_ = JoinGroup(options_.ranks, is_limit ? "shm" : backend, world_, device_, placement_);
    if (is_limit) limit_.emplace(*group_, options_.ranks.timeout);
  }

  void MeasureAll() {
    const size_t configs =
        options_.backends.size() * options_.collectives.size() * options_.sizes_bytes.size();
    Progress progress(static_cast<int64_t>(configs) * (1 + options_.warmup_iterations + options_.iterations),
                      world_.rank == 0);
    for (const std::string& backend : options_.backends) {
      if (backend != options_.backends.front()) JoinBackend(backend);
      SetGroupRecord(backend);
      for (const std::string& collective : options_.collectives) {
        for (const int64_t size_bytes : options_.sizes_bytes) {
          Measure(backend, collective, size_bytes, progress);
        }
      }
    }
  }

  // The time of so many in a row.
  int64_t TimeOf(Exercise& exercise, int64_t count) {
    exercise.Fill();
    group_->Barrier();
    timer_->Take(Mark::kStepBegin);
    for (int64_t i = 0; i < count; ++i) exercise.Run();
    timer_->Take(Mark::kStepEnd);
    const int64_t time_ns = timer_->Read().step_ns();
    group_->Finish();
    group_->Clear();
    return time_ns;
  }

  int64_t SumOverRanks(int64_t value) {
    const Tensor sum = Tensor::From<int64_t>(device_, {1}, std::vector<int64_t>{value});
    group_->AllReduce(sum, comm::ReduceOp::kSum).Wait();
    group_->Clear();
    return sum.ToVector<int64_t>().front();
  }

  void Measure(const std::string& backend, const std::string& collective, int64_t size_bytes,
               Progress& progress) {
    const int64_t numel = size_bytes / static_cast<int64_t>(SizeOf(options_.element_type()));
    comm::ProcessGroup& group = limit_ ? static_cast<comm::ProcessGroup&>(*limit_) : *group_;
    Exercise exercise(group, device_,
                      {.collective = CollectiveOf(collective),
                       .op = options_.reduce_op(),
                       .root = 0,
                       .input = {},
                       .output = {}},
                      options_.element_type(), numel);
    const int64_t in_a_row = std::clamp(kBytesInARow / size_bytes, kFewestInARow, kMostInARow);
    const std::string what = Join(backend, " ", collective, " ", FormatByteCount(size_bytes));
    Record record = group_record_;
    record.time_utc = NowUtc();
    record.config.Set("collective", collective);
    record.config.Set("size_bytes", size_bytes);
    TimeOf(exercise, 1);
    int64_t wrong = exercise.NumWrong();
    progress.Step(what);
    for (int64_t i = 0; i < options_.warmup_iterations + options_.iterations; ++i) {
      const int64_t row_ns = TimeOf(exercise, in_a_row);
      const int64_t time_ns = TimeOf(exercise, 1);
      progress.Step(what);
      if (i < options_.warmup_iterations) continue;
      record.samples["position"].push_back(position_++);
      record.samples["time_ns"].push_back(time_ns);
      record.samples["back_to_back_ns"].push_back(row_ns / in_a_row);
    }
    wrong += exercise.NumWrong();
    record.checks.Set("wrong_elements", wrong);
    record.checks.Set("checked_elements", 2 * exercise.num_checked());
    writer_->Begin(record);
    writer_->WriteToDisk();

    wrong = SumOverRanks(wrong);
    absl::StrAppendFormat(&summary_, "%-32s %12s %12s %10d\n", what, Median(record.samples["time_ns"]),
                          Median(record.samples["back_to_back_ns"]), wrong);
    if (wrong > 0 && first_error_.empty()) {
      first_error_ = Join(collective, " on ", backend, " ", FormatByteCount(size_bytes), ": ", wrong, " of ",
                          SumOverRanks(2 * exercise.num_checked()), " checked elements are wrong");
    }
  }

  // What all records of the group have.
  void SetGroupRecord(const std::string& backend) {
    Record& record = group_record_ = {};
    record.experiment = kExperiment;
    record.run_id = launch_.run_id;
    record.rank = world_.rank;
    record.world_size = world_.size;
    SetRankConfig(options_.ranks, backend, record.config);
    record.config.Set("dtype", options_.dtype);
    record.config.Set("op", options_.op);
    record.config.Set("iterations", options_.iterations);
    record.config.Set("warmup_iterations", options_.warmup_iterations);
    record.provenance = provenance_;
    SetRankFacts(*group_, device_, world_, options_.ranks, launch_, placement_, record);
    group_->Clear();
  }

  const AllReduceOptions& options_;
  const comm::World world_;
  const Provenance provenance_;  // Taken before this rank is confined to CPUs of its own.
  const ThreadPlacement placement_;
  const model::DevicePtr device_;
  const std::unique_ptr<PhaseTimer> timer_;
  std::unique_ptr<comm::RecordingProcessGroup> group_;
  std::optional<MemoryLimit> limit_;  // in front of group_, when that is what is measured
  Launch launch_;
  Record group_record_;
  std::string out_;
  std::optional<RecordWriter> writer_;
  int64_t position_ = 0;
  std::string summary_;  // a line for each record
  std::string first_error_;
};

}  // namespace

std::unique_ptr<RankJob> MakeAllReduceJob(const AllReduceOptions& options, const comm::World& world, int argc,
                                          const char* const* argv) {
  return std::make_unique<AllReduceJob>(options, world, argc, argv);
}

}  // namespace gradsync::bench
