// The list of build-side providers. It stands in this folder because src/kernels/*.cpp is the runtime's.
#include "kernels/kernel.h"

namespace deepjit {

const std::vector<const Offerer*>& offerers() {
  static const std::vector<const Offerer*> list = {
      &reference_offerer(), &onednn_offerer(), &llvm_offerer(), &nvrtc_offerer(), &cublaslt_offerer(), &cudnn_offerer(),
  };
  return list;
}

}  // namespace deepjit
