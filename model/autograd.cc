#include "model/autograd.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

#include "model/tensor/tensor_ops.h"

namespace gradsync::model {

struct Node {
  const char* name;
  // The inputs' tensors are dropped, because `backward` has captured the tensors that it needs.
  std::vector<Var> inputs;
  Var::BackwardFn backward;
  Shape shape;
  DType dtype;
  DevicePtr device;

  // Destroys the nodes in a loop, because a chain of a million operations must not recurse a million
  // destructors deep.
  ~Node() {
    std::vector<std::shared_ptr<Node>> orphans;
    TakeInputs(orphans);
    while (!orphans.empty()) {
      std::shared_ptr<Node> node = std::move(orphans.back());
      orphans.pop_back();
      if (node.use_count() == 1) {
        node->backward = nullptr;
        node->TakeInputs(orphans);
      }
    }
  }

  void TakeInputs(std::vector<std::shared_ptr<Node>>& into);
};

// The state of one Backward call.
class BackwardPass {
 public:
  BackwardPass(std::span<Parameter* const> params, const GradHook& on_ready, const UseHook& on_use)
      : params_(Trained(params)), on_ready_(on_ready), on_use_(on_use) {}

  void Run(const Var& loss) {
    const std::vector<std::shared_ptr<Node>> order = SortFromLoss(loss.node_);
    grads_.at(loss.node_.get()) = One(*loss.node_);
    for (const std::shared_ptr<Node>& node : order) {
      OpGradient op(*this, *node, std::move(grads_.at(node.get())));
      grads_.erase(node.get());
      contributed_.assign(node->inputs.size(), false);
      if (on_use_) {
        for (const Var& input : node->inputs)
          if (input.source_ != nullptr) on_use_(*input.source_);
      }
      TraceRange range(node->device->tracer(), node->name);
      // The function is moved out of the node, so that its tensors are freed after the call.
      Var::BackwardFn backward = std::move(node->backward);
      node->backward = nullptr;
      backward(op);
      CheckAfter(*node);
    }
    FinishUnreached();
  }

  Destination<Tensor> Open(const Var& input) {
    if (input.parameter_ != nullptr)
      return {.data = input.parameter_->grad(), .accumulate = input.parameter_->has_grad()};
    Tensor& grad = grads_.at(input.node_.get());
    if (!grad.defined()) {
      grad = Tensor::Empty(input.node_->device, input.node_->shape, input.node_->dtype);
      return {.data = grad, .accumulate = false};
    }
    // Another tensor shares this storage (PassThrough), and adding in place would change it.
    if (!grad.unique()) grad = grad.Clone();
    return {.data = grad, .accumulate = true};
  }

  void Close(const Node& node, size_t i, const Tensor& rows) {
    MarkContributed(node, i);
    const Var& input = node.inputs[i];
    if (input.parameter_ == nullptr) return;
    input.parameter_->MarkGrad(rows);
    if (--pending_.at(input.parameter_) == 0 && on_ready_) on_ready_(*input.parameter_);
  }

  // Uses `grad` as the first contribution to an intermediate value without a copy. Returns false if it is not
  // the first contribution, or if the input is a parameter, whose gradient has a fixed place.
  bool TakeOver(const Node& node, size_t i, const Tensor& grad) {
    const Var& input = node.inputs[i];
    if (input.parameter_ != nullptr) return false;
    Tensor& first = grads_.at(input.node_.get());
    if (first.defined()) return false;
    MarkContributed(node, i);
    first = grad.View(input.node_->shape);
    return true;
  }

 private:
  // Returns "parameter 'w'", "the output of 'linear'" or "a constant".
  static std::string Describe(const Var& input) {
    if (input.source_ != nullptr) return Join("parameter '", input.source_->name(), "'");
    return input.node_ != nullptr ? Join("the output of '", input.node_->name, "'") : "a constant";
  }

  void MarkContributed(const Node& node, size_t i) {
    if (contributed_[i]) {
      throw std::logic_error(Join("Backward: operation '", node.name,
                                  "' contributed twice to the gradient of ", Describe(node.inputs[i]),
                                  ", its input ", i));
    }
    contributed_[i] = true;
  }

  // Checks that the operation has contributed once to each input. Every gradient is a sum of one contribution
  // for each use. With a missing contribution the gradient would be incomplete, or the parameter would never
  // be ready, and other ranks would wait for it.
  void CheckAfter(const Node& node) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Var& input = node.inputs[i];
      if (input.requires_grad() && !contributed_[i]) {
        throw std::logic_error(Join("Backward: operation '", node.name,
                                    "' contributed nothing to the gradient of ", Describe(input),
                                    ", its input ", i));
      }
      CheckUnchanged(node, input);
    }
  }

  static void CheckUnchanged(const Node& node, const Var& input) {
    if (!input.changed()) return;
    throw std::logic_error(Join("Backward: ", Describe(input), " was changed after operation '", node.name,
                                "' had read it, and before its gradients were computed"));
  }

  // Returns all operations on which the loss depends, each before the operations of its inputs, and counts
  // the contributions to every parameter. Searches depth first with an explicit stack, and inputs in their
  // order, so the result depends only on the graph and is equal on every rank.
  std::vector<std::shared_ptr<Node>> SortFromLoss(const std::shared_ptr<Node>& loss) {
    struct Visit {
      std::shared_ptr<Node> node;
      size_t next_input = 0;
    };
    for (Parameter* param : params_) pending_.emplace(param, 0);
    std::vector<std::shared_ptr<Node>> order;
    std::vector<Visit> stack;
    auto enter = [&](const std::shared_ptr<Node>& node) {
      if (!grads_.try_emplace(node.get()).second) return;
      if (!node->backward)
        throw std::logic_error(Join("Backward: the graph at '", node->name, "' has been used already"));
      stack.push_back({node});
    };
    enter(loss);
    while (!stack.empty()) {
      Visit& visit = stack.back();
      if (visit.next_input == visit.node->inputs.size()) {
        order.push_back(std::move(visit.node));
        stack.pop_back();
        continue;
      }
      const Var& input = visit.node->inputs[visit.next_input++];
      CheckUnchanged(*visit.node, input);
      if (input.node_ != nullptr) enter(input.node_);
      if (input.parameter_ == nullptr) continue;
      const auto pending = pending_.find(input.parameter_);
      Require(pending != pending_.end(), "Backward: the loss depends on parameter '",
              input.parameter_->name(), "', which is not in the list");
      ++pending->second;
    }
    std::reverse(order.begin(), order.end());
    for (Parameter* param : params_) {
      if (pending_.at(param) == 0) unreached_.push_back(param);
    }
    return order;
  }

  void FinishUnreached() {
    for (Parameter* param : unreached_) {
      if (!param->has_grad()) {
        param->grad().Zero();
        param->MarkZeroGrad();
      }
      if (on_ready_) on_ready_(*param);
    }
  }

  static Tensor One(const Node& node) {
    Tensor one = Tensor::Empty(node.device, node.shape, node.dtype);
    Fill(one, 1);
    return one;
  }

  const std::vector<Parameter*> params_;
  const GradHook& on_ready_;
  const UseHook& on_use_;
  std::unordered_map<const Node*, Tensor>
      grads_;  // gradients of operations' outputs; undefined before the first contribution
  std::unordered_map<Parameter*, int64_t> pending_;  // number of missing contributions
  std::vector<bool> contributed_;                    // inputs to which the running operation has contributed
  std::vector<Parameter*> unreached_;
};

void Node::TakeInputs(std::vector<std::shared_ptr<Node>>& into) {
  for (Var& input : inputs) {
    if (std::shared_ptr<Node> node = std::move(input.node_)) into.push_back(std::move(node));
  }
  inputs.clear();
}

Var::Var(Parameter& parameter)
    : value_(parameter.ForwardValue()),
      source_(&parameter),
      version_(parameter.version()),
      parameter_(parameter.frozen() ? nullptr : &parameter) {}

bool Var::changed() const {
  return read_.changed() || (source_ != nullptr && source_->version() != version_);
}

Var Var::FromOp(const char* name, Tensor value, std::vector<Var> inputs, BackwardFn backward) {
  const bool requires_grad =
      std::any_of(inputs.begin(), inputs.end(), [](const Var& v) { return v.requires_grad(); });
  Var output(std::move(value));
  if (Tracer* const tracer = output.value_.device()->tracer()) tracer->Computed(name, output.value_, inputs);
  if (!requires_grad) return output;
  for (Var& input : inputs) input.read_ = std::exchange(input.value_, {}).version();
  const Tensor& v = output.value_;
  output.node_ = std::make_shared<Node>(Node{.name = name,
                                             .inputs = std::move(inputs),
                                             .backward = std::move(backward),
                                             .shape = v.shape(),
                                             .dtype = v.dtype(),
                                             .device = v.device()});
  return output;
}

const char* OpGradient::name() const { return node_.name; }

bool OpGradient::Needs(int i) const { return node_.inputs.at(static_cast<size_t>(i)).requires_grad(); }

Destination<Tensor> OpGradient::Open(int i) { return pass_.Open(node_.inputs.at(static_cast<size_t>(i))); }

void OpGradient::Close(int i, const Tensor& rows) { pass_.Close(node_, static_cast<size_t>(i), rows); }

void OpGradient::PassThrough(int i) {
  if (!Needs(i)) return;
  if (pass_.TakeOver(node_, static_cast<size_t>(i), output_grad_)) return;
  Contribute(i, [&](const Destination<Tensor>& grad) { Store(output_grad_.View(grad.data.shape()), grad); });
}

void Backward(const Var& loss, std::span<Parameter* const> params, const GradHook& on_ready,
              const UseHook& on_use) {
  Require(loss.value().defined() && loss.value().numel() == 1,
          "Backward: the loss must have one element, has shape ", loss.value().shape());
  Require(loss.node_ != nullptr, "Backward: the loss depends on no parameter");
  BackwardPass(params, on_ready, on_use).Run(loss);
}

}  // namespace gradsync::model
