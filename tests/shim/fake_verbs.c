/* A libibverbs that has two devices and no hardware, and writes down every call, byte for byte.
 *
 * A line of FAKE_VERBS_RECORD: key (the queue pair's number, or 0), name, arguments in hex. Queue pairs are
 * numbered by their qp_context, so that two runs of one program can be compared. FAKE_VERBS_REFUSE_LABELS=1
 * makes ibv_modify_qp fail with EINVAL where a flow label is given. All other functions are generated.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"

struct device { int number; };
struct context { struct device *device; };

static struct device devices[2] = {{0}, {1}};

static void record(uint32_t key, const char *name, const void *bytes, size_t size) {
    char line[1024];
    int length = snprintf(line, sizeof line, "%u %s ", key, name);
    for (size_t i = 0; i < size; i++)
        length += snprintf(line + length, sizeof line - (size_t)length, "%02x", ((const uint8_t *)bytes)[i]);
    line[length++] = '\n';
    int file = open(getenv("FAKE_VERBS_RECORD"), O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (file < 0 || write(file, line, (size_t)length) != length) abort();
    close(file);
}

void **fake_get_device_list(int *count) {
    void **list = calloc(3, sizeof *list);
    list[0] = &devices[0];
    list[1] = &devices[1];
    *count = 2;
    record(0, "ibv_get_device_list", NULL, 0);
    return list;
}

void fake_free_device_list(void **list) {
    record(0, "ibv_free_device_list", NULL, 0);
    free(list);
}

struct context *fake_open_device(struct device *device) {
    struct context *context = malloc(sizeof *context);
    context->device = device;
    record(0, "ibv_open_device", &device->number, sizeof device->number);
    return context;
}

int fake_close_device(struct context *context) {
    record(0, "ibv_close_device", &context->device->number, sizeof(int));
    free(context);
    return 0;
}

/* Index 0 is link-local, 3 is 10.0.DEVICE.1 in the form of RoCEv2, 5 is fd00:0:DEVICE::1.
 * FAKE_VERBS_GID, 32 digits of hex, stands for 3 on both devices. */
int fake_query_gid(struct context *context, uint8_t port, int index, mt_gid *gid) {
    int arguments[3] = {context->device->number, port, index};
    record(0, "ibv_query_gid", arguments, sizeof arguments);
    if (index != 0 && index != 3 && index != 5) return -1;
    const char *given = index == 3 ? getenv("FAKE_VERBS_GID") : NULL;
    memset(gid, 0, sizeof *gid);
    if (given)
        for (int i = 0; i < 16; i++) sscanf(given + 2 * i, "%2hhx", gid->raw + i);
    else if (index == 0) memcpy(gid->raw, "\xfe\x80", 2);
    else if (index == 5) gid->raw[0] = 0xFD, gid->raw[5] = (uint8_t)context->device->number, gid->raw[15] = 1;
    else memcpy(gid->raw + 10, (uint8_t[]){0xFF, 0xFF, 10, 0, (uint8_t)context->device->number, 1}, 6);
    return 0;
}

void *fake_reg_mr(void *pd, void *address, size_t length, int access) {
    uint64_t arguments[3] = {(uintptr_t)pd, length, (unsigned)access};
    (void)address;
    record(0, "ibv_reg_mr", arguments, sizeof arguments);
    return (void *)0x3100;
}

int fake_dereg_mr(void *mr) {
    record(0, "ibv_dereg_mr", &mr, sizeof mr);
    return 0;
}

struct mt_qp *fake_create_qp(void *pd, void **init) {
    struct mt_qp *qp = calloc(1, 160);
    qp->qp_context = init[0];
    qp->context = init[1]; /* where a real program has its send CQ: the program hands its context in here */
    qp->qp_num = (uint32_t)(uintptr_t)init[0];
    qp->qp_type = 2;
    record(qp->qp_num, "ibv_create_qp", &pd, sizeof pd);
    return qp;
}

int fake_modify_qp(struct mt_qp *qp, struct mt_qp_attr *attr, int mask) {
    uint8_t bytes[sizeof mask + sizeof *attr];
    memcpy(bytes, &mask, sizeof mask);
    memcpy(bytes + sizeof mask, attr, sizeof *attr);
    record(qp->qp_num, "ibv_modify_qp", bytes, sizeof bytes);
    const char *refuse = getenv("FAKE_VERBS_REFUSE_LABELS");
    if (!refuse || !(mask & MT_QP_AV) || !attr->ah_attr.grh.flow_label) return 0;
    return errno = EINVAL;
}

int fake_query_qp(struct mt_qp *qp, struct mt_qp_attr *attr, int mask, void *init) {
    (void)init;
    record(qp->qp_num, "ibv_query_qp", &mask, sizeof mask);
    attr->qp_state = 3;
    return 0;
}

int fake_destroy_qp(struct mt_qp *qp) {
    record(qp->qp_num, "ibv_destroy_qp", NULL, 0);
    free(qp);
    return 0;
}

/* The old binary interface: another function, which the shim must not look into. */
int fake_modify_qp_1_0(void *qp, void *attr, int mask) {
    (void)qp, (void)attr;
    record(0, "ibv_modify_qp@IBVERBS_1.0", &mask, sizeof mask);
    return 77;
}

/* Takes more arguments than go in registers, of both kinds: trampolines must leave all of them alone. */
long fake_many(long a, long b, long c, long d, long e, long f, long g, long h, double x, double y, ...) {
    va_list more;
    va_start(more, y);
    double z = va_arg(more, double);
    va_end(more);
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + (long)(10 * x + 100 * y + 1000 * z);
}
