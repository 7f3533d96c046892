#include "ddp/buckets/placed_buckets.h"

#include <algorithm>
#include <utility>

namespace gradsync::ddp {

PlacedBuckets::PlacedBuckets(const Traits& traits, const StrategyContext& context)
    : OverlappedBuckets(context.group, {}),
      bucket_bytes_(context.options.bucket_bytes),
      views_(ValueOf(traits, "views", context.options) != 0),
      by_ready_order_(ValueOf(traits, "ready_order", context.options) != 0),
      small_first_(ValueOf(traits, kSmallFirst.name, context.options) != 0),
      small_last_(ValueOf(traits, kSmallLast.name, context.options) != 0),
      by_rows_(ValueOf(traits, "rows", context.options) != 0),
      order_(context.params.rbegin(), context.params.rend()) {
  Layout();
  if (views_) return;
  for (model::Parameter* const param : order_)
    places_.emplace(param, model::Tensor::Zeros(param->device(), param->shape(), param->dtype()));
}

void PlacedBuckets::BeginStep() {
  if (views_) PlaceGrads(plan_, buffers_);
  for (const auto& [param, place] : places_) param->PlaceGrad(place);
  for (TouchedRows& rows : rows_) rows.Begin();
  OverlappedBuckets::BeginStep();
}

void PlacedBuckets::AdoptLayout() {
  if (std::exchange(has_adopted_, true)) return;
  if (by_ready_order_) order_ = AgreeOnReadyOrder();
  if (by_rows_) rows_ = TouchedRows::Agree(order_, group_);
  Layout();
}

std::optional<double> PlacedBuckets::rows_save_bytes() const {
  if (!by_rows_) return std::nullopt;
  double saved = 0;
  for (const Bucket& bucket : plan_.buckets) {
    if (bucket.messages_bytes == 0) continue;
    saved += SentBytes(comm::Collective::kAllReduce, static_cast<double>(bucket.bytes()), group_.size()) -
             SentBytes(bucket.collective, static_cast<double>(bucket.sent_bytes()), group_.size());
  }
  return saved;
}

std::vector<TouchedRows>::iterator PlacedBuckets::RowsOf(size_t i) {
  return std::ranges::find(rows_, plan_.buckets[i].params.front(), &TouchedRows::param);
}

comm::Work PlacedBuckets::Send(size_t i) {
  if (const auto rows = RowsOf(i); rows != rows_.end()) return rows->Send();
  if (!views_) CopyIn(plan_.buckets[i], buffers_[i]);
  return group_.AllReduce(buffers_[i], comm::ReduceOp::kSum);
}

void PlacedBuckets::Receive(size_t i) {
  if (const auto rows = RowsOf(i); rows != rows_.end()) return rows->Finish();
  if (!views_) CopyOut(plan_.buckets[i], buffers_[i]);
}

void PlacedBuckets::Layout() {
  std::vector<model::Parameter*> whole = order_;
  for (const TouchedRows& rows : rows_) std::erase(whole, rows.param());
  BucketPlan plan = PlanPlaced(whole, bucket_bytes_, small_first_, small_last_);
  for (const TouchedRows& rows : rows_) InsertAlone(rows.param(), rows.bytes(), order_, plan);
  SetPlan(std::move(plan));
  // Every order needs equal memory, so a new layout needs no new storage. The storage is zeroed once, because
  // the gaps between gradients are also sent and must not contain NaN.
  if (!storage_.defined()) storage_ = MakeStorage(plan_, group_);
  buffers_ = PlaceBuffers(plan_, storage_);
}

double CopiesWithoutViews(const StrategyOptions& options, int /*world_size*/, double /*largest_unit*/) {
  const auto given = options.values.find("views");
  return given != options.values.end() && given->second == 0 ? 1 : 0;
}

}  // namespace gradsync::ddp
