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
    StepResult result = TakeStep(batch, &ops);
    ranges->Pop();
    return result;
  }

  double loss_scale() const override { return strategy_->loss_scale(); }

  void StepFromStart(const Batch& batch) override {
    trainer_.Restart();
    TakeStep(batch, nullptr);
  }

  void Introduce(Record& record) const override {
    for (const ddp::Bucket& bucket : strategy_->plan().buckets) {
      record.buckets.push_back(
          {static_cast<int64_t>(bucket.sent_bytes()), static_cast<int64_t>(bucket.params.size())});
    }
  }

  void Describe(Fields& facts) const override {
    const model::CachingAllocator::Stats memory = trainer_.device()->allocator().stats();
    facts.Set("peak_bytes_in_use", memory.peak_bytes_in_use);
    facts.Set("bytes_held", memory.bytes_held);
    facts.Set("strategies_in_memory", num_in_memory_);
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
    peak_bytes_ = std::max(peak_bytes_, step.peak_bytes_in_use);
    if (step.strategies_in_memory > 0) num_in_memory_ = step.strategies_in_memory;
    return {.marks = step.marks, .tells_sync = step.tells_sync};
  }

  double loss_scale() const override { return 1; }

  void StepFromStart(const Batch& batch) override {
    process_.Train(spec().peer, batch, path_);
    trainer_.BeginGradients();
    const model::SafetensorsFile file = model::SafetensorsFile::Open(path_);
    for (Parameter* const param : trainer_.params()) {
      file.LoadInto(param->name(), param->MutableValue());
      file.LoadInto("grad." + param->name(), param->grad());
      param->MarkGrad();
    }
  }

  void Introduce(Record& record) const override {
    for (const auto& [name, value] : process_.FactsOf(spec().peer)) record.facts.Set(name, value);
    record.provenance.libraries = process_.libraries();
    record.provenance.compiler = "";
    record.provenance.clock = process_.clock();
  }

  // It says nothing of the host's memory.
  void Describe(Fields& facts) const override {
    const std::string unknown = "unknown";
    facts.Set("peak_bytes_in_use", peak_bytes_ > 0 ? Value(peak_bytes_) : Value(unknown));
    facts.Set("bytes_held", unknown);
    facts.Set("strategies_in_memory", num_in_memory_);
  }

 private:
  int64_t num_in_memory_;
  const std::string path_;
  PyTorchPeer& process_;
  Trainer& trainer_;
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
