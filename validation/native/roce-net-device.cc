/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#include "roce-net-device.h"

#include "rdma-nic.h"
#include "roce-switch.h"

#include "ns3/boolean.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <bit>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(RoceNetDevice);

TypeId
RoceNetDevice::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::RoceNetDevice")
            .SetParent<NetDevice>()
            .SetGroupName("Roce")
            .AddConstructor<RoceNetDevice>()
            .AddAttribute("DataRate",
                          "Line rate",
                          DataRateValue(DataRate("100Gb/s")),
                          MakeDataRateAccessor(&RoceNetDevice::m_rate),
                          MakeDataRateChecker())
            .AddAttribute("WireOverhead",
                          "Bytes each frame adds on the wire only (preamble, gap)",
                          UintegerValue(20),
                          MakeUintegerAccessor(&RoceNetDevice::m_wireOverhead),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("TruncateNs",
                          "Cut the time of a frame to whole nanoseconds, as the reference does",
                          BooleanValue(false),
                          MakeBooleanAccessor(&RoceNetDevice::m_truncateNs),
                          MakeBooleanChecker())
            .AddTraceSource("PfcSend",
                            "A PFC frame was queued: class, true for XOFF",
                            MakeTraceSourceAccessor(&RoceNetDevice::m_pfcSendTrace),
                            "ns3::RoceNetDevice::PfcTracedCallback")
            .AddTraceSource("PfcReceive",
                            "A PFC frame arrived: class, true for XOFF",
                            MakeTraceSourceAccessor(&RoceNetDevice::m_pfcReceiveTrace),
                            "ns3::RoceNetDevice::PfcTracedCallback")
            .AddTraceSource("Transmit",
                            "A frame starts on the wire: bytes",
                            MakeTraceSourceAccessor(&RoceNetDevice::m_txTrace),
                            "ns3::RoceNetDevice::TransmitTracedCallback");
    return tid;
}

RoceNetDevice::RoceNetDevice()
{
    m_wake.device = this;
}

void
RoceNetDevice::Wake::Notify()
{
    // An earlier wake may have made this one stale; the port then set another.
    if (device->m_wakeAt <= Simulator::Now().GetTimeStep())
    {
        device->m_wakeAt = INT64_MAX;
        device->TryTransmit();
    }
}

void
RoceNetDevice::Attach(Ptr<RoceChannel> channel, RoceNetDevice* peer)
{
    m_channel = channel;
    m_peer = peer;
    m_delay = channel->GetDelay().GetTimeStep();
    m_bitRate = static_cast<double>(m_rate.GetBitRate());
}

void
RoceNetDevice::SetSwitch(RoceSwitch* owner, uint32_t port)
{
    m_switch = owner;
    m_port = port;
}

void
RoceNetDevice::SetNic(RdmaNic* nic)
{
    m_nic = nic;
}

void
RoceNetDevice::WakeAt(int64_t now, int64_t when)
{
    if (when < m_wakeAt)
    {
        m_wakeAt = when;
        Simulator::Schedule(TimeStep(when - now), Ptr<EventImpl>(&m_wake));
    }
}

void
RoceNetDevice::Enqueue(RoceFrame* frame)
{
    const uint8_t priority = frame->priority;
    m_queues[priority].Push(frame);
    m_backlogged |= 1U << priority;
    m_queueBytes[priority] += frame->bytes;
    if (priority)
    {
        m_backlog += frame->bytes;
        m_counters.maxBacklog = std::max(m_counters.maxBacklog, m_backlog);
    }
    TryTransmit();
}

void
RoceNetDevice::SendPfc(RoceFrame* frame, uint8_t priority, int64_t pauseTime)
{
    frame->pfcPriority = priority;
    frame->pauseTime = pauseTime;
    m_counters.pausesSent += pauseTime != 0;
    m_pfcSendTrace(priority, pauseTime != 0);
    m_pfcQueue.Push(frame);
    TryTransmit();
}

RoceFrame*
RoceNetDevice::PopQueue(uint8_t priority)
{
    RoceFrame* frame = m_queues[priority].Pop();
    if (m_queues[priority].IsEmpty())
    {
        m_backlogged &= ~(1U << priority);
    }
    m_queueBytes[priority] -= frame->bytes;
    if (priority)
    {
        m_backlog -= frame->bytes;
        m_lastClass = priority;
        m_switch->FrameLeaves(this, frame);
    }
    return frame;
}

RoceFrame*
RoceNetDevice::SelectFrame(int64_t now)
{
    if (!m_pfcQueue.IsEmpty())
    {
        return m_pfcQueue.Pop();
    }
    if (m_nic)
    {
        return m_nic->NextFrame(now);
    }
    if (m_backlogged & 1U)
    {
        return PopQueue(0);
    }
    const uint8_t ready = m_backlogged & ~m_paused;
    if (!ready)
    {
        return nullptr;
    }
    const uint8_t after = ready & ~((2U << m_lastClass) - 1);
    return PopQueue(std::countr_zero(after ? after : ready));
}

void
RoceNetDevice::TryTransmit()
{
    const int64_t now = Simulator::Now().GetTimeStep();
    if (now < m_busyUntil)
    {
        WakeAt(now, m_busyUntil);
        return;
    }
    if (RoceFrame* frame = SelectFrame(now))
    {
        Transmit(frame, now);
    }
    const int64_t when = HasFrameReady() ? m_busyUntil : m_nic ? m_nic->NextSendTime() : INT64_MAX;
    if (when != INT64_MAX)
    {
        WakeAt(now, std::max(when, m_busyUntil));
    }
}

bool
RoceNetDevice::HasFrameReady() const
{
    return !m_pfcQueue.IsEmpty() || (m_backlogged & (~m_paused | 1U));
}

void
RoceNetDevice::Transmit(RoceFrame* frame, int64_t now)
{
    m_counters.txBytes += frame->bytes;
    m_txTrace(frame->bytes);
    const int64_t duration = GetWireTime(frame->bytes, m_bitRate);
    m_busyUntil = now + duration;
    frame->receiver = m_peer;
    Simulator::Schedule(TimeStep(duration + m_delay), Ptr<EventImpl>(frame));
}

void
RoceNetDevice::Receive(RoceFrame* frame)
{
    if (frame->kind == RoceFrame::PFC)
    {
        HandlePfc(frame);
    }
    else if (m_switch)
    {
        m_switch->Receive(frame, this);
    }
    else
    {
        m_nic->Receive(frame);
    }
}

void
RoceNetDevice::HandlePfc(RoceFrame* frame)
{
    const uint8_t priority = frame->pfcPriority;
    const int64_t pauseTime = frame->pauseTime;
    m_peer->m_switch->Recycle(frame);
    m_pfcReceiveTrace(priority, pauseTime != 0);
    if (!pauseTime)
    {
        Resume(priority);
        return;
    }
    const int64_t now = Simulator::Now().GetTimeStep();
    m_counters.pausesReceived++;
    if (!IsPaused(priority))
    {
        m_paused |= 1U << priority;
        m_pausedSince[priority] = now;
    }
    if (pauseTime > 0)
    {
        m_pauseEnds[priority] = now + pauseTime;
        Simulator::Schedule(TimeStep(pauseTime), &RoceNetDevice::PauseExpired, this, priority);
    }
}

void
RoceNetDevice::Resume(uint8_t priority)
{
    if (IsPaused(priority))
    {
        m_paused &= ~(1U << priority);
        m_counters.pausedTime += Simulator::Now().GetTimeStep() - m_pausedSince[priority];
        TryTransmit();
    }
}

void
RoceNetDevice::PauseExpired(uint8_t priority)
{
    if (Simulator::Now().GetTimeStep() >= m_pauseEnds[priority])
    {
        Resume(priority);
    }
}

void
RoceNetDevice::CloseCounters()
{
    const int64_t now = Simulator::Now().GetTimeStep();
    for (uint8_t priority = 0; priority < CLASSES; priority++)
    {
        if (IsPaused(priority))
        {
            m_counters.pausedTime += now - m_pausedSince[priority];
            m_pausedSince[priority] = now;
        }
    }
}

void
RoceNetDevice::DoDispose()
{
    m_channel = nullptr;
    m_node = nullptr;
    NetDevice::DoDispose();
}

void
RoceNetDevice::SetIfIndex(const uint32_t index)
{
    m_ifIndex = index;
}

uint32_t
RoceNetDevice::GetIfIndex() const
{
    return m_ifIndex;
}

Ptr<Channel>
RoceNetDevice::GetChannel() const
{
    return m_channel;
}

void
RoceNetDevice::SetAddress(Address address)
{
    m_address = Mac48Address::ConvertFrom(address);
}

Address
RoceNetDevice::GetAddress() const
{
    return m_address;
}

bool
RoceNetDevice::SetMtu(const uint16_t mtu)
{
    m_mtu = mtu;
    return true;
}

uint16_t
RoceNetDevice::GetMtu() const
{
    return m_mtu;
}

bool
RoceNetDevice::IsLinkUp() const
{
    return m_peer;
}

void
RoceNetDevice::AddLinkChangeCallback(Callback<void>)
{
}

bool
RoceNetDevice::IsBroadcast() const
{
    return false;
}

Address
RoceNetDevice::GetBroadcast() const
{
    return Mac48Address::GetBroadcast();
}

bool
RoceNetDevice::IsMulticast() const
{
    return false;
}

Address
RoceNetDevice::GetMulticast(Ipv4Address) const
{
    return {};
}

Address
RoceNetDevice::GetMulticast(Ipv6Address) const
{
    return {};
}

bool
RoceNetDevice::IsBridge() const
{
    return false;
}

bool
RoceNetDevice::IsPointToPoint() const
{
    return true;
}

bool
RoceNetDevice::Send(Ptr<Packet>, const Address&, uint16_t)
{
    return false;
}

bool
RoceNetDevice::SendFrom(Ptr<Packet>, const Address&, const Address&, uint16_t)
{
    return false;
}

Ptr<Node>
RoceNetDevice::GetNode() const
{
    return m_node;
}

void
RoceNetDevice::SetNode(Ptr<Node> node)
{
    m_node = node;
}

bool
RoceNetDevice::NeedsArp() const
{
    return false;
}

void
RoceNetDevice::SetReceiveCallback(ReceiveCallback)
{
}

void
RoceNetDevice::SetPromiscReceiveCallback(PromiscReceiveCallback)
{
}

bool
RoceNetDevice::SupportsSendFrom() const
{
    return false;
}

} // namespace ns3
