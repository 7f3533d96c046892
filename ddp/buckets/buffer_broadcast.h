#pragma once

#include <vector>

#include "comm/process_group.h"
#include "model/tensor/tensor.h"

namespace gradsync::ddp {

// Copies a model's buffers from rank 0 to all other ranks. A buffer is a tensor of state that the forward
// pass changes and that ranks do not average, such as the running statistics of a batch norm. Rank 0 sends
// all buffers of the model in one broadcast.
class BufferBroadcast {
 public:
  // All tensors of `buffers` must be on one device. All ranks must give equally many buffers, with equal
  // shapes and dtypes, in the same order.
  explicit BufferBroadcast(std::vector<model::Tensor> buffers);

  // Overwrites the buffers of this BufferBroadcast with the values of rank 0's buffers. All ranks must call
  // Run. Run sends nothing if there are no buffers, and throws CollectiveError if the broadcast fails.
  void Run(comm::ProcessGroup& group) const;

 private:
  const std::vector<model::Tensor> buffers_;
  model::Tensor storage_;             // a tensor of bytes; undefined without buffers
  std::vector<model::Tensor> views_;  // views of storage_, one for each buffer
};

}  // namespace gradsync::ddp
