#include "profile/json.h"

#include <algorithm>
#include <map>

namespace deepjit::profile {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Times& t) { return {{"p50_us", t.p50}, {"p95_us", t.p95}, {"typical_us", t.typical}}; }

Json json_of(const StepRecord& r) {
  Json one = {{"step", r.step},       {"op", r.op},       {"name", r.name},        {"provider", r.provider},
              {"variant", r.variant}, {"calls", r.calls}, {"launches", r.launches}};
  one.update(json_of(r.times));
  one["share"] = r.share;
  one["bytes"] = r.bytes;
  one["flops"] = r.flops;
  one["gb_s"] = r.gb_s;
  one["gflop_s"] = r.gflop_s;
  one["of_roofline"] = r.of_roofline ? Json(*r.of_roofline) : Json(nullptr);
  one["bound"] = r.of_roofline ? Json(r.bound) : Json(nullptr);
  one["time_at_build_us"] = r.time_at_build_us;
  one["inputs"] = r.inputs;
  one["outputs"] = r.outputs;
  one["origins"] = r.origins;
  return one;
}

Json json_of(const std::optional<device::Clocks>& clocks) {
  if (!clocks) return nullptr;
  return {{"sm_mhz", clocks->sm_mhz},
          {"memory_mhz", clocks->memory_mhz},
          {"celsius", clocks->celsius},
          {"throttled", clocks->throttled}};
}

Json json_of(const Limits& limits) {
  Json copies = Json::array();
  for (const Limits::Copy& copy : limits.copies) copies.push_back({{"bytes", copy.bytes}, {"gb_s", copy.gb_s}});
  return {{"copies", copies}, {"gflop_s", limits.gflop_s > 0 ? Json(limits.gflop_s) : Json(nullptr)}};
}

// The parts of a run without profiling, against the typical one of those that had none.
double explained(const Profile& p) {
  double sum = 0;
  for (const Part& part : p.parts) sum += part.name == "profiling" ? 0 : part.times.typical;
  return p.unprofiled.typical > 0 ? sum / p.unprofiled.typical : 0;
}

constexpr int kProcess = 1, kHost = 1, kDevice = 2, kCopies = 3;

Json thread_name(int thread, const char* name) {
  return {{"name", "thread_name"}, {"ph", "M"}, {"pid", kProcess}, {"tid", thread}, {"args", {{"name", name}}}};
}

// From nanoseconds, so that an end never passes the end of what is around it by rounding.
Json span(const std::string& name, const std::string& category, int thread, int64_t start_ns, int64_t end_ns,
          Json args) {
  return {{"name", name},
          {"cat", category},
          {"ph", "X"},
          {"ts", static_cast<double>(start_ns) / 1000},
          {"dur", static_cast<double>(end_ns - start_ns) / 1000},
          {"pid", kProcess},
          {"tid", thread},
          {"args", std::move(args)}};
}

Json args_of(const StepRecord& r) {
  return {{"step", r.step},
          {"op", r.op},
          {"tactic", r.variant.empty() ? r.provider : r.provider + ":" + r.variant},
          {"inputs", r.inputs},
          {"outputs", r.outputs},
          {"bytes", r.bytes},
          {"flops", r.flops},
          {"origins", r.origins}};
}

}  // namespace

nlohmann::ordered_json to_json(const Profile& p) {
  Json steps = Json::array();
  for (const StepRecord& record : p.steps) steps.push_back(json_of(record));
  Json parts = Json::array();
  for (const Part& part : p.parts) {
    Json one = {{"part", part.name}};
    one.update(json_of(part.times));
    one["share"] = part.share;
    parts.push_back(one);
  }
  Json ops = Json::array();
  for (const OpTotal& total : totals_by_op(p)) {
    ops.push_back({{"op", total.op},
                   {"steps", total.steps},
                   {"calls", total.calls},
                   {"typical_us", total.typical_us},
                   {"share", total.share},
                   {"bytes", total.bytes},
                   {"flops", total.flops}});
  }
  return {{"format", 1},
          {"model", p.model},
          {"device", p.device},
          {"precision", p.precision},
          {"method", p.method},
          {"note", p.note.empty() ? Json(nullptr) : Json(p.note)},
          {"threads", p.threads},
          {"contexts", p.contexts},
          {"runs", p.runs},
          {"launches", p.launches},
          {"wall", json_of(p.wall)},
          {"unprofiled", json_of(p.unprofiled)},
          {"unprofiled_device", p.unprofiled_device ? json_of(*p.unprofiled_device) : Json(nullptr)},
          {"clock_cost_us", p.clock_cost_us},
          {"parts_of_unprofiled", explained(p)},
          {"parts", parts},
          {"steps", steps},
          {"ops", ops},
          {"limits", json_of(p.limits)},
          {"warm_up", {{"seconds", p.warm_up.seconds}, {"runs", p.warm_up.runs}, {"stable", p.warm_up.stable}}},
          {"clocks_before", json_of(p.clocks_before)},
          {"clocks_after", json_of(p.clocks_after)}};
}

nlohmann::ordered_json to_trace(const Profile& p) {
  std::map<int32_t, const StepRecord*> records;
  for (const StepRecord& record : p.steps) records[record.step] = &record;
  const auto ns = [](double us) { return static_cast<int64_t>(us * 1000 + 0.5); };
  const int64_t end = ns(p.typical.wall_us);
  const bool on_device = p.typical.on_device;
  Json events = Json::array();
  events.push_back(
      {{"name", "process_name"}, {"ph", "M"}, {"pid", kProcess}, {"args", {{"name", "deepjit " + p.model}}}});
  events.push_back(thread_name(kHost, "host"));
  if (on_device) events.push_back(thread_name(kDevice, p.device.c_str()));
  if (on_device) events.push_back(thread_name(kCopies, "copies"));
  events.push_back(span("run", "run", kHost, 0, end, {{"method", p.method}, {"runs", p.runs}}));
  int64_t busy_until[] = {0, 0, 0, 0};  // kernels may overlap, spans of a thread that do not nest may not
  for (const Span& s : p.typical.spans) {
    const bool step = s.kind == Span::Kind::STEP;
    const int thread = !on_device ? kHost : step ? kDevice : kCopies;
    const int64_t from = std::clamp<int64_t>(std::max(ns(s.start_us), busy_until[thread]), 0, end);
    const int64_t to = std::clamp<int64_t>(ns(s.end_us), from, end);
    if (on_device) busy_until[thread] = to;
    const auto found = records.find(s.step);
    std::string name = s.kind == Span::Kind::COPY_IN ? "copy in" : "copy out";
    Json args = Json::object();
    if (step && found != records.end()) {
      name = found->second->name.empty() ? found->second->op : found->second->name;
      args = args_of(*found->second);
    }
    if (s.kernel >= 0) args["kernel"] = p.kernels[static_cast<size_t>(s.kernel)];
    events.push_back(span(name, step ? "step" : "copy", thread, from, to, std::move(args)));
  }
  return {{"traceEvents", events}, {"displayTimeUnit", "ns"}};
}

std::vector<OpTotal> totals_by_op(const Profile& profile) {
  std::map<std::string, OpTotal> by_op;
  for (const StepRecord& r : profile.steps) {
    if (r.calls <= 0) continue;
    OpTotal& total = by_op[r.op];
    total.op = r.op;
    ++total.steps;
    total.calls += r.calls;
    total.typical_us += r.times.typical;
    total.share += r.share;
    total.bytes += r.bytes;
    total.flops += r.flops;
  }
  std::vector<OpTotal> list;
  for (auto& [op, total] : by_op) list.push_back(total);
  std::stable_sort(list.begin(), list.end(),
                   [](const OpTotal& a, const OpTotal& b) { return a.typical_us > b.typical_us; });
  return list;
}

}  // namespace deepjit::profile
