#ifndef LIBRARY_OPERATORS_H_
#define LIBRARY_OPERATORS_H_
#include "library_api.h"
libraryStatus_t LIBRARY_API launchOperator(const cnrtDim3_t dim, const cnrtFunctionType_t type, const cnrtQueue_t queue,
                                           const libraryDataType_t dtype, const void *x, void *y, size_t n, float factor);
#endif
