/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#include "rdma-queue-pair.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(RdmaQueuePair);

TypeId
RdmaQueuePair::GetTypeId()
{
    static TypeId tid = TypeId("ns3::RdmaQueuePair")
                            .SetParent<Object>()
                            .SetGroupName("Roce")
                            .AddConstructor<RdmaQueuePair>();
    return tid;
}

void
RdmaQueuePair::DoDispose()
{
    reaction.Stop();
    followers.clear();
    Object::DoDispose();
}

} // namespace ns3
