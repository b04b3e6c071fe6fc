// Another name of the device side.
#pragma once
#include "mlu.h"
