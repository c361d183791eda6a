// Pointwise ops as oneDNN names them: alone, or as the epilogue of a bigger primitive.
#pragma once

#include <functional>
#include <optional>

#include "kernels/onednn/primitive_kernel.h"
#include "ops/linear/epilogue.h"

namespace deepjit::onednn {

struct Eltwise {
  dnnl::algorithm algorithm;
  float alpha = 0, beta = 0;
};
// The eltwise algorithm of an epilogue op without operand, or nothing.
std::optional<Eltwise> eltwise_of(const EpilogueOp& op);
// binary_add for "Add" ...; undef for others.
dnnl::algorithm binary_of(const std::string& name);

// An epilogue as post-ops. Operand i of `operands` is argument DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | SRC_1.
struct PostOps {
  struct Operand {
    int index;           // position among the post-ops
    int input;           // the step's input
    memory::desc plain;  // its ONNX layout in the primitive's logical dims
  };
  dnnl::post_ops ops;
  std::vector<Operand> operands;
  std::string reason;  // why the epilogue cannot be expressed; "" when it can

  void append(const Eltwise& eltwise) { ops.append_eltwise(eltwise.algorithm, eltwise.alpha, eltwise.beta); }
  void append_binary(dnnl::algorithm algorithm, int input, const memory::desc& plain, const memory::desc& given);
};

// Appends the step's epilogue. describe_operand(dims) gives the operand's layout in the primitive's logical dims
// or an empty desc when it has none there.
// any_layout: operands that have the result's full shape are left in the layout the primitive chooses.
void append_epilogue(const StepShape& shape, const std::function<memory::desc(const Dims&)>& describe_operand,
                     bool any_layout, PostOps& post_ops);

// The operands' slots, reordered to what the primitive chose.
template <typename PrimitiveDesc>
void append_operands(PrimitiveKernel& kernel, const PrimitiveDesc& pd, const PostOps& post_ops, ArgList& args) {
  for (const PostOps::Operand& operand : post_ops.operands) {
    const int arg = DNNL_ARG_ATTR_MULTIPLE_POST_OP(operand.index) | DNNL_ARG_SRC_1;
    const memory::desc wanted = pd.query_md(dnnl::query::exec_arg_md, arg);
    const int slot = kernel.input(operand.input, operand.plain);
    args.emplace_back(arg, kernel.reordered(slot, wanted));
  }
}

}  // namespace deepjit::onednn
