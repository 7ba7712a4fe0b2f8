// Which signatures can be classified or regressed by. Spec: tfserving-rest section 9; the texts are
// TF Serving's.
#pragma once

#include <optional>
#include <string>

#include "headrace/method.hpp"
#include "headrace/signature.hpp"

namespace headrace {

/// What keeps `signature` from it; nothing: it can be. Precondition: not kPredict.
std::optional<std::string> examples_defect(const Signature &signature, Method method);

/// What such a signature looks like, and those of the model that do.
std::string examples_signatures_hint(const SignatureSet &signatures, Method method);

} // namespace headrace
