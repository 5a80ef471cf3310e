/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#include "roce-channel.h"

#include "roce-net-device.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(RoceChannel);

TypeId
RoceChannel::GetTypeId()
{
    static TypeId tid = TypeId("ns3::RoceChannel")
                            .SetParent<Channel>()
                            .SetGroupName("Roce")
                            .AddConstructor<RoceChannel>()
                            .AddAttribute("Delay",
                                          "Propagation delay, one way",
                                          TimeValue(MicroSeconds(1)),
                                          MakeTimeAccessor(&RoceChannel::m_delay),
                                          MakeTimeChecker());
    return tid;
}

void
RoceChannel::Connect(Ptr<RoceNetDevice> a, Ptr<RoceNetDevice> b)
{
    m_ends = {a, b};
    a->Attach(this, PeekPointer(b));
    b->Attach(this, PeekPointer(a));
}

std::size_t
RoceChannel::GetNDevices() const
{
    return m_ends.size();
}

Ptr<NetDevice>
RoceChannel::GetDevice(std::size_t i) const
{
    return m_ends.at(i);
}

Time
RoceChannel::GetDelay() const
{
    return m_delay;
}

void
RoceChannel::DoDispose()
{
    m_ends = {};
    Channel::DoDispose();
}

} // namespace ns3
