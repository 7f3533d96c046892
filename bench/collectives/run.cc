#include "bench/collectives/run.h"

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/collectives/memory_limit.h"
#include "bench/collectives/pattern.h"
#include "bench/launch/progress.h"
#include "bench/records/provenance.h"
#include "bench/records/record.h"
#include "bench/records/units.h"
#include "bench/timing/phase_timer.h"
#include "bench/timing/schedule.h"
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

// One collective of this rank over one backend, on inputs whose result is known. All ranks make it, and call
// all of it, alike.
class Exercise {
 public:
  // `group`: which must outlive it; of the memory's limit that of its ranks. `pattern`: this rank's input, on
  // the host. `numel`: of the whole vector: that of all_reduce and broadcast, what reduce_scatter takes and
  // all_gather gives.
  Exercise(comm::RecordingProcessGroup& group, const AllReduceOptions& options, bool is_limit,
           const model::DevicePtr& device, Collective collective, Tensor pattern, int64_t numel)
      : group_(group), pattern_(std::move(pattern)), part_(numel / group.size()) {
    if (is_limit) limit_.emplace(group, options.ranks.timeout);
    request_ = {.collective = collective,
                .op = options.reduce_op(),
                .root = 0,
                .input = measured().Allocate(device, pattern_.shape(), pattern_.dtype()),
                .output = {}};
    request_.output = request_.input;
    const bool gathers = collective == Collective::kAllGather;
    if (gathers || collective == Collective::kReduceScatter)
      request_.output = measured().Allocate(device, {gathers ? numel : part_}, pattern_.dtype());
  }

  comm::RecordingProcessGroup& group() { return group_; }
  // Writes the inputs anew. Run after Run works on what the first one left.
  void Fill() { request_.input.CopyFrom(pattern_); }
  // Once, to its end.
  void Run() { measured().Issue(request_).Wait(); }

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
  comm::ProcessGroup& measured() { return limit_ ? static_cast<comm::ProcessGroup&>(*limit_) : group_; }

  comm::RecordingProcessGroup& group_;
  std::optional<MemoryLimit> limit_;  // in front of the group, when that is what is measured
  const Tensor pattern_;
  const int64_t part_;  // of each rank
  comm::Request request_;
};

// One backend's part in a collective of one size.
struct Series {
  std::string name;
  Record record;
  std::unique_ptr<Exercise> exercise;
  int64_t wrong = 0;  // elements of this rank's
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
    for (const std::string& backend : options.backends) {
      std::unique_ptr<comm::RecordingProcessGroup>& group = groups_[GroupOf(backend)];
      if (group == nullptr) group = JoinGroup(options.ranks, GroupOf(backend), world, device_, placement_);
    }
    launch_ = AgreeOnLaunch(own_group(), device_);
    for (const std::string& backend : options.backends) records_.push_back(NewRecord(backend));
    out_ = OutputDirectory(options.ranks, std::string(kExperiment) + "-" + launch_.run_id);
    writer_.emplace(out_, kExperiment, launch_.run_id, world.rank);
  }

  void Run() override {
    Progress progress(std::ssize(options_.backends) * std::ssize(options_.collectives) *
                          std::ssize(options_.sizes_bytes) *
                          (1 + options_.warmup_iterations + options_.iterations),
                      world_.rank == 0);
    for (const std::string& collective : options_.collectives) {
      for (const int64_t size_bytes : options_.sizes_bytes) Measure(collective, size_bytes, progress);
    }
    own_group().Barrier();
    if (world_.rank != 0) return;
    absl::PrintF("%-32s %12s %12s %10s\n%srecords: %s\n", "rank 0, medians", "time", "in a row", "wrong",
                 summary_, out_);
    if (!first_error_.empty()) throw std::runtime_error(first_error_);
  }

 private:
  // The backend of the group that it is measured in.
  static std::string GroupOf(const std::string& backend) { return backend == kMemoryLimit ? "shm" : backend; }
  // Which also carries the run's own business.
  comm::RecordingProcessGroup& own_group() { return *groups_.at(GroupOf(options_.backends.front())); }

  // What all of a backend's records have.
  Record NewRecord(const std::string& backend) {
    Record record;
    record.experiment = kExperiment;
    record.run_id = launch_.run_id;
    record.rank = world_.rank;
    record.world_size = world_.size;
    SetRankConfig(options_.ranks, backend, record.config);
    record.config.Set("dtype", options_.dtype);
    record.config.Set("op", options_.op);
    record.config.Set("order", "interleaved");
    record.config.Set("iterations", options_.iterations);
    record.config.Set("warmup_iterations", options_.warmup_iterations);
    record.provenance = provenance_;
    comm::RecordingProcessGroup& group = *groups_.at(GroupOf(backend));
    SetRankFacts(group, device_, world_, options_.ranks, launch_, placement_, record);
    group.Clear();
    return record;
  }

  // The buffers of all backends are there at once, of one size at a time.
  std::vector<Series> Prepare(const std::string& name, int64_t size_bytes) {
    const int64_t numel = size_bytes / static_cast<int64_t>(SizeOf(options_.element_type()));
    const Collective collective = CollectiveOf(name);
    const Tensor pattern = Tensor::Empty(model::CpuDevice(),
                                         {collective == Collective::kAllGather ? numel / world_.size : numel},
                                         options_.element_type());
    FillPattern(pattern, world_.rank);
    std::vector<Series> all;
    for (size_t i = 0; i < records_.size(); ++i) {
      const std::string& backend = options_.backends[i];
      Series& series = all.emplace_back(
          Join(backend, " ", name, " ", FormatByteCount(size_bytes)), records_[i],
          std::make_unique<Exercise>(*groups_.at(GroupOf(backend)), options_, backend == kMemoryLimit,
                                     device_, collective, pattern, numel));
      series.record.time_utc = NowUtc();
      series.record.config.Set("collective", name);
      series.record.config.Set("size_bytes", size_bytes);
    }
    return all;
  }

  // The time of so many in a row.
  int64_t TimeOf(Exercise& exercise, int64_t count) {
    exercise.Fill();
    exercise.group().Barrier();
    timer_->Take(Mark::kStepBegin);
    for (int64_t i = 0; i < count; ++i) exercise.Run();
    timer_->Take(Mark::kStepEnd);
    const int64_t time_ns = timer_->Read().step_ns();
    exercise.group().Finish();
    exercise.group().Clear();
    return time_ns;
  }

  int64_t SumOverRanks(int64_t value) {
    const Tensor sum = Tensor::From<int64_t>(device_, {1}, std::vector<int64_t>{value});
    own_group().AllReduce(sum, comm::ReduceOp::kSum).Wait();
    own_group().Clear();
    return sum.ToVector<int64_t>().front();
  }

  void Measure(const std::string& collective, int64_t size_bytes, Progress& progress) {
    std::vector<Series> all = Prepare(collective, size_bytes);
    for (Series& series : all) {
      TimeOf(*series.exercise, 1);
      series.wrong = series.exercise->NumWrong();
      progress.Step(series.name);
    }
    const int num_backends = static_cast<int>(all.size());
    const int64_t in_a_row = std::clamp(kBytesInARow / size_bytes, kFewestInARow, kMostInARow);
    const uint64_t seed = OrderSeed(options_.ranks.seed, Join(launch_.run_id, collective, size_bytes));
    for (int64_t i = -options_.warmup_iterations; i < options_.iterations; ++i) {
      const bool is_timed = i >= 0;
      for (const int k : RoundOrder(num_backends, is_timed ? i : ~i, is_timed ? seed : ~seed)) {
        Series& series = all[static_cast<size_t>(k)];
        const int64_t row_ns = TimeOf(*series.exercise, in_a_row);
        const int64_t time_ns = TimeOf(*series.exercise, 1);
        progress.Step(series.name);
        if (!is_timed) continue;
        series.record.samples["position"].push_back(position_++);
        series.record.samples["time_ns"].push_back(time_ns);
        series.record.samples["back_to_back_ns"].push_back(row_ns / in_a_row);
      }
    }
    for (Series& series : all) Conclude(series);
    writer_->WriteToDisk();
  }

  // Checks the last one, and records all.
  void Conclude(Series& series) {
    const int64_t num_checked = 2 * series.exercise->num_checked();
    series.wrong += series.exercise->NumWrong();
    series.record.checks.Set("wrong_elements", series.wrong);
    series.record.checks.Set("checked_elements", num_checked);
    writer_->Begin(series.record);
    const int64_t wrong = SumOverRanks(series.wrong);
    absl::StrAppendFormat(&summary_, "%-32s %12s %12s %10d\n", series.name,
                          Median(series.record.samples["time_ns"]),
                          Median(series.record.samples["back_to_back_ns"]), wrong);
    if (wrong > 0 && first_error_.empty()) {
      first_error_ =
          Join(series.name, ": ", wrong, " of ", SumOverRanks(num_checked), " checked elements are wrong");
    }
  }

  const AllReduceOptions& options_;
  const comm::World world_;
  const Provenance provenance_;  // Taken before this rank is confined to CPUs of its own.
  const ThreadPlacement placement_;
  const model::DevicePtr device_;
  const std::unique_ptr<PhaseTimer> timer_;
  std::map<std::string, std::unique_ptr<comm::RecordingProcessGroup>> groups_;  // by backend
  Launch launch_;
  std::vector<Record> records_;  // what those of each of --backend begin with
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
