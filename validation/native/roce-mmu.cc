/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#include "roce-mmu.h"

#include "ns3/uinteger.h"

#include <algorithm>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(RoceMmu);

TypeId
RoceMmu::GetTypeId()
{
    static TypeId tid = TypeId("ns3::RoceMmu")
                            .SetParent<Object>()
                            .SetGroupName("Roce")
                            .AddConstructor<RoceMmu>()
                            .AddAttribute("Buffer",
                                          "Packet memory of the switch in bytes",
                                          UintegerValue(32 << 20),
                                          MakeUintegerAccessor(&RoceMmu::m_buffer),
                                          MakeUintegerChecker<uint64_t>())
                            .AddAttribute("Reserve",
                                          "Bytes set aside for each port",
                                          UintegerValue(4096),
                                          MakeUintegerAccessor(&RoceMmu::m_reserve),
                                          MakeUintegerChecker<uint64_t>())
                            .AddAttribute("XonOffset",
                                          "Bytes below the threshold at which a class resumes",
                                          UintegerValue(3072),
                                          MakeUintegerAccessor(&RoceMmu::m_xonOffset),
                                          MakeUintegerChecker<uint64_t>());
    return tid;
}

void
RoceMmu::AddPort(uint64_t headroom, double alpha)
{
    m_pool = m_ports.empty() ? static_cast<int64_t>(m_buffer) : m_pool;
    m_pool -= static_cast<int64_t>(headroom + m_reserve);
    m_ports.push_back({headroom, alpha, {}});
}

bool
RoceMmu::IsValid() const
{
    return m_pool > 0;
}

uint64_t
RoceMmu::GetThreshold(const Port& port) const
{
    const int64_t free = m_pool - static_cast<int64_t>(m_shared);
    return free > 0 ? static_cast<uint64_t>(static_cast<double>(free) * port.alpha) : 0;
}

uint64_t
RoceMmu::GetShared(const Usage& usage) const
{
    return usage.ingress > m_reserve ? usage.ingress - m_reserve : 0;
}

bool
RoceMmu::MayAdmit(uint32_t port, uint8_t priority, uint32_t bytes) const
{
    const Port& at = m_ports[port];
    const Usage& usage = at.usage[priority];
    return usage.headroom + bytes <= at.headroom || GetShared(usage) + bytes <= GetThreshold(at);
}

void
RoceMmu::Add(uint32_t port, uint8_t priority, uint32_t bytes)
{
    Port& at = m_ports[port];
    Usage& usage = at.usage[priority];
    const uint64_t total = usage.ingress + bytes;
    if (total > m_reserve)
    {
        const uint64_t over = total - m_reserve;
        if (over > GetThreshold(at))
        {
            usage.headroom += bytes;
            return;
        }
        m_shared += std::min<uint64_t>(bytes, over);
        m_maxShared = std::max(m_maxShared, m_shared);
    }
    usage.ingress = total;
}

void
RoceMmu::Remove(uint32_t port, uint8_t priority, uint32_t bytes)
{
    Usage& usage = m_ports[port].usage[priority];
    const uint64_t fromHeadroom = std::min<uint64_t>(usage.headroom, bytes);
    const uint64_t rest = bytes - fromHeadroom;
    usage.headroom -= fromHeadroom;
    m_shared -= std::min(rest, GetShared(usage));
    usage.ingress -= rest;
}

bool
RoceMmu::TakePause(uint32_t port, uint8_t priority)
{
    Port& at = m_ports[port];
    Usage& usage = at.usage[priority];
    if (usage.paused || (!usage.headroom && GetShared(usage) < GetThreshold(at)))
    {
        return false;
    }
    usage.paused = true;
    return true;
}

bool
RoceMmu::TakeResume(uint32_t port, uint8_t priority)
{
    Port& at = m_ports[port];
    Usage& usage = at.usage[priority];
    if (!usage.paused || usage.headroom)
    {
        return false;
    }
    const uint64_t shared = GetShared(usage);
    if (shared && shared + m_xonOffset > GetThreshold(at))
    {
        return false;
    }
    usage.paused = false;
    return true;
}

bool
RoceMmu::IsPaused(uint32_t port, uint8_t priority) const
{
    return m_ports[port].usage[priority].paused;
}

uint64_t
RoceMmu::GetIngress(uint32_t port, uint8_t priority) const
{
    const Usage& usage = m_ports[port].usage[priority];
    return usage.ingress + usage.headroom;
}

uint64_t
RoceMmu::GetHeadroomUsed(uint32_t port, uint8_t priority) const
{
    return m_ports[port].usage[priority].headroom;
}

uint64_t
RoceMmu::GetMaxShared() const
{
    return m_maxShared;
}

} // namespace ns3
