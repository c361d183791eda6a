#include "engine/check.h"

#include <algorithm>

#include "base/limits.h"
#include "engine/stream.h"
#include "ops/op.h"
#include "program/combo.h"

namespace deepjit {

namespace {

[[noreturn]] void fail(const std::string& what) { ByteReader::fail(what); }

void check_index(int32_t value, size_t limit, bool optional = false) {
  if ((optional && value == -1) || (value >= 0 && static_cast<size_t>(value) < limit)) return;
  fail("an index is out of range");
}

size_t at(int32_t index) { return static_cast<size_t>(index); }

}  // namespace

void check_ledger_entry(const Program& program, const LedgerEntry& entry) {
  check_index(entry.value, program.buffers.size());
  check_index(entry.producer, program.steps.size());
  check_index(entry.consumer, program.steps.size());
  const std::vector<int32_t>& written = program.steps[at(entry.producer)].outputs;
  if (std::find(written.begin(), written.end(), entry.value) == written.end()) {
    fail("the ledger names a step that does not write the value");
  }
  if (entry.rule == Why::NONE || entry.bytes_at_opt < -1 || entry.launches < 0 || entry.launches > 1) {
    fail("an entry of the ledger is out of range");
  }
}

namespace {

class Checker {
 public:
  explicit Checker(const Program& program)
      : program_(program),
        block_used_(program.blocks.size(), false),
        step_used_(program.steps.size(), false),
        written_(program.buffers.size(), false),
        readable_(program.buffers.size(), false) {}

  void run() {
    if (program_.threads < 0 || program_.threads > limits::engine_threads)
      fail("its number of threads is out of range");
    if (program_.blocks.empty()) fail("there is no entry block");
    for (const Block& block : program_.blocks) check_block(block);
    for (const Step& step : program_.steps) check_step(step);
    for (size_t i = 0; i < program_.buffers.size(); ++i) check_buffer(i);
    check_interface();
    for (const LedgerEntry& entry : program_.ledger) check_ledger_entry(program_, entry);
    walk(0, 0);
  }

 private:
  void check_buffers(const std::vector<int32_t>& buffers, bool optional) const {
    for (int32_t b : buffers) check_index(b, program_.buffers.size(), optional);
  }

  void check_block(const Block& block) const {
    check_buffers(block.inputs, false);
    check_buffers(block.outputs, false);
    for (int32_t s : block.steps) check_index(s, program_.steps.size());
  }

  void check_step(const Step& step) const {
    check_buffers(step.inputs, true);
    check_buffers(step.outputs, true);
    for (int32_t b : step.blocks) check_index(b, program_.blocks.size());
    for (const PackedOperand& packed : step.tactic.packed) {
      check_index(packed.input, step.inputs.size(), true);  // -1: code, not an operand
      if (packed.input >= 0) check_index(step.inputs[at(packed.input)], program_.buffers.size());
    }
    const OpDef* op = op_registry().find(step.op);
    if (op == nullptr) {
      throw Error(Code::ENGINE_INCOMPATIBLE, "the engine uses operator " + step.op + ", which this build does not have",
                  "build the engine again with this version");
    }
    const auto inputs = static_cast<int>(step.inputs.size());
    const auto outputs = static_cast<int>(step.outputs.size());
    bool fits = inputs >= op->min_inputs && inputs <= op->max_inputs && outputs >= 1 && outputs <= op->max_outputs;
    for (int i = 0; fits && i < op->min_inputs; ++i) fits = step.inputs[static_cast<size_t>(i)] >= 0;
    if (!fits || !bodies_fit(step)) fail("step " + step.name + " (" + step.op + ") has a wrong number of operands");
  }

  // The operands of a control step against those of its bodies.
  bool bodies_fit(const Step& step) const {
    if (step.op == kRegionOp) {
      return step.blocks.size() == 1 && program_.blocks[at(step.blocks[0])].inputs == step.inputs &&
             program_.blocks[at(step.blocks[0])].outputs == step.outputs;
    }
    const size_t bodies = step.op == "If" ? 2 : step.op == "Loop" || step.op == "Scan" ? 1 : 0;
    if (step.blocks.size() != bodies) return false;
    if (bodies == 0) return true;
    size_t first = 0;  // operand that must be there
    size_t inputs = step.inputs.size();
    size_t outputs = step.outputs.size();
    if (step.op == "If") {
      if (inputs != 1) return false;
      inputs = 0;
    } else if (step.op == "Loop") {
      if (inputs < 2) return false;
      first = 2;  // the trip count and the condition may be left out
      outputs += 1;
    } else {
      const auto& attrs = step.attrs.all();
      const auto found = attrs.find("num_scan_inputs");
      const auto* scans = found == attrs.end() ? nullptr : std::get_if<int64_t>(&found->second);
      if (scans == nullptr || *scans < 1 || static_cast<uint64_t>(*scans) > inputs) return false;
      if (outputs < inputs - static_cast<size_t>(*scans)) return false;
    }
    for (size_t i = first; i < step.inputs.size(); ++i) {
      if (step.inputs[i] < 0) return false;
    }
    if (step.op == "Loop" && step.outputs.size() < inputs - 2) return false;
    return std::all_of(step.blocks.begin(), step.blocks.end(), [&](int32_t b) {
      const Block& block = program_.blocks[at(b)];
      return block.inputs.size() == inputs && block.outputs.size() == outputs;
    });
  }

  void check_buffer(size_t i) {
    const Buffer& buffer = program_.buffers[i];
    if (!buffer.constant.defined() && !buffer.is_constant) return;
    if (!buffer.is_constant || (buffer.constant.defined() && buffer.constant.dtype() != buffer.type.dtype)) {
      fail("buffer " + buffer.name + " has a constant of another type");
    }
    written_[i] = true;
    readable_[i] = true;
  }

  void check_interface() const {
    const Block& entry = program_.blocks[0];
    bool fits = program_.inputs.size() == entry.inputs.size() && program_.outputs.size() == entry.outputs.size();
    for (size_t i = 0; fits && i < entry.inputs.size(); ++i) fits = program_.inputs[i].buffer == entry.inputs[i];
    for (size_t i = 0; fits && i < entry.outputs.size(); ++i) fits = program_.outputs[i].buffer == entry.outputs[i];
    if (!fits) fail("the entry block does not match the program's inputs and outputs");
    for (const ProgramInput& input : program_.inputs) {
      const TensorType& type = program_.buffers[at(input.buffer)].type;
      if (type.dtype == DType::UNDEFINED) fail("input " + input.name + " has no type");
      if (input.default_value.defined() && input.default_value.dtype() != type.dtype) {
        fail("input " + input.name + " has a default of another type");
      }
      if (!input.has_range) continue;
      const int rank = input.range.min.rank();
      if (input.range.max.rank() != rank || input.range.opt.rank() != rank || !type.shape.ranked() ||
          type.shape.rank() != rank) {
        fail("a shape range has a wrong rank");
      }
    }
  }

  void write(int32_t buffer) {
    if (written_[at(buffer)]) fail("buffer " + program_.buffers[at(buffer)].name + " is written twice");
    written_[at(buffer)] = true;
    readable_[at(buffer)] = true;
  }

  // A constant that is kept in packed form only has no data for anyone else.
  void read(int32_t buffer, const Step* step, size_t operand) const {
    const Buffer& b = program_.buffers[at(buffer)];
    if (!readable_[at(buffer)]) fail("buffer " + b.name + " is read before it is written");
    if (!b.is_constant || b.constant.defined()) return;
    const bool packed =
        step != nullptr && std::any_of(step->tactic.packed.begin(), step->tactic.packed.end(),
                                       [&](const PackedOperand& p) { return p.input >= 0 && at(p.input) == operand; });
    if (!packed) fail("constant " + b.name + " has no data");
  }

  void walk(int32_t index, int depth) {
    if (depth > limits::engine_depth) fail("blocks nest too deep");
    if (block_used_[at(index)]) fail("a block stands in two places");
    block_used_[at(index)] = true;
    const Block& block = program_.blocks[at(index)];
    for (int32_t b : block.inputs) write(b);
    for (int32_t s : block.steps) {
      if (step_used_[at(s)]) fail("a step stands in two places");
      step_used_[at(s)] = true;
      const Step& step = program_.steps[at(s)];
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        if (step.inputs[i] >= 0) read(step.inputs[i], &step, i);
      }
      if (step.op == kRegionOp) {
        walk_region(step, depth + 1, is_combo(program_, step));
        continue;
      }
      for (int32_t b : step.blocks) walk(b, depth + 1);
      for (int32_t b : step.outputs) {
        if (b >= 0) write(b);
      }
    }
    for (int32_t b : block.outputs) read(b, nullptr, 0);
    if (depth > 0) hide(block);
  }

  // The steps of a region read what it reads and write what it writes, so only those between stay inside. A combo holds
  // regions, and views.
  void walk_region(const Step& region, int depth, bool combo) {
    if (depth > limits::engine_depth) fail("blocks nest too deep");
    const int32_t index = region.blocks[0];
    if (block_used_[at(index)]) fail("a block stands in two places");
    block_used_[at(index)] = true;
    const Block& block = program_.blocks[at(index)];
    for (int32_t s : block.steps) {
      if (step_used_[at(s)]) fail("a step stands in two places");
      step_used_[at(s)] = true;
      const Step& step = program_.steps[at(s)];
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        if (step.inputs[i] >= 0) read(step.inputs[i], &step, i);
      }
      if (combo && step.op == kRegionOp) {
        walk_region(step, depth + 1, false);
        continue;
      }
      if (!step.blocks.empty()) fail("a region holds a step with a body");
      if (combo && !(find_op(step.op).view && step.inputs[0] >= 0 && step.outputs[0] >= 0)) {
        fail("a combo holds a step that is no kernel");
      }
      for (int32_t b : step.outputs) {
        if (b >= 0) write(b);
      }
    }
    for (int32_t b : block.outputs) read(b, nullptr, 0);
    hide(block);
    for (int32_t b : block.inputs) readable_[at(b)] = true;
    for (int32_t b : block.outputs) readable_[at(b)] = true;
  }

  // Nothing outside a body may read its values.
  void hide(const Block& block) {
    for (int32_t b : block.inputs) readable_[at(b)] = false;
    for (int32_t s : block.steps) {
      for (int32_t b : program_.steps[at(s)].outputs) {
        if (b >= 0) readable_[at(b)] = false;
      }
    }
  }

  const Program& program_;
  std::vector<bool> block_used_;
  std::vector<bool> step_used_;
  std::vector<bool> written_;
  std::vector<bool> readable_;
};

}  // namespace

void check_program(const Program& program) { Checker(program).run(); }

namespace {

// What is asked of the first program holds for the others: names and types, and where they run.
bool is_alike(const Program& a, const Program& b) {
  const auto type = [](const Program& p, int32_t buffer) { return p.buffers[at(buffer)].type; };
  const auto place = [](const Program& p) {
    const auto found = p.metadata.find("build.device");
    return found == p.metadata.end() ? std::string() : found->second;
  };
  bool alike = a.inputs.size() == b.inputs.size() && a.outputs.size() == b.outputs.size() && a.threads == b.threads &&
               place(a) == place(b);
  for (size_t i = 0; alike && i < a.inputs.size(); ++i) {
    const ProgramInput &x = a.inputs[i], &y = b.inputs[i];
    alike = x.name == y.name && type(a, x.buffer) == type(b, y.buffer) &&
            x.default_value.defined() == y.default_value.defined();
  }
  for (size_t i = 0; alike && i < a.outputs.size(); ++i) {
    alike = a.outputs[i].name == b.outputs[i].name &&
            type(a, a.outputs[i].buffer).dtype == type(b, b.outputs[i].buffer).dtype;
  }
  return alike;
}

}  // namespace

void check_programs(const Program& program) {
  check_program(program);
  for (const Program& other : program.others) {
    check_program(other);
    if (!other.others.empty()) fail("the program of a shape range has ranges of its own");
    if (!is_alike(program, other)) fail("the programs of its shape ranges have other inputs or outputs");
  }
}

}  // namespace deepjit
