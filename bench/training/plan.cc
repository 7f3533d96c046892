#include "bench/training/plan.h"

#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "bench/launch/rank_options.h"
#include "bench/records/provenance.h"
#include "bench/records/record.h"
#include "bench/timing/cpu_clock.h"
#include "bench/training/stepper.h"
#include "bench/training/tasks.h"
#include "bench/training/trainer.h"
#include "comm/queue/recording_process_group.h"
#include "comm/rendezvous/world.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

// Rank 0 of a world that has no other ranks: every collective is done at once, as if all others had the same
// tensors.
class LoneGroup : public comm::ProcessGroup {
 public:
  LoneGroup(std::string backend, int world_size)
      : ProcessGroup(0, world_size), backend_(std::move(backend)) {}

  std::string_view backend() const override { return backend_; }
  model::Tensor AllocateShared(const model::DevicePtr& device, model::Shape shape,
                               model::DType dtype) override {
    return backend_ == "shm" ? model::Tensor::Zeros(device, std::move(shape), dtype) : model::Tensor();
  }
  comm::Work Issue(comm::Request request) override {
    if (request.collective != comm::Collective::kAllGather) return {};
    const int64_t part = request.input.numel();
    const model::Tensor own = request.input.Clone();  // it may be a part of the output
    for (int64_t rank = 0; rank < size(); ++rank) request.output.Slice(rank * part, {part}).CopyFrom(own);
    return {};
  }

 private:
  const std::string backend_;
};

class Planner {
 public:
  Planner(const TrainingOptions& options, const comm::World& world, Record record)
      : options_(options),
        record_(std::move(record)),
        device_(MakeDevice(options.ranks, world)),
        task_(MakeTask(options, world, device_)),
        group_(std::make_unique<LoneGroup>("", world.size)),
        trainer_(std::move(task_.model),
                 {.optimizer = options.optimizer, .learning_rate = options.learning_rate}, device_, group_,
                 CpuClock(ThreadIds())) {
    int64_t bytes = 0;
    for (const model::Parameter* const param : trainer_.params())
      bytes += param->numel() * static_cast<int64_t>(SizeOf(param->dtype()));
    record_.facts.Set("num_parameters", trainer_.num_elements());
    record_.facts.Set("num_tensors", trainer_.params().size());
    record_.facts.Set("gradient_bytes", bytes);
  }

  void Write(RecordWriter& writer) {
    for (const Cell& cell : task_.cells) {
      for (const TrainingVariant& variant : options_.variants) writer.Begin(Plan(cell, variant));
    }
    writer.WriteToDisk();
  }

 private:
  Record Plan(const Cell& cell, const TrainingVariant& variant) {
    trainer_.Restart();
    comm::RecordingProcessGroup group(std::make_unique<LoneGroup>(variant.backend, group_.size()));
    const std::unique_ptr<Stepper> stepper = MakeOwnStepper(cell, variant, trainer_, group);
    model::Batch batch = cell.batch.NewBatch(device_);
    task_.source->Fill(0, 0, batch);
    Record record = record_;
    record.time_utc = NowUtc();
    options_.Describe(variant, record);
    record.config.SetAll(cell.config);
    record.facts.SetAll(cell.facts);
    const bool is_floor = !variant.traits->communicates;
    const int64_t warmup = is_floor ? options_.warmup_steps : 2, timed = is_floor ? options_.steps : 0;
    for (int64_t i = 0; i < warmup; ++i) stepper->Step(batch, nullptr);
    for (int64_t i = 0; i < timed; ++i) Append(SamplesOf(stepper->Step(batch, nullptr), i), &record);
    stepper->Introduce(record);
    return record;
  }

  const TrainingOptions& options_;
  Record record_;  // what all have in common
  const model::DevicePtr device_;
  TrainingTask task_;
  comm::RecordingProcessGroup group_;  // the trainer's own
  Trainer trainer_;
};

}  // namespace

int RunPlanProgram(int argc, char** argv, FlagTable& flags, TrainingOptions& options) try {
  flags.Parse(argc, argv);
  if (flags.help_requested()) {
    std::cout << flags.Usage();
    return 0;
  }
  comm::World world;
  world.size = world.local_size = static_cast<int>(options.ranks.world_size);
  options.Complete(flags, world);
  Record record;
  record.experiment = "plan";
  record.run_id = NewRunId();
  record.world_size = world.size;
  record.provenance = CollectProvenance(argc, argv);
  const std::string out = options.ranks.OutputDirectory("plan-" + record.run_id);
  RecordWriter writer(out, record.experiment, record.run_id, 0);
  Planner(options, world, std::move(record)).Write(writer);
  std::cout << "Plans: " << out << "\n";
  return 0;
} catch (const InvalidInput& error) {
  std::cerr << error.what() << "\n";
  return 2;
} catch (const std::exception& error) {
  std::cerr << "plan: " << error.what() << "\n";
  return 1;
}

}  // namespace gradsync::bench
