/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#include "rdma-nic.h"

#include "roce-fast-forward.h"

#include "ns3/simulator.h"

#include <algorithm>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(RdmaNic);

TypeId
RdmaNic::GetTypeId()
{
    static TypeId tid = TypeId("ns3::RdmaNic")
                            .SetParent<Object>()
                            .SetGroupName("Roce")
                            .AddConstructor<RdmaNic>()
                            .AddTraceSource("Cnp",
                                            "A CNP was received: flow, rate in bit/s after it",
                                            MakeTraceSourceAccessor(&RdmaNic::m_rateTrace),
                                            "ns3::RdmaNic::RateTracedCallback");
    return tid;
}

void
RdmaNic::Configure(RdmaConfig* config,
                   RoceFramePool* pool,
                   RoceNetDevice* device,
                   FlowCallback finished,
                   FlowCallback delivered)
{
    m_config = config;
    m_pool = pool;
    m_device = device;
    m_finished = finished;
    m_delivered = delivered;
    device->SetNic(this);
}

void
RdmaNic::SetFastForward(RoceFastForward* fastForward)
{
    m_fastForward = fastForward;
}

void
RdmaNic::Post(RdmaQueuePair* qp)
{
    const int64_t now = Simulator::Now().GetTimeStep();
    qp->started = qp->nextSend = now;
    qp->reaction.Start(PeekPointer(m_config->dcqcn), m_device->GetBitRate());
    m_queuePairs.push_back(qp);
    ArmTimeout(qp, now);
    m_device->TryTransmit();
}

bool
RdmaNic::MaySend(const RdmaQueuePair* qp) const
{
    if (qp->sndNext >= qp->size || m_device->IsPaused(qp->priority))
    {
        return false;
    }
    if (!qp->window)
    {
        return true;
    }
    double window = static_cast<double>(qp->window);
    if (m_config->variableWindow)
    {
        window *= qp->reaction.GetRate() / m_device->GetBitRate();
    }
    return static_cast<double>(qp->sndNext - qp->sndUna) < std::max(window, 1.0);
}

RoceFrame*
RdmaNic::NextFrame(int64_t now)
{
    if (!m_control.IsEmpty())
    {
        return m_control.Pop();
    }
    if (!m_acks.IsEmpty() && !m_device->IsPaused(m_config->ackHostClass))
    {
        return m_acks.Pop();
    }
    const std::size_t n = m_queuePairs.size();
    for (std::size_t i = 0; i < n; i++)
    {
        const std::size_t at = m_next + i < n ? m_next + i : m_next + i - n;
        RdmaQueuePair* qp = m_queuePairs[at];
        if (qp->nextSend <= now && MaySend(qp))
        {
            m_next = at + 1 < n ? at + 1 : 0;
            return SendData(qp, now);
        }
    }
    return nullptr;
}

int64_t
RdmaNic::NextSendTime() const
{
    if (!m_control.IsEmpty() ||
        (!m_acks.IsEmpty() && !m_device->IsPaused(m_config->ackHostClass)))
    {
        return 0;
    }
    int64_t when = INT64_MAX;
    for (const RdmaQueuePair* qp : m_queuePairs)
    {
        if (qp->nextSend < when && MaySend(qp))
        {
            when = qp->nextSend;
        }
    }
    return when;
}

RoceFrame*
RdmaNic::SendData(RdmaQueuePair* qp, int64_t now)
{
    RoceFrame* frame = m_pool->Take(RoceFrame::DATA);
    frame->payload =
        static_cast<uint32_t>(std::min<uint64_t>(m_config->payload, qp->size - qp->sndNext));
    frame->bytes = frame->payload + m_config->header;
    frame->seq = qp->sndNext;
    frame->qp = qp;
    frame->priority = qp->priority;
    frame->route = qp->dataRoute.data();
    frame->ackRequest = qp->window; // it may shrink below ackEvery frames
    qp->retransmits += qp->sndNext < qp->sndMax;
    qp->sndNext += frame->payload;
    qp->sndMax = std::max(qp->sndMax, qp->sndNext);
    qp->nextSend = now + m_device->GetWireTime(frame->bytes, qp->reaction.GetRate());
    qp->reaction.BytesSent(frame->payload);
    return frame;
}

void
RdmaNic::Receive(RoceFrame* frame)
{
    switch (frame->kind)
    {
    case RoceFrame::DATA:
        ReceiveData(frame);
        break;
    case RoceFrame::CNP:
        NotifyCongestion(frame->qp);
        break;
    default:
        ReceiveAck(frame);
    }
    m_pool->Give(frame);
    m_device->TryTransmit();
}

void
RdmaNic::ReceiveData(RoceFrame* frame)
{
    RdmaQueuePair* qp = frame->qp;
    const DcqcnConfig& dcqcn = *m_config->dcqcn;
    const bool ce = frame->ce && dcqcn.enabled;
    const int64_t now = Simulator::Now().GetTimeStep();
    if (ce && !dcqcn.cnpInAck && qp->notification.Marked(now, dcqcn.cnpInterval))
    {
        Reply(qp, RoceFrame::CNP, false);
    }
    if (frame->seq == qp->expected)
    {
        qp->expected += frame->payload;
        ReplyInOrder(qp, ce && dcqcn.cnpInAck, frame->ackRequest);
        if (qp->expected >= qp->size)
        {
            m_delivered(qp);
        }
        return;
    }
    if (frame->seq < qp->expected)
    {
        // Sent again although it had come: say where we are, so that the sender moves on.
        ReplyInOrder(qp, false, frame->ackRequest);
        return;
    }
    if (qp->nackFor != qp->expected || now >= qp->nackSilentUntil)
    {
        qp->nackFor = qp->expected;
        qp->nackSilentUntil = now + m_config->nackInterval;
        Reply(qp, RoceFrame::NACK, false);
    }
}

void
RdmaNic::ReplyInOrder(RdmaQueuePair* qp, bool ce, bool requested)
{
    const bool complete = qp->expected >= qp->size;
    const bool cnp = ce && qp->notification.Marked(Simulator::Now().GetTimeStep(),
                                                   m_config->dcqcn->cnpInterval);
    if (++qp->unacked >= m_config->ackEvery || complete || cnp || requested)
    {
        qp->unacked = 0;
        Reply(qp, RoceFrame::ACK, cnp);
    }
}

void
RdmaNic::Reply(RdmaQueuePair* qp, RoceFrame::Kind kind, bool cnp)
{
    RoceFrame* frame = m_pool->Take(kind);
    const bool isCnp = kind == RoceFrame::CNP;
    frame->bytes = isCnp ? m_config->cnpBytes : m_config->ackBytes;
    frame->priority = isCnp ? 0 : m_config->ackFabricClass;
    frame->seq = qp->expected;
    frame->cnp = cnp;
    frame->qp = qp;
    frame->route = qp->ackRoute.data();
    (isCnp || !m_config->ackHostClass ? m_control : m_acks).Push(frame);
}

void
RdmaNic::ReceiveAck(RoceFrame* frame)
{
    RdmaQueuePair* qp = frame->qp;
    if (qp->finished >= 0)
    {
        return;
    }
    const int64_t now = Simulator::Now().GetTimeStep();
    if (frame->seq > qp->sndUna)
    {
        qp->sndUna = frame->seq;
        qp->sndNext = std::max(qp->sndNext, qp->sndUna);
        qp->timeoutAt = now + m_config->timeout;
    }
    if (qp->sndUna >= qp->size)
    {
        Finish(qp);
        return;
    }
    if (frame->kind == RoceFrame::NACK)
    {
        qp->sndNext = qp->sndUna;
    }
    if (frame->cnp)
    {
        NotifyCongestion(qp);
    }
    if (m_fastForward)
    {
        m_fastForward->Acknowledged(qp);
    }
}

void
RdmaNic::NotifyCongestion(RdmaQueuePair* qp)
{
    if (qp->finished < 0 && m_config->dcqcn->enabled)
    {
        qp->cnpsReceived++;
        qp->reaction.CnpReceived();
        m_rateTrace(qp->id, qp->reaction.GetRate());
    }
}

void
RdmaNic::Finish(RdmaQueuePair* qp)
{
    qp->finished = Simulator::Now().GetTimeStep();
    qp->reaction.Stop();
    const auto at = std::find(m_queuePairs.begin(), m_queuePairs.end(), qp);
    const auto index = static_cast<std::size_t>(at - m_queuePairs.begin());
    m_queuePairs.erase(at);
    m_next -= index < m_next;
    m_next = m_next < m_queuePairs.size() ? m_next : 0;
    m_finished(qp);
}

void
RdmaNic::ArmTimeout(RdmaQueuePair* qp, int64_t now)
{
    if (m_config->timeout)
    {
        qp->timeoutAt = now + m_config->timeout;
        Simulator::Schedule(TimeStep(m_config->timeout), &RdmaNic::TimeoutDue, this, qp);
    }
}

void
RdmaNic::TimeoutDue(RdmaQueuePair* qp)
{
    const int64_t now = Simulator::Now().GetTimeStep();
    if (qp->finished >= 0)
    {
        return;
    }
    // Nothing in flight, or held by a pause of our own port: not a loss.
    const bool waits = qp->sndNext == qp->sndUna || m_device->IsPaused(qp->priority);
    if (now < qp->timeoutAt && !waits)
    {
        Simulator::Schedule(TimeStep(qp->timeoutAt - now), &RdmaNic::TimeoutDue, this, qp);
        return;
    }
    if (!waits)
    {
        qp->sndNext = qp->sndUna;
    }
    ArmTimeout(qp, now);
    m_device->TryTransmit();
}

void
RdmaNic::DoDispose()
{
    m_queuePairs.clear();
    m_finished.Nullify();
    m_delivered.Nullify();
    Object::DoDispose();
}

} // namespace ns3
