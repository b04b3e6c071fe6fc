// What BANG C sources include: the device side and the host's runtime.
#pragma once
#include "mlu.h"
#include "cnrt.h"
