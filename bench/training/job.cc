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
#include "bench/timing/nvtx.h"
#include "bench/timing/schedule.h"
#include "bench/training/memory.h"
#include "bench/training/observers.h"
#include "bench/training/record.h"
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

// What is known of a variant: its record grows from step to step.
struct Measured {
  std::unique_ptr<Variant> variant;
  Record record;
};

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
        group_(JoinGroup(options.ranks, options.backend, world, device_, placement_)),
        trainer_(std::move(task_.model), {options.optimizer, options.learning_rate}, device_, *group_),
        verifier_(options, *source_, trainer_),
        recorder_(*device_) {
    if (options.tf32) model::CudaDevice::Of(*device_, "--tf32").set_allow_tf32(true);
    if (ranges_) trainer_.Annotate(*ranges_);
    if (options.check_gradients) trainer_.CheckGradients();
    SetRunRecord();
    if (options.peers.wanted()) {
      peers_.emplace(FindPeerProgram(options.peers.python(), argv[0]), options.ranks, options.backend, world,
                     placement_, trainer_);
    }
    const std::string out = OutputDirectory(options.ranks, task_.experiment + "-" + run_record_.run_id);
    observers_ = MakeObservers(options, task_, out, run_record_.run_id, trainer_);
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
    for (auto& [variant, record] : all) {
      record.time_utc = NowUtc();
      variant->Describe(record);
      for (const auto& observer : observers_) observer->OnTimed(*variant, record);
    }
    for (auto& [variant, record] : all) {
      verifier_.Check(*variant, record, [&, &of_variant = *variant] {
        for (const auto& observer : observers_) observer->OnCheckStep(of_variant);
      });
      for (const auto& observer : observers_) observer->OnChecked(*variant, record);
    }
  }

  std::vector<Measured> Prepare(const Case& the_case, std::span<const VariantSpec> specs) {
    if (peers_) peers_->Begin(specs, ConfigOf(the_case, {}));
    const int64_t num_own = std::ranges::count(specs, "", &VariantSpec::peer);
    std::vector<Measured> all;
    for (const VariantSpec& spec : specs) {
      Record record = run_record_;
      record.config = ConfigOf(the_case, spec);
      for (const auto& [name, value] : the_case.facts) record.facts.Set(name, value);
      all.push_back({spec.peer.empty() ? MakeOwnVariant(the_case, spec, num_own, trainer_)
                                       : peers_->Make(the_case, spec),
                     std::move(record)});
    }
    return all;
  }

  // In random order within each round.
  void TakeTurns(const Case& the_case, std::vector<Measured>& all) {
    const Batch batch = the_case.batch.NewBatch(device_);
    device_->allocator().ResetPeak();
    for (const ScheduledStep& step :
         InterleavedSchedule(static_cast<int>(all.size()), options_.warmup_steps, options_.steps,
                             static_cast<uint64_t>(options_.ranks.seed))) {
      source_->Fill(world_.rank, step.round, batch);
      auto& [variant, record] = all[static_cast<size_t>(step.config)];
      const bool listen = !step.warmup && variant->traceable() && (options_.trace || options_.profile);
      OpRecorder* const recorder = listen ? &recorder_ : nullptr;
      const StepResult result = variant->Step(batch, recorder);
      if (!step.warmup) AddSamples(result, position_++, record);
      const StepEvent event = {*variant, step.round - options_.warmup_steps, result, recorder};
      for (const auto& observer : observers_) observer->OnStep(event);
      recorder_.Clear();
    }
  }

  Fields ConfigOf(const Case& the_case, const VariantSpec& spec) const {
    Fields config;
    SetTrainingConfig(options_, spec.name, spec.bucket_bytes, config);
    for (const auto& [name, value] : the_case.config) config.Set(name, value);
    return config;
  }

  // What all records of this rank have.
  void SetRunRecord() {
    Record& record = run_record_;
    record.experiment = task_.experiment;
    record.run_id = BroadcastText(*group_, device_, world_.rank == 0 ? NewRunId() : "");
    record.rank = world_.rank;
    record.world_size = world_.size;
    record.provenance = provenance_;
    const int64_t elements = trainer_.num_elements();
    record.facts.Set("num_parameters", elements);
    record.facts.Set("num_tensors", trainer_.params().size());
    record.facts.Set("gradient_bytes", elements * static_cast<int64_t>(SizeOf(options_.gradient_type())));
    SetRankFacts(*group_, device_, world_, placement_, CountRanksOnGpu(*group_, device_), record);
  }

  // The first step of the first strategy, from the initial weights and before anything else.
  void DumpGradients() {
    const Case& the_case = task_.cases.front();
    const VariantSpec& spec = the_case.variants.front();
    const std::unique_ptr<ddp::Strategy> strategy = trainer_.NewStrategy(spec.name, spec.bucket_bytes);
    const Batch batch = the_case.batch.NewBatch(device_);
    source_->Fill(world_.rank, 0, batch);
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
  const std::unique_ptr<comm::RecordingProcessGroup> group_;
  Trainer trainer_;
  Verifier verifier_;
  Record run_record_;
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
