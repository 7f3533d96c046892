#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "comm/testing/rank_threads.h"
#include "ddp/buckets/bucket.h"
#include "ddp/factory.h"
#include "ddp/test_model.h"

// Functions for tests of strategies that average gradients exactly. CheckEquivalence compares training on
// several ranks with training by a single process on the data of all ranks.
namespace gradsync::ddp {

inline const std::vector<int64_t> kNumels = {5, 1000, 1, 70000, 33, 300000, 16, 17};
constexpr float kRate = 0.5f;

struct Tested {
  std::string strategy;
  std::map<std::string, double, std::less<>> values = {};

  const Traits& traits() const { return TraitsOf(strategy); }
  std::string name() const {  // a part of a test's name
    std::string name = strategy;
    for (const auto& [option, value] : values) name += Join("_", option, value);
    return name;
  }
  friend void PrintTo(const Tested& tested, std::ostream* out) { *out << tested.name(); }
};

// Returns the strategies that communicate and average gradients exactly (Agreement::kExact).
inline std::vector<Tested> AveragingStrategies() {
  std::vector<Tested> all;
  for (const std::string& name : StrategyNames()) {
    const Traits& traits = TraitsOf(name);
    if (traits.agreement == Agreement::kExact && traits.communicates) all.push_back({name});
  }
  return all;
}

// Returns the strategies of AveragingStrategies() that can train with the optimizer Muon, and also `owned`
// with the option gather=forward.
inline std::vector<Tested> StrategiesOfMatrices() {
  std::vector<Tested> all = AveragingStrategies();
  std::erase_if(all, [](const Tested& tested) {
    return tested.traits().shards_state && tested.traits().divides_matrices;
  });
  all.push_back({"owned", {{"gather", 1}}});
  return all;
}

// Returns the names of the options of the strategy `tested` whose only values are 0 and 1.
inline std::vector<std::string> SwitchesOf(const Tested& tested) {
  std::vector<std::string> switches;
  for (const Option& option : tested.traits().options) {
    if (!option.has_fractions && option.range.to == 1) switches.emplace_back(option.name);
  }
  return switches;
}

// A switch is an option whose only values are 0 and 1. Returns each strategy of AveragingStrategies() that
// has switches, once for every combination of the switches' values.
inline std::vector<Tested> EveryCombination() {
  std::vector<Tested> all;
  for (const Tested& tested : AveragingStrategies()) {
    const std::vector<std::string> switches = SwitchesOf(tested);
    for (size_t bits = 0; !switches.empty() && bits < size_t{1} << switches.size(); ++bits) {
      Tested& combination = all.emplace_back(tested);
      for (size_t i = 0; i < switches.size(); ++i)
        combination.values[switches[i]] = static_cast<double>(bits >> i & 1);
    }
  }
  return all;
}

// Describes the model that a test trains: its parameters, and which of them each rank uses in each pass. Also
// describes the training: the optimizer, the number of steps, and the number of passes of a step.
struct Graph {
  std::vector<int64_t> numels = kNumels;  // number of elements of each parameter
  std::vector<model::Shape> shapes = {};  // the argument `shapes` of TestModel
  std::vector<size_t> tables = {};        // indices of parameters that AdamW updates if `muon` is true
  std::vector<size_t> frozen = {};        // indices of parameters that are not trained
  // Returns the indices of the parameters that layers use on rank `rank` in pass `step`, in the order of use.
  // A pass is one forward and one backward; passes are numbered over all steps, from 0. If no function is
  // set, each rank uses every parameter once in each pass.
  std::function<std::vector<size_t>(int rank, int step)> uses = {};
  // Returns the indices of the rows of a parameter's gradient to which one use adds, on rank `rank` in pass
  // `step`. `use` is the position of the use, from 0, in the list that `uses` returns. If the function `uses`
  // is not set, `use` is the parameter's index. If the function `rows` is not set, or returns nullopt, the
  // use adds to the gradients of all rows. A parameter must have one column if `rows` returns indices for it.
  std::function<std::optional<std::vector<int32_t>>(int rank, int step, int use)> rows = {};
  // If set, backward in Train calls `visit` just before it computes what one use of a parameter adds to the
  // parameter's gradient. The argument `use` is the parameter's index. `step` is the number of the pass, from
  // 0 over all steps.
  std::function<void(int rank, int step, int use)> visit = {};
  int num_steps = 3;
  int num_passes = 1;  // forward and backward passes per step; a power of two
  // If both `adamw` and `muon` are false, the optimizer is gradient descent.
  bool adamw = false;     // if true, the optimizer is AdamW
  bool muon = false;      // if true, the optimizer is Muon
  double grad_scale = 1;  // factor of the gradients in each update; must be 1 with gradient descent
  model::Parameter::Copy copy = model::Parameter::Copy::kNone;  // kBF16 if forward reads bf16 copies
  std::vector<size_t> without_copy = {};                        // indices of parameters without a copy
};

using Values = std::vector<std::vector<float>>;

struct Result {
  Values params;  // values of each parameter after training
  Values read;    // values or bf16 copies that one more forward would read
  Values grads;   // gradients of each parameter in the last step

  bool operator==(const Result&) const = default;
};

inline std::unique_ptr<TestModel> MakeModel(const Graph& graph, const model::DevicePtr& device) {
  auto model =
      std::make_unique<TestModel>(graph.numels, device, graph.copy, graph.without_copy, graph.shapes);
  for (const size_t p : graph.tables) model->params()[p]->SetTable();
  for (const size_t p : graph.frozen) model->params()[p]->Freeze();
  return model;
}

inline model::Var LossOf(const TestModel& model, const Graph& graph, int rank, int step) {
  const auto visit = [=, &graph](int use) {
    if (graph.visit) graph.visit(rank, step, use);
  };
  TestModel::RowsOfUse rows;
  if (graph.rows) rows = [=, &graph](int use) { return graph.rows(rank, step, use); };
  return model.Loss(rank, step, graph.uses ? graph.uses(rank, step) : model.Once(), visit, rows);
}

// Returns groups of parameters that strategies with sharded weights gather together (StrategyContext::units).
// A group has at most `bytes` bytes, or one parameter. A parameter is in no group if, in any pass, any rank
// reads the parameter after parameters of a later group.
inline std::vector<std::vector<model::Parameter*>> UnitsOf(const TestModel& model, const Graph& graph,
                                                           int world_size, size_t bytes) {
  const BucketPlan plan = PlanReverse(model.params(), bytes);
  std::vector<size_t> unit_of;
  for (size_t u = 0; u < plan.buckets.size(); ++u)
    unit_of.insert(unit_of.end(), plan.buckets[plan.buckets.size() - 1 - u].params.size(), u);
  std::vector<bool> in_turn(model.params().size(), true);
  for (int rank = 0; rank < world_size; ++rank) {
    for (int pass = 0; pass < graph.num_steps * graph.num_passes; ++pass) {
      size_t last = 0;
      for (const size_t p : graph.uses ? graph.uses(rank, pass) : model.Once()) {
        in_turn[p] = in_turn[p] && unit_of[p] >= last;
        last = std::max(last, unit_of[p]);
      }
    }
  }
  std::vector<std::vector<model::Parameter*>> units(plan.buckets.size());
  for (size_t p = 0; p < in_turn.size(); ++p)
    if (in_turn[p]) units[unit_of[p]].push_back(model.params()[p]);
  return units;
}

inline std::unique_ptr<model::Optimizer> MakeOptimizer(const TestModel& model, const Graph& graph) {
  if (graph.muon) {
    const bool in_bf16 = graph.copy == model::Parameter::Copy::kBF16;
    return std::make_unique<model::Muon>(
        model.params(), model::Muon::Options{.adamw = {.learning_rate = kRate}, .in_bf16 = in_bf16});
  }
  if (!graph.adamw) return std::make_unique<model::Sgd>(model.params(), model::Sgd::Options{kRate});
  return std::make_unique<model::AdamW>(model.params(), model::AdamW::Options{kRate});
}

// Gradient descent for SingleProcess: subtracts kRate times the gradient from each unfrozen parameter.
// Descend does not call model::Sgd, because tests compare model::Sgd with Descend.
inline void Descend(const TestModel& model) {
  for (model::Parameter* param : model::Trained(model.params())) {
    const model::Tensor update = param->grad().Clone();
    Scale(update, -kRate);
    AddTo(update, param->MutableValue());
  }
}

inline Values ValuesOf(const TestModel& model) {
  Values values;
  for (model::Parameter* param : model.params()) values.push_back(param->value().ToVector<float>());
  return values;
}

inline Values ReadFrom(const TestModel& model) {
  Values values;
  for (size_t p = 0; p < model.params().size(); ++p) values.push_back(model.Read(p));
  return values;
}

inline Values GradsOf(const TestModel& model) {
  Values grads;
  for (model::Parameter* param : model.params())
    grads.push_back(param->has_grad() ? param->grad().ToVector<float>() : std::vector<float>());
  return grads;
}

// Trains the model of `graph` in one process on the data of all ranks. The loss of a step is the mean of the
// losses of all ranks and all passes.
inline Result SingleProcess(int world_size, const Graph& graph) {
  Graph unseen = graph;
  unseen.visit = {};
  const auto model = MakeModel(graph, model::CpuDevice());
  const auto optimizer = MakeOptimizer(*model, graph);
  for (int step = 0; step < graph.num_steps; ++step) {
    for (model::Parameter* param : model->params()) param->ResetGrad();
    for (int i = 0; i < world_size * graph.num_passes; ++i) {
      const int pass = step * graph.num_passes + i / world_size;
      model::Backward(TestModel::Scaled(LossOf(*model, unseen, i % world_size, pass),
                                        1.0 / (world_size * graph.num_passes)),
                      model->params());
    }
    if (graph.adamw || graph.muon) {
      optimizer->Step(graph.grad_scale);
    } else {
      Descend(*model);
    }
  }
  return {ValuesOf(*model), ReadFrom(*model), GradsOf(*model)};
}

inline Result Train(const Tested& tested, size_t bucket_bytes, comm::ProcessGroup& group,
                    const model::DevicePtr& device, const Graph& graph = {}) {
  const auto model = MakeModel(graph, device);
  const auto optimizer = MakeOptimizer(*model, graph);
  Values grads;
  StrategyContext context = {.params = model->params(), .group = group, .options = {}};
  context.options.bucket_bytes = bucket_bytes;
  context.options.spoil_weights = device->is_cpu();
  // is_alone says that no other strategy trains the parameters; tests with an odd number of ranks set it.
  context.options.is_alone = group.size() % 2 == 1;
  if (context.options.is_alone) context.optimizer = optimizer.get();
  context.options.values = tested.values;
  context.units = UnitsOf(*model, graph, group.size(), bucket_bytes);
  std::unique_ptr<Strategy> strategy = MakeStrategy(tested.strategy, context);
  const model::UseHook on_use =
      strategy->needs_use_hook() ? [&](const model::Parameter& p) { strategy->OnUse(p); } : model::UseHook();
  for (int step = 0; step < graph.num_steps; ++step) {
    for (model::Parameter* param : model->params()) param->ResetGrad();
    strategy->BeginStep();
    for (int pass = 0; pass < graph.num_passes; ++pass) {
      const bool is_last = pass + 1 == graph.num_passes;
      const model::Var loss =
          TestModel::Scaled(LossOf(*model, graph, group.rank(), step * graph.num_passes + pass),
                            strategy->loss_scale() / graph.num_passes);
      if (!is_last && !strategy->needs_every_pass()) {
        model::Backward(loss, model->params());
        continue;
      }
      model::Backward(
          loss, model->params(), [&](model::Parameter& p) { strategy->OnGradReady(p); }, on_use);
      if (!is_last) strategy->EndPass();
    }
    strategy->Finish();
    if (step + 1 == graph.num_steps) {
      strategy->CompleteGradients();
      grads = GradsOf(*model);
    }
    strategy->Update(*optimizer, graph.grad_scale);
  }
  // Only a strategy that shards the weights needs CompleteValues before its destructor. Other strategies are
  // tested with CompleteValues (odd numbers of ranks) and without it (even numbers).
  if (TraitsOf(tested.strategy).shards_values || group.size() % 2 == 1) strategy->CompleteValues();
  strategy.reset();
  return {ValuesOf(*model), ReadFrom(*model), grads};
}

// Trains the model of `graph` with the strategy `tested` on devices.size() ranks; rank r uses devices[r].
// Fails unless every rank's weights, weights as forward reads them, and last gradients equal those of
// SingleProcess, without a tolerance.
inline void CheckEquivalence(const Tested& tested, size_t bucket_bytes, const std::string& backend,
                             const std::vector<model::DevicePtr>& devices, const Graph& graph = {}) {
  const auto world_size = static_cast<int>(devices.size());
  const std::vector<std::unique_ptr<comm::ProcessGroup>> groups =
      comm::MakeGroups(backend, devices, std::chrono::seconds(60), comm::RanksPerHost(backend));
  std::vector<Result> results(groups.size());
  comm::RunRanks(world_size, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    results[r] = Train(tested, bucket_bytes, *groups[r], devices[r], graph);
  });
  const Result expected = SingleProcess(world_size, graph);
  for (size_t r = 0; r < results.size(); ++r) {
    for (size_t p = 0; p < graph.numels.size(); ++p) {
      ASSERT_TRUE(results[r].grads[p] == expected.grads[p]) << tested.name() << ", rank " << r << ", p" << p;
      ASSERT_TRUE(results[r].params[p] == expected.params[p])
          << tested.name() << ", rank " << r << ", p" << p;
      ASSERT_TRUE(results[r].read[p] == expected.read[p]) << tested.name() << ", rank " << r << ", p" << p;
    }
  }
}

}  // namespace gradsync::ddp
