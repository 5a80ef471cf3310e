/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#include "replay.h"

#include "roce-fabric.h"

#include "ns3/simulator.h"
#include "ns3/string.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <stdexcept>
#include <utility>

namespace mt
{

using namespace ns3;

struct Replay::Impl
{
    Ptr<RoceFabric> fabric;
    std::vector<std::pair<std::vector<int>, std::vector<int>>> paths;
    std::map<std::pair<int, int>, uint32_t> connections; //!< so far, of a pair of hosts
    double cpu{0};
    int64_t end{0};
    uint64_t events{0};
    Time interval;
    std::vector<std::vector<double>> sent;
    std::vector<std::vector<double>> queued;

    void Sample();
    void SampleOften();
};

namespace
{

const RoceFabric::Port&
At(const Ptr<RoceFabric>& fabric, int port)
{
    return fabric->GetPorts().at(static_cast<std::size_t>(port));
}

double
ThreadSeconds()
{
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

Time
FromNanoseconds(double ns)
{
    return PicoSeconds(std::llround(ns * 1e3));
}

} // namespace

void
Replay::Impl::Sample()
{
    const auto& ports = fabric->GetPorts();
    for (std::size_t i = 0; i < ports.size(); i++)
    {
        sent[i].push_back(static_cast<double>(ports[i].device->GetCounters().txBytes));
        queued[i].push_back(static_cast<double>(ports[i].device->GetBacklog()));
    }
}

void
Replay::Impl::SampleOften()
{
    Sample();
    Simulator::Schedule(interval, &Impl::SampleOften, this);
}

Replay::Replay(int hosts, const std::vector<int>& switches)
    : m_impl(std::make_unique<Impl>())
{
    // At 400 Gb/s a byte takes 20 ps: nanoseconds would be wrong by percents.
    if (Time::GetResolution() != Time::PS)
    {
        Time::SetResolution(Time::PS);
    }
    ObjectFactory scheduler;
    scheduler.SetTypeId("ns3::PriorityQueueScheduler");
    Simulator::SetScheduler(scheduler);
    m_impl->fabric = CreateObject<RoceFabric>();
    m_impl->fabric->AddNodes(hosts, switches);
}

Replay::~Replay()
{
    // The fabric owns the frames, some of which may still be scheduled.
    m_impl->fabric->Dispose();
    Simulator::Destroy();
}

void
Replay::Set(const std::string& name, double value)
{
    m_impl->fabric->GetSettings().Set(name, value);
}

void
Replay::AddLink(int a, int b, double gbps, double delayNs)
{
    if (!(gbps > 0) || !(delayNs >= 0))
    {
        throw std::invalid_argument("links: rate must be above 0 and delay not below");
    }
    const auto bitRate = static_cast<uint64_t>(std::llround(gbps * 1e9));
    m_impl->fabric->AddLink(a, b, bitRate, FromNanoseconds(delayNs));
}

void
Replay::Build()
{
    m_impl->fabric->Build();
}

void
Replay::AddFlow(int src,
                int dst,
                uint64_t bytes,
                double startNs,
                const std::vector<int>& path,
                const std::vector<int>& ackPath,
                const std::vector<int>& after,
                int priority)
{
    auto& fabric = m_impl->fabric;
    if (src == dst || bytes == 0 || priority < 1 || priority > 7)
    {
        throw std::invalid_argument("flows: src and dst must differ, bytes be above 0, priority 1 to 7");
    }
    const auto port = static_cast<uint32_t>(fabric->GetSettings().Get("udp_port"));
    const uint32_t srcPort = 10000 + m_impl->connections[{src, dst}]++;
    const RoceTopology::Tuple tuple{src, dst, srcPort, port};
    auto data = path.empty() ? fabric->Hash(tuple) : path;
    auto ack = ackPath;
    if (ack.empty())
    {
        ack = path.empty() ? fabric->Hash({dst, src, port, srcPort})
                           : std::vector<int>(data.rbegin(), data.rend());
    }
    RdmaQueuePair* qp =
        fabric->AddFlow(bytes, data, ack, tuple, static_cast<uint8_t>(priority));
    qp->startAt = FromNanoseconds(startNs).GetTimeStep();
    for (int index : after)
    {
        fabric->GetFlows().at(static_cast<std::size_t>(index))->followers.push_back(qp);
        qp->waitsFor++;
    }
    m_impl->paths.emplace_back(std::move(data), std::move(ack));
}

void
Replay::Run(double stopNs)
{
    auto& fabric = m_impl->fabric;
    fabric->Start();
    const double sampleUs = fabric->GetSettings().Get("sample_us");
    m_impl->sent.resize(fabric->GetPorts().size());
    m_impl->queued.resize(fabric->GetPorts().size());
    if (sampleUs > 0)
    {
        m_impl->interval = FromNanoseconds(sampleUs * 1e3);
        Simulator::Schedule(m_impl->interval, &Impl::SampleOften, m_impl.get());
    }
    fabric->StopAt(FromNanoseconds(stopNs));
    const double before = ThreadSeconds();
    Simulator::Run();
    m_impl->cpu = ThreadSeconds() - before;
    m_impl->end = Simulator::Now().GetTimeStep() + fabric->GetSkippedTime();
    m_impl->events = Simulator::GetEventCount();
    if (sampleUs > 0)
    {
        m_impl->Sample();
    }
    for (const auto& port : fabric->GetPorts())
    {
        port.device->CloseCounters();
    }
}

std::vector<int>
Replay::GetPath(int flow, bool ack) const
{
    const auto& paths = m_impl->paths.at(static_cast<std::size_t>(flow));
    return ack ? paths.second : paths.first;
}

FlowOutcome
Replay::GetFlow(int flow) const
{
    const auto& qp = m_impl->fabric->GetFlows().at(static_cast<std::size_t>(flow));
    const bool finished = qp->finished >= 0;
    return {qp->started < 0 ? -1.0 : static_cast<double>(qp->started + qp->skippedBefore) / 1e3,
            finished ? static_cast<double>(qp->finished - qp->started + qp->skippedTime) / 1e3 : -1.0,
            qp->size + qp->skippedBytes,
            qp->retransmits,
            qp->cnpsReceived};
}

int
Replay::GetPortCount() const
{
    return static_cast<int>(m_impl->fabric->GetPorts().size());
}

PortOutcome
Replay::GetPort(int port) const
{
    const auto& at = At(m_impl->fabric, port);
    const auto& c = at.device->GetCounters();
    return {at.node,
            at.peer,
            c.pausesSent,
            c.pausesReceived,
            static_cast<double>(c.pausedTime) / 1e3,
            c.ecnMarks,
            c.drops,
            c.maxBacklog,
            c.maxIngress,
            c.maxHeadroom,
            c.txBytes};
}

Totals
Replay::GetTotals() const
{
    uint64_t delivered = 0;
    for (const auto& qp : m_impl->fabric->GetFlows())
    {
        delivered += qp->expected + qp->skippedBytes;
    }
    return {m_impl->events,
            m_impl->cpu,
            static_cast<double>(m_impl->end) / 1e3,
            m_impl->fabric->IsFinished(),
            delivered,
            m_impl->fabric->GetFramesInUse(),
            static_cast<double>(m_impl->fabric->GetSkippedTime()) / 1e3,
            m_impl->fabric->GetSkips()};
}

double
Replay::GetProgress() const
{
    double done = 0;
    double all = 0;
    for (const auto& qp : m_impl->fabric->GetFlows())
    {
        done += static_cast<double>(qp->sndUna + qp->skippedBytes);
        all += static_cast<double>(qp->size + qp->skippedBytes);
    }
    return all > 0 ? done / all : 1;
}

std::vector<double>
Replay::GetSentSamples(int port) const
{
    return m_impl->sent.at(static_cast<std::size_t>(port));
}

std::vector<double>
Replay::GetQueueSamples(int port) const
{
    return m_impl->queued.at(static_cast<std::size_t>(port));
}

} // namespace mt
