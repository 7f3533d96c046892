#include "ddp/buckets/buffer_broadcast.h"

#include <cstddef>
#include <utility>

#include "ddp/buckets/bucket.h"

namespace gradsync::ddp {

using model::Tensor;

BufferBroadcast::BufferBroadcast(std::vector<Tensor> buffers) : buffers_(std::move(buffers)) {
  if (buffers_.empty()) return;
  std::vector<size_t> offsets_bytes;
  size_t total_bytes = 0;
  for (const Tensor& buffer : buffers_) {
    offsets_bytes.push_back(total_bytes);
    total_bytes += (buffer.nbytes() + kLineBytes - 1) / kLineBytes * kLineBytes;
  }
  storage_ = Tensor::Zeros(buffers_.front().device(), {static_cast<int64_t>(total_bytes)}, model::DType::kU8);
  for (size_t i = 0; i < buffers_.size(); ++i) {
    views_.push_back(storage_.SliceBytes(offsets_bytes[i], buffers_[i].shape(), buffers_[i].dtype()));
  }
}

void BufferBroadcast::Run(comm::ProcessGroup& group) const {
  if (buffers_.empty()) return;
  constexpr int kRoot = 0;
  if (group.rank() == kRoot) {
    for (size_t i = 0; i < buffers_.size(); ++i) views_[i].CopyFrom(buffers_[i]);
  }
  group.Broadcast(storage_, kRoot, comm::Waits::kAtOnce).Wait();
  if (group.rank() == kRoot) return;
  for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].CopyFrom(views_[i]);
}

}  // namespace gradsync::ddp
