#include "lower/prologues.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "lower/regions.h"
#include "program/combo.h"

namespace deepjit {

namespace {

Step& step_of(Program& program, int32_t index) { return program.steps[static_cast<size_t>(index)]; }
const Step& step_of(const Program& program, int32_t index) { return program.steps[static_cast<size_t>(index)]; }

std::vector<int32_t>& inside(Program& program, const Step& region) {
  return program.blocks[static_cast<size_t>(region.blocks[0])].steps;
}

// How often each buffer is read by steps, those in bodies and regions too, and by the ends of blocks.
std::map<int32_t, int> count_readers(const Program& program, const std::vector<bool>& of_region) {
  std::map<int32_t, int> count;
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    if (of_region[b]) continue;  // the region itself reads for its steps
    for (int32_t index : program.blocks[b].steps) {
      for (int32_t buffer : step_of(program, index).inputs) ++count[buffer];
    }
    for (int32_t buffer : program.blocks[b].outputs) ++count[buffer];
  }
  return count;
}

// The operands of `steps` that none of them writes, each once.
std::vector<int32_t> outside_of(const Program& program, const std::vector<int32_t>& steps) {
  std::vector<int32_t> written, read;
  for (int32_t index : steps) {
    for (int32_t b : step_of(program, index).inputs) {
      const bool known = std::count(written.begin(), written.end(), b) + std::count(read.begin(), read.end(), b) != 0;
      if (b >= 0 && !known) read.push_back(b);
    }
    for (int32_t b : step_of(program, index).outputs) written.push_back(b);
  }
  return read;
}

void name_after(Program& program, Step& region) {
  const std::vector<int32_t>& steps = inside(program, region);
  region.origins.clear();
  for (int32_t index : steps) {
    const Step& own = step_of(program, index);
    region.origins.insert(region.origins.end(), own.origins.begin(), own.origins.end());
  }
  const std::string first = step_of(program, steps.front()).name, last = step_of(program, steps.back()).name;
  region.name = steps.size() == 1 ? first : first + (steps.size() == 2 ? "+" : "+..+") + last;
}

void set_operands(Program& program, Step& region, std::vector<int32_t> inputs, std::vector<int32_t> outputs) {
  Block& block = program.blocks[static_cast<size_t>(region.blocks[0])];
  region.inputs = block.inputs = std::move(inputs);
  region.outputs = block.outputs = std::move(outputs);
  region.tactic = {};
  name_after(program, region);
}

}  // namespace

std::vector<ProloguePair> find_prologues(const Program& program, const std::function<bool(const Step&)>& is_product) {
  std::vector<ProloguePair> pairs;
  const std::vector<bool> of_region = blocks_of_regions(program);
  const std::map<int32_t, int> readers = count_readers(program, of_region);
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    if (of_region[b]) continue;
    std::map<int32_t, int32_t> writer;
    for (int32_t index : program.blocks[b].steps) {
      const Step& product = step_of(program, index);
      for (int32_t out : product.outputs) writer[out] = index;
      if (!is_product(product) || product.inputs.size() < 2) continue;
      const auto made = writer.find(product.inputs[0]);
      if (made == writer.end() || readers.at(product.inputs[0]) != 1) continue;
      const Step& region = step_of(program, made->second);
      if (region.op != kRegionOp || is_combo(program, region) || region.outputs.size() != 1) continue;
      if (std::count(region.inputs.begin(), region.inputs.end(), product.inputs[1]) != 0) continue;
      const TensorType& type = program.buffers[static_cast<size_t>(region.outputs[0])].type;
      for (int32_t chain : region.inputs) {
        const Buffer& own = program.buffers[static_cast<size_t>(chain)];
        if (own.is_constant || !(own.type == type)) continue;
        pairs.push_back({static_cast<int32_t>(b), made->second, index, chain});
        break;
      }
    }
  }
  return pairs;
}

void join_prologue(Program& program, const ProloguePair& pair) {
  Step& region = step_of(program, pair.region);
  std::vector<int32_t>& steps = inside(program, region);
  steps.push_back(pair.product);
  const Step& product = step_of(program, pair.product);
  std::vector<int32_t> inputs = {pair.chain, product.inputs[1]};
  for (int32_t b : outside_of(program, steps)) {
    if (std::count(inputs.begin(), inputs.end(), b) == 0) inputs.push_back(b);
  }
  set_operands(program, region, std::move(inputs), product.outputs);
  std::vector<int32_t>& order = program.blocks[static_cast<size_t>(pair.block)].steps;
  order.erase(std::find(order.begin(), order.end(), pair.region));
  *std::find(order.begin(), order.end(), pair.product) = pair.region;
}

void part_prologue(Program& program, const ProloguePair& pair) {
  Step& region = step_of(program, pair.region);
  std::vector<int32_t>& steps = inside(program, region);
  check_internal(steps.size() > 1 && steps.back() == pair.product, "lower: a region without that product");
  steps.pop_back();
  set_operands(program, region, outside_of(program, steps), {step_of(program, pair.product).inputs[0]});
  std::vector<int32_t>& order = program.blocks[static_cast<size_t>(pair.block)].steps;
  order.insert(std::find(order.begin(), order.end(), pair.region) + 1, pair.product);
}

void part_prologues(Program& program, const std::function<bool(const Step&)>& is_product) {
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    for (int32_t index : std::vector<int32_t>(program.blocks[b].steps)) {
      Step& region = step_of(program, index);
      if (region.op != kRegionOp || inside(program, region).size() < 2) continue;
      const int32_t last = inside(program, region).back();
      if (is_product(step_of(program, last))) part_prologue(program, {static_cast<int32_t>(b), index, last, -1});
    }
  }
}

}  // namespace deepjit
