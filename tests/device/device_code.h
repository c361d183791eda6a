// A kernel for the conformance tests, as PTX that every driver compiles: out[i] = 2 * in[i] + k over n words of 64
// bits.
#pragma once

#include <cstdint>
#include <span>

namespace deepjit {

inline std::span<const uint8_t> twice_plus_code() {
  static const char text[] = R"(.version 6.4
.target sm_75
.address_size 64
.visible .entry twice_plus(.param .u64 p_in, .param .u64 p_out, .param .u64 p_k, .param .u64 p_n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<12>;
  ld.param.u64 %rd1, [p_in];
  ld.param.u64 %rd2, [p_out];
  ld.param.u64 %rd3, [p_k];
  ld.param.u64 %rd4, [p_n];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mul.wide.u32 %rd5, %r1, %r2;
  cvt.u64.u32 %rd6, %r3;
  add.u64 %rd7, %rd5, %rd6;
  setp.ge.u64 %p1, %rd7, %rd4;
  @%p1 bra done;
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  shl.b64 %rd8, %rd7, 3;
  add.u64 %rd9, %rd1, %rd8;
  add.u64 %rd10, %rd2, %rd8;
  ld.global.u64 %rd11, [%rd9];
  shl.b64 %rd11, %rd11, 1;
  add.u64 %rd11, %rd11, %rd3;
  st.global.u64 [%rd10], %rd11;
done:
  ret;
}
)";
  return {reinterpret_cast<const uint8_t*>(text), sizeof text};
}

}  // namespace deepjit
