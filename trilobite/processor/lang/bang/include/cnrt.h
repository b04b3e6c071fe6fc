// Names of the host's runtime, so that host code in a kernel source parses. Nothing here is ever executed:
// host programs are ported to Python with trilobite.processor.lang.bang.cnrt.
#pragma once
#include "mlu.h"
typedef int cnrtRet_t;
// Handles point to types that are never complete; libraries name those types with and without the ending.
#define __DLP_HANDLE(name) struct name; typedef struct name *name##_t;
__DLP_HANDLE(cnrtQueue) __DLP_HANDLE(cnrtNotifier) __DLP_HANDLE(cnrtKernelInitParam)
__DLP_HANDLE(cnrtKernelParamsBuffer) __DLP_HANDLE(cnrtModule) __DLP_HANDLE(cnrtTaskTopo) __DLP_HANDLE(cnrtMemPool)
#undef __DLP_HANDLE
typedef cnrtQueue cnrtQueue_st;
typedef cnrtNotifier cnrtNotifier_st;
typedef int cnrtDev_t;
typedef struct { unsigned int x, y, z; } cnrtDim3_t;
typedef enum { CNRT_FUNC_TYPE_BLOCK = 1, CNRT_FUNC_TYPE_UNION1 = 4, CNRT_FUNC_TYPE_UNION2 = 8, CNRT_FUNC_TYPE_UNION4 = 16,
               CNRT_FUNC_TYPE_UNION8 = 32, CNRT_FUNC_TYPE_UNION16 = 64, CNRT_FUNC_TYPE_MUTABLE = 128,
               BLOCK = 1, UNION1 = 4, UNION2 = 8, UNION4 = 16, UNION8 = 32, UNION16 = 64,
               cnrtFuncTypeBlock = 1, cnrtFuncTypeUnion1 = 4, cnrtFuncTypeUnion2 = 8, cnrtFuncTypeUnion4 = 16,
               cnrtFuncTypeUnion8 = 32, cnrtFuncTypeUnion16 = 64 } cnrtFunctionType_t;
typedef cnrtFunctionType_t cnrtJobType_t;
typedef enum { CNRT_MEM_TRANS_DIR_HOST2DEV, CNRT_MEM_TRANS_DIR_DEV2HOST, CNRT_MEM_TRANS_DIR_DEV2DEV, CNRT_MEM_TRANS_DIR_HOST2HOST,
               cnrtMemcpyHostToDev = 0, cnrtMemcpyDevToHost, cnrtMemcpyDevToDev, cnrtMemcpyHostToHost } cnrtMemTransDir_t;
typedef enum { CNRT_FLOAT16, CNRT_FLOAT32, CNRT_INT8, CNRT_INT16, CNRT_INT32, CNRT_UINT8 } cnrtDataType_t;
enum { CNRT_RET_SUCCESS = 0, cnrtSuccess = 0, CNRT_DISABLE_TASK = 0 };
typedef enum { cnrtAttrClusterCount, cnrtAttrMcorePerCluster, cnrtAttrNramSizePerMcore, cnrtAttrWramSizePerMcore,
               cnrtAttrSramSizePerMcore } cnrtDeviceAttr_t;
#define CNRT_CHECK(...) (void)(__VA_ARGS__)
extern "C" {
cnrtRet_t cnrtInit(unsigned int);
void cnrtDestroy(void);
cnrtRet_t cnrtGetDeviceHandle(cnrtDev_t *, int);
cnrtRet_t cnrtSetCurrentDevice(cnrtDev_t);
cnrtRet_t cnrtSetDevice(int);
cnrtRet_t cnrtGetDevice(int *);
cnrtRet_t cnrtGetDeviceCount(unsigned int *);
cnrtRet_t cnrtDeviceGetAttribute(int *, cnrtDeviceAttr_t, int);
cnrtRet_t cnrtCreateQueue(cnrtQueue_t *);
cnrtRet_t cnrtQueueCreate(cnrtQueue_t *);
cnrtRet_t cnrtDestroyQueue(cnrtQueue_t);
cnrtRet_t cnrtQueueDestroy(cnrtQueue_t);
cnrtRet_t cnrtSyncQueue(cnrtQueue_t);
cnrtRet_t cnrtQueueSync(cnrtQueue_t);
cnrtRet_t cnrtCreateNotifier(cnrtNotifier_t *);
cnrtRet_t cnrtNotifierCreate(cnrtNotifier_t *);
cnrtRet_t cnrtDestroyNotifier(cnrtNotifier_t *);
cnrtRet_t cnrtNotifierDestroy(cnrtNotifier_t);
cnrtRet_t cnrtPlaceNotifier(cnrtNotifier_t, cnrtQueue_t);
cnrtRet_t cnrtNotifierDuration(cnrtNotifier_t, cnrtNotifier_t, float *);
cnrtRet_t cnrtNotifierElapsedTime(cnrtNotifier_t, cnrtNotifier_t, float *);
cnrtRet_t cnrtMalloc(void **, size_t);
cnrtRet_t cnrtFree(void *);
cnrtRet_t cnrtMemcpy(void *, void *, size_t, cnrtMemTransDir_t);
cnrtRet_t cnrtMemcpyAsync(void *, void *, size_t, cnrtQueue_t, cnrtMemTransDir_t);
cnrtRet_t cnrtMemset(void *, int, size_t);
cnrtRet_t cnrtInvokeKernel_V2(const void *, cnrtDim3_t, cnrtKernelParamsBuffer_t, cnrtFunctionType_t, cnrtQueue_t);
cnrtRet_t cnrtInvokeKernel_V3(const void *, cnrtKernelInitParam_t, cnrtDim3_t, cnrtKernelParamsBuffer_t, cnrtFunctionType_t, cnrtQueue_t, void *);
cnrtRet_t cnrtGetKernelParamsBuffer(cnrtKernelParamsBuffer_t *);
cnrtRet_t cnrtKernelParamsBufferAddParam(cnrtKernelParamsBuffer_t, void *, size_t);
cnrtRet_t cnrtDestroyKernelParamsBuffer(cnrtKernelParamsBuffer_t);
cnrtRet_t cnrtCreateKernelInitParam(cnrtKernelInitParam_t *);
cnrtRet_t cnrtInitKernelMemory(const void *, cnrtKernelInitParam_t);
cnrtRet_t cnrtDestroyKernelInitParamAndMemory(cnrtKernelInitParam_t);
cnrtRet_t cnrtConvertFloatToHalf(unsigned short *, float);
cnrtRet_t cnrtConvertHalfToFloat(float *, unsigned short);
const char *cnrtGetErrorStr(cnrtRet_t);
cnrtRet_t cnrtGetLastError(void);
}
template <typename T> cnrtRet_t cnrtMalloc(T **p, size_t n) { return cnrtMalloc((void **)p, n); }
template <typename T> cnrtRet_t cnrtMemcpy(void *d, const T *s, size_t n, cnrtMemTransDir_t k) { return cnrtMemcpy(d, (void *)s, n, k); }
