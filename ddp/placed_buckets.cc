#include "ddp/placed_buckets.h"

#include <algorithm>

namespace gradsync::ddp {

PlacedBuckets::PlacedBuckets(const StrategyContext& context)
    : group_(context.group), bucket_bytes_(context.options.bucket_bytes), ready_order_(context.params) {
  Layout({context.params.rbegin(), context.params.rend()});
}

void PlacedBuckets::Begin() {
  PlaceGrads(plan_, buffers_);
  for (TouchedRows& rows : rows_) rows.Begin();
  launcher_->Reset();
  works_.clear();
  num_done_ = 0;
}

void PlacedBuckets::OnGradReady(model::Parameter& param) {
  ready_order_.Mark(param);
  launcher_->MarkReady(param, [&](size_t i) { works_.push_back(Send(i)); });
}

void PlacedBuckets::WaitThrough(size_t i) {
  const size_t first = num_done_;
  num_done_ = std::max(num_done_, i + 1);
  for (size_t k = first; k < num_done_; ++k) works_[k].Wait();
  for (size_t k = first; k < num_done_; ++k) {
    const auto rows = RowsOf(k);
    if (rows != rows_.end()) rows->Finish();
  }
}

void PlacedBuckets::End() {
  if (const auto order = ready_order_.Agree(group_)) {
    rows_ = TouchedRows::Agree(*order, group_);
    Layout(*order);
  }
}

std::vector<TouchedRows>::iterator PlacedBuckets::RowsOf(size_t i) {
  return std::ranges::find(rows_, plan_.buckets[i].params.front(), &TouchedRows::param);
}

comm::Work PlacedBuckets::Send(size_t i) {
  const auto rows = RowsOf(i);
  return rows != rows_.end() ? rows->Send() : group_.AllReduce(buffers_[i], comm::ReduceOp::kSum);
}

void PlacedBuckets::Layout(const std::vector<model::Parameter*>& order) {
  std::vector<model::Parameter*> whole = order;
  for (const TouchedRows& rows : rows_) std::erase(whole, rows.param());
  plan_ = PlanPlaced(whole, bucket_bytes_);
  for (const TouchedRows& rows : rows_) InsertAlone(rows.param(), rows.bytes(), order, plan_);
  // Every order takes the same room, so that a new layout needs no new storage. Zeroed once: the gaps
  // between gradients are sent along, and must not hold NaNs.
  if (!storage_.defined()) storage_ = MakeStorage(plan_, group_);
  buffers_ = PlaceBuffers(plan_, storage_);
  launcher_.emplace(plan_);
}

}  // namespace gradsync::ddp
