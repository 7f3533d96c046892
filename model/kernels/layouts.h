#pragma once

#include <compare>
#include <cstdint>

namespace gradsync::model::kernels {

// The shape of attention's q, k, v and output: (batch, seq, num_heads * head_dim).
struct HeadShape {
  int64_t batch;
  int64_t seq;
  int64_t num_heads;
  int64_t head_dim;

  constexpr int64_t d_model() const { return num_heads * head_dim; }
};

// The shape of an activation of an image model, in blocks of channels: a dense row-major array
//
//   (batch, channels / block, height, width, block)
//
// Channel c is element c % block of block c / block. `block` divides `channels`: on the CPU it is 1, 8 or 16,
// and on CUDA 1 or `channels`. Block 1 is the usual layout (batch, channels, height, width); 8 and 16 are
// oneDNN's nChw8c and nChw16c; block = channels is cuDNN's NHWC, (batch, height, width, channels).
struct ActivationShape {
  int64_t batch;
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t block;

  constexpr int64_t channel_blocks() const { return channels / block; }
  constexpr int64_t pixels() const { return height * width; }
  // Returns the number of elements that one image has in one block of channels: height * width * block. These
  // elements are consecutive in memory.
  constexpr int64_t plane() const { return pixels() * block; }
  constexpr int64_t numel() const { return batch * channels * pixels(); }
  // Returns the index of pixel i of a channel in the activation's array, which is stored in blocks of
  // channels. The pixels of a channel are counted image by image and row by row.
  constexpr int64_t ElementOf(int64_t channel, int64_t i) const {
    const int64_t image = i / pixels(), pixel = i % pixels();
    return ((image * channel_blocks() + channel / block) * pixels() + pixel) * block + channel % block;
  }
  constexpr int64_t ChannelOf(int64_t element) const {
    return element / plane() % channel_blocks() * block + element % block;
  }

  friend auto operator<=>(const ActivationShape&, const ActivationShape&) = default;
};

}  // namespace gradsync::model::kernels
