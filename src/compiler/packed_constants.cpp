#include "compiler/packed_constants.h"

#include "kernels/kernel.h"

namespace deepjit {

void unpack_constant(Program& program, const Step& step, const PackedOperand& packed) {
  if (packed.input < 0) return;  // code, not an operand
  Buffer& buffer = program.buffers[static_cast<size_t>(step.inputs[static_cast<size_t>(packed.input)])];
  if (!buffer.is_constant || buffer.constant.defined()) return;
  const Launcher* launcher = find_launcher(step.tactic.provider);
  const auto dims = buffer.type.shape.as_const();
  if (launcher == nullptr || !dims) {
    throw Error(Code::ENGINE_INCOMPATIBLE,
                "step \"" + step.name + "\" keeps its constant \"" + buffer.name + "\" in a form of provider " +
                    step.tactic.provider + ", which this build cannot read",
                "build the engine again from its model with this version");
  }
  buffer.constant = launcher->unpack(packed, {buffer.type.dtype, *dims});
}

}  // namespace deepjit
