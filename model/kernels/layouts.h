#pragma once

#include <compare>
#include <cstdint>

// Defines the layouts of activations in memory.
namespace gradsync::model::kernels {

// The shape of an array (batch, seq, num_heads * head_dim), the output of projections. A head is a range of
// columns.
struct HeadShape {
  int64_t batch;
  int64_t seq;
  int64_t num_heads;
  int64_t head_dim;

  constexpr int64_t d_model() const { return num_heads * head_dim; }
};

// An image activation in channel blocks: a dense row-major array
//
//   (batch, channels / block, height, width, block)
//
// Channel c is element c % block of block c / block. block divides channels and is 1, 8, 16 or all channels:
// block 1 is the usual (batch, channels, height, width); 8 and 16 are oneDNN's nChw8c and nChw16c, in which
// the innermost dimension is one or two vector registers; all channels are cuDNN's (batch, height, width,
// channels), NHWC.
struct ActivationShape {
  int64_t batch;
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t block;

  constexpr int64_t channel_blocks() const { return channels / block; }
  // Returns the number of pixels of one channel in one image.
  constexpr int64_t pixels() const { return height * width; }
  // Returns the number of consecutive elements that belong to one image and one block of channels.
  constexpr int64_t plane() const { return pixels() * block; }
  constexpr int64_t numel() const { return batch * channels * pixels(); }
  // Returns the index of pixel i of a channel, counted through all images.
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
