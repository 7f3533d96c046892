#include "bench/training/job.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/launch/rank_main.h"
#include "bench/peers/pytorch.h"
#include "bench/records/provenance.h"
#include "bench/timing/cpu_clock.h"
#include "bench/timing/nvtx.h"
#include "bench/timing/peaks.h"
#include "bench/timing/schedule.h"
#include "bench/training/memory.h"
#include "bench/training/observers.h"
#include "bench/training/record.h"
#include "bench/training/stop_rule.h"
#include "bench/training/summary.h"
#include "bench/training/trainer.h"
#include "bench/training/variant.h"
#include "bench/training/verifier.h"
#include "model/cuda_device.h"
#include "model/error.h"
#include "model/safetensors.h"

namespace gradsync::bench {
namespace {

using model::Batch;
using model::Parameter;
using model::Tensor;

// What is known of a variant: its record, which grows, on disk too.
struct Measured {
  std::unique_ptr<Variant> variant;
  Record record;
  int64_t number = -1;  // in its file, once it is there
  std::optional<int64_t> allocations = {};
};

// An order of its own for each case of each launch, the same on all ranks.
uint64_t OrderSeed(int64_t seed, const std::string& run_id, const std::string& case_name) {
  uint64_t hash = static_cast<uint64_t>(seed) ^ 0xcbf29ce484222325;  // Fowler, Noll and Vo
  for (const char c : run_id + case_name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

class TrainingJob : public RankJob {
 public:
  TrainingJob(const TrainingOptions& options, const comm::World& world, int argc, const char* const* argv,
              const MakeTrainingTask& make_task)
      : options_(options),
        world_(world),
        provenance_(CollectProvenance(argc, argv)),
        placement_(options.ranks, world),
        device_(MakeDevice(options.ranks, world)),
        task_(make_task(world, device_)),
        ranges_(options.nvtx ? MakeNvtxSink() : std::move(task_.ranges)),
        source_(std::move(task_.source)),
        threads_before_(ThreadIds()),
        group_(JoinGroup(options.ranks, options.backend, world, device_, placement_)),
        trainer_(std::move(task_.model), {options.optimizer, options.learning_rate}, device_, *group_,
                 CpuClock(threads_before_)),
        verifier_(options, *source_, trainer_),
        recorder_(*device_) {
    if (options.tf32) model::CudaDevice::Of(*device_, "--tf32").set_allow_tf32(true);
    if (ranges_) trainer_.Annotate(*ranges_);
    if (options.check_gradients) trainer_.CheckGradients();
    const Peak peak_flops = SetRunRecord();
    if (options.peers.wanted()) {
      peers_.emplace(FindPeerProgram(options.peers.python(), argv[0]), options.ranks, options.backend, world,
                     placement_, trainer_);
    }
    const std::string& run_id = run_record_.run_id;
    const std::string out =
        OutputDirectory(options.ranks, task_.experiment + "-" + run_record_.facts.StringOr("launch_set", ""));
    writer_.emplace(out, task_.experiment, run_id, world.rank);
    observers_ = MakeObservers(options, task_, out, run_id, peak_flops, trainer_);
  }

  void Run() override {
    if (!options_.dump_grads.empty()) DumpGradients();
    for (const auto& observer : observers_) observer->OnBegin();
    for (const Case& the_case : task_.cases) {
      trainer_.Restart();
      if (options_.interleaved()) {
        Measure(the_case, the_case.variants);
      } else {
        for (const VariantSpec& spec : the_case.variants) Measure(the_case, {&spec, 1});
      }
    }
    group_->Barrier();
    for (const auto& observer : observers_) observer->OnEnd();
    if (world_.rank == 0 && !verifier_.first_fault().empty()) {
      throw std::runtime_error(verifier_.first_fault());
    }
  }

 private:
  void Measure(const Case& the_case, std::span<const VariantSpec> specs) {
    std::vector<Measured> all = Prepare(the_case, specs);
    TakeTurns(the_case, all);
    for (Measured& measured : all) {
      const StepTimes times = MaxOverRanks(TimesForSummary(measured.record), *group_, device_);
      Record more;
      more.facts.Set("allocations_in_timed_steps",
                     measured.allocations ? Value(*measured.allocations) : Value(std::string("unknown")));
      measured.variant->Describe(more.facts);
      for (const auto& observer : observers_) observer->OnTimed(*measured.variant, times, more);
      Add(more, measured);
    }
    writer_->WriteToDisk();
    for (Measured& measured : all) {
      Record more;
      more.checks = verifier_.Check(*measured.variant);
      for (const auto& observer : observers_) observer->OnChecked(*measured.variant, more.checks);
      Add(more, measured);
      writer_->WriteToDisk();
    }
  }

  std::vector<Measured> Prepare(const Case& the_case, std::span<const VariantSpec> specs) {
    if (peers_) peers_->Begin(specs, ConfigOf(the_case, {}));
    const int64_t num_own = std::ranges::count(specs, "", &VariantSpec::peer);
    const double flops = trainer_.CountFlops(NewBatch(the_case));
    std::vector<Measured> all;
    for (const VariantSpec& spec : specs) {
      Record record = run_record_;
      record.config = ConfigOf(the_case, spec);
      for (const auto& [name, value] : the_case.facts) record.facts.Set(name, value);
      record.facts.Set("flops_per_step", Value(flops));
      all.push_back({spec.peer.empty() ? MakeOwnVariant(the_case, spec, num_own, trainer_)
                                       : peers_->Make(the_case, spec),
                     std::move(record)});
    }
    return all;
  }

  Batch NewBatch(const Case& the_case) {
    Batch batch = the_case.batch.NewBatch(device_);
    source_->Fill(world_.rank, 0, batch);
    return batch;
  }

  // In an order of its own in each round.
  void TakeTurns(const Case& the_case, std::vector<Measured>& all) {
    const Batch batch = NewBatch(the_case);
    device_->allocator().ResetPeak();
    StopRule stop(options_.steps, options_.max_steps, options_.precision);
    const uint64_t seed = OrderSeed(options_.ranks.seed, run_record_.run_id, the_case.name());
    const int num_variants = static_cast<int>(all.size());
    for (int64_t round = 0; round < options_.warmup_steps; ++round) {
      for (const int i : RoundOrder(num_variants, round, ~seed)) {
        TakeStep(all[static_cast<size_t>(i)], round, /*sample=*/-1, batch);
      }
    }
    std::vector<int64_t> steps_ns(all.size());
    int64_t sample = 0;
    do {
      for (const int i : RoundOrder(num_variants, sample, seed)) {
        steps_ns[static_cast<size_t>(i)] =
            TakeStep(all[static_cast<size_t>(i)], options_.warmup_steps + sample, sample, batch);
      }
      ++sample;
      // In the order of the command line, which is that of tables, and not of the first round.
      for (Measured& measured : all) {
        if (measured.number < 0) measured.number = writer_->Begin(measured.record);
      }
      writer_->Write();
    } while (!stop.IsLast(steps_ns, *group_, device_));
  }

  // Returns how long it took. `sample`: negative for a step that warms up.
  int64_t TakeStep(Measured& measured, int64_t round, int64_t sample, const Batch& batch) {
    Variant& variant = *measured.variant;
    source_->Fill(world_.rank, round, batch);
    const bool listen = sample >= 0 && variant.traceable() && (options_.trace || options_.profile);
    OpRecorder* const recorder = listen ? &recorder_ : nullptr;
    const StepResult result = variant.Step(batch, recorder);
    if (sample >= 0) {
      if (measured.number < 0) {
        measured.record.time_utc = NowUtc();
        variant.Introduce(measured.record);
      }
      Add(SamplesOf(result, position_++), measured);
      if (result.allocations) measured.allocations = measured.allocations.value_or(0) + *result.allocations;
    }
    for (const auto& observer : observers_) observer->OnStep({variant, sample, result, recorder});
    recorder_.Clear();
    return result.marks.step_ns();
  }

  // To the record, and, once that is begun, to its file when that is written next.
  void Add(const Record& more, Measured& measured) {
    const std::string fault = Append(more, &measured.record);
    if (!fault.empty()) throw std::logic_error(fault);
    if (measured.number >= 0) writer_->Continue(measured.number, more);
  }

  Fields ConfigOf(const Case& the_case, const VariantSpec& spec) const {
    Fields config;
    SetTrainingConfig(options_, spec.name, spec.bucket_bytes, config);
    for (const auto& [name, value] : the_case.config) config.Set(name, value);
    return config;
  }

  // What all records of this rank have. Returns its own part of the peak.
  Peak SetRunRecord() {
    Record& record = run_record_;
    Launch launch = ThisLaunch();
    record.experiment = task_.experiment;
    record.run_id = AgreeOnRunId(*group_, device_, launch);
    record.rank = world_.rank;
    record.world_size = world_.size;
    record.provenance = provenance_;
    SetRankFacts(*group_, device_, world_, options_.ranks, launch, placement_, record);
    const int64_t elements = trainer_.num_elements();
    record.facts.Set("num_parameters", elements);
    record.facts.Set("num_tensors", trainer_.params().size());
    record.facts.Set("gradient_bytes", elements * static_cast<int64_t>(SizeOf(options_.gradient_type())));
    group_->Barrier();
    Peak peak = MeasureFlops(device_, options_.element_type());
    const Tensor sum = Tensor::From<double>(device_, {}, std::vector<double>{peak.per_second});
    group_->AllReduce(sum, comm::ReduceOp::kSum).Wait();
    record.facts.Set("peak_flops_per_second", Value(sum.ToVector<double>().front()));
    record.facts.Set("peak_flops_source", peak.source);
    group_->Clear();
    return peak;
  }

  // The first step of the first strategy, from the initial weights and before anything else.
  void DumpGradients() {
    const Case& the_case = task_.cases.front();
    const VariantSpec& spec = the_case.variants.front();
    const std::unique_ptr<ddp::Strategy> strategy = trainer_.NewStrategy(spec.name, spec.bucket_bytes);
    const Batch batch = NewBatch(the_case);
    trainer_.Restart();
    const double my_loss = trainer_.Gradients(*strategy, batch);
    const Tensor loss = Tensor::From<double>(device_, {}, std::vector<double>{my_loss});
    group_->AllReduce(loss, comm::ReduceOp::kMean).Wait();
    group_->Clear();
    if (world_.rank != 0) return;
    std::vector<std::pair<std::string, Tensor>> tensors = {{"loss", loss}};
    for (Parameter* const param : trainer_.params()) tensors.emplace_back(param->name(), param->grad());
    model::WriteSafetensors(options_.dump_grads, tensors, {{"strategy", spec.name}});
  }

  const TrainingOptions& options_;
  const comm::World world_;
  const Provenance provenance_;  // Taken before this rank is confined to CPUs of its own.
  const ThreadPlacement placement_;
  const model::DevicePtr device_;
  TrainingTask task_;                        // its model is the trainer's, its source and ranges below
  const std::unique_ptr<RangeSink> ranges_;  // null if nobody listens
  const std::unique_ptr<BatchSource> source_;
  const std::vector<int> threads_before_;  // the group's are not among them
  const std::unique_ptr<comm::RecordingProcessGroup> group_;
  Trainer trainer_;
  Verifier verifier_;
  Record run_record_;
  std::optional<RecordWriter> writer_;
  std::optional<Peers> peers_;
  std::vector<std::unique_ptr<Observer>> observers_;
  OpRecorder recorder_;
  int64_t position_ = 0;  // of the next timed step
};

}  // namespace

int RunTrainingProgram(int argc, char** argv, FlagTable& flags, TrainingOptions& options,
                       const MakeTrainingTask& make_task) {
  const auto check = [&](const comm::World& world) {
    options.Complete(flags, world);
    const std::optional<std::string> too_large = TooLargeForThisHost(options, world);
    Require(!too_large, too_large.value_or(""));
    if (!options.peers.wanted()) return;
    CheckPeerProgram(FindPeerProgram(options.peers.python(), argv[0]), options.peers.compiled(),
                     options.ranks.device);
  };
  const auto prepare = [&](const comm::World& world) {
    if (world.launcher == "self") options.Complete(flags, world);  // The checks ran in another process.
    return std::make_unique<TrainingJob>(options, world, argc, argv, make_task);
  };
  return RunRankProgram(argc, argv, {flags, options.ranks, check, prepare});
}

}  // namespace gradsync::bench
