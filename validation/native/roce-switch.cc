/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#include "roce-switch.h"

#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/pointer.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <cmath>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(RoceSwitch);

TypeId
RoceSwitch::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::RoceSwitch")
            .SetParent<Node>()
            .SetGroupName("Roce")
            .AddConstructor<RoceSwitch>()
            .AddAttribute("Pfc",
                          "Send PFC frames; without them a full buffer drops",
                          BooleanValue(true),
                          MakeBooleanAccessor(&RoceSwitch::m_pfc),
                          MakeBooleanChecker())
            .AddAttribute("Ecn",
                          "Mark frames",
                          BooleanValue(true),
                          MakeBooleanAccessor(&RoceSwitch::m_ecn),
                          MakeBooleanChecker())
            .AddAttribute("Kmin",
                          "Egress bytes per 100 Gb/s of line rate above which frames are marked",
                          DoubleValue(100e3),
                          MakeDoubleAccessor(&RoceSwitch::m_kmin),
                          MakeDoubleChecker<double>(0))
            .AddAttribute("Kmax",
                          "Egress bytes per 100 Gb/s above which all frames are marked",
                          DoubleValue(400e3),
                          MakeDoubleAccessor(&RoceSwitch::m_kmax),
                          MakeDoubleChecker<double>(0))
            .AddAttribute("Pmax",
                          "Probability of a mark at Kmax",
                          DoubleValue(0.2),
                          MakeDoubleAccessor(&RoceSwitch::m_pmax),
                          MakeDoubleChecker<double>(0, 1))
            .AddAttribute("Alpha",
                          "Threshold of a class as a part of the free shared pool",
                          DoubleValue(0.125),
                          MakeDoubleAccessor(&RoceSwitch::m_alpha),
                          MakeDoubleChecker<double>(0))
            .AddAttribute("AlphaByRate",
                          "Double alpha (up to 1) for each doubling of a port's rate over a host's",
                          BooleanValue(false),
                          MakeBooleanAccessor(&RoceSwitch::m_alphaByRate),
                          MakeBooleanChecker())
            .AddAttribute("HeadroomBdp",
                          "Headroom of a port in multiples of rate x delay (one way)",
                          DoubleValue(2),
                          MakeDoubleAccessor(&RoceSwitch::m_headroomBdp),
                          MakeDoubleChecker<double>(0))
            .AddAttribute("HeadroomExtra",
                          "Bytes added to it",
                          UintegerValue(16384),
                          MakeUintegerAccessor(&RoceSwitch::m_headroomExtra),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("PauseTime",
                          "How long an XOFF holds; 0 is until XON",
                          TimeValue(Time(0)),
                          MakeTimeAccessor(&RoceSwitch::m_pauseTime),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("PfcBytes",
                          "Size of a PFC frame",
                          UintegerValue(64),
                          MakeUintegerAccessor(&RoceSwitch::m_pfcBytes),
                          MakeUintegerChecker<uint32_t>(1))
            .AddAttribute("Mmu",
                          "The shared buffer",
                          PointerValue(),
                          MakePointerAccessor(&RoceSwitch::m_mmu),
                          MakePointerChecker<RoceMmu>())
            .AddTraceSource("Drop",
                            "A frame found no room: ingress port, bytes",
                            MakeTraceSourceAccessor(&RoceSwitch::m_dropTrace),
                            "ns3::RoceSwitch::DropTracedCallback")
            .AddTraceSource("Mark",
                            "A frame was marked: egress port",
                            MakeTraceSourceAccessor(&RoceSwitch::m_markTrace),
                            "ns3::RoceSwitch::MarkTracedCallback");
    return tid;
}

RoceSwitch::RoceSwitch()
    : m_random(CreateObject<UniformRandomVariable>())
{
}

void
RoceSwitch::Configure(RoceFramePool* pool, double nicRate)
{
    m_pool = pool;
    m_pausePs = m_pauseTime.IsZero() ? -1 : m_pauseTime.GetTimeStep();
    m_pauseSent.resize(GetNDevices());
    for (uint32_t i = 0; i < GetNDevices(); i++)
    {
        const auto port = DynamicCast<RoceNetDevice>(GetDevice(i));
        const double rate = port->GetBitRate();
        const double delay = DynamicCast<RoceChannel>(port->GetChannel())->GetDelay().GetSeconds();
        const double bdp = std::floor(m_headroomBdp * rate * delay / 8 + 0.5);
        double alpha = m_alpha;
        for (double r = rate; m_alphaByRate && r > nicRate && alpha < 1; r /= 2)
        {
            alpha *= 2;
        }
        port->SetSwitch(this, i);
        m_mmu->AddPort(static_cast<uint64_t>(bdp) + m_headroomExtra, alpha);
        m_ports.push_back(PeekPointer(port));
    }
}

int64_t
RoceSwitch::AssignStreams(int64_t stream)
{
    m_random->SetStream(stream);
    return 1;
}

void
RoceSwitch::Receive(RoceFrame* frame, RoceNetDevice* in)
{
    const uint8_t priority = frame->priority;
    const uint32_t port = in->GetPort();
    if (priority)
    {
        if (!m_mmu->MayAdmit(port, priority, frame->bytes))
        {
            in->GetCounters().drops++;
            m_dropped++;
            m_dropTrace(port, frame->bytes);
            m_pool->Give(frame);
            return;
        }
        m_mmu->Add(port, priority, frame->bytes);
        auto& counters = in->GetCounters();
        counters.maxIngress = std::max(counters.maxIngress, m_mmu->GetIngress(port, priority));
        counters.maxHeadroom =
            std::max(counters.maxHeadroom, m_mmu->GetHeadroomUsed(port, priority));
        if (m_pfc && m_mmu->TakePause(port, priority))
        {
            SendPause(in, priority);
        }
    }
    frame->ingress = in;
    frame->route[++frame->hop]->Enqueue(frame);
}

void
RoceSwitch::SendPause(RoceNetDevice* in, uint8_t priority)
{
    RoceFrame* frame = m_pool->Take(RoceFrame::PFC);
    frame->bytes = m_pfcBytes;
    in->SendPfc(frame, priority, m_pausePs);
    if (m_pausePs > 0)
    {
        m_pauseSent[in->GetPort()][priority] = Simulator::Now().GetTimeStep();
        Simulator::Schedule(TimeStep(m_pausePs / 2),
                            &RoceSwitch::RefreshPause,
                            this,
                            in,
                            priority);
    }
}

void
RoceSwitch::RefreshPause(RoceNetDevice* in, uint8_t priority)
{
    // A later XOFF has a refresh of its own.
    const int64_t age = Simulator::Now().GetTimeStep() - m_pauseSent[in->GetPort()][priority];
    if (age >= m_pausePs / 2 && m_mmu->IsPaused(in->GetPort(), priority))
    {
        SendPause(in, priority);
    }
}

bool
RoceSwitch::MustMark(RoceNetDevice* out, uint8_t priority)
{
    const double scale = out->GetBitRate() / 100e9;
    const auto queue = static_cast<double>(out->GetQueueBytes(priority));
    if (queue <= m_kmin * scale)
    {
        return false;
    }
    out->GetCounters().ecnDraws++;
    if (queue > m_kmax * scale)
    {
        return true;
    }
    const double p = m_pmax * (queue - m_kmin * scale) / ((m_kmax - m_kmin) * scale);
    return m_random->GetValue() < p;
}

void
RoceSwitch::FrameLeaves(RoceNetDevice* out, RoceFrame* frame)
{
    const uint8_t priority = frame->priority;
    RoceNetDevice* in = frame->ingress;
    m_mmu->Remove(in->GetPort(), priority, frame->bytes);
    if (m_ecn && MustMark(out, priority))
    {
        frame->ce = true;
        out->GetCounters().ecnMarks++;
        m_markTrace(out->GetPort());
    }
    if (m_mmu->TakeResume(in->GetPort(), priority))
    {
        RoceFrame* xon = m_pool->Take(RoceFrame::PFC);
        xon->bytes = m_pfcBytes;
        in->SendPfc(xon, priority, 0);
    }
}

void
RoceSwitch::Recycle(RoceFrame* frame)
{
    m_pool->Give(frame);
}

RoceNetDevice*
RoceSwitch::GetPort(uint32_t port) const
{
    return m_ports[port];
}

Ptr<RoceMmu>
RoceSwitch::GetMmu() const
{
    return m_mmu;
}

uint64_t
RoceSwitch::GetDropped() const
{
    return m_dropped;
}

void
RoceSwitch::DoDispose()
{
    m_mmu = nullptr;
    m_random = nullptr;
    m_ports.clear();
    Node::DoDispose();
}

} // namespace ns3
