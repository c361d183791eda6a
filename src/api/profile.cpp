// Engine::profile() of the public API.
#include "api/internal.h"
// internal.h comes first
#include "api/impl.h"
#include "profile/json.h"

namespace deepjit {
inline namespace v1 {

namespace {

Profile::Times to_public(const profile::Times& t) { return {t.p50, t.p95, t.typical}; }

Profile::Step to_public(const profile::StepRecord& r) {
  Profile::Step step;
  step.step = r.step;
  step.op = r.op;
  step.name = r.name;
  step.tactic = r.variant.empty() ? r.provider : r.provider + ":" + r.variant;
  step.origins = r.origins;
  step.inputs = r.inputs;
  step.outputs = r.outputs;
  step.calls = r.calls;
  step.launches = r.launches;
  step.times = to_public(r.times);
  step.share = r.share;
  step.bytes = r.bytes;
  step.flops = r.flops;
  step.gb_s = r.gb_s;
  step.gflop_s = r.gflop_s;
  step.of_roofline = r.of_roofline.value_or(-1);
  step.bound = r.bound;
  step.time_at_build_us = r.time_at_build_us;
  return step;
}

std::string text_of(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

Profile profile_of(const Engine::Impl& impl, const std::vector<TensorView>& fed, const ProfileOptions& options) {
  profile::Options inner;
  inner.iterations = options.iterations;
  inner.seconds = options.seconds;
  inner.warm_up_s = options.warm_up_s;
  inner.contexts = options.contexts;
  if (options.threads < 0) throw internal::Error(Code::ARGUMENT, "threads cannot be negative");
  inner.threads = options.threads > 0 ? options.threads : impl.threads;
  const profile::Profile made = profile::profile(impl.engine, fed, inner);
  Profile result;
  result.device = made.device;
  result.method = made.method;
  result.note = made.note;
  result.threads = made.threads;
  result.contexts = made.contexts;
  result.runs = made.runs;
  result.launches = made.launches;
  result.wall = to_public(made.wall);
  result.unprofiled = to_public(made.unprofiled);
  for (const profile::StepRecord& record : made.steps) result.steps.push_back(to_public(record));
  for (const profile::Part& part : made.parts) {
    result.parts.push_back({part.name, to_public(part.times), part.share});
  }
  result.json = text_of(profile::to_json(made));
  result.trace = text_of(profile::to_trace(made));
  return result;
}

}  // namespace v1
}  // namespace deepjit
