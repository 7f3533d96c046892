#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "ddp/buckets/overlapped_buckets.h"
#include "ddp/buckets/touched_rows.h"
#include "ddp/interface/context.h"

namespace gradsync::ddp {

// The options of the strategies `core` and `core_update`. By default all are 1 (on), except rows, which is 0:
//
//   views        gradients are stored in buckets: kernels write them there, all-reduces run there, the
//                optimizer reads them there; else they are copied into and out of the buckets
//   ready_order  after the first step, buckets are filled in the order in which gradients became ready on
//                rank 0, so that each bucket is full as early as possible; else in reverse forward order
//   small_first  a first bucket of several parameters has at most 1 MiB, so that sending starts early
//   small_last   a bucket of several parameters has at most max(1 MiB, bytes of later gradients), whose
//                computation can hide its sending
//   rows         an embedding's untouched rows are not sent, if that is cheaper (TouchedRows::Agree)
//
// The strategies `core` and `core_update` sum gradients over ranks, but do not divide the sums by the number
// of ranks. Instead, the caller multiplies the loss by 1 / number of ranks (loss_scale) before backward.
inline constexpr Option kPlacedOptions[] = {
    {.name = "views",
     .meaning = "1: gradients live in buckets, 0: they are copied in and out",
     .default_value = 1},
    {.name = "ready_order",
     .meaning = "1: buckets are filled in the order of the first step, 0: in reverse forward order",
     .default_value = 1},
    kSmallFirst,
    kSmallLast,
    {.name = "rows",
     .meaning = "1: rows of an embedding that no token touched are not sent (neither in bf16 nor on CUDA)",
     .plain_only = true}};

class PlacedBuckets : public OverlappedBuckets {
 public:
  void BeginStep() override;
  std::optional<double> rows_save_bytes() const override;
  double loss_scale() const override { return 1.0 / group_.size(); }

 protected:
  // `traits.options` must contain the five options kPlacedOptions.
  PlacedBuckets(const Traits& traits, const StrategyContext& context);

  // A derived class calls AdoptLayout in each step, when the collectives of all buckets are done. In the
  // first step, AdoptLayout makes the buckets that all later steps use. In later steps AdoptLayout does
  // nothing. With views=1, the next BeginStep makes each gradient a view of its new place in the buckets.
  void AdoptLayout();

 private:
  comm::Work Send(size_t i) override;
  void Receive(size_t i) override;
  void Layout();
  std::vector<TouchedRows>::iterator RowsOf(size_t i);

  const size_t bucket_bytes_;
  const bool views_, by_ready_order_, small_first_, small_last_, by_rows_;
  bool has_adopted_ = false;
  std::vector<model::Parameter*> order_;  // order in which buckets are filled
  model::Tensor storage_;                 // memory of all buckets
  std::vector<model::Tensor> buffers_;    // views of storage_, by bucket
  // With the option views=0, the memory of each parameter's gradient, outside the buckets; else empty.
  std::unordered_map<model::Parameter*, model::Tensor> places_;
  std::vector<TouchedRows> rows_;  // the gradients of which only rows are sent
};

// Returns the memory of gradients that the strategies `core` and `core_update` keep outside their buckets, as
// a multiple of all gradients' memory (Traits::more_copies). Returns 1 with the option views=0, which keeps
// each gradient outside the buckets; else 0. Does not count the messages of TouchedRows objects (option
// rows=1).
double CopiesWithoutViews(const StrategyOptions& options, int world_size, double largest_unit);

}  // namespace gradsync::ddp
