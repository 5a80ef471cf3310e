/* Compiled, never run: the offsets of abi.h against the headers of rdma-core, where those are installed. */
#include <infiniband/verbs.h>
#include <stddef.h>

#include "abi.h"

#define SAME(ours, theirs, ours_in, theirs_in) \
    _Static_assert(offsetof(struct ours, ours_in) == offsetof(struct theirs, theirs_in), #ours "." #ours_in)

SAME(mt_grh, ibv_global_route, dgid, dgid);
SAME(mt_grh, ibv_global_route, flow_label, flow_label);
SAME(mt_grh, ibv_global_route, sgid_index, sgid_index);
SAME(mt_ah_attr, ibv_ah_attr, dlid, dlid);
SAME(mt_ah_attr, ibv_ah_attr, is_global, is_global);
SAME(mt_ah_attr, ibv_ah_attr, port_num, port_num);
SAME(mt_qp_attr, ibv_qp_attr, qp_state, qp_state);
SAME(mt_qp_attr, ibv_qp_attr, dest_qp_num, dest_qp_num);
SAME(mt_qp_attr, ibv_qp_attr, ah_attr, ah_attr);
SAME(mt_qp_attr, ibv_qp_attr, alt_ah_attr, alt_ah_attr);
SAME(mt_qp_attr, ibv_qp_attr, others, pkey_index);
SAME(mt_qp_attr, ibv_qp_attr, rate_limit, rate_limit);
SAME(mt_qp, ibv_qp, context, context);
SAME(mt_qp, ibv_qp, qp_num, qp_num);
SAME(mt_qp, ibv_qp, qp_type, qp_type);

_Static_assert(sizeof(mt_gid) == sizeof(union ibv_gid), "gid");
_Static_assert(sizeof(struct mt_ah_attr) == sizeof(struct ibv_ah_attr), "ah_attr");
_Static_assert(sizeof(struct mt_qp_attr) == sizeof(struct ibv_qp_attr), "qp_attr");
_Static_assert((int)MT_QP_STATE == (int)IBV_QP_STATE, "IBV_QP_STATE");
_Static_assert((int)MT_QP_AV == (int)IBV_QP_AV, "IBV_QP_AV");
_Static_assert((int)MT_QPS_RTR == (int)IBV_QPS_RTR, "IBV_QPS_RTR");
_Static_assert((int)MT_QP_KNOWN == 2 * (int)IBV_QP_RATE_LIMIT - 1, "IBV_QP_RATE_LIMIT is the last known");
