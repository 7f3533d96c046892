#ifndef GRADSYNC_MODEL_KERNELS_HEADS_H_
#define GRADSYNC_MODEL_KERNELS_HEADS_H_

#include <cstdint>

namespace gradsync::model::kernels {

// An array (batch, seq, num_heads * head_dim), as projections leave it: a head is a range of columns.
struct HeadShape {
  int64_t batch;
  int64_t seq;
  int64_t num_heads;
  int64_t head_dim;

  constexpr int64_t d_model() const { return num_heads * head_dim; }
};

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_HEADS_H_
