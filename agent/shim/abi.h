/* The few members of libibverbs' structures that the shim reads or writes.
 *
 * These layouts are the binary interface of IBVERBS_1.1: they cannot change without a new symbol version.
 * Declared here so that the shim builds where rdma-core's headers are not installed; abi_check.c holds
 * every offset against those headers where they are.
 */
#ifndef MONKEYTREE_SHIM_ABI_H
#define MONKEYTREE_SHIM_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
    MT_QP_STATE = 1 << 0,       /* attr_mask: qp_state is given */
    MT_QP_AV = 1 << 7,          /* attr_mask: ah_attr is given */
    MT_QP_KNOWN = (1 << 26) - 1 /* attr_mask: all bits whose members struct mt_qp_attr holds */
};

enum { MT_QPS_RTR = 2 };

typedef union {
    uint8_t raw[16];
    uint64_t words[2];
} mt_gid;

struct mt_grh {
    mt_gid dgid;
    uint32_t flow_label; /* host byte order, 20 bits */
    uint8_t sgid_index;
    uint8_t hop_limit;
    uint8_t traffic_class;
};

struct mt_ah_attr {
    struct mt_grh grh;
    uint16_t dlid;
    uint8_t sl, src_path_bits, static_rate, is_global, port_num;
};

struct mt_qp_attr {
    uint32_t qp_state, cur_qp_state, path_mtu, path_mig_state;
    uint32_t qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags;
    uint32_t cap[5];
    struct mt_ah_attr ah_attr, alt_ah_attr;
    uint8_t others[16]; /* pkey_index up to alt_timeout, and padding */
    uint32_t rate_limit;
};

struct mt_qp {
    void *context, *qp_context, *pd, *send_cq, *recv_cq, *srq;
    uint32_t handle, qp_num, state, qp_type;
};

_Static_assert(offsetof(struct mt_qp_attr, ah_attr) == 56, "ibv_qp_attr of IBVERBS_1.1");
_Static_assert(sizeof(struct mt_qp_attr) == 144, "ibv_qp_attr of IBVERBS_1.1");
_Static_assert(offsetof(struct mt_qp, qp_num) == 52, "ibv_qp of IBVERBS_1.1");

#endif
