#include "model/transformer/transformer.h"

#include <cmath>
#include <utility>

#include "model/functions.h"
#include "model/tensor/random.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::model {
namespace {

struct NamedSize {
  std::string_view name;
  int64_t d_model, d_ff, num_layers, num_heads;
};

constexpr NamedSize kNamedSizes[] = {
    {"tiny", 256, 1024, 4, 4},     {"small", 768, 3072, 12, 12}, {"medium", 1024, 4096, 24, 16},
    {"large", 1280, 5120, 36, 20}, {"xl", 1600, 6400, 48, 25},   {"2.7b", 2560, 10240, 32, 32},
};

// Much more than any machine can hold, and much less than overflows.
constexpr double kMaxParameters = 1e12;

}  // namespace

std::vector<std::string> TransformerNames() {
  std::vector<std::string> names;
  for (const NamedSize& size : kNamedSizes) names.emplace_back(size.name);
  return names;
}

TransformerConfig TransformerByName(std::string_view name) {
  std::string known;
  for (const NamedSize& size : kNamedSizes) {
    if (size.name == name) {
      return {.name = std::string(name),
              .d_model = size.d_model,
              .d_ff = size.d_ff,
              .num_layers = size.num_layers,
              .num_heads = size.num_heads};
    }
    known += Join(known.empty() ? "" : ", ", size.name);
  }
  throw InvalidInput(Join("unknown model '", name, "', expected one of ", known));
}

void Validate(const TransformerConfig& config) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"d_model", config.d_model},       {"d_ff", config.d_ff},
      {"num_layers", config.num_layers}, {"num_heads", config.num_heads},
      {"vocab_size", config.vocab_size}, {"context_length", config.context_length},
  };
  for (const auto& [name, size] : sizes) {
    Require(size >= 1 && size <= INT32_MAX, "model '", config.name, "': ", name, " is ", size,
            ", expected 1 to 2147483647");
  }
  Require(config.d_model % config.num_heads == 0, "model '", config.name, "': --d_model=", config.d_model,
          " is not a multiple of --num_heads=", config.num_heads);
  const int64_t head_dim = config.d_model / config.num_heads;
  Require(head_dim % 2 == 0, "model '", config.name, "': --d_model / --num_heads is ", head_dim,
          ", expected an even number (rotary positions rotate pairs)");
  // The count is computed in floating point, because an integer may overflow.
  const double d = static_cast<double>(config.d_model);
  const double estimate =
      2 * static_cast<double>(config.vocab_size) * d +
      static_cast<double>(config.num_layers) * d * (4 * d + 3 * static_cast<double>(config.d_ff));
  Require(estimate <= kMaxParameters, "model '", config.name, "': would have ", estimate,
          " parameters, expected at most ", kMaxParameters);
}

int64_t NumParameters(const TransformerConfig& config) {
  const int64_t d = config.d_model;
  return 2 * config.vocab_size * d + config.num_layers * (4 * d * d + 3 * d * config.d_ff + 2 * d) + d;
}

Transformer::Transformer(TransformerConfig config, DevicePtr device, DType dtype, uint64_t seed)
    : config_(std::move(config)), device_(std::move(device)), dtype_(dtype) {
  Validate(config_);
  const int64_t d = config_.d_model;
  token_embeddings_ = NewParameter("token_embeddings.weight", {config_.vocab_size, d});
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const std::string layer = Join("layers.", i, ".");
    // Named members are initialised in the order of their declaration, which is the order of the names.
    blocks_.push_back({.ln1 = NewParameter(layer + "ln1.weight", {d}),
                       .q_proj = NewParameter(layer + "attn.q_proj.weight", {d, d}),
                       .k_proj = NewParameter(layer + "attn.k_proj.weight", {d, d}),
                       .v_proj = NewParameter(layer + "attn.v_proj.weight", {d, d}),
                       .output_proj = NewParameter(layer + "attn.output_proj.weight", {d, d}),
                       .ln2 = NewParameter(layer + "ln2.weight", {d}),
                       .w1 = NewParameter(layer + "ffn.w1.weight", {config_.d_ff, d}),
                       .w2 = NewParameter(layer + "ffn.w2.weight", {d, config_.d_ff}),
                       .w3 = NewParameter(layer + "ffn.w3.weight", {config_.d_ff, d})});
  }
  ln_final_ = NewParameter("ln_final.weight", {d});
  lm_head_ = NewParameter("lm_head.weight", {config_.vocab_size, d});
  for (Parameter* const table : {token_embeddings_, lm_head_}) table->SetTable();
  Initialize(seed);
}

std::vector<std::vector<Parameter*>> Transformer::units() const {
  std::vector<std::vector<Parameter*>> units = {{token_embeddings_}};
  for (const Block& b : blocks_)
    units.push_back({b.ln1, b.q_proj, b.k_proj, b.v_proj, b.output_proj, b.ln2, b.w1, b.w2, b.w3});
  units.push_back({ln_final_, lm_head_});
  return units;
}

Parameter* Transformer::NewParameter(std::string name, Shape shape) {
  const bool copied = dtype_ == DType::kBF16 && shape.size() == 2;
  owned_.push_back(std::make_unique<Parameter>(std::move(name),
                                               Tensor::Empty(device_, std::move(shape), WideDType(dtype_)),
                                               copied ? Parameter::Copy::kBF16 : Parameter::Copy::kNone));
  params_.push_back(owned_.back().get());
  return params_.back();
}

void Transformer::Initialize(uint64_t seed) {
  for (size_t i = 0; i < params_.size(); ++i) {
    const Tensor& value = params_[i]->MutableValue();
    if (value.rank() == 1) {
      Fill(value, 1);
      continue;
    }
    const double in_plus_out = static_cast<double>(value.dim(0) + value.dim(1));
    const double stddev = params_[i] == token_embeddings_ ? 1.0 : std::sqrt(2.0 / in_plus_out);
    FillTruncatedNormal(value, stddev, seed, StreamOf(Purpose::kWeights, i));
  }
}

Var Transformer::Attention(const Block& block, const Var& x) const {
  const auto rope = [&](const Var& v) { return Rope(v, config_.num_heads, config_.rope_theta); };
  const Var h = RmsNorm(x, *block.ln1, config_.rms_eps);
  const Var q = rope(Linear(h, *block.q_proj));
  const Var k = rope(Linear(h, *block.k_proj));
  const Var v = Linear(h, *block.v_proj);
  return AddLinear(x, CausalAttention(q, k, v, config_.num_heads), *block.output_proj);
}

Var Transformer::FeedForward(const Block& block, const Var& x) const {
  const Var h = RmsNorm(x, *block.ln2, config_.rms_eps);
  return AddLinear(x, SwiGlu(Linear(h, *block.w1), Linear(h, *block.w3)), *block.w2);
}

Var Transformer::Logits(const Tensor& ids) {
  Require(ids.rank() == 2, "model '", config_.name, "': inputs have shape ", ids.shape(),
          ", expected (batch, seq)");
  Require(ids.dim(1) <= config_.context_length, "model '", config_.name, "': a sequence of ", ids.dim(1),
          " tokens, the context length is ", config_.context_length);
  Var x = Embedding(ids, *token_embeddings_);
  for (const Block& block : blocks_) x = FeedForward(block, Attention(block, x));
  return Linear(RmsNorm(x, *ln_final_, config_.rms_eps), *lm_head_);
}

Var Transformer::Loss(const Batch& batch) {
  Require(batch.targets.shape() == batch.inputs.shape(), "model '", config_.name, "': inputs have shape ",
          batch.inputs.shape(), ", targets ", batch.targets.shape());
  return CrossEntropy(Logits(batch.inputs), batch.targets);
}

}  // namespace gradsync::model
