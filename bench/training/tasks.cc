#include "bench/training/tasks.h"

#include "model/base/error.h"
#include "model/resnet.h"
#include "model/transformer.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kImageChannels = 3;

uint64_t SeedOf(const TrainingOptions& options) { return static_cast<uint64_t>(options.ranks.seed); }

Cell NewCell(const TrainingOptions& options, const char* what, int64_t batch_size, int64_t parts,
             int64_t row_size) {
  Cell cell;
  ConfigFields& config = cell.config;
  cell.name = Join("batch ", batch_size, parts > 1 ? Join(" x ", parts) : "", what, row_size);
  cell.accumulation_steps = parts;
  // A narrower model is another one, in tables too.
  const bool is_narrow = options.on_images() && options.width;
  config.Set("model", is_narrow ? Join(options.model, " of width ", *options.width) : options.model);
  config.Set("batch_size", batch_size);
  if (parts > 1) config.Set("accumulation_steps", parts);
  config.Set("data", options.corpus.empty() ? "uniform" : "corpus");
  config.Set("weights", options.weights.empty() ? "random" : "file");
  return cell;
}

Cell ImagesCell(const TrainingOptions& options, int64_t batch_size, int64_t parts, const comm::World& world) {
  const model::ResNetConfig config = options.resnet_config();
  Cell cell = NewCell(options, ", image ", batch_size, parts, options.image_size);
  cell.positions = parts * batch_size;
  cell.batch = {{cell.positions, kImageChannels, options.image_size, options.image_size},
                options.gradient_type(),
                {cell.positions, config.num_classes},
                options.gradient_type()};
  cell.config.Set("image_size", options.image_size);
  cell.config.Set("width", config.width);
  cell.facts.Set("images_per_step", cell.positions * world.size);
  return cell;
}

Cell TokensCell(const TrainingOptions& options, int64_t batch_size, int64_t parts, int64_t seq_len,
                const comm::World& world) {
  const model::TransformerConfig config = options.transformer_config();
  const model::Shape shape = {parts * batch_size, seq_len};
  Cell cell = NewCell(options, ", sequence ", batch_size, parts, seq_len);
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

std::unique_ptr<BatchSource> MakeSource(const TrainingOptions& options) {
  if (options.on_images()) return UniformImages(SeedOf(options));
  const int64_t vocab_size = options.transformer_config().vocab_size;
  if (options.corpus.empty()) return UniformTokens(vocab_size, SeedOf(options));
  return CorpusTokens(options.corpus, vocab_size, options.longest_seq_len(), SeedOf(options));
}

std::unique_ptr<model::Model> MakeModel(const TrainingOptions& options, const model::DevicePtr& device) {
  const model::DType dtype = options.element_type();
  if (options.on_images())
    return std::make_unique<model::ResNet>(options.resnet_config(), device, dtype, SeedOf(options));
  return std::make_unique<model::Transformer>(options.transformer_config(), device, dtype, SeedOf(options));
}

}  // namespace

TrainingTask MakeTask(const TrainingOptions& options, const comm::World& world,
                      const model::DevicePtr& device) {
  TrainingTask task = {MakeModel(options, device), MakeSource(options), {}};
  if (world.rank == 0 && !options.weights.empty()) {
    model::LoadParameters(task.model->parameters(), options.weights);
  }
  for (const int64_t batch_size : options.batch_sizes) {
    for (const int64_t parts : options.accumulation_steps) {
      if (options.on_images()) {
        task.cells.push_back(ImagesCell(options, batch_size, parts, world));
        continue;
      }
      for (const int64_t seq_len : options.seq_lens)
        task.cells.push_back(TokensCell(options, batch_size, parts, seq_len, world));
    }
  }
  return task;
}

}  // namespace gradsync::bench
