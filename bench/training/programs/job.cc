#include "bench/training/programs/job.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/launch/rank_program.h"
#include "bench/peers/pytorch.h"
#include "bench/records/host.h"
#include "bench/timing/cpu_clock.h"
#include "bench/timing/nvtx.h"
#include "bench/timing/schedule.h"
#include "bench/timing/step_profile.h"
#include "bench/timing/trace_log.h"
#include "bench/training/memory.h"
#include "bench/training/programs/disturbance.h"
#include "bench/training/stepper.h"
#include "bench/training/trainer.h"
#include "bench/training/verification/verifier.h"
#include "bench/training/verification/verify.h"
#include "model/base/error.h"
#include "model/files/safetensors.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::bench {
namespace {

using model::Batch;
using model::Parameter;
using model::Tensor;

// The smallest number of rounds with --time.
constexpr int64_t kFewestRounds = 10;
// Ranks compare their gradients after one of this number of timed steps of a variant.
constexpr int64_t kRoundsPerSpotCheck = 8;

// The results of a variant: its record, to which data are appended, also on disk.
struct RunningVariant {
  std::unique_ptr<Stepper> stepper;
  Record record;
  int64_t number = -1;  // number of the record in its file, after it was written
  std::optional<int64_t> allocations = {};
  std::vector<int64_t> disturbance_ns = {};  // this rank's terms (Disturbance)
  std::optional<StepProfile> profile = {};   // set with --profile
  int64_t spot_checks = 0, equal_spot_checks = 0;
  std::optional<int64_t> peak_resident_bytes = {};  // until the first spot check
};

class TrainingJob : public RankJob {
 public:
  TrainingJob(const TrainingPlan& plan, Rank& rank, const char* program, const AlterTask& alter_task)
      : plan_(plan),
        rank_(rank),
        device_(rank.device()),
        task_(NewTask(alter_task)),
        ranges_(plan.nvtx ? MakeNvtxSink() : std::move(task_.ranges)),
        source_(std::move(task_.source)),
        threads_before_(ThreadIds()),
        group_(rank.Join(plan.GroupBackends())),
        trainer_(std::move(task_.model),
                 {.optimizer = plan.optimizers.front(),
                  .learning_rate = plan.learning_rate,
                  .ranges = ranges_.get(),
                  .check_gradients = plan.check_gradients,
                  .is_alone = plan.is_alone(),
                  .restarts = plan.restarts()},
                 device_, group_, CpuClock(threads_before_)),
        verifier_(plan, *source_, trainer_, rank),
        disturbance_(group_, device_, AllowedCpus()),
        recorder_(*device_, ranges_.get()) {
    if (plan.tf32) model::CudaDevice::Of(*device_, "--tf32").set_allow_tf32(true);
    SetRecords();
    if (plan.peers.wanted) {
      peer_.emplace(FindPeerProgram(plan.peers.python(), program), plan.ranks, PeerBackend(plan.variants),
                    rank.world(), group_, device_);
    }
    if (plan.trace) trace_.emplace(NewTrace());
  }

  void Run() override {
    if (!plan_.dump_grads.empty()) DumpGradients();
    if (plan_.time) {
      rank_.Expect(std::ssize(task_.settings) * plan_.launch_time());
    } else {
      rank_.Expect(TotalSteps());
    }
    for (const Setting& setting : task_.settings) {
      if (plan_.interleaved()) {
        Measure(setting, plan_.variants);
      } else {
        for (const TrainingVariant& variant : plan_.variants) Measure(setting, {&variant, 1});
      }
    }
    Conclude();
  }

 private:
  TrainingTask NewTask(const AlterTask& alter) const {
    TrainingTask task = MakeTask(plan_, static_cast<uint64_t>(rank_.seed()), rank_.world(), device_);
    if (alter) alter(task);
    return task;
  }

  void Measure(const Setting& setting, std::span<const TrainingVariant> variants) {
    trainer_.Restart();
    if (plan_.is_alone()) {
      device_->allocator().Trim();
      ResetPeakResidentBytes();
    }
    std::vector<RunningVariant> all = Prepare(setting, variants);
    TakeTurns(setting, all);
    for (RunningVariant& running : all) {
      Record more;
      if (!running.stepper->variant().is_peer()) {
        const std::vector<int64_t> others_ns = disturbance_.GatherOthersNs(running.disturbance_ns);
        if (!others_ns.empty()) more.samples["others_cpu_ns"] = others_ns;
      }
      more.facts.Set("allocations_in_timed_steps",
                     running.allocations ? Value(*running.allocations) : Value(std::string("unknown")));
      rank_.DescribeThrottling(more.facts);
      running.stepper->Describe(more.facts);
      const std::optional<int64_t> peak_bytes =
          running.peak_resident_bytes ? running.peak_resident_bytes : PeakResidentBytes();
      if (plan_.is_alone() && peak_bytes) more.facts.Set("peak_resident_bytes", *peak_bytes);
      if (running.profile) {
        running.profile->WriteTo(more);
        notes_ += Join("\n", NameOf(running), ", mean of ", running.record.samples.at("forward_ns").size(),
                       " steps:\n", running.profile->ToString());
      }
      Add(more, running);
    }
    group_.Clear();
    rank_.writer().WriteToDisk();
    for (RunningVariant& running : all) {
      Record more;
      more.checks = verifier_.Check(*running.stepper);
      more.checks.Set("spot_checks", running.spot_checks);
      more.checks.Set("equal_spot_checks", running.equal_spot_checks);
      rank_.Step(NameOf(running) + ", check");
      Add(more, running);
      rank_.writer().WriteToDisk();
    }
  }

  std::vector<RunningVariant> Prepare(const Setting& setting, std::span<const TrainingVariant> variants) {
    if (peer_) BeginPeers(setting, variants);
    const double flops = trainer_.CountFlops(NewBatch(setting), setting.accumulation_steps);
    std::vector<RunningVariant> all;
    for (const TrainingVariant& variant : variants) {
      all.push_back({variant.is_peer() ? MakePeerStepper(setting, variant, *peer_, trainer_)
                                       : MakeOwnStepper(setting, variant, trainer_, rank_.Of(variant.over())),
                     RecordOf(setting, variant, flops)});
    }
    return all;
  }

  // Makes the models of the peers among the variants, with the replica's weights, which Measure has
  // restarted.
  void BeginPeers(const Setting& setting, std::span<const TrainingVariant> variants) {
    std::map<std::string, int64_t> bucket_bytes;
    for (const TrainingVariant& variant : variants) {
      if (variant.is_peer()) bucket_bytes[variant.peer()] = variant.bucket_bytes;
    }
    if (bucket_bytes.empty()) return;
    peer_->Begin(RecordOf(setting, variants.back(), 0).config, bucket_bytes, trainer_.model());
  }

  // Returns the record before the first step.
  Record RecordOf(const Setting& setting, const TrainingVariant& variant, double flops) const {
    Record record = rank_.RecordOf(variant.over());
    plan_.Describe(variant, record);
    record.config.SetAll(setting.config);
    record.facts.SetAll(setting.facts);
    record.facts.Set("flops_per_step", Value(flops));
    return record;
  }

  Batch NewBatch(const Setting& setting) {
    Batch batch = setting.batch.NewBatch(device_);
    source_->Fill(rank_.world().rank, 0, batch);
    return batch;
  }

  // Takes one turn of each variant, in a random order for each round.
  void TakeTurns(const Setting& setting, std::vector<RunningVariant>& all) {
    const Batch batch = NewBatch(setting);
    const uint64_t seed =
        OrderSeed(rank_.seed(), rank_.launch().run_id + setting.name);  // the order differs between launches
    const int num_variants = static_cast<int>(all.size());
    for (int64_t round = 0; round < plan_.warmup_steps; ++round) {
      for (const int i : RoundOrder(num_variants, round, ~seed)) {
        TakeStep(all[static_cast<size_t>(i)], round, /*sample=*/-1, batch);
      }
    }
    const int64_t per_check = plan_.time ? kRoundsPerSpotCheck : std::min(plan_.steps, kRoundsPerSpotCheck);
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t round = 0; !IsEnough(round, num_variants, begin); ++round) {
      for (const int i : RoundOrder(num_variants, round, seed)) {
        RunningVariant& running = all[static_cast<size_t>(i)];
        TakeStep(running, plan_.warmup_steps + round, round, batch);
        if (!running.stepper->variant().is_peer() && IsSpotChecked(round, i, per_check, seed)) {
          // A check needs memory of its own, such as all weights on each rank.
          if (running.spot_checks == 0) running.peak_resident_bytes = PeakResidentBytes();
          ++running.spot_checks;
          if (verifier_.SpotCheck(*running.stepper, round)) ++running.equal_spot_checks;
        }
      }
      // Records are in the order of the command line, which is also the order in tables, and not in the order
      // of the first round.
      for (RunningVariant& running : all) {
        if (running.number < 0) running.number = rank_.writer().Begin(running.record);
      }
      rank_.writer().Write();
    }
  }

  // Returns whether the rounds so far are enough. With --time, they must be whole blocks, and another block
  // of mean duration would end too late. Rank 0 decides, and the times of single variants have no influence.
  bool IsEnough(int64_t rounds, int num_variants, std::chrono::steady_clock::time_point begin) {
    if (!plan_.time) return rounds >= plan_.steps;
    const int64_t block = RoundsPerBlock(num_variants);
    if (rounds < kFewestRounds || rounds % block != 0) return false;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    const std::chrono::duration<double> budget = plan_.time_in_turn();
    const bool is_enough = IsTimeUp(spent.count(), budget.count(), rounds, block);
    if (is_enough && rank_.is_first() && spent > 1.5 * budget) {
      std::printf("--time: took %.0f s in place of %.0f: %lld rounds are the fewest that decide anything\n",
                  spent.count(), budget.count(), 0LL + rounds);
    }
    return rank_.Reduce(int64_t{rank_.is_first() && is_enough}, comm::ReduceOp::kMax) != 0;
  }

  // `sample` is negative for an untimed step.
  void TakeStep(RunningVariant& running, int64_t round, int64_t sample, const Batch& batch) {
    Stepper& stepper = *running.stepper;
    source_->Fill(rank_.world().rank, round, batch);
    // If each host has all parts, all hosts must begin with equal parts, as in training, and `none` leaves
    // different weights on ranks. A variant that trains alone begins with the weights that Measure has
    // restarted, and may have returned their memory.
    if (round == 0 && !plan_.is_alone() && stepper.variant().num_parts(rank_.world()) < rank_.world().size)
      trainer_.Restart();
    const bool listen = sample >= 0 && !stepper.variant().is_peer() && (plan_.trace || plan_.profile);
    const int64_t before_ns = disturbance_.ReadNs();
    const StepResult result = stepper.Step(batch, listen ? &recorder_ : nullptr);
    if (sample >= 0) {
      running.disturbance_ns.push_back(disturbance_.ReadNs() - before_ns);
      if (running.number < 0) {
        running.record.time_utc = NowUtc();
        stepper.Introduce(running.record);
      }
      Add(MakeSamples(result, position_++), running);
      if (result.allocations) running.allocations = running.allocations.value_or(0) + *result.allocations;
    }
    if (listen && plan_.profile) {
      if (!running.profile) running.profile.emplace(peak_flops_, std::string(Name(plan_.optimizers.front())));
      running.profile->Add(result.marks.front(), result.times, result.waits, recorder_.computed(),
                           recorder_.ops());
    }
    if (listen && trace_) {
      const ConfigFields& config = stepper.setting().config;
      trace_->AddStep(
          {stepper.variant().name(), sample, config.IntOr("batch_size", 0), config.IntOr("seq_len", 0)},
          result.marks.front(), result.waits, recorder_.ops(), stepper.collectives());
    }
    recorder_.Clear();
    rank_.Step(NameOf(running));
  }

  // Adds data to the record, and, after the record has begun, to its file at the next write.
  void Add(const Record& more, RunningVariant& running) {
    const std::string fault = Append(more, &running.record);
    if (!fault.empty()) throw std::logic_error(fault);
    if (running.number >= 0) rank_.writer().Continue(running.number, more);
  }

  // Sets the values that all records of this rank have, by backend, including this rank's part of the peak.
  void SetRecords() {
    Record record;
    record.experiment = "ddp";
    const int64_t elements = trainer_.num_elements();
    record.facts.Set("num_parameters", elements);
    record.facts.Set("num_tensors", trainer_.params().size());
    record.facts.Set("gradient_bytes", elements * static_cast<int64_t>(SizeOf(plan_.gradient_type())));
    group_.Barrier();
    peak_flops_ = MeasureFlops(device_, plan_.dtype);
    record.facts.Set("peak_flops_per_second",
                     Value(rank_.Reduce(peak_flops_.per_second, comm::ReduceOp::kSum)));
    rank_.SetRecords(std::move(record));
  }

  // Returns the number of steps, including steps of checks. With --time, returns the number of steps of a run
  // without --time.
  int64_t TotalSteps() const {
    return std::ssize(task_.settings) * std::ssize(plan_.variants) * (plan_.warmup_steps + plan_.steps + 1);
  }

  TraceLog NewTrace() const {
    std::string origin = Join(plan_.model, ", ", rank_.world().size, " ranks");
    for (const std::string& backend : plan_.GroupBackends()) origin += ", " + backend;
    std::vector<std::string> names;
    for (const TrainingVariant& variant : plan_.variants) names.push_back(variant.name());
    return {rank_.world().rank, std::move(origin), std::move(names)};
  }

  // Writes the trace, and prints its path and the profiles.
  void Conclude() {
    const std::string trace_path =
        Join(rank_.out(), "/ddp.", rank_.launch().run_id, ".rank", rank_.world().rank, ".trace.json");
    if (trace_) trace_->Write(trace_path);
    rank_.Conclude(Join(notes_, trace_ ? Join("Trace: ", trace_path, "\n") : ""));
  }

  static std::string NameOf(const RunningVariant& running) {
    return Join(running.stepper->variant().name(), ", ", running.stepper->setting().name);
  }

  // Takes the first step from the initial weights, and writes its gradients. Only for strategies that average
  // gradients.
  void DumpGradients() {
    const TrainingVariant& variant = *std::ranges::find_if_not(plan_.variants, &TrainingVariant::drifts);
    const Setting& setting = task_.settings.front();
    comm::RecordingProcessGroup& group = rank_.Of(variant.over());
    const std::unique_ptr<ddp::Strategy> strategy =
        trainer_.NewStrategy(variant.strategy, variant.strategy_options(), group);
    trainer_.Restart();
    trainer_.StepWithWholeGradients(
        {.strategy = *strategy, .group = group, .accumulation_steps = setting.accumulation_steps},
        NewBatch(setting));
    const double loss = rank_.Reduce(trainer_.loss(), comm::ReduceOp::kMean);
    if (!rank_.is_first()) return;
    std::vector<std::pair<std::string, Tensor>> tensors = {
        {"loss", Tensor::From<double>(device_, {}, std::vector<double>{loss})}};
    for (Parameter* const param : trainer_.params()) tensors.emplace_back(param->name(), param->grad());
    model::WriteSafetensors(plan_.dump_grads, tensors, {{"strategy", variant.strategy}});
  }

  const TrainingPlan& plan_;
  Rank& rank_;
  const model::DevicePtr device_;
  // The trainer has the task's model; its source and ranges are the following members.
  TrainingTask task_;
  const std::unique_ptr<RangeSink> ranges_;  // null if ranges are not used
  const std::unique_ptr<BatchSource> source_;
  const std::vector<int> threads_before_;  // ids of threads before the groups have made threads
  comm::RecordingProcessGroup& group_;     // the run's own group
  Trainer trainer_;
  Verifier verifier_;
  Disturbance disturbance_;
  std::optional<PyTorchPeer> peer_;
  OpRecorder recorder_;
  Peak peak_flops_;  // peak of this rank
  std::optional<TraceLog> trace_;
  std::string notes_;     // text that is printed at the end
  int64_t position_ = 0;  // position of the next timed step
};

}  // namespace

int RunTrainingProgram(int argc, char** argv, FlagTable& flags, TrainingOptions& options,
                       const AlterTask& alter_task) {
  std::optional<const TrainingPlan> plan;
  const auto make_plan = [&](const comm::World&) { return plan.emplace(options, flags).GroupBackends(); };
  const auto answer = [&](const comm::World& world) {
    if (plan->max_memory && world.rank == 0)
      std::cout << DescribeEstimates(*plan, world, ResidentBytes().value_or(0));
    return plan->max_memory.has_value();
  };
  const auto check = [&](const comm::World& world) {
    CheckMemoryOfThisHost(*plan, world);
    if (plan->peers.wanted)
      CheckPeerProgram(FindPeerProgram(plan->peers.python(), argv[0]),
                       plan->peers.compiled() ? plan->ranks.device_name() : "");
  };
  const auto prepare = [&](Rank& rank) {
    return std::make_unique<TrainingJob>(*plan, rank, argv[0], alter_task);
  };
  return RunRankProgram(argc, argv, {"ddp", flags, options.ranks, make_plan, check, prepare, answer});
}

}  // namespace gradsync::bench
