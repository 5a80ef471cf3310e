/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#ifndef RDMA_QUEUE_PAIR_H
#define RDMA_QUEUE_PAIR_H

#include "dcqcn-notification-point.h"
#include "dcqcn-reaction-point.h"

#include "ns3/event-id.h"
#include "ns3/object.h"

#include <vector>

namespace ns3
{

class RdmaNic;
class RoceNetDevice;

/** One message of one reliable connection: the sender's half and the receiver's. */
class RdmaQueuePair : public Object
{
  public:
    static TypeId GetTypeId();

    // What it is
    uint32_t id{0};
    uint64_t size{0}; //!< payload bytes
    uint8_t priority{3};
    RdmaNic* source{nullptr};
    RdmaNic* sink{nullptr};
    std::vector<RoceNetDevice*> dataRoute; //!< sending devices, source first
    std::vector<RoceNetDevice*> ackRoute;  //!< sending devices, sink first
    std::vector<RdmaQueuePair*> followers; //!< those that wait for this one's delivery
    uint32_t waitsFor{0};                  //!< deliveries still to come before it may start
    int64_t startAt{0};                    //!< picoseconds, the earliest

    // Sender
    int64_t started{-1};
    int64_t finished{-1};
    uint64_t sndNext{0};
    uint64_t sndUna{0};
    uint64_t sndMax{0}; //!< one past the highest byte ever sent
    uint64_t window{0}; //!< bytes in flight at line rate; 0 is no window
    int64_t nextSend{0};
    int64_t timeoutAt{0};
    uint64_t retransmits{0}; //!< frames sent again
    uint64_t cnpsReceived{0};
    EventId startEvent;
    DcqcnReactionPoint reaction;

    // Fast-forward
    uint64_t skippedBytes{0}; //!< taken off the size
    int64_t skippedTime{0};   //!< between its start and its end
    int64_t skippedBefore{0}; //!< before its start

    // Receiver
    uint64_t expected{0};
    uint32_t unacked{0}; //!< frames since the last ACK
    uint64_t nackFor{UINT64_MAX};
    int64_t nackSilentUntil{0};
    DcqcnNotificationPoint notification;

  protected:
    void DoDispose() override;
};

} // namespace ns3

#endif // RDMA_QUEUE_PAIR_H
