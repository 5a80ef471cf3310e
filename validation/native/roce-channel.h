/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#ifndef ROCE_CHANNEL_H
#define ROCE_CHANNEL_H

#include "ns3/channel.h"
#include "ns3/nstime.h"

#include <array>

namespace ns3
{

class RoceNetDevice;

/** A full-duplex link between two RoceNetDevices with a propagation delay and no loss. */
class RoceChannel : public Channel
{
  public:
    static TypeId GetTypeId();

    /// Joins two devices, each of which keeps a pointer to the other.
    void Connect(Ptr<RoceNetDevice> a, Ptr<RoceNetDevice> b);
    std::size_t GetNDevices() const override;
    Ptr<NetDevice> GetDevice(std::size_t i) const override;
    Time GetDelay() const;

  protected:
    void DoDispose() override;

  private:
    Time m_delay;
    std::array<Ptr<RoceNetDevice>, 2> m_ends;
};

} // namespace ns3

#endif // ROCE_CHANNEL_H
