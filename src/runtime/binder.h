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
  // Of a binding for a device MAIN is the device, else there is only MAIN.
  enum Side { MAIN = 0, HOST = 1 };

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

  // What of a binding for a device runs on the host (binder_places.cpp).
  void share_with_host();
  void order_by_side();
  void insert_copies();
  int32_t add_mirror(int32_t buffer);
  void part_host();
  std::vector<int32_t> inputs_read(Side side) const;
  std::vector<int32_t> roots_read(const BoundStep& bound) const;
  bool lies_in_arena(size_t buffer, Side side) const;
  static Side side_of(const BoundStep& bound) { return bound.on_host ? HOST : MAIN; }

  // Memory.
  void settle_outputs();
  void work_in_place();
  void lay_out_arena();
  void lay_out(Side side, Binding& binding) const;

  // Kernels.
  void make_kernels();
  std::unique_ptr<Kernel> make_device_kernel(const Step& step, const StepShape& shape) const;
  void refuse_host(const BoundStep& bound) const;
  static void size_up(Binding& binding);
  StepShape step_shape(const Step& step) const;
  int32_t root(int32_t buffer) const;
  void note_uses();
  int note_combo_uses(const BoundStep& bound, int moment);
  void use(int32_t buffer, int moment, Side side);

  const ProgramInfo& info_;
  const Program& program_;
  const BindRequest& request_;
  std::unique_ptr<Binding> binding_;
  std::vector<BufferState> states_;
  std::vector<int32_t> alias_;                   // buffer -> buffer whose memory it is, or itself
  std::vector<Home> home_;                       // of roots
  std::vector<bool> made_on_host_;               // of roots: that steps of the host write, in a binding for a device
  std::vector<int> first_use_[2], last_use_[2];  // of roots, in moments, by side
  std::vector<int> moment_;                      // of each step; a combo's parts have one each
  int64_t next_symbol_ = 1;
  bool exploring_ = false;  // walking a branch that is not taken, for the visitor only
};

}  // namespace deepjit
