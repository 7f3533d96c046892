#include "bench/training/compare_options.h"

#include <limits>

#include "bench/peers/pytorch.h"
#include "bench/training/ddp_memory.h"
#include "bench/training/ddp_options.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kMebi = int64_t{1} << 20;
constexpr char kResNet[] = "resnet50";

std::vector<std::string> ModelNames() {
  std::vector<std::string> names = {kResNet};
  for (std::string& name : model::TransformerNames()) names.push_back(std::move(name));
  return names;
}

// 3 Mi to 27 Mi elements, in steps of one.
std::vector<int64_t> PublishedSizes() {
  std::vector<int64_t> sizes;
  for (int64_t mebi = 3; mebi <= 27; ++mebi) sizes.push_back(mebi * kMebi);
  return sizes;
}

// The published experiment: 40 iterations, of which 20 count.
void ApplyPublished(const FlagTable& flags, CompareOptions& options) {
  const auto set = [&](const char* flag, auto& target, auto value) {
    if (!flags.given(flag)) target = std::move(value);
  };
  set("buffer_elements", options.buffer_elements, PublishedSizes());
  set("batch_size", options.batch_size, int64_t{32});
  set("image_size", options.image_size, int64_t{224});
  set("warmup_steps", options.warmup_steps, int64_t{20});
  set("steps", options.steps, int64_t{20});
}

// The side of what a stride of 2 makes of an image.
int64_t Halved(int64_t side) { return (side + 1) / 2; }

// A batch norm needs two pixels or more of each channel.
void CheckPixels(const CompareOptions& options) {
  int64_t side = options.image_size;
  for (int halvings = 0; halvings < 5; ++halvings) side = Halved(side);
  Require(options.batch_size * side * side >= 2, "--batch_size=", options.batch_size,
          ": the last layers see one pixel of images of ", options.image_size, " x ", options.image_size,
          ", and cannot be normalised over a batch of it; expected a batch of at least 2, or larger images");
}

void CheckModelFlags(const FlagTable& flags, const CompareOptions& options) {
  const auto refuse = [&](const char* flag, const char* what) {
    Require(!flags.given(flag), "--", flag, ": --model=", options.model, " takes no ", what);
  };
  if (options.on_images()) {
    refuse("seq_len", "sequences");
    Validate(options.resnet_config());
    CheckPixels(options);
  } else {
    refuse("image_size", "images");
    refuse("width", "width");
    Validate(options.transformer_config());
  }
}

double Pixels(int64_t side) { return static_cast<double>(side * side); }

// Elements that one image leaves behind for backward (model/vision_functions.h lists them): the input of each
// batch norm, which is a convolution's output, and what the batch norm makes of it.
double ActivationsPerImage(const model::ResNetConfig& config, int64_t image_size) {
  int64_t side = Halved(image_size);
  const auto width = static_cast<double>(config.width);
  double elements = 2 * width * Pixels(side);
  side = Halved(side);
  elements += width * Pixels(side);
  for (size_t stage = 0; stage < config.num_blocks.size(); ++stage) {
    const double inside = width * static_cast<double>(int64_t{1} << stage);
    const double out = 4 * inside;
    for (int64_t block = 0; block < config.num_blocks[stage]; ++block) {
      elements += 2 * inside * Pixels(side);
      if (block == 0 && stage > 0) side = Halved(side);
      elements += 2 * (inside + out) * Pixels(side);
      if (block == 0) elements += 2 * out * Pixels(side);
    }
  }
  return elements;
}

double NumResNetParameters(const model::ResNetConfig& config) {
  const auto width = static_cast<double>(config.width);
  const auto with_norm = [](double in, double out, double size) { return out * (in * size * size + 2); };
  double params = with_norm(3, width, 7);
  double in = width;
  for (size_t stage = 0; stage < config.num_blocks.size(); ++stage) {
    const double inside = width * static_cast<double>(int64_t{1} << stage);
    const double out = 4 * inside;
    for (int64_t block = 0; block < config.num_blocks[stage]; ++block) {
      params += with_norm(in, inside, 1) + with_norm(inside, inside, 3) + with_norm(inside, out, 1);
      if (block == 0) params += with_norm(in, out, 1);
      in = out;
    }
  }
  return params + (in + 1) * static_cast<double>(config.num_classes);
}

// A language model's, as //bench:ddp counts it.
TrainingSize SizeOfTransformer(const CompareOptions& options) {
  DdpOptions ddp;
  ddp.model = options.model;
  ddp.batch_sizes = {options.batch_size};
  ddp.seq_lens = {options.seq_len};
  ddp.strategies = options.strategies;
  ddp.peers = options.peers;
  return SizeOfTraining(ddp);
}

}  // namespace

CompareOptions::CompareOptions() : buffer_elements({3 * kMebi, 8 * kMebi, 16 * kMebi, 27 * kMebi}) {
  strategies = {"core", "bucketed_async", "bucketed_sync"};
  optimizer = "sgd";
  warmup_steps = 2;
  steps = 15;
}

void CompareOptions::AddTo(FlagTable& flags) {
  constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();
  constexpr int64_t kMaxImageSize = 4096;
  flags.AddChoice(
      "preset", &preset, {"scaled", "published"},
      "published: the original's 25 sizes from 3Mi to 27Mi, batches of 32 images of 224 x 224, 20 untimed "
      "steps and 20 timed ones. scaled: the defaults below, minutes on a CPU. Other flags override either.");
  flags.AddChoice("model", &model, ModelNames(), "The model that is trained.");
  flags.AddOptionalInt("width", &width, "Instead of ResNet-50's number of channels in the first layer, 64.");
  flags.AddElementCountList("buffer_elements", &buffer_elements, "Sizes of a bucket to compare.");
  flags.AddChoice(
      "units", &units, {"bytes", "published"},
      "bytes: buckets of as many bytes for every strategy. published: core's size in MiB, the others' in Mi "
      "elements, as in the original.");
  flags.AddInt("batch_size", &batch_size, 1, kMaxSize, "Images, or sequences, in the batch of one rank.");
  flags.AddInt("image_size", &image_size, 1, kMaxImageSize,
               "Pixels on each side of an image. Below 80, some CPUs compute the last layers slowly.");
  flags.AddInt("seq_len", &seq_len, 1, kMaxSize, "Tokens in a sequence of a language model.");
  TrainingOptions::AddTo(flags);
  peers.AddTo(flags);
}

model::ResNetConfig CompareOptions::resnet_config() const {
  model::ResNetConfig config = model::ResNet50Config();
  config.width = width.value_or(config.width);
  return config;
}

model::TransformerConfig CompareOptions::transformer_config() const {
  model::TransformerConfig config = model::TransformerByName(model);
  config.context_length = seq_len;
  return config;
}

int64_t BucketBytes(const CompareOptions& options, std::string_view strategy, int64_t buffer_elements) {
  if (options.units == "published" && strategy == "core") return buffer_elements;
  return buffer_elements * static_cast<int64_t>(SizeOf(options.gradient_type()));
}

void CompleteCompareOptions(const FlagTable& flags, const comm::World& world, CompareOptions& options) {
  if (options.preset == "published") ApplyPublished(flags, options);
  CheckModelFlags(flags, options);
  Require(!options.trace || options.buffer_elements.size() == 1,
          "--trace: a trace tells no sizes apart, expected one in --buffer_elements, found ",
          options.buffer_elements.size());
  CheckTrainingOptions(options, world);
  CheckPeerOptions(options.peers, options.dtype);
}

TrainingSize SizeOfTraining(const CompareOptions& options) {
  if (!options.on_images()) return SizeOfTransformer(options);
  const model::ResNetConfig config = options.resnet_config();
  const auto batch_size = static_cast<double>(options.batch_size);
  TrainingSize size;
  size.model = options.model;
  size.params = NumResNetParameters(config);
  size.activations = batch_size * ActivationsPerImage(config, options.image_size);
  if (options.peers.wanted()) size.peers = PeerStrategies(options.strategies, options.peers.modes);
  size.batch = batch_size * (3 * Pixels(options.image_size) + static_cast<double>(config.num_classes));
  return size;
}

}  // namespace gradsync::bench
