/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#include "roce-fabric.h"

#include "ns3/pointer.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(RoceFabric);

TypeId
RoceFabric::GetTypeId()
{
    static TypeId tid = TypeId("ns3::RoceFabric")
                            .SetParent<Object>()
                            .SetGroupName("Roce")
                            .AddConstructor<RoceFabric>();
    return tid;
}

RoceSettings&
RoceFabric::GetSettings()
{
    return m_settings;
}

void
RoceFabric::AddNodes(int hosts, const std::vector<int>& switches)
{
    m_topology = std::make_unique<RoceTopology>(hosts);
    for (int id = 0; id < hosts; id++)
    {
        m_topology->AddNode(id);
        m_nodes[id] = CreateObject<Node>();
    }
    for (int id : switches)
    {
        if (id < hosts || m_topology->HasNode(id))
        {
            throw std::invalid_argument("switches: id " + std::to_string(id) + " is taken");
        }
        m_topology->AddNode(id);
        m_switches.push_back(CreateObject<RoceSwitch>());
        m_nodes[id] = m_switches.back();
    }
}

Ptr<RoceNetDevice>
RoceFabric::MakePort(int node, int peer, uint64_t bitRate)
{
    auto device = CreateObjectWithAttributes<RoceNetDevice>("DataRate",
                                                            DataRateValue(DataRate(bitRate)));
    m_settings.Apply(RoceSettings::DEVICE, device);
    device->SetAddress(Mac48Address::Allocate());
    m_nodes.at(node)->AddDevice(device);
    m_topology->AddEdge(node, peer, PeekPointer(device));
    m_ports.push_back({node, peer, device});
    return device;
}

void
RoceFabric::AddLink(int a, int b, uint64_t bitRate, Time delay)
{
    for (int end : {a, b})
    {
        if (!m_topology->HasNode(end))
        {
            throw std::invalid_argument("links: there is no node " + std::to_string(end));
        }
        if (m_topology->IsHost(end))
        {
            m_nicRate = std::max(m_nicRate, static_cast<double>(bitRate));
        }
    }
    const auto channel = CreateObjectWithAttributes<RoceChannel>("Delay", TimeValue(delay));
    const auto first = MakePort(a, b, bitRate);
    channel->Connect(first, MakePort(b, a, bitRate));
}

std::vector<int>
RoceFabric::Hash(const RoceTopology::Tuple& tuple) const
{
    return m_topology->Hash(tuple, static_cast<uint32_t>(m_settings.Get("ecmp_seed")));
}

Ptr<RdmaNic>
RoceFabric::GetNic(RoceNetDevice* device)
{
    Ptr<RdmaNic>& nic = m_nics[device];
    if (!nic)
    {
        nic = CreateObject<RdmaNic>();
        nic->Configure(PeekPointer(m_config),
                       &m_pool,
                       device,
                       MakeCallback(&RoceFabric::FlowFinished, this),
                       MakeCallback(&RoceFabric::FlowDelivered, this));
    }
    return nic;
}

RdmaQueuePair*
RoceFabric::AddFlow(uint64_t bytes,
                    const std::vector<int>& path,
                    const std::vector<int>& ackPath,
                    const RoceTopology::Tuple& tuple,
                    uint8_t priority)
{
    for (const auto& way : {path, ackPath})
    {
        for (std::size_t i = 1; i + 1 < way.size(); i++)
        {
            if (m_topology->IsHost(way[i]))
            {
                throw std::invalid_argument("path: host " + std::to_string(way[i]) +
                                            " does not forward");
            }
        }
    }
    auto qp = CreateObject<RdmaQueuePair>();
    qp->id = static_cast<uint32_t>(m_flows.size());
    qp->size = bytes;
    qp->priority = priority;
    qp->dataRoute = m_topology->Follow(path, tuple);
    qp->ackRoute = m_topology->Follow(ackPath, {tuple.dst, tuple.src, tuple.dstPort, tuple.srcPort});
    qp->source = PeekPointer(GetNic(qp->dataRoute.front()));
    qp->sink = PeekPointer(GetNic(qp->ackRoute.front()));
    // A host with several ports answers by the port of its route, and takes in by any.
    GetNic(qp->dataRoute.back()->GetPeer());
    GetNic(qp->ackRoute.back()->GetPeer());
    m_flows.push_back(qp);
    return PeekPointer(qp);
}

void
RoceFabric::Build()
{
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(static_cast<uint64_t>(m_settings.Get("seed")));
    auto dcqcn = CreateObject<DcqcnConfig>();
    m_settings.Apply(RoceSettings::DCQCN, dcqcn);
    m_config = CreateObject<RdmaConfig>();
    m_settings.Apply(RoceSettings::RDMA, m_config);
    m_config->dcqcn = dcqcn;
    m_config->Freeze();
    int64_t stream = 1;
    for (const auto& node : m_switches)
    {
        auto mmu = CreateObject<RoceMmu>();
        m_settings.Apply(RoceSettings::MMU, mmu);
        m_settings.Apply(RoceSettings::SWITCH, node);
        node->SetAttribute("Mmu", PointerValue(mmu));
        node->Configure(&m_pool, m_nicRate);
        stream += node->AssignStreams(stream);
        if (!mmu->IsValid() && node->GetNDevices())
        {
            throw std::invalid_argument("buffer_bytes: reserves and headrooms of the " +
                                        std::to_string(node->GetNDevices()) +
                                        " ports of a switch leave no shared buffer");
        }
    }
}

void
RoceFabric::Start()
{
    const double windowBdp = m_settings.Get("window_bdp");
    const double roundTrip =
        windowBdp > 0 ? static_cast<double>(m_topology->GetMaxRoundTrip(m_config->payload)) : 0;
    m_left = m_flows.size();
    for (const auto& qp : m_flows)
    {
        qp->window = static_cast<uint64_t>(windowBdp * roundTrip * m_nicRate / 8e12);
        if (!qp->waitsFor)
        {
            ScheduleStart(PeekPointer(qp), 0);
        }
    }
    Simulator::Schedule(TimeStep(1), &RoceFabric::Watch, this, UINT64_MAX);
    // Samples are of each interval, so none may be skipped.
    if (m_settings.Get("fast_forward") > 0 && !(m_settings.Get("sample_us") > 0))
    {
        StartFastForward();
    }
}

void
RoceFabric::StopAt(Time bound)
{
    m_bound = Simulator::Stop(bound);
}

void
RoceFabric::StartFastForward()
{
    // Queues stay below half of what marks, and far below what pauses.
    const RoceFastForward::Limits limits{m_topology->GetMaxRoundTrip(m_config->payload),
                                         static_cast<int64_t>(m_config->payload),
                                         m_settings.Get("buffer_bytes") / 64,
                                         m_settings.Get("kmin_bytes") / 2};
    m_fastForward = std::make_unique<RoceFastForward>(m_flows,
                                                      limits,
                                                      MakeCallback(&RoceFabric::GetRoom, this),
                                                      MakeCallback(&RoceFabric::SkipTime, this));
    for (const auto& [device, nic] : m_nics)
    {
        nic->SetFastForward(m_fastForward.get());
    }
}

int64_t
RoceFabric::GetRoom() const
{
    int64_t room = Simulator::GetDelayLeft(m_bound).GetTimeStep();
    for (const auto& qp : m_flows)
    {
        if (qp->startEvent.IsPending())
        {
            room = std::min(room, Simulator::GetDelayLeft(qp->startEvent).GetTimeStep());
        }
    }
    return room;
}

void
RoceFabric::SkipTime(int64_t time)
{
    const int64_t now = Simulator::Now().GetTimeStep();
    const Time left = Simulator::GetDelayLeft(m_bound) - TimeStep(time);
    m_bound.Cancel();
    m_bound = Simulator::Stop(left);
    for (const auto& qp : m_flows)
    {
        if (qp->started < 0)
        {
            qp->startAt -= time;
            qp->skippedBefore += time;
            if (qp->startEvent.IsPending())
            {
                qp->startEvent.Cancel();
                ScheduleStart(PeekPointer(qp), now);
            }
        }
    }
}

void
RoceFabric::Watch(uint64_t before)
{
    // A pause deadlock, or losses that go-back-N does not outrun, would only end at the bound.
    uint64_t acknowledged = 0;
    bool active = false;
    for (const auto& qp : m_flows)
    {
        acknowledged += qp->sndUna;
        active |= qp->started >= 0 && qp->finished < 0;
    }
    if (active && acknowledged == before)
    {
        Simulator::Stop();
        return;
    }
    const Time patience = std::max(MilliSeconds(50), TimeStep(4 * m_config->timeout));
    Simulator::Schedule(patience, &RoceFabric::Watch, this, acknowledged);
}

void
RoceFabric::ScheduleStart(RdmaQueuePair* qp, int64_t now)
{
    const int64_t wait = std::max<int64_t>(qp->startAt - now, 0);
    qp->startEvent = Simulator::Schedule(TimeStep(wait), &RdmaNic::Post, qp->source, qp);
}

void
RoceFabric::FlowFinished(RdmaQueuePair*)
{
    if (--m_left == 0)
    {
        Simulator::Stop();
    }
}

void
RoceFabric::FlowDelivered(RdmaQueuePair* qp)
{
    for (RdmaQueuePair* follower : qp->followers)
    {
        if (--follower->waitsFor == 0)
        {
            ScheduleStart(follower, Simulator::Now().GetTimeStep());
        }
    }
}

const std::vector<Ptr<RdmaQueuePair>>&
RoceFabric::GetFlows() const
{
    return m_flows;
}

const std::vector<RoceFabric::Port>&
RoceFabric::GetPorts() const
{
    return m_ports;
}

bool
RoceFabric::IsHost(int node) const
{
    return m_topology->IsHost(node);
}

bool
RoceFabric::IsFinished() const
{
    return m_left == 0;
}

uint64_t
RoceFabric::GetFramesInUse() const
{
    return m_pool.GetInUse();
}

int64_t
RoceFabric::GetSkippedTime() const
{
    return m_fastForward ? m_fastForward->GetSkipped() : 0;
}

uint64_t
RoceFabric::GetSkips() const
{
    return m_fastForward ? m_fastForward->GetSkips() : 0;
}

void
RoceFabric::DoDispose()
{
    m_fastForward.reset();
    for (const auto& qp : m_flows)
    {
        qp->Dispose();
    }
    for (const auto& [device, nic] : m_nics)
    {
        nic->Dispose();
    }
    m_nics.clear();
    m_switches.clear();
    m_nodes.clear();
    m_ports.clear();
    m_config = nullptr;
    Object::DoDispose();
}

} // namespace ns3
