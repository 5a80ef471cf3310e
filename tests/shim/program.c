/* Uses libibverbs as NCCL does: dlopen of libibverbs.so, then dlvsym of each function.
 *
 *   program connect THREADS PAIRS ROUNDS MODE   PAIRS queue pairs a thread, from create to destroy
 *   program symbols FILE                        calls `name version` of each line and prints what it answers
 *   program many                                one call with more arguments than registers
 * MODE: plain, own (flow label 0x12345), infiniband (no GRH), gid0 (local GID link-local), unknown (a mask
 * bit of the future), ipv6 (from fd00:0:DEVICE::1 to fd00:1:0::1 and fd00:1:1::1), mixed (from there to IPv4);
 * or the remote GID, 32 digits of hex
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"

static void *library, **devices;
static int pairs, rounds;
static _Atomic int failures;
static const char *mode;

static void *need(const char *name, const char *version) {
    void *found = dlvsym(library, name, version);
    if (!found) {
        fprintf(stderr, "%s %s: %s\n", name, version, dlerror());
        exit(4);
    }
    return found;
}

#define CALL(type, name, ...) ((type)need(name, "IBVERBS_1.1"))(__VA_ARGS__)
typedef void *(*pointer_call)();
typedef int (*status_call)();

static struct mt_qp_attr to_rtr(int thread, int nth) {
    struct mt_qp_attr attr;
    int six = !strcmp(mode, "ipv6");
    memset(&attr, 0xA5, sizeof attr); /* every byte must arrive, padding too */
    attr.qp_state = MT_QPS_RTR;
    attr.dest_qp_num = (uint32_t)(5000 + thread * 100 + nth);
    attr.ah_attr.is_global = strcmp(mode, "infiniband") != 0;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.sgid_index = strcmp(mode, "gid0") ? six || !strcmp(mode, "mixed") ? 5 : 3 : 0;
    attr.ah_attr.grh.flow_label = strcmp(mode, "own") ? 0 : 0x12345;
    memset(attr.ah_attr.grh.dgid.raw, 0, 16);
    uint8_t *remote = attr.ah_attr.grh.dgid.raw, peer = (uint8_t)(nth % 2);
    if (strlen(mode) == 32)
        for (int i = 0; i < 16; i++) sscanf(mode + 2 * i, "%2hhx", remote + i);
    else if (six) memcpy(remote, (uint8_t[16]){0xFD, [3] = 1, [5] = peer, [15] = 1}, 16);
    else memcpy(remote + 10, (uint8_t[]){0xFF, 0xFF, 10, 1, peer, 1}, 6);
    return attr;
}

static void modify(struct mt_qp *qp, struct mt_qp_attr attr, int mask) {
    struct mt_qp_attr before = attr;
    status_call call = (status_call)need("ibv_modify_qp", "IBVERBS_1.1");
    errno = EXDEV; /* a call that succeeds leaves it, whatever else went wrong on the way */
    failures += call(qp, &attr, mask) != 0;
    failures += errno != EXDEV;
    failures += memcmp(&before, &attr, sizeof attr) != 0; /* the caller's attributes are its own */
}

static void one_pair(int thread, int nth, void *context) {
    uintptr_t number = (uintptr_t)(1000 + thread * 100 + nth);
    void *init[8] = {(void *)number, context};
    struct mt_qp *qp = CALL(pointer_call, "ibv_create_qp", (void *)0x1100, init);
    struct mt_qp_attr attr = {.qp_state = 1};
    modify(qp, attr, 1 | 1 << 3 | 1 << 4 | 1 << 5);
    int rtr = 1 | 1 << 7 | 1 << 8 | 1 << 20 | 1 << 12;
    modify(qp, to_rtr(thread, nth), strcmp(mode, "unknown") ? rtr : rtr | 1 << 27);
    attr.qp_state = 3;
    modify(qp, attr, 1 | 1 << 9 | 1 << 16);
    failures += CALL(status_call, "ibv_query_qp", qp, &attr, 1, init) != 0 || attr.qp_state != 3;
    failures += CALL(status_call, "ibv_destroy_qp", qp) != 0;
}

static void *work(void *argument) {
    int thread = (int)(intptr_t)argument;
    void *context = CALL(pointer_call, "ibv_open_device", devices[thread % 2]);
    void *mr = CALL(pointer_call, "ibv_reg_mr", (void *)0x1100, &pairs, (size_t)4096, 7);
    for (int round = 0; round < rounds; round++)
        for (int nth = 0; nth < pairs; nth++) one_pair(thread, nth, context);
    failures += CALL(status_call, "ibv_dereg_mr", mr) != 0;
    failures += CALL(status_call, "ibv_close_device", context) != 0;
    return NULL;
}

static int connect_all(int threads) {
    pthread_t running[64];
    int count = 0;
    devices = CALL(pointer_call, "ibv_get_device_list", &count);
    if (!devices || count != 2) return 5;
    for (int i = 0; i < threads; i++) pthread_create(&running[i], NULL, work, (void *)(intptr_t)i);
    for (int i = 0; i < threads; i++) pthread_join(running[i], NULL);
    ((void (*)(void **))need("ibv_free_device_list", "IBVERBS_1.1"))(devices);
    printf("%d failures\n", failures);
    return 0;
}

static int call_symbols(const char *path) {
    char name[128], version[64];
    FILE *list = fopen(path, "r");
    while (list && fscanf(list, "%127s %63s", name, version) == 2) {
        void *found = dlvsym(library, name, version);
        printf("%s %s %d\n", name, version, found ? ((status_call)found)() : -1);
    }
    return list ? fclose(list) : 6;
}

int main(int count, char **arguments) {
    library = dlopen("libibverbs.so", RTLD_NOW);
    if (!library) library = dlopen("libibverbs.so.1", RTLD_NOW);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 2;
    if (count == 6 && !strcmp(arguments[1], "connect")) {
        pairs = atoi(arguments[3]);
        rounds = atoi(arguments[4]);
        mode = arguments[5];
        return connect_all(atoi(arguments[2]));
    }
    if (count == 3 && !strcmp(arguments[1], "symbols")) return call_symbols(arguments[2]);
    typedef long many(long, long, long, long, long, long, long, long, double, double, ...);
    printf("%ld\n", ((many *)need("ibv_rate_to_mbps", "IBVERBS_1.1"))(1, 2, 3, 4, 5, 6, 7, 8, 1.5, 2.5, 3.5));
    return 0;
}
