/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#ifndef RDMA_NIC_H
#define RDMA_NIC_H

#include "rdma-config.h"
#include "rdma-queue-pair.h"
#include "roce-net-device.h"

#include "ns3/callback.h"

namespace ns3
{

class RoceFastForward;

/**
 * The RDMA engine behind one port of a host: pacing, DCQCN, go-back-N.
 *
 * The port asks for its next frame: notifications and ACKs first, then the queue pairs round
 * robin, each when its class may send, its window is open and its rate allows.
 */
class RdmaNic : public Object
{
  public:
    static TypeId GetTypeId();

    using FlowCallback = Callback<void, RdmaQueuePair*>;

    /// @param finished called when the sender has the last ACK, @param delivered when the
    ///        receiver has the last byte
    void Configure(RdmaConfig* config,
                   RoceFramePool* pool,
                   RoceNetDevice* device,
                   FlowCallback finished,
                   FlowCallback delivered);
    /// From now on every ACK is shown to it.
    void SetFastForward(RoceFastForward* fastForward);
    /// Posts a message for sending.
    void Post(RdmaQueuePair* qp);
    void Receive(RoceFrame* frame);
    /// @returns a frame to send now, or null
    RoceFrame* NextFrame(int64_t now);
    /// @returns when a frame may go at the earliest (INT64_MAX: only after some event)
    int64_t NextSendTime() const;

  protected:
    void DoDispose() override;

  private:
    bool MaySend(const RdmaQueuePair* qp) const;
    RoceFrame* SendData(RdmaQueuePair* qp, int64_t now);
    void ReceiveData(RoceFrame* frame);
    void ReceiveAck(RoceFrame* frame);
    void Reply(RdmaQueuePair* qp, RoceFrame::Kind kind, bool cnp);
    void ReplyInOrder(RdmaQueuePair* qp, bool ce, bool requested);
    void NotifyCongestion(RdmaQueuePair* qp);
    void Finish(RdmaQueuePair* qp);
    void ArmTimeout(RdmaQueuePair* qp, int64_t now);
    void TimeoutDue(RdmaQueuePair* qp);

    RdmaConfig* m_config{nullptr};
    RoceFramePool* m_pool{nullptr};
    RoceNetDevice* m_device{nullptr};
    RoceFrameQueue m_control; //!< frames that no pause holds
    RoceFrameQueue m_acks;    //!< ACKs that the pause of their class holds
    std::vector<RdmaQueuePair*> m_queuePairs;
    std::size_t m_next{0};
    RoceFastForward* m_fastForward{nullptr};
    FlowCallback m_finished;
    FlowCallback m_delivered;
    TracedCallback<uint32_t, double> m_rateTrace;
};

} // namespace ns3

#endif // RDMA_NIC_H
