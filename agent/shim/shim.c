/* Stands in for libibverbs.so.1 and sets the flow label of queue pairs from the agent's table.
 *
 * A RoCEv2 sender's UDP source port comes from the 20-bit flow label given at the transition to RTR (Linux,
 * include/rdma/ib_verbs.h: rdma_flow_label_to_udp_sport). NCCL gives 0, so ports come from queue pair
 * numbers; it loads libibverbs by dlopen and dlvsym, so that preloading one function does not reach it. Every
 * exported symbol is a trampoline to the real library (generated, assembly.py); of all of them only
 * ibv_modify_qp is looked into, and of it only the transition to RTR with an address vector.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shim.h"

__attribute__((visibility("default"))) const char monkeytree_verbs_shim[] = "1";

typedef int modify_qp(struct mt_qp *, struct mt_qp_attr *, int);
typedef int query_gid(void *context, uint8_t port, int index, mt_gid *gid);
typedef void **get_device_list(int *count);

static void *real_modify_qp, *real_query_gid, *real_get_device_list;
static void *real_library;
static int override_labels; /* replace labels that programs gave too */

enum { IBV_QPT_RC = 2, IBV_QPT_UC = 3, IBV_QPT_XRC_SEND = 9, IBV_QPT_XRC_RECV = 10 };

/* The least label that is not 0 with that port; 0 would mean the kernel's default. */
static uint32_t label_of(uint16_t port) {
    uint32_t low = port & 0x3FFF;
    return low ? low : 1u << 14 | 1;
}

static int connected(uint32_t type) {
    return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

/* Whether this call is one to look into. Bits that are not known mean members that would not be copied. */
static int takes_address(const struct mt_qp *qp, const struct mt_qp_attr *attr, int mask) {
    return qp && attr && (mask & MT_QP_STATE) && (mask & MT_QP_AV) && !(mask & ~MT_QP_KNOWN) &&
           attr->qp_state == MT_QPS_RTR && attr->ah_attr.is_global && connected(qp->qp_type);
}

/* Both GIDs, IPv4-mapped or IPv6: those of RoCEv2 are addresses, and others stand in no table. */
static int ends(const struct mt_qp *qp, const struct mt_qp_attr *attr, mt_gid *source, mt_gid *target) {
    const struct mt_ah_attr *to = &attr->ah_attr;
    memcpy(target, &to->grh.dgid, sizeof *target);
    return real_query_gid &&
           ((query_gid *)real_query_gid)(qp->context, to->port_num, to->grh.sgid_index, source) == 0;
}

/* ibv_modify_qp of IBVERBS_1.1. The caller's attributes are never written to, and errno is as without us. */
static int label_and_modify(struct mt_qp *qp, struct mt_qp_attr *attr, int mask) {
    modify_qp *modify = (modify_qp *)real_modify_qp;
    struct mt_record record = {.what = "set"};
    int kept = errno;
    int named = takes_address(qp, attr, mask) && mt_table_in_force() &&
                ends(qp, attr, &record.source, &record.target) &&
                mt_next_port(&record.source, &record.target, &record.choice);
    errno = kept;
    if (!named) return modify(qp, attr, mask);

    struct mt_qp_attr labelled = *attr;
    int own = attr->ah_attr.grh.flow_label != 0 && !override_labels;
    record.qp_num = qp->qp_num;
    record.dest_qp_num = attr->dest_qp_num;
    record.label = own ? attr->ah_attr.grh.flow_label : label_of(record.choice.port);
    labelled.ah_attr.grh.flow_label = record.label;
    if (own) record.what = "own_label";
    int result = record.result = modify(qp, own ? attr : &labelled, mask);
    if (result != 0 && !own) {
        record.what = "refused"; /* a device that takes no label: the job matters more */
        errno = kept;
        result = modify(qp, attr, mask);
    }
    kept = errno;
    mt_log(&record);
    errno = kept;
    return result;
}

/* Exported objects are the real library's variables: it may have set them while it looked for devices. */
static void copy_objects(void) {
    for (unsigned i = 0; i < mt_symbol_count; i++) {
        const struct mt_symbol *symbol = mt_symbols + i;
        const char *theirs = symbol->data ? dlvsym(real_library, symbol->name, symbol->version) : NULL;
        /* Where the loader has bound the real library to our copy, its own stays all zero. */
        for (size_t byte = 0; theirs && theirs != symbol->data && byte < symbol->size; byte++)
            if (theirs[byte]) memcpy(symbol->data, theirs, symbol->size);
    }
}

static void **list_and_copy(int *count) {
    void **devices = ((get_device_list *)real_get_device_list)(count);
    int kept = errno; /* says why there are none */
    copy_objects();
    errno = kept;
    return devices;
}

static const struct {
    const char *name;
    void **real, *ours;
} looked_into[] = {
    {"ibv_modify_qp", &real_modify_qp, (void *)label_and_modify},
    {"ibv_query_gid", &real_query_gid, NULL},
    {"ibv_get_device_list", &real_get_device_list, (void *)list_and_copy},
};

static void *intercept(const struct mt_symbol *symbol, void *real, int on) {
    for (size_t i = 0; i < sizeof looked_into / sizeof *looked_into; i++) {
        void *ours = looked_into[i].ours;
        if (strcmp(symbol->name, looked_into[i].name) || strcmp(symbol->version, "IBVERBS_1.1")) continue;
        *looked_into[i].real = real;
        if (ours && (on || ours != (void *)label_and_modify)) return ours;
    }
    return real;
}

static const char *const off_words[] = {"off", "0", "no", "false", NULL};
static const char *const on_words[] = {"on", "1", "yes", "true", NULL};

static int is_one_of(const char *text, const char *const *words) {
    while (text && *words && strcasecmp(text, *words)) words++;
    return text && *words;
}

__attribute__((constructor)) static void bind_all(void) {
    const char *mode = secure_getenv("MONKEYTREE_VERBS_SHIM");
    int on = !is_one_of(mode, off_words);
    unsigned missing = 0;
    override_labels = mode && strcasecmp(mode, "override") == 0;
    if (on && mode && *mode && !override_labels && !is_one_of(mode, on_words))
        mt_warn("MONKEYTREE_VERBS_SHIM is \"%s\", neither off nor override: taken for on", mode);
    real_library = mt_open_real();
    for (unsigned i = 0; i < mt_symbol_count; i++) {
        const struct mt_symbol *symbol = mt_symbols + i;
        void *real = real_library ? dlvsym(real_library, symbol->name, symbol->version) : NULL;
        if (!symbol->data) mt_slots[i] = real ? intercept(symbol, real, on) : symbol->absent;
        missing += !real;
    }
    if (!real_library)
        mt_warn("no real libibverbs.so.1 found (MONKEYTREE_VERBS_REAL names it): verbs will fail");
    else if (missing)
        mt_warn("the real libibverbs lacks %u symbols that this was built with: build it here", missing);
    if (real_library) copy_objects();
    dlerror(); /* what we did not find is not the caller's to hear of */
}
