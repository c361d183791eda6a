#include <algorithm>

#include "kernels/cudnn/object.h"

namespace deepjit::cudnn {

BackendObject::BackendObject(int type) : object_(nullptr, library().object_destroy) {
  Object made = nullptr;
  check(library().object_create(type, &made), "make a descriptor");
  object_.reset(made);
}

void BackendObject::set(int attribute, int type, int64_t count, const void* values) {
  const Status status = library().object_set(get(), attribute, type, count, values);
  if (status != kSuccess) check(status, ("set attribute " + std::to_string(attribute)).c_str());
}

void BackendObject::set_objects(int attribute, const std::vector<BackendObject>& objects) {
  std::vector<Object> raw;
  raw.reserve(objects.size());
  for (const BackendObject& object : objects) raw.push_back(object.get());
  set(attribute, kTypeObject, static_cast<int64_t>(raw.size()), raw.data());
}

void BackendObject::finalize() { check(library().object_finalize(get()), "take the graph"); }

int64_t BackendObject::get(int attribute, int type, int64_t most, void* values) const {
  int64_t count = 0;
  const Status status = library().object_get(get(), attribute, type, most, &count, values);
  if (status != kSuccess) check(status, ("tell attribute " + std::to_string(attribute)).c_str());
  return count;
}

int64_t BackendObject::get_int(int attribute) const {
  int64_t value = 0;
  get(attribute, kTypeInt64, 1, &value);
  return value;
}

std::vector<BackendObject> BackendObject::get_objects(int attribute, int type, int64_t most) const {
  std::vector<BackendObject> objects;
  std::vector<Object> raw;
  for (int64_t i = 0; i < most; ++i) raw.push_back(objects.emplace_back(type).get());
  const int64_t count = get(attribute, kTypeObject, most, raw.data());
  objects.resize(static_cast<size_t>(std::clamp<int64_t>(count, 0, most)));
  return objects;
}

}  // namespace deepjit::cudnn
