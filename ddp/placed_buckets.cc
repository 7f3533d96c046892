#include "ddp/placed_buckets.h"

#include <algorithm>
#include <utility>

namespace gradsync::ddp {

PlacedBuckets::PlacedBuckets(const StrategyContext& context)
    : OverlappedBuckets(context.group, {}),
      bucket_bytes_(context.options.bucket_bytes),
      ready_order_(context.params) {
  Layout({context.params.rbegin(), context.params.rend()});
}

void PlacedBuckets::BeginStep() {
  PlaceGrads(plan_, buffers_);
  for (TouchedRows& rows : rows_) rows.Begin();
  OverlappedBuckets::BeginStep();
}

void PlacedBuckets::OnGradReady(model::Parameter& param) {
  ready_order_.Mark(param);
  OverlappedBuckets::OnGradReady(param);
}

void PlacedBuckets::AdoptLayout() {
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

void PlacedBuckets::Receive(size_t i) {
  if (const auto rows = RowsOf(i); rows != rows_.end()) rows->Finish();
}

void PlacedBuckets::Layout(const std::vector<model::Parameter*>& order) {
  std::vector<model::Parameter*> whole = order;
  for (const TouchedRows& rows : rows_) std::erase(whole, rows.param());
  BucketPlan plan = PlanPlaced(whole, bucket_bytes_);
  for (const TouchedRows& rows : rows_) InsertAlone(rows.param(), rows.bytes(), order, plan);
  SetPlan(std::move(plan));
  // Every order takes the same room, so that a new layout needs no new storage. Zeroed once: the gaps
  // between gradients are sent along, and must not hold NaNs.
  if (!storage_.defined()) storage_ = MakeStorage(plan_, group_);
  buffers_ = PlaceBuffers(plan_, storage_);
}

}  // namespace gradsync::ddp
