// The work of bind(): walks the blocks, then lays out memory and makes kernels. See binding.h.
#pragma once

#include "runtime/binding.h"
#include "runtime/bound_ops.h"

namespace deepjit {

class Binder {
 public:
  Binder(const ProgramInfo& info, const BindRequest& request);
  std::unique_ptr<Binding> run();

 private:
  enum class Home { NONE, EXTERNAL, CONSTANT, ARENA, OUTPUT, OWNED };

  // Walking: one pass over the steps in order.
  void walk(int32_t block);
  void walk_step(const Step& step);
  bool walk_known_if(const Step& step);
  bool evaluate_now(const Step& step, const std::vector<const BufferState*>& inputs);
  void emit_control(const Step& step);
  void visit_blocks(const Step& step);
  void visit(const Step& step);
  BoundStep& append(BoundStep::Kind kind, const Step& step);
  // Fused regions (binder_regions.cpp).
  void walk_region(const Step& step, bool inputs_fixed);
  void walk_combo(const Step& step, bool inputs_fixed);
  bool all_known(const Step& step) const;
  bool all_fixed(const Step& step) const;
  void append_region(const Step& step);
  bool runs_step_by_step(const Step& step, bool inputs_fixed) const;
  void set_known(int32_t buffer, Tensor value);
  Dim fresh_dim();

  // Memory.
  void settle_outputs();
  void work_in_place();
  void lay_out_arena();
  void check_device_steps() const;
  void make_kernels();
  StepShape step_shape(const Step& step) const;
  int32_t root(int32_t buffer) const;
  void note_uses();
  int note_combo_uses(const BoundStep& bound, int moment);
  void use(int32_t buffer, int moment);

  const ProgramInfo& info_;
  const Program& program_;
  const BindRequest& request_;
  std::unique_ptr<Binding> binding_;
  std::vector<BufferState> states_;
  std::vector<int32_t> alias_;             // buffer -> buffer whose memory it is, or itself
  std::vector<Home> home_;                 // of roots
  std::vector<int> first_use_, last_use_;  // of roots, in moments
  std::vector<int> moment_;                // of each step; a combo's parts have one each
  int64_t next_symbol_ = 1;
  bool exploring_ = false;  // walking a branch that is not taken, for the visitor only
};

}  // namespace deepjit
