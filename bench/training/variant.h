#ifndef GRADSYNC_BENCH_TRAINING_VARIANT_H_
#define GRADSYNC_BENCH_TRAINING_VARIANT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "bench/launch/rank_main.h"
#include "bench/peers/pytorch.h"
#include "bench/records/record.h"
#include "bench/training/case.h"
#include "bench/training/trainer.h"
#include "comm/processes/temporary_directory.h"
#include "model/model.h"

namespace gradsync::bench {

// One variant of a case at work on this rank: what takes its steps.
class Variant {
 public:
  // Both must outlive it.
  Variant(const Case& the_case, const VariantSpec& spec) : case_(the_case), spec_(spec) {}
  virtual ~Variant() = default;
  Variant(const Variant&) = delete;
  Variant& operator=(const Variant&) = delete;

  const Case& the_case() const { return case_; }
  const VariantSpec& spec() const { return spec_; }

  // Whether a tracer hears of its steps.
  virtual bool traceable() const = 0;
  // One training step. `tracer`, if there is one, must be null unless it is traceable.
  virtual StepResult Step(const model::Batch& batch, model::Tracer* tracer) = 0;

  // What its step scales the loss by.
  virtual double loss_scale() const = 0;
  // The step of a check, from rank 0's initial weights: afterwards the trainer's parameters hold the
  // variant's gradients and values. After others, because `core` moves its buckets after its first.
  virtual void StepFromStart(const model::Batch& batch) = 0;

  // Adds to a record what is known after a first timed step: provenance and buckets.
  virtual void Introduce(Record& record) const = 0;
  // The facts of all steps so far.
  virtual void Describe(Fields& facts) const = 0;

 private:
  const Case& case_;
  const VariantSpec& spec_;
};

// One of gradsync's own strategies, with buffers in this process beside those of others: `num_in_memory`
// together.
std::unique_ptr<Variant> MakeOwnVariant(const Case& the_case, const VariantSpec& spec, int64_t num_in_memory,
                                        Trainer& trainer);

// Peers' variants, whose steps another process takes, and the files by which it and the trainer exchange
// weights and gradients. All ranks call.
class Peers {
 public:
  // Starts the process. What is given by reference must outlive this.
  Peers(const PeerProgram& program, const RankOptions& options, std::string_view backend,
        const comm::World& world, const ThreadPlacement& placement, Trainer& trainer);

  // Of those among `specs` that are peers: has the process make what they train, from rank 0's initial
  // weights. `config`: what all their records have. To be called before Make, for each set of variants that
  // take turns.
  void Begin(std::span<const VariantSpec> specs, const Fields& config);
  std::unique_ptr<Variant> Make(const Case& the_case, const VariantSpec& spec);

 private:
  Trainer& trainer_;
  const comm::TemporaryDirectory files_;
  PyTorchPeer process_;
  std::map<std::string, int64_t> bucket_bytes_;  // of those that take turns
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_VARIANT_H_
