#include "program/ranges.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string_view>
#include <unordered_map>

namespace deepjit {

namespace {

bool holds(const ProgramInput& input, const Dims* shape) {
  if (shape == nullptr || !input.has_range) return true;
  const ShapeRange& range = input.range;
  if (shape->rank() != range.min.rank()) return false;
  for (int i = 0; i < shape->rank(); ++i) {
    if ((*shape)[i] < range.min[i] || (*shape)[i] > range.max[i]) return false;
  }
  return true;
}

bool holds(const Program& program, const ToldShapes& shapes) {
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (!holds(program.inputs[i], shapes[i])) return false;
  }
  return true;
}

// How far the shapes are from the range's opt.
double distance(const Program& program, const ToldShapes& shapes) {
  double sum = 0;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ProgramInput& input = program.inputs[i];
    if (shapes[i] == nullptr || !input.has_range) continue;
    for (int k = 0; k < shapes[i]->rank(); ++k) {
      // An empty dim counts as a half.
      const auto ratio = [](int64_t dim) { return std::log2(std::max(0.5, static_cast<double>(dim))); };
      sum += std::fabs(ratio((*shapes[i])[k]) - ratio(input.range.opt[k]));
    }
  }
  return sum;
}

double size_of_max(const Program& program) {
  double elements = 0;
  for (const ProgramInput& input : program.inputs) {
    if (!input.has_range) continue;
    double count = 1;
    for (int64_t dim : input.range.max) count *= static_cast<double>(dim);
    elements += count;
  }
  return elements;
}

}  // namespace

std::vector<const Program*> programs_of(const Program& program) {
  std::vector<const Program*> all = {&program};
  for (const Program& other : program.others) all.push_back(&other);
  return all;
}

std::vector<Program*> programs_of(Program& program) {
  std::vector<Program*> all = {&program};
  for (Program& other : program.others) all.push_back(&other);
  return all;
}

ToldShapes told_shapes(const Program& program, const std::map<std::string, Dims>& by_name) {
  ToldShapes shapes;
  for (const ProgramInput& input : program.inputs) {
    const auto found = by_name.find(input.name);
    shapes.push_back(found == by_name.end() ? nullptr : &found->second);
  }
  return shapes;
}

const Program* program_at(const Program& program, const ToldShapes& shapes) {
  const Program* best = nullptr;
  double nearest = 0;
  for (const Program* one : programs_of(program)) {
    if (!holds(*one, shapes)) continue;
    const double far = program.others.empty() ? 0 : distance(*one, shapes);
    if (best == nullptr || far < nearest) {
      best = one;
      nearest = far;
    }
  }
  return best;
}

std::vector<const Program*> programs_at(const Program& program, const ToldShapes& shapes) {
  std::vector<const Program*> all = programs_of(program);
  std::vector<const Program*> held;
  std::copy_if(all.begin(), all.end(), std::back_inserter(held),
               [&](const Program* one) { return holds(*one, shapes); });
  return held.empty() ? all : held;
}

const Program& largest_at(const Program& program, const ToldShapes& shapes) {
  const std::vector<const Program*> held = programs_at(program, shapes);
  return **std::max_element(held.begin(), held.end(),
                            [](const Program* a, const Program* b) { return size_of_max(*a) < size_of_max(*b); });
}

std::string range_text(const Program& program) {
  std::string text;
  for (const ProgramInput& input : program.inputs) {
    if (!input.has_range) continue;
    text += (text.empty() ? "" : ", ") + input.name + " " + input.range.min.to_string() + " to " +
            input.range.max.to_string();
  }
  return text.empty() ? "any shape" : text;
}

namespace {

bool is_equal(const Tensor& a, const Tensor& b) {
  return a.view().desc() == b.view().desc() &&
         (a.view().data == b.view().data ||
          std::memcmp(a.view().data, b.view().data, static_cast<size_t>(a.bytes())) == 0);
}

void share_constants(const Program& first, Program& other) {
  for (size_t i = 0; i < std::min(first.buffers.size(), other.buffers.size()); ++i) {
    const Tensor& there = first.buffers[i].constant;
    Tensor& own = other.buffers[i].constant;
    if (own.defined() && !is_object(own.dtype()) && there.defined() && is_equal(there, own)) own = there;
  }
}

}  // namespace

void share_equal_data(Program& program) {
  std::unordered_map<size_t, std::vector<Tensor>> by_hash;
  for (Program* one : programs_of(program)) {
    if (one != &program) share_constants(program, *one);
    for (Step& step : one->steps) {
      for (PackedOperand& packed : step.tactic.packed) {
        if (!packed.data.defined() || packed.data.bytes() == 0) continue;
        const auto* bytes = static_cast<const char*>(packed.data.view().data);
        const std::string_view text(bytes, static_cast<size_t>(packed.data.bytes()));
        std::vector<Tensor>& alike = by_hash[std::hash<std::string_view>()(text)];
        const auto same =
            std::find_if(alike.begin(), alike.end(), [&](const Tensor& t) { return is_equal(t, packed.data); });
        if (same == alike.end())
          alike.push_back(packed.data);
        else
          packed.data = *same;
      }
    }
  }
}

size_t constant_bytes(const Program& program) {
  size_t bytes = 0;
  std::set<std::pair<const void*, int64_t>> seen;
  const auto add = [&](const Tensor& t) {
    if (t.defined() && seen.insert({t.view().data, t.bytes()}).second) bytes += static_cast<size_t>(t.bytes());
  };
  for (const Program* one : programs_of(program)) {
    for (const Buffer& buffer : one->buffers) add(buffer.constant);
    for (const Step& step : one->steps) {
      for (const PackedOperand& packed : step.tactic.packed) add(packed.data);
    }
  }
  return bytes;
}

}  // namespace deepjit
