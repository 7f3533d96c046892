#include "bench/ddp_run.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/ddp_record.h"
#include "bench/op_recorder.h"
#include "bench/progress.h"
#include "bench/provenance.h"
#include "bench/rank_zero.h"
#include "bench/record.h"
#include "bench/schedule.h"
#include "bench/token_source.h"
#include "bench/trace_log.h"
#include "bench/trainer.h"
#include "bench/verify.h"
#include "ddp/factory.h"
#include "model/error.h"
#include "model/safetensors.h"

namespace gradsync::bench {
namespace {

using model::Batch;
using model::Parameter;
using model::Tensor;

constexpr char kExperiment[] = "ddp";
// Steps of a check: `core` moves its buckets after its first step, and the optimizer's state counts from the
// second.
constexpr int64_t kVerifySteps = 2;

std::unique_ptr<TokenSource> MakeTokenSource(const DdpOptions& options, int world_size) {
  const int64_t vocab_size = options.model_config().vocab_size;
  const uint64_t seed = static_cast<uint64_t>(options.ranks.seed);
  if (!options.batch_file.empty()) return BatchFileTokens(options.batch_file, vocab_size, world_size);
  if (options.corpus.empty()) return UniformTokens(vocab_size, seed);
  const int64_t longest = *std::max_element(options.seq_lens.begin(), options.seq_lens.end());
  return CorpusTokens(options.corpus, vocab_size, longest, seed);
}

// A strategy that is being measured.
struct Contender {
  std::string name;
  std::unique_ptr<ddp::Strategy> strategy;
  StrategySamples samples;
};

class DdpJob : public RankJob {
 public:
  DdpJob(const DdpOptions& options, const comm::World& world, int argc, const char* const* argv)
      : options_(options),
        world_(world),
        provenance_(CollectProvenance(argc, argv)),
        placement_(options.ranks, world),
        device_(MakeDevice(options.ranks, world)),
        trainer_(options, device_, world.rank),
        source_(MakeTokenSource(options, world.size)),
        owned_group_(JoinGroup(options.ranks, options.backend, world, device_, placement_)),
        group_(*owned_group_),
        run_id_(BroadcastText(group_, device_, world.rank == 0 ? NewRunId() : "")),
        out_(OutputDirectory(options.ranks, Join(kExperiment, "-", run_id_))),
        writer_(out_, kExperiment, run_id_, world.rank),
        trace_(world.rank) {}

  void Run() override {
    if (!options_.dump_grads.empty()) DumpGradients();
    RunCells();
    group_.Barrier();
    Report();
  }

 private:
  struct Measured {
    const Cell& cell;
    std::optional<Reference> reference;  // made when it is first needed
  };

  void RunCells() {
    const int64_t contenders = static_cast<int64_t>(Cells(options_).size() * options_.strategies.size());
    const int64_t steps = options_.warmup_steps + options_.steps + (options_.verify ? kVerifySteps : 0);
    progress_.emplace(contenders * steps, world_.rank == 0);
    for (const Cell& cell : Cells(options_)) RunCell(cell);
    progress_.reset();
  }

  void RunCell(const Cell& cell) {
    Measured measured{cell, std::nullopt};
    trainer_.Restart(group_);
    if (options_.interleaved()) return RunTogether(measured, options_.strategies);
    for (const std::string& strategy : options_.strategies) RunTogether(measured, {strategy});
  }

  // Times the strategies step by step in turn, then checks them and writes their records.
  void RunTogether(Measured& measured, const std::vector<std::string>& names) {
    std::vector<Contender> contenders;
    for (const std::string& name : names) contenders.push_back({name, NewStrategy(name), {}});

    const Batch batch = NewBatch(measured.cell.batch_size, measured.cell.seq_len);
    const uint64_t seed = static_cast<uint64_t>(options_.ranks.seed);
    for (const ScheduledStep& step : InterleavedSchedule(static_cast<int>(contenders.size()),
                                                         options_.warmup_steps, options_.steps, seed)) {
      FillBatch(world_.rank, step.round, batch);
      TimeStep(contenders[static_cast<size_t>(step.config)], measured.cell, step.warmup, batch);
    }
    if (options_.verify && !measured.reference) measured.reference = MakeReference(measured.cell);
    for (Contender& contender : contenders) Finish(contender, measured, batch);
  }

  void TimeStep(Contender& contender, const Cell& cell, bool warmup, const Batch& batch) {
    const bool listen = !warmup && (options_.trace || options_.profile);
    const int64_t allocations = device_->allocator().stats().source_allocations;
    const StepResult result =
        trainer_.Step(*contender.strategy, batch, group_, listen ? &recorder_ : nullptr);
    if (listen) Listen(contender, cell, result);
    ShowProgress(cell, contender.name);
    if (warmup) return;
    contender.samples.allocations += device_->allocator().stats().source_allocations - allocations;
    contender.samples.steps.push_back(result);
    contender.samples.positions.push_back(position_++);
  }

  void Listen(const Contender& contender, const Cell& cell, const StepResult& result) {
    if (options_.profile) profile_.Add(recorder_.ops());
    if (options_.trace) {
      const int64_t step = static_cast<int64_t>(contender.samples.steps.size());
      trace_.AddStep({contender.name, step, cell.batch_size, cell.seq_len}, result.marks, recorder_.ops(),
                     group_.entries());
    }
    recorder_.Clear();
  }

  // All ranks restart; rank 0 then trains alone on all ranks' rows.
  Reference MakeReference(const Cell& cell) {
    trainer_.Restart(group_);
    Reference reference;
    OnRankZero(group_, device_, options_.ranks.timeout / 4, [&] {
      for (int64_t step = 0; step < kVerifySteps; ++step) trainer_.StepAlone(WholeBatch(cell, step));
      reference = CopyState(trainer_.params());
    });
    group_.Clear();
    return reference;
  }

  // The rows of all ranks, by rank.
  Batch WholeBatch(const Cell& cell, int64_t step) {
    const Batch whole = NewBatch(cell.batch_size * world_.size, cell.seq_len);
    for (int rank = 0; rank < world_.size; ++rank) {
      const auto rows = [&](const Tensor& tensor) {
        return tensor.Slice(rank * cell.batch_size * cell.seq_len, {cell.batch_size, cell.seq_len});
      };
      FillBatch(rank, step, {rows(whole.inputs), rows(whole.targets)});
    }
    return whole;
  }

  void Finish(Contender& contender, const Measured& measured, const Batch& batch) {
    Record record = NewRecord(measured.cell, contender);
    std::string verdict = "not checked";
    if (options_.verify) {
      const StrategyCheck check = Check(contender, measured, batch);
      SetDdpChecks(check, record.checks);
      verdict = VerdictWord(contender.name, check);
      if (first_fault_.empty()) first_fault_ = Fault(contender.name, check);
    }
    record.checks.Set("reference", options_.verify ? "single_process" : "none");
    record.buckets = BucketRecords(contender.strategy->plan());
    writer_.Write(record);
    summary_.push_back(Summarize(measured.cell, contender.name, contender.samples, std::move(verdict)));
  }

  StrategyCheck Check(Contender& contender, const Measured& measured, const Batch& batch) {
    trainer_.Restart(group_);
    for (int64_t step = 0; step < kVerifySteps; ++step) {
      FillBatch(world_.rank, step, batch);
      trainer_.Step(*contender.strategy, batch, group_, nullptr);
      ShowProgress(measured.cell, contender.name + ", check");
    }
    const int64_t positions = measured.cell.batch_size * measured.cell.seq_len * world_.size;
    StrategyCheck check{Verify(trainer_.params(), *measured.reference, group_),
                        Tolerance(options_.element_type(), positions)};
    group_.Clear();
    return check;
  }

  Record NewRecord(const Cell& cell, const Contender& contender) const {
    Record record;
    record.experiment = kExperiment;
    record.run_id = run_id_;
    record.time_utc = NowUtc();
    record.rank = world_.rank;
    record.world_size = world_.size;
    SetDdpConfig(options_, cell, contender.name, record.config);
    SetDdpSamples(contender.samples, record);
    const int64_t elements = trainer_.num_elements();
    record.facts.Set("num_parameters", elements);
    record.facts.Set("num_tensors", trainer_.params().size());
    record.facts.Set("gradient_bytes", elements * static_cast<int64_t>(SizeOf(options_.element_type())));
    record.facts.Set("tokens_per_step", cell.batch_size * cell.seq_len * world_.size);
    record.facts.Set("peak_bytes_in_use", device_->allocator().stats().peak_bytes_in_use);
    SetRankFacts(group_, world_, placement_, record.facts);
    record.provenance = provenance_;
    return record;
  }

  // The first step of the first strategy, from the initial weights and before anything else.
  void DumpGradients() {
    const Cell cell = Cells(options_).front();
    const std::unique_ptr<ddp::Strategy> strategy = NewStrategy(options_.strategies.front());
    const Batch batch = NewBatch(cell.batch_size, cell.seq_len);
    FillBatch(world_.rank, 0, batch);
    trainer_.Restart(group_);
    const double my_loss = trainer_.Gradients(*strategy, batch);
    const Tensor loss = Tensor::From<double>(device_, {}, std::vector<double>{my_loss});
    group_.AllReduce(loss, comm::ReduceOp::kMean).Wait();
    group_.Clear();
    if (world_.rank != 0) return;
    std::vector<std::pair<std::string, Tensor>> tensors = {{"loss", loss}};
    for (Parameter* const param : trainer_.params()) tensors.emplace_back(param->name(), param->grad());
    model::WriteSafetensors(options_.dump_grads, tensors, {{"strategy", options_.strategies.front()}});
  }

  void Report() {
    std::string trace_path;
    if (options_.trace) {
      trace_path = Join(out_, "/", kExperiment, ".", run_id_, ".rank", world_.rank, ".trace.json");
      trace_.Write(trace_path);
    }
    if (world_.rank != 0) return;
    std::fputs(FormatSummary(summary_).c_str(), stdout);
    if (options_.profile) std::fputs(profile_.ToString().c_str(), stdout);
    std::printf("Medians of rank 0. Records: %s\n", out_.c_str());
    if (options_.trace) std::printf("Trace: %s\n", trace_path.c_str());
    if (!first_fault_.empty()) throw std::runtime_error(first_fault_);
  }

  std::unique_ptr<ddp::Strategy> NewStrategy(const std::string& name) {
    ddp::StrategyOptions strategy_options;
    strategy_options.bucket_bytes = static_cast<size_t>(options_.bucket_bytes);
    return ddp::MakeStrategy(name, {trainer_.params(), group_, strategy_options});
  }

  Batch NewBatch(int64_t rows, int64_t seq_len) const {
    return {Tensor::Empty(device_, {rows, seq_len}, model::DType::kI32),
            Tensor::Empty(device_, {rows, seq_len}, model::DType::kI32)};
  }

  void FillBatch(int rank, int64_t step, const Batch& batch) {
    source_->Fill(rank, step, batch.inputs, batch.targets);
  }

  void ShowProgress(const Cell& cell, const std::string& what) {
    progress_->Step(Join("batch ", cell.batch_size, ", sequence ", cell.seq_len, ", ", what));
  }

  const DdpOptions& options_;
  const comm::World world_;
  const Provenance provenance_;  // Taken before this rank is confined to CPUs of its own.
  const ThreadPlacement placement_;
  const model::DevicePtr device_;
  // Files are read before the group is joined: whoever waits for a rank that found fault with one is just
  // stopped.
  Trainer trainer_;
  const std::unique_ptr<TokenSource> source_;
  const std::unique_ptr<comm::RecordingProcessGroup> owned_group_;
  comm::RecordingProcessGroup& group_;
  const std::string run_id_;
  const std::string out_;
  RecordWriter writer_;
  TraceLog trace_;

  OpRecorder recorder_;
  OpProfile profile_;
  std::optional<Progress> progress_;  // while cells are measured
  int64_t position_ = 0;
  std::vector<SummaryRow> summary_;
  std::string first_fault_;
};

}  // namespace

std::unique_ptr<RankJob> MakeDdpJob(const DdpOptions& options, const comm::World& world, int argc,
                                    const char* const* argv) {
  return std::make_unique<DdpJob>(options, world, argc, argv);
}

}  // namespace gradsync::bench
