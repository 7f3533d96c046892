#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "ddp/buckets/overlapped_buckets.h"
#include "ddp/buckets/touched_rows.h"
#include "ddp/interface/context.h"

namespace gradsync::ddp {

// The options that make the strategy `core` fast (kPlacedOptions). All are on by default, except rows:
//
//   views        gradients are stored in buckets: kernels write them there, all-reduces run there, the
//                optimizer reads them there; else they are copied into and out of the buckets
//   ready_order  buckets are filled in the order in which gradients became ready in the first step on rank 0,
//                so that each bucket is full as early as possible; else in reverse forward order
//   small_first  the first bucket holds at most 1 MiB, to start the link early
//   small_last   a bucket holds at most max(1 MiB, bytes of later gradients), whose computation can hide it
//   rows         untouched rows of an embedding's gradient are not sent
//
// The caller divides the loss by the number of ranks (loss_scale), and all-reduces compute sums, so gradients
// need no division.
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
  // `traits.options` must contain kPlacedOptions (views, ready_order, small_first, small_last, rows).
  PlacedBuckets(const Traits& traits, const StrategyContext& context);

  // Call this once per step, when the collectives of all buckets are done. In the first step, it replaces the
  // plan by the one of all later steps. The next BeginStep moves the gradients to their new places.
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
  // If the option views is 0: the memory outside the buckets in which each gradient is stored.
  std::unordered_map<model::Parameter*, model::Tensor> places_;
  std::vector<TouchedRows> rows_;  // the buckets that send only rows
};

// Returns, for Traits::more_copies, the additional memory of a strategy with kPlacedOptions, as a multiple of
// the memory of all gradients: 1 if views=0, because gradients then exist twice, else 0.
double CopiesWithoutViews(const StrategyOptions& options, int world_size, double largest_unit);

}  // namespace gradsync::ddp
