#include "bench/training/job.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "bench/launch/progress.h"
#include "bench/launch/rank_zero.h"
#include "bench/records/provenance.h"
#include "bench/timing/annotate.h"
#include "bench/timing/nvtx.h"
#include "bench/timing/op_cost.h"
#include "bench/timing/op_recorder.h"
#include "bench/timing/peaks.h"
#include "bench/timing/schedule.h"
#include "bench/timing/step_profile.h"
#include "bench/timing/trace_log.h"
#include "bench/training/batch_feeder.h"
#include "bench/training/trainer.h"
#include "bench/training/verify.h"
#include "ddp/factory.h"
#include "model/cuda_device.h"
#include "model/error.h"
#include "model/safetensors.h"

namespace gradsync::bench {
namespace {

using model::Batch;
using model::Parameter;
using model::Tensor;

// Steps of a check, each from the initial weights; the last one counts, because `core` moves its buckets
// after the first. If one step went on from where the other ended, a wrong gradient could not be told from
// what a rectifier or a batch norm of few pixels makes of the first step's rounding errors.
constexpr int64_t kVerifySteps = 2;

// "batch 2, sequence 128"
std::string NameOf(const Place& place) {
  std::string name;
  for (const auto& [what, value] : place) name += Join(name.empty() ? "" : ", ", what, " ", value);
  return name;
}

// Goes with its files.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string path = (std::filesystem::temp_directory_path() / "gradsync-XXXXXX").string();
    Require(mkdtemp(path.data()) != nullptr, path, ": cannot be made: ", std::strerror(errno));
    path_ = path;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::string Path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// What timed steps took of the device's memory.
struct MemoryUse {
  model::CachingAllocator::Stats stats;
  int64_t num_strategies = 0;  // that were there together in one process, each with its buffers
};

// A contender at work.
struct Runner {
  const Contender& contender;
  std::unique_ptr<ddp::Strategy> strategy;  // null with a peer
  StrategySamples samples;
  // With a peer, see PeerStep.
  bool tells_sync = true;
  int64_t peer_peak_bytes = 0;
  int64_t peers_in_memory = 0;
  MemoryUse memory = {};
  std::optional<StepProfile> profile = {};  // with --profile, unless it is a peer

  bool is_peer() const { return !contender.peer.empty(); }
  // Whether its replicas are meant to part.
  bool drifts() const { return (is_peer() ? contender.peer : contender.strategy).starts_with("none"); }

  const std::string& name() const { return contender.strategy; }
};

class TrainingJob : public RankJob {
 public:
  TrainingJob(const TrainingOptions& options, const comm::World& world, int argc, const char* const* argv,
              const std::function<TrainingTask(const model::DevicePtr&)>& make_task)
      : options_(options),
        world_(world),
        provenance_(CollectProvenance(argc, argv)),
        placement_(options.ranks, world),
        device_(MakeDevice(options.ranks, world)),
        ranges_(options.nvtx ? MakeNvtxSink() : nullptr),
        task_(make_task(device_)),
        feeder_(std::move(task_.source)),
        trainer_(std::move(task_.model), {options.optimizer, options.learning_rate}, device_, world.rank),
        owned_group_(JoinGroup(options.ranks, options.backend, world, device_, placement_)),
        group_(*owned_group_),
        run_id_(BroadcastText(group_, device_, world.rank == 0 ? NewRunId() : "")),
        ranks_on_gpu_(CountRanksOnGpu(group_, device_)),
        out_(OutputDirectory(options.ranks, Join(task_.experiment, "-", run_id_))),
        writer_(out_, task_.experiment, run_id_, world.rank),
        trace_(world.rank),
        recorder_(*device_) {
    if (options.tf32) model::CudaDevice::Of(*device_, "--tf32").set_allow_tf32(true);
    std::string model = task_.contests.front().config.StringOr("model", "");
    trace_.SetOrigin(Join(model, model.empty() ? "" : ", ", world.size,
                          world.size == 1 ? " rank, " : " ranks, ", options.backend),
                     options.strategies);
    if (task_.peer_program) {
      peer_files_.emplace();
      peer_.emplace(*task_.peer_program, options.ranks, options.backend, world, placement_, group_, device_);
    }
    if (!ranges_) return;
    trainer_.AnnotatePhases(*ranges_);
    annotated_group_ = AnnotateCollectives(group_, *ranges_);
  }

  void Run() override {
    if (!options_.dump_grads.empty()) DumpGradients();
    if (options_.profile) FindPeaks();
    HoldContests();
    group_.Barrier();
    Report();
  }

 private:
  // On all ranks at once, because they compute at once.
  void FindPeaks() {
    if (!options_.peak_flops || !options_.peak_bandwidth) {
      group_.Barrier();
      group_.Clear();
      peaks_ = MeasurePeaks(device_, options_.element_type());
    }
    const auto take = [](std::optional<double> given, double& peak, std::string& source) {
      if (!given) return;
      peak = *given;
      source = "given";
    };
    take(options_.peak_flops, peaks_.peaks.flops_per_second, peaks_.flops_source);
    take(options_.peak_bandwidth, peaks_.peaks.bytes_per_second, peaks_.bytes_source);
  }

  void HoldContests() {
    const int64_t steps = options_.warmup_steps + options_.steps + (options_.verify ? kVerifySteps : 0);
    int64_t total_steps = 0;
    for (const Contest& contest : task_.contests) {
      total_steps += static_cast<int64_t>(contest.contenders.size()) * steps;
    }
    progress_.emplace(total_steps, world_.rank == 0);
    for (const Contest& contest : task_.contests) Hold(contest);
    progress_.reset();
  }

  void Hold(const Contest& contest) {
    trainer_.Restart(group_);
    if (options_.interleaved()) return RunTogether(contest, contest.contenders);
    for (const Contender& contender : contest.contenders) RunTogether(contest, {&contender, 1});
  }

  // Times the contenders step by step in turn, then checks them and writes their records.
  void RunTogether(const Contest& contest, std::span<const Contender> contenders) {
    std::vector<Runner> runners;
    for (const Contender& contender : contenders) {
      runners.push_back({contender, contender.peer.empty() ? NewStrategy(contender) : nullptr, {}});
      if (!options_.profile || runners.back().is_peer()) continue;
      runners.back().profile.emplace(peaks_, options_.optimizer,
                                     OptimizerCost(options_.optimizer, trainer_.params()));
    }
    if (peer_) BeginPeers(contest, contenders);

    const Batch batch = NewBatch(contest.batch);
    device_->allocator().ResetPeak();
    const uint64_t seed = static_cast<uint64_t>(options_.ranks.seed);
    for (const ScheduledStep& step :
         InterleavedSchedule(static_cast<int>(runners.size()), options_.warmup_steps, options_.steps, seed)) {
      feeder_.Fill(world_.rank, step.round, batch);
      TimeStep(runners[static_cast<size_t>(step.config)], contest, step.warmup, batch);
    }
    const model::CachingAllocator::Stats memory = device_->allocator().stats();
    for (Runner& runner : runners) {
      // A peer's strategies are in another process.
      runner.memory = {memory, std::ranges::count(runners, runner.is_peer(), &Runner::is_peer)};
    }
    if (options_.verify) MakeReference(contest.batch);
    for (Runner& runner : runners) Finish(runner, contest, batch);
  }

  void TimeStep(Runner& runner, const Contest& contest, bool warmup, const Batch& batch) {
    const bool listen = !warmup && !runner.is_peer() && (options_.trace || options_.profile);
    const int64_t allocations = device_->allocator().stats().source_allocations;
    const StepResult result = Step(runner, contest, batch, listen ? &recorder_ : nullptr);
    if (listen) Listen(runner, contest, result);
    ShowProgress(contest, runner.name());
    if (warmup) return;
    runner.samples.allocations += device_->allocator().stats().source_allocations - allocations;
    runner.samples.steps.push_back(result);
    runner.samples.positions.push_back(position_++);
  }

  // Peers train from rank 0's initial weights, which the replica has at this moment.
  void BeginPeers(const Contest& contest, std::span<const Contender> contenders) {
    std::map<std::string, int64_t> bucket_bytes;
    for (const Contender& contender : contenders) {
      if (!contender.peer.empty()) bucket_bytes[contender.peer] = contender.bucket_bytes;
    }
    if (bucket_bytes.empty()) return;
    trainer_.Restart(group_);
    const std::string weights = peer_files_->Path("weights");
    if (world_.rank == 0) model::SaveParameters(trainer_.params(), weights, trainer_.model().buffers());
    Fields config;
    SetTrainingConfig(options_, "", 0, config);
    for (const auto& [name, value] : contest.config) config.Set(name, value);
    peer_->Begin(config, bucket_bytes, weights);
  }

  StepResult PeerStepOf(Runner& runner, const Batch& batch) {
    const PeerStep step = peer_->Step(runner.contender.peer, batch);
    runner.tells_sync = step.tells_sync;
    runner.peer_peak_bytes = std::max(runner.peer_peak_bytes, step.peak_bytes_in_use);
    runner.peers_in_memory = step.strategies_in_memory;
    return {.marks = step.marks};
  }

  StepResult Step(Runner& runner, const Contest& contest, const Batch& batch, OpRecorder* recorder) {
    if (runner.is_peer()) return PeerStepOf(runner, batch);
    if (!ranges_) return trainer_.Step(*runner.strategy, batch, group_, recorder);
    OpAnnotator ops(*ranges_, recorder);
    ranges_->Push(RangeKind::kStep, Join(runner.name(), ", ", NameOf(contest.place)));
    const StepResult result = trainer_.Step(*runner.strategy, batch, group_, &ops);
    ranges_->Pop();
    return result;
  }

  void Listen(Runner& runner, const Contest& contest, const StepResult& result) {
    if (runner.profile) runner.profile->Add(result.marks, recorder_.computed(), recorder_.ops());
    if (options_.trace) {
      const int64_t step = static_cast<int64_t>(runner.samples.steps.size());
      trace_.AddStep(
          {runner.name(), step, contest.config.IntOr("batch_size", 0), contest.config.IntOr("seq_len", 0)},
          result.marks, recorder_.ops(), group_.entries());
    }
    recorder_.Clear();
  }

  // Unless there is one for such batches already: all ranks restart; rank 0 then takes a check's last step
  // alone, on the batches of all ranks.
  void MakeReference(const BatchShape& shape) {
    if (reference_ && reference_shape_ == shape) return;
    reference_.reset();  // Its memory is needed for the next one.
    trainer_.Restart(group_);
    Reference reference;
    OnRankZero(group_, device_, options_.ranks.timeout / 4, [&] {
      std::vector<Batch> batches;
      for (int rank = 0; rank < world_.size; ++rank) {
        batches.push_back(NewBatch(shape));
        feeder_.Fill(rank, kVerifySteps - 1, batches.back());
      }
      trainer_.StepAlone(batches);
      reference = CopyState(trainer_.params());
    });
    group_.Clear();
    reference_ = std::move(reference);
    reference_shape_ = shape;
  }

  void Finish(Runner& runner, const Contest& contest, const Batch& batch) {
    Record record = NewRecord(contest, runner);
    std::string verdict = "not checked";
    const bool verify = options_.verify && (contest.verify_peers || !runner.is_peer());
    if (verify) {
      const StrategyCheck check = Check(runner, contest, batch);
      SetTrainingChecks(check, record.checks);
      verdict = VerdictWord(runner.drifts() ? "none" : runner.name(), check);
      if (first_fault_.empty() && !runner.drifts()) first_fault_ = Fault(runner.name(), check);
    }
    record.checks.Set("reference", verify ? "single_process" : "none");
    if (!runner.is_peer()) record.buckets = BucketRecords(runner.strategy->plan());
    if (runner.profile) {
      runner.profile->WriteTo(record);
      profiles_ += Join("\n", runner.name(), ", ", NameOf(contest.place), ", mean of ", options_.steps,
                        " steps:\n", runner.profile->ToString());
    }
    writer_.Write(record);
    summary_.push_back(Summarize(contest.place, runner.name(), runner.samples, std::move(verdict)));
    if (!runner.tells_sync) summary_.back().sync_exposed_ns = -1;
  }

  // Puts what the peer has trained into the replica.
  void LoadPeer(const Runner& runner, const Contest& contest) {
    const Batch batch = NewBatch(contest.batch);
    feeder_.Fill(world_.rank, kVerifySteps - 1, batch);
    const std::string path = peer_files_->Path(Join("rank", world_.rank));
    peer_->Train(runner.contender.peer, batch, path);
    const model::SafetensorsFile file = model::SafetensorsFile::Open(path);
    for (Parameter* const param : trainer_.params()) {
      file.LoadInto(param->name(), param->MutableValue());
      file.LoadInto("grad." + param->name(), param->grad());
    }
    ShowProgress(contest, runner.name() + ", check");
  }

  StrategyCheck Check(Runner& runner, const Contest& contest, const Batch& batch) {
    if (runner.is_peer()) {
      LoadPeer(runner, contest);
    } else {
      TrainForCheck(runner, contest, batch);
    }
    const int64_t positions = contest.positions * world_.size;
    StrategyCheck check{
        Verify(trainer_.params(), *reference_, group_),
        options_.tf32 ? Tf32Tolerance(positions) : Tolerance(options_.element_type(), positions)};
    check.tolerance = std::max(check.tolerance, contest.min_tolerance);
    if (runner.is_peer()) check.tolerance = std::max(check.tolerance, contest.peer_tolerance);
    group_.Clear();
    return check;
  }

  void TrainForCheck(Runner& runner, const Contest& contest, const Batch& batch) {
    for (int64_t step = 0; step < kVerifySteps; ++step) {
      trainer_.Restart(group_);
      feeder_.Fill(world_.rank, step, batch);
      trainer_.Step(*runner.strategy, batch, group_, nullptr);
      ShowProgress(contest, runner.name() + ", check");
    }
  }

  Record NewRecord(const Contest& contest, const Runner& runner) {
    Record record;
    record.experiment = task_.experiment;
    record.run_id = run_id_;
    record.time_utc = NowUtc();
    record.rank = world_.rank;
    record.world_size = world_.size;
    SetTrainingConfig(options_, runner.name(), runner.contender.bucket_bytes, record.config);
    for (const auto& [name, value] : contest.config) record.config.Set(name, value);
    SetTrainingSamples(runner.samples, record);
    const int64_t elements = trainer_.num_elements();
    record.facts.Set("num_parameters", elements);
    record.facts.Set("num_tensors", trainer_.params().size());
    record.facts.Set("gradient_bytes", elements * static_cast<int64_t>(SizeOf(options_.gradient_type())));
    for (const auto& [name, value] : contest.facts) record.facts.Set(name, value);
    record.facts.Set("peak_bytes_in_use", runner.memory.stats.peak_bytes_in_use);
    record.facts.Set("bytes_held", runner.memory.stats.bytes_held);
    record.facts.Set("strategies_in_memory", runner.memory.num_strategies);
    record.provenance = provenance_;
    SetRankFacts(group_, device_, world_, placement_, ranks_on_gpu_, record);
    if (runner.is_peer()) SayWhatThePeerDoes(runner, record);
    return record;
  }

  // A peer says nothing of its collectives, nor of the host's memory.
  void SayWhatThePeerDoes(const Runner& runner, Record& record) {
    record.samples.erase("comm_busy_ns");
    if (!runner.tells_sync) {
      record.samples.erase("backward_ns");
      record.samples.erase("sync_exposed_ns");
    }
    record.facts.Set("allocations_in_timed_steps", "unknown");
    record.facts.Set("peak_bytes_in_use", runner.peer_peak_bytes > 0 ? Value(runner.peer_peak_bytes)
                                                                     : Value(std::string("unknown")));
    record.facts.Set("bytes_held", "unknown");
    if (runner.peers_in_memory > 0) record.facts.Set("strategies_in_memory", runner.peers_in_memory);
    for (const auto& [name, value] : peer_->FactsOf(runner.contender.peer)) record.facts.Set(name, value);
    record.provenance.libraries = peer_->libraries();
    record.provenance.compiler = "";
    record.provenance.clock = peer_->clock();
  }

  // The first step of the first strategy, from the initial weights and before anything else.
  void DumpGradients() {
    const Contest& contest = task_.contests.front();
    const std::unique_ptr<ddp::Strategy> strategy = NewStrategy(contest.contenders.front());
    const Batch batch = NewBatch(contest.batch);
    feeder_.Fill(world_.rank, 0, batch);
    trainer_.Restart(group_);
    const double my_loss = trainer_.Gradients(*strategy, batch);
    const Tensor loss = Tensor::From<double>(device_, {}, std::vector<double>{my_loss});
    group_.AllReduce(loss, comm::ReduceOp::kMean).Wait();
    group_.Clear();
    if (world_.rank != 0) return;
    std::vector<std::pair<std::string, Tensor>> tensors = {{"loss", loss}};
    for (Parameter* const param : trainer_.params()) tensors.emplace_back(param->name(), param->grad());
    model::WriteSafetensors(options_.dump_grads, tensors,
                            {{"strategy", contest.contenders.front().strategy}});
  }

  void Report() {
    std::string trace_path;
    if (options_.trace) {
      trace_path = Join(out_, "/", task_.experiment, ".", run_id_, ".rank", world_.rank, ".trace.json");
      trace_.Write(trace_path);
    }
    if (world_.rank != 0) return;
    std::fputs(FormatSummary(summary_).c_str(), stdout);
    std::printf("Medians of rank 0. Records: %s\n", out_.c_str());
    std::fputs(profiles_.c_str(), stdout);
    if (options_.trace) std::printf("Trace: %s\n", trace_path.c_str());
    if (!first_fault_.empty()) throw std::runtime_error(first_fault_);
  }

  std::unique_ptr<ddp::Strategy> NewStrategy(const Contender& contender) {
    ddp::StrategyOptions strategy_options;
    strategy_options.bucket_bytes = static_cast<size_t>(contender.bucket_bytes);
    return ddp::MakeStrategy(
        contender.strategy,
        {trainer_.params(), annotated_group_ ? *annotated_group_ : group_, strategy_options});
  }

  Batch NewBatch(const BatchShape& shape) const {
    return {Tensor::Empty(device_, shape.inputs, shape.inputs_dtype),
            Tensor::Empty(device_, shape.targets, shape.targets_dtype)};
  }

  void ShowProgress(const Contest& contest, const std::string& what) {
    progress_->Step(Join(NameOf(contest.place), ", ", what));
  }

  const TrainingOptions& options_;
  const comm::World world_;
  const Provenance provenance_;  // Taken before this rank is confined to CPUs of its own.
  const ThreadPlacement placement_;
  const model::DevicePtr device_;
  const std::unique_ptr<RangeSink> ranges_;  // null without --nvtx
  TrainingTask task_;                        // its model is the trainer's, its source the feeder's
  BatchFeeder feeder_;
  Trainer trainer_;
  const std::unique_ptr<comm::RecordingProcessGroup> owned_group_;
  comm::RecordingProcessGroup& group_;
  std::unique_ptr<comm::ProcessGroup> annotated_group_;  // that of strategies, with --nvtx
  const std::string run_id_;
  const int64_t ranks_on_gpu_;
  const std::string out_;
  RecordWriter writer_;
  std::optional<TemporaryDirectory> peer_files_;
  std::optional<PyTorchPeer> peer_;
  TraceLog trace_;

  OpRecorder recorder_;
  KnownPeaks peaks_;                  // with --profile
  std::string profiles_;              // as text
  std::optional<Progress> progress_;  // while contests are held
  std::optional<Reference> reference_;
  BatchShape reference_shape_;
  int64_t position_ = 0;
  std::vector<SummaryRow> summary_;
  std::string first_fault_;
};

}  // namespace

void AddPeers(const std::vector<std::string>& modes, Contest& contest) {
  std::vector<Contender> peers;
  for (const Contender& contender : contest.contenders) {
    for (const std::string& mode : modes) {
      const std::string peer = InMode(PeerStrategy(contender.strategy), mode);
      const bool is_new =
          std::ranges::none_of(peers, [&](const Contender& other) { return other.peer == peer; });
      if (is_new) peers.push_back({PeerName(peer), contender.bucket_bytes, peer});
    }
  }
  std::ranges::move(peers, std::back_inserter(contest.contenders));
}

std::unique_ptr<RankJob> MakeTrainingJob(
    const TrainingOptions& options, const comm::World& world, int argc, const char* const* argv,
    const std::function<TrainingTask(const model::DevicePtr& device)>& make_task) {
  return std::make_unique<TrainingJob>(options, world, argc, argv, make_task);
}

}  // namespace gradsync::bench
