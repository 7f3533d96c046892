#include "bench/training/tasks.h"

#include "model/base/error.h"
#include "model/resnet.h"
#include "model/transformer.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kImageChannels = 3;

Cell NewCell(const TrainingPlan& plan, const char* what, int64_t batch_size, int64_t parts,
             int64_t row_size) {
  Cell cell;
  ConfigFields& config = cell.config;
  cell.name = Join("batch ", batch_size, parts > 1 ? Join(" x ", parts) : "", what, row_size);
  cell.accumulation_steps = parts;
  // A narrower model is a different model, also in tables.
  const bool is_narrow = plan.on_images() && plan.width;
  config.Set("model", is_narrow ? Join(plan.model, " of width ", *plan.width) : plan.model);
  config.Set("batch_size", batch_size);
  if (parts > 1) config.Set("accumulation_steps", parts);
  config.Set("data", plan.corpus.empty() ? "uniform" : "corpus");
  config.Set("weights", plan.weights.empty() ? "random" : "file");
  return cell;
}

Cell ImagesCell(const TrainingPlan& plan, int64_t batch_size, int64_t parts, const comm::World& world) {
  const model::ResNetConfig config = plan.resnet_config();
  Cell cell = NewCell(plan, ", image ", batch_size, parts, plan.image_size);
  cell.positions = parts * batch_size;
  cell.batch = {{cell.positions, kImageChannels, plan.image_size, plan.image_size},
                plan.gradient_type(),
                {cell.positions, config.num_classes},
                plan.gradient_type()};
  cell.config.Set("image_size", plan.image_size);
  cell.config.Set("width", config.width);
  cell.facts.Set("images_per_step", cell.positions * world.size);
  return cell;
}

Cell TokensCell(const TrainingPlan& plan, int64_t batch_size, int64_t parts, int64_t seq_len,
                const comm::World& world) {
  const model::TransformerConfig config = plan.transformer_config();
  const model::Shape shape = {parts * batch_size, seq_len};
  Cell cell = NewCell(plan, ", sequence ", batch_size, parts, seq_len);
  cell.batch = {shape, model::DType::kI32, shape, model::DType::kI32};
  cell.positions = model::Numel(shape);
  cell.config.Set("seq_len", seq_len);
  cell.config.Set("num_layers", config.num_layers);
  cell.config.Set("d_model", config.d_model);
  cell.config.Set("d_ff", config.d_ff);
  cell.config.Set("num_heads", config.num_heads);
  cell.config.Set("vocab_size", config.vocab_size);
  cell.facts.Set("tokens_per_step", cell.positions * world.size);
  return cell;
}

std::unique_ptr<BatchSource> MakeSource(const TrainingPlan& plan, uint64_t seed) {
  if (plan.on_images()) return UniformImages(seed);
  const int64_t vocab_size = plan.transformer_config().vocab_size;
  if (plan.corpus.empty()) return UniformTokens(vocab_size, seed);
  return CorpusTokens(plan.corpus, vocab_size, plan.longest_seq_len(), seed);
}

std::unique_ptr<model::Model> MakeModel(const TrainingPlan& plan, uint64_t seed,
                                        const model::DevicePtr& device) {
  const model::DType dtype = plan.dtype;
  if (plan.on_images()) return std::make_unique<model::ResNet>(plan.resnet_config(), device, dtype, seed);
  return std::make_unique<model::Transformer>(plan.transformer_config(), device, dtype, seed);
}

}  // namespace

TrainingTask MakeTask(const TrainingPlan& plan, uint64_t seed, const comm::World& world,
                      const model::DevicePtr& device) {
  TrainingTask task = {MakeModel(plan, seed, device), MakeSource(plan, seed), {}};
  if (world.rank == 0 && !plan.weights.empty()) {
    model::LoadParameters(task.model->parameters(), plan.weights);
  }
  for (const int64_t batch_size : plan.batch_sizes) {
    for (const int64_t parts : plan.accumulation_steps) {
      if (plan.on_images()) {
        task.cells.push_back(ImagesCell(plan, batch_size, parts, world));
        continue;
      }
      for (const int64_t seq_len : plan.seq_lens)
        task.cells.push_back(TokensCell(plan, batch_size, parts, seq_len, world));
    }
  }
  return task;
}

}  // namespace gradsync::bench
