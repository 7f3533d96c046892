#include "bench/training/tasks.h"

#include "model/base/error.h"
#include "model/transformer/transformer.h"
#include "model/vision/resnet.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kImageChannels = 3;

Setting NewSetting(const TrainingPlan& plan, const char* what, int64_t batch_size, int64_t parts,
                   int64_t row_size) {
  Setting setting;
  ConfigFields& config = setting.config;
  setting.name = Join("batch ", batch_size, parts > 1 ? Join(" x ", parts) : "", what, row_size);
  setting.accumulation_steps = parts;
  // A narrower model is a different model, also in tables.
  const bool is_narrow = plan.on_images() && plan.width;
  config.Set("model", is_narrow ? Join(plan.model, " of width ", *plan.width) : plan.model);
  config.Set("batch_size", batch_size);
  if (parts > 1) config.Set("accumulation_steps", parts);
  config.Set("data", plan.corpus.empty() ? "uniform" : "corpus");
  config.Set("weights", plan.weights.empty() ? "random" : "file");
  return setting;
}

Setting MakeImagesSetting(const TrainingPlan& plan, int64_t batch_size, int64_t parts,
                          const comm::World& world) {
  const model::ResNetConfig config = plan.resnet_config();
  Setting setting = NewSetting(plan, ", image ", batch_size, parts, plan.image_size);
  setting.positions = parts * batch_size;
  setting.batch = {{setting.positions, kImageChannels, plan.image_size, plan.image_size},
                   plan.gradient_type(),
                   {setting.positions, config.num_classes},
                   plan.gradient_type()};
  setting.config.Set("image_size", plan.image_size);
  setting.config.Set("width", config.width);
  setting.facts.Set("images_per_step", setting.positions * world.size);
  return setting;
}

Setting MakeTokensSetting(const TrainingPlan& plan, int64_t batch_size, int64_t parts, int64_t seq_len,
                          const comm::World& world) {
  const model::TransformerConfig config = plan.transformer_config();
  const model::Shape shape = {parts * batch_size, seq_len};
  Setting setting = NewSetting(plan, ", sequence ", batch_size, parts, seq_len);
  setting.batch = {shape, model::DType::kI32, shape, model::DType::kI32};
  setting.positions = model::Numel(shape);
  setting.config.Set("seq_len", seq_len);
  setting.config.Set("num_layers", config.num_layers);
  setting.config.Set("d_model", config.d_model);
  setting.config.Set("d_ff", config.d_ff);
  setting.config.Set("num_heads", config.num_heads);
  setting.config.Set("vocab_size", config.vocab_size);
  setting.facts.Set("tokens_per_step", setting.positions * world.size);
  return setting;
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
        task.settings.push_back(MakeImagesSetting(plan, batch_size, parts, world));
        continue;
      }
      for (const int64_t seq_len : plan.seq_lens)
        task.settings.push_back(MakeTokensSetting(plan, batch_size, parts, seq_len, world));
    }
  }
  return task;
}

}  // namespace gradsync::bench
