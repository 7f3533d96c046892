#include "bench/training/variant.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "bench/timing/annotate.h"
#include "model/error.h"
#include "model/safetensors.h"

namespace gradsync::bench {
namespace {

using model::Batch;
using model::Parameter;

class OwnVariant : public Variant {
 public:
  OwnVariant(const Case& the_case, const VariantSpec& spec, int64_t num_in_memory, Trainer& trainer)
      : Variant(the_case, spec),
        num_in_memory_(num_in_memory),
        trainer_(trainer),
        strategy_(trainer.NewStrategy(spec.name, spec.bucket_bytes)) {}

  bool traceable() const override { return true; }

  StepResult Step(const Batch& batch, model::Tracer* tracer) override {
    RangeSink* const ranges = trainer_.ranges();
    if (ranges == nullptr) return TakeStep(batch, tracer);
    OpAnnotator ops(*ranges, tracer);
    ranges->Push(RangeKind::kStep, Join(spec().name, ", ", the_case().name()));
    const StepResult result = TakeStep(batch, &ops);
    ranges->Pop();
    return result;
  }

  // More than one, because `core` moves its buckets after the first.
  int64_t num_check_steps() const override { return kCheckSteps; }

  void StepFromStart(const Batch& batch) override {
    trainer_.Restart();
    TakeStep(batch, nullptr);
  }

  void Describe(Record& record) const override {
    const model::CachingAllocator::Stats memory = trainer_.device()->allocator().stats();
    record.facts.Set("peak_bytes_in_use", memory.peak_bytes_in_use);
    record.facts.Set("bytes_held", memory.bytes_held);
    record.facts.Set("strategies_in_memory", num_in_memory_);
    for (const ddp::Bucket& bucket : strategy_->plan().buckets) {
      record.buckets.push_back(
          {static_cast<int64_t>(bucket.bytes()), static_cast<int64_t>(bucket.params.size())});
    }
  }

 private:
  // What fails says where that was.
  StepResult TakeStep(const Batch& batch, model::Tracer* tracer) {
    const auto where = [&] {
      return Join("; in ", trainer_.phase(), " of ", spec().name, ", ", the_case().name());
    };
    try {
      return trainer_.Step(*strategy_, batch, tracer);
    } catch (const comm::CollectiveError& error) {
      throw comm::CollectiveError(error.what() + where());
    } catch (const std::exception& error) {
      throw std::runtime_error(error.what() + where());
    }
  }

  const int64_t num_in_memory_;
  Trainer& trainer_;
  const std::unique_ptr<ddp::Strategy> strategy_;
};

class PeerVariant : public Variant {
 public:
  // `path`: of a file for what it has trained.
  PeerVariant(const Case& the_case, const VariantSpec& spec, int64_t num_in_memory, std::string path,
              PyTorchPeer& process, Trainer& trainer)
      : Variant(the_case, spec),
        num_in_memory_(num_in_memory),
        path_(std::move(path)),
        process_(process),
        trainer_(trainer) {}

  bool traceable() const override { return false; }

  StepResult Step(const Batch& batch, model::Tracer* /*tracer*/) override {
    const PeerStep step = process_.Step(spec().peer, batch);
    tells_sync_ = step.tells_sync;
    peak_bytes_ = std::max(peak_bytes_, step.peak_bytes_in_use);
    if (step.strategies_in_memory > 0) num_in_memory_ = step.strategies_in_memory;
    return {.marks = step.marks};
  }

  int64_t num_check_steps() const override { return 1; }

  void StepFromStart(const Batch& batch) override {
    process_.Train(spec().peer, batch, path_);
    const model::SafetensorsFile file = model::SafetensorsFile::Open(path_);
    for (Parameter* const param : trainer_.params()) {
      file.LoadInto(param->name(), param->MutableValue());
      file.LoadInto("grad." + param->name(), param->grad());
    }
  }

  // It says nothing of its collectives, nor of the host's memory.
  void Describe(Record& record) const override {
    record.samples.erase("comm_busy_ns");
    if (!tells_sync_) {
      record.samples.erase("backward_ns");
      record.samples.erase("sync_exposed_ns");
    }
    const std::string unknown = "unknown";
    record.facts.Set("allocations_in_timed_steps", unknown);
    record.facts.Set("peak_bytes_in_use", peak_bytes_ > 0 ? Value(peak_bytes_) : Value(unknown));
    record.facts.Set("bytes_held", unknown);
    record.facts.Set("strategies_in_memory", num_in_memory_);
    for (const auto& [name, value] : process_.FactsOf(spec().peer)) record.facts.Set(name, value);
    record.provenance.libraries = process_.libraries();
    record.provenance.compiler = "";
    record.provenance.clock = process_.clock();
  }

 private:
  int64_t num_in_memory_;
  const std::string path_;
  PyTorchPeer& process_;
  Trainer& trainer_;
  bool tells_sync_ = true;
  int64_t peak_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Variant> MakeOwnVariant(const Case& the_case, const VariantSpec& spec, int64_t num_in_memory,
                                        Trainer& trainer) {
  return std::make_unique<OwnVariant>(the_case, spec, num_in_memory, trainer);
}

Peers::Peers(const PeerProgram& program, const RankOptions& options, std::string_view backend,
             const comm::World& world, const ThreadPlacement& placement, Trainer& trainer)
    : trainer_(trainer),
      process_(program, options, backend, world, placement, trainer.group(), trainer.device()) {}

void Peers::Begin(std::span<const VariantSpec> specs, const Fields& config) {
  bucket_bytes_.clear();
  for (const VariantSpec& spec : specs) {
    if (!spec.peer.empty()) bucket_bytes_[spec.peer] = spec.bucket_bytes;
  }
  if (bucket_bytes_.empty()) return;
  // The process starts from what the replica holds.
  trainer_.Restart();
  const std::string weights = files_.Path("weights");
  if (trainer_.group().rank() == 0) {
    model::SaveParameters(trainer_.params(), weights, trainer_.model().buffers());
  }
  process_.Begin(config, bucket_bytes_, weights);
}

std::unique_ptr<Variant> Peers::Make(const Case& the_case, const VariantSpec& spec) {
  return std::make_unique<PeerVariant>(the_case, spec, static_cast<int64_t>(bucket_bytes_.size()),
                                       files_.Path(Join("rank", trainer_.group().rank())), process_,
                                       trainer_);
}

}  // namespace gradsync::bench
