#include "ddp/checked.h"

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ddp/buckets/bucket.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::ddp {
namespace {

using model::Parameter;

class CheckedStrategy : public Strategy {
 public:
  CheckedStrategy(const Traits& traits, std::unique_ptr<Strategy> strategy, const StrategyContext& context)
      : strategy_(std::move(strategy)),
        traits_(traits),
        params_(context.params.begin(), context.params.end()),
        rank_(context.group.rank()),
        check_gradients_(context.options.check_gradients) {
    for (const Parameter* param : params_) ready_in_.emplace(param, kNever);
  }

  void BeginStep() override {
    ++step_;
    ++pass_;
    num_ready_ = 0;
    strategy_->BeginStep();
  }

  void OnGradReady(Parameter& param) override {
    const auto ready_in = ready_in_.find(&param);
    if (ready_in == ready_in_.end()) throw Broken(param, "is ready, but the strategy was made without it");
    if (step_ == kNever) throw Broken(param, "is ready before the first BeginStep");
    if (ready_in->second == pass_) throw Broken(param, "is ready a second time");
    ready_in->second = pass_;
    ++num_ready_;
    if (check_gradients_) CheckFinite(param);
    strategy_->OnGradReady(param);
  }

  bool needs_use_hook() const override { return strategy_->needs_use_hook(); }
  void OnUse(const Parameter& param) override { strategy_->OnUse(param); }
  bool needs_every_pass() const override { return strategy_->needs_every_pass(); }

  void EndPass() override {
    CheckAllReady();
    ++pass_;
    num_ready_ = 0;
    strategy_->EndPass();
  }

  void Finish() override {
    CheckAllReady();
    strategy_->Finish();
  }

  double SquaredNorm(std::span<Parameter* const> params) override { return strategy_->SquaredNorm(params); }

  void Update(model::Optimizer& optimizer, double grad_scale) override {
    Require(grad_scale == 1 || traits_.can_clip, "strategy '", traits_.name,
            "' updates weights before it knows all gradients, and cannot clip them");
    strategy_->Update(optimizer, grad_scale);
  }

  bool places_values() const override { return strategy_->places_values(); }
  Parts parts() const override { return strategy_->parts(); }
  std::optional<double> rows_save_bytes() const override { return strategy_->rows_save_bytes(); }
  std::optional<double> largest_work() const override { return strategy_->largest_work(); }
  void CompleteGradients() override { strategy_->CompleteGradients(); }
  void CompleteValues() override { strategy_->CompleteValues(); }
  std::vector<model::NamedTensor> State() override { return strategy_->State(); }
  void Reset() override { strategy_->Reset(); }
  double loss_scale() const override { return strategy_->loss_scale(); }
  BucketPlan plan() const override { return strategy_->plan(); }

 private:
  static constexpr int64_t kNever = -1;

  std::logic_error Broken(const Parameter& param, const char* what) const {
    return std::logic_error(
        Join("strategy '", traits_.name, "', step ", step_, ": the gradient of '", param.name(), "' ", what));
  }

  void CheckAllReady() const {
    if (num_ready_ == params_.size()) return;
    for (const Parameter* param : params_) {
      if (ready_in_.at(param) != pass_) throw Broken(*param, "was never ready, so that it was not sent");
    }
  }

  void CheckFinite(Parameter& param) const {
    const std::optional<int64_t> found = model::FindNotFinite(param.grad());
    if (!found) return;
    throw std::runtime_error(Join("rank ", rank_, ", step ", step_, " of strategy '", traits_.name,
                                  "': the gradient of '", param.name(), "' is NaN or infinite at element ",
                                  *found, " of ", param.numel()));
  }

  const std::unique_ptr<Strategy> strategy_;
  const Traits& traits_;
  const std::vector<Parameter*> params_;
  const int rank_;
  const bool check_gradients_;
  int64_t step_ = kNever;                                   // number of the step, counted from 0
  int64_t pass_ = kNever;                                   // number of the pass, counted through all steps
  std::unordered_map<const Parameter*, int64_t> ready_in_;  // the last pass in which each parameter was ready
  // Number of parameters that are ready in this pass.
  size_t num_ready_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> Checked(const Traits& traits, std::unique_ptr<Strategy> strategy,
                                  const StrategyContext& context) {
  return std::make_unique<CheckedStrategy>(traits, std::move(strategy), context);
}

}  // namespace gradsync::ddp
