// Convolutions as matrix products, as further variants of the conv family.
//
// "product/IMPL": one product, a row for each output position. 1x1 windows and windows that cover the whole image are
// rows as they lie; others are copied to rows first, where that is small.
// "product_sum/IMPL": channels last, windows that slide along one axis without padding: one product for each tap of the
// kernel, summed in place. The rows of a tap are a strided view of the image.
// "product_rows/IMPL": channels first, 1x1: one product, a row for each output channel.
// ConvTranspose has only "product/IMPL", for windows that do not overlap: a product whose rows hold all taps.
#pragma once

#include "kernels/onednn/families.h"

namespace deepjit::onednn {

bool is_product_mode(const std::string& mode);
void append_gemm_conv(const StepShape& shape, Variants& variants);
std::unique_ptr<PrimitiveKernel> make_gemm_conv(const StepShape& shape, const Tactic& tactic);

void append_gemm_deconv(const StepShape& shape, Variants& variants);
std::unique_ptr<PrimitiveKernel> make_gemm_deconv(const StepShape& shape, const Tactic& tactic);

}  // namespace deepjit::onednn
