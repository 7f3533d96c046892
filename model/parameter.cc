#include "model/parameter.h"

#include <unordered_set>

#include "model/tensor/tensor_ops.h"

namespace gradsync::model {

Parameter::Parameter(std::string name, Tensor value, Copy copy)
    : name_(std::move(name)), value_(std::move(value)) {
  if (copy == Copy::kNone) return;
  Require(value_.dtype() == DType::kF32, "parameter '", name_, "' is ", Name(value_.dtype()),
          ", expected f32 for a copy in bf16");
  copy_ = Tensor::Empty(value_.device(), value_.shape(), DType::kBF16);
}

const Tensor& Parameter::ForwardValue() const {
  if (on_read_) on_read_();
  if (!copy_.defined()) return value();
  if (copy_place_.defined()) return copy_place_;
  if (!copy_is_fresh_ || (!place_.defined() && !value_.unique())) Cast(value(), copy_);
  copy_is_fresh_ = true;
  return copy_;
}

const Tensor& Parameter::grad() {
  if (!grad_.defined()) grad_ = Tensor::Empty(value_.device(), value_.shape(), value_.dtype());
  return grad_;
}

void Parameter::CheckPlace(const char* what, const Tensor& place, DType dtype) const {
  if (!place.defined()) return;
  Require(place.shape() == value_.shape() && place.dtype() == dtype && place.device() == device(), what,
          " of '", name_, "': place has shape ", place.shape(), " ", Name(place.dtype()), " on ",
          place.device()->name(), ", the parameter ", value_.shape(), " ", Name(dtype), " on ",
          device()->name());
}

void Parameter::MoveTo(Tensor place, Tensor* from) {
  if (!place.defined() && !from->defined()) return;
  *from = std::move(place);
  MutableValue();
}

void Parameter::PlaceValue(Tensor place) {
  CheckPlace("value", place, value_.dtype());
  MoveTo(std::move(place), &place_);
}

void Parameter::PlaceForwardValue(Tensor place) {
  if (!has_copy()) return PlaceValue(std::move(place));
  CheckPlace("copy", place, copy_.dtype());
  MoveTo(std::move(place), &copy_place_);
}

void Parameter::TakeBack() {
  PlaceValue({});
  PlaceForwardValue({});
  SetOnRead({});
}

size_t Parameter::own_bytes() const {
  const size_t value_bytes = place_.defined() || copy_place_.defined() ? 0 : value_.nbytes();
  return value_bytes + (has_copy() && !copy_place_.defined() ? copy_.nbytes() : 0);
}

void Parameter::PlaceGrad(Tensor place) {
  CheckPlace("gradient", place, value_.dtype());
  grad_ = std::move(place);
}

std::vector<Parameter*> Trained(std::span<Parameter* const> params) {
  std::unordered_set<const Parameter*> seen;
  std::vector<Parameter*> trained;
  for (Parameter* param : params) {
    Require(seen.insert(param).second, "parameter '", param->name(), "' is listed twice");
    if (!param->frozen()) trained.push_back(param);
  }
  return trained;
}

}  // namespace gradsync::model
