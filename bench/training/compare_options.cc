#include "bench/training/compare_options.h"

#include <limits>

#include "bench/training/memory.h"
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

// A batch norm needs two pixels or more of each channel.
void CheckPixels(const CompareOptions& options) {
  const int64_t side = (options.image_size + 31) / 32;  // after five strides of 2
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

}  // namespace

CompareOptions::CompareOptions() : buffer_elements({3 * kMebi, 8 * kMebi, 16 * kMebi, 27 * kMebi}) {
  model = kResNet;
  strategies = {"core", "bucketed_async", "bucketed_sync"};
  optimizer = "sgd";
  warmup_steps = 2;
  steps = 15;
}

void CompareOptions::AddTo(FlagTable& flags) {
  constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();
  constexpr int64_t kMaxImageSize = 4096;
  flags.Add(
      "preset", &preset, OneOf({"scaled", "published"}),
      "published: the original's 25 sizes from 3Mi to 27Mi, batches of 32 images of 224 x 224, 20 untimed "
      "steps and 20 timed ones. scaled: the defaults below, minutes on a CPU. Other flags override either.");
  flags.BeginGroup("Model");
  flags.Add("model", &model, OneOf(ModelNames()), "The model that is trained.");
  flags.Add("width", &width, Integer(1), "Instead of ResNet-50's number of channels in the first layer, 64.");
  flags.BeginGroup("Buckets and batches");
  flags.Add("buffer_elements", &buffer_elements, Elements(), "Sizes of a bucket to compare.");
  flags.Add(
      "units", &units, OneOf({"bytes", "published"}),
      "bytes: buckets of as many bytes for every strategy. published: core's size in MiB, the others' in Mi "
      "elements, as in the original.");
  flags.Add("batch_size", &batch_size, Integer(1, kMaxSize),
            "Images, or sequences, in the batch of one rank.");
  flags.Add("image_size", &image_size, Integer(1, kMaxImageSize),
            "Pixels on each side of an image. Below 80, some CPUs compute the last layers slowly.");
  flags.Add("seq_len", &seq_len, Integer(1, kMaxSize), "Tokens in a sequence of a language model.");
  TrainingOptions::AddTo(flags);
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

void CompareOptions::Complete(const FlagTable& flags, const comm::World& world) {
  if (preset == "published") ApplyPublished(flags, *this);
  CheckModelFlags(flags, *this);
  Require(!trace || buffer_elements.size() == 1,
          "--trace: a trace tells no sizes apart, expected one in --buffer_elements, found ",
          buffer_elements.size());
  TrainingOptions::Complete(flags, world);
}

TrainingSize CompareOptions::Size() const {
  if (on_images()) return SizeOf(resnet_config(), batch_size, image_size);
  return SizeOf(transformer_config(), batch_size * seq_len);
}

}  // namespace gradsync::bench
