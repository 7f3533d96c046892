#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.h"

namespace gradsync::model {

struct TransformerConfig {
  std::string name;
  int64_t d_model = 0;
  int64_t d_ff = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t vocab_size = 10000;
  int64_t context_length = 1024;  // longest sequence that Loss accepts
  double rope_theta = 10000;
  double rms_eps = 1e-5;
};

// Returns the names that TransformerByName accepts: tiny, small, medium, large, xl, 2.7b.
std::vector<std::string> TransformerNames();
// Returns the sizes of the transformer that TransformerNames lists as `name`. Throws InvalidInput for an
// unknown name.
TransformerConfig TransformerByName(std::string_view name);
// Throws InvalidInput if a size in `config` is outside [1, 2^31), if num_heads does not divide d_model, if
// d_model / num_heads is odd (RoPE rotates pairs), or if the matrices have more than 10^12 elements together.
void Validate(const TransformerConfig& config);
// Returns the number of elements of all parameters: 2 vocab_size d + num_layers (4 d^2 + 3 d d_ff + 2 d) + d,
// where d is d_model.
int64_t NumParameters(const TransformerConfig& config);

// A decoder-only language model: token embeddings; pre-norm blocks of causal attention with rotary positions
// and of a SwiGLU feed-forward layer, each with a residual connection; a final norm; an output projection
// with its own weights. All norms are RMSNorm, and there are no biases.
//
//   x = x + output_proj(attention(rope(q_proj(h)), rope(k_proj(h)), v_proj(h))),  h = ln1(x)
//   x = x + w2(silu(w1(h)) * w3(h)),                                              h = ln2(x)
//
// The names of the parameters are token_embeddings.weight, layers.N.ln1.weight,
// layers.N.attn.{q,k,v,output}_proj.weight, layers.N.ln2.weight, layers.N.ffn.{w1,w2,w3}.weight,
// ln_final.weight and lm_head.weight. The matrices have the shape (out, in), except token_embeddings.weight:
// (vocab_size, d_model).
class Transformer : public Model {
 public:
  // Draws the initial weights: matrices of shape (out, in) from a normal distribution of variance 2 / (in +
  // out), embeddings from the standard normal distribution, both truncated at 3 standard deviations; weights
  // of norms are 1. A parameter's initial values depend only on `seed`, on its shape and on its index in
  // parameters(). The values are rounded to f32 also if `dtype` is f64, so every `device` and every `dtype`
  // give equal values.
  //
  // `dtype` is f32, f64 or bf16. With f32 or f64, activations, parameters, their gradients and the loss have
  // the dtype `dtype`. With bf16, activations are bf16; parameters, their gradients and the loss are f32.
  // With bf16, each matrix also has a copy in bf16, which Parameter::ForwardValue() returns.
  Transformer(TransformerConfig config, DevicePtr device, DType dtype, uint64_t seed);

  const TransformerConfig& config() const { return config_; }
  std::string_view name() const override { return config_.name; }
  std::span<Parameter* const> parameters() const override { return params_; }
  // Returns the parameters in groups: those of the embeddings, of each block, and of the final norm with
  // lm_head. Data-parallel strategies that shard parameters over ranks gather and free all parameters of one
  // of these groups together.
  std::vector<std::vector<Parameter*>> units() const override;

  // Computes the logits, of shape (batch, seq, vocab_size), from i32 ids of shape (batch, seq).
  Var Logits(const Tensor& ids);
  // Returns the cross-entropy of Logits(batch.inputs) for batch.targets, averaged over all positions of all
  // sequences.
  Var Loss(const Batch& batch) override;

 private:
  struct Block {
    Parameter *ln1, *q_proj, *k_proj, *v_proj, *output_proj;
    Parameter *ln2, *w1, *w2, *w3;
  };

  Parameter* NewParameter(std::string name, Shape shape);
  void Initialize(uint64_t seed);
  // Attention returns x plus the output of the block's attention layer. FeedForward returns x plus the output
  // of the block's feed-forward layer.
  Var Attention(const Block& block, const Var& x) const;
  Var FeedForward(const Block& block, const Var& x) const;

  const TransformerConfig config_;
  const DevicePtr device_;
  const DType dtype_;
  std::vector<std::unique_ptr<Parameter>> owned_;
  std::vector<Parameter*> params_;
  Parameter* token_embeddings_ = nullptr;
  std::vector<Block> blocks_;
  Parameter* ln_final_ = nullptr;
  Parameter* lm_head_ = nullptr;
};

}  // namespace gradsync::model
