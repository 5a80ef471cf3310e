/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#ifndef ROCE_SWITCH_H
#define ROCE_SWITCH_H

#include "roce-mmu.h"

#include "ns3/node.h"
#include "ns3/random-variable-stream.h"

namespace ns3
{

/**
 * A store-and-forward switch: shared buffer, PFC towards its neighbours, ECN marking at dequeue.
 *
 * The way of a frame is written in the frame (RoceFabric works it out once per flow), as ECMP
 * gives all frames of a flow the same next hop anyway.
 */
class RoceSwitch : public Node
{
  public:
    static TypeId GetTypeId();
    RoceSwitch();

    /// Fixes ports, headrooms and thresholds. @param nicRate bit/s of the fabric's hosts
    void Configure(RoceFramePool* pool, double nicRate);
    /// @returns the number of random streams used
    int64_t AssignStreams(int64_t stream);

    /// A frame has come in by a port.
    void Receive(RoceFrame* frame, RoceNetDevice* in);
    /// A frame of classes 1 to 7 leaves the queue of a port for the wire.
    void FrameLeaves(RoceNetDevice* out, RoceFrame* frame);
    /// A PFC frame of this switch has reached its peer.
    void Recycle(RoceFrame* frame);
    RoceNetDevice* GetPort(uint32_t port) const;
    Ptr<RoceMmu> GetMmu() const;
    uint64_t GetDropped() const;

  protected:
    void DoDispose() override;

  private:
    void SendPause(RoceNetDevice* in, uint8_t priority);
    void RefreshPause(RoceNetDevice* in, uint8_t priority);
    bool MustMark(RoceNetDevice* out, uint8_t priority);

    bool m_pfc;
    bool m_ecn;
    double m_kmin;
    double m_kmax;
    double m_pmax;
    double m_alpha;
    bool m_alphaByRate;
    double m_headroomBdp;
    uint32_t m_headroomExtra;
    Time m_pauseTime;
    uint32_t m_pfcBytes;
    int64_t m_pausePs{0};
    uint64_t m_dropped{0};
    RoceFramePool* m_pool{nullptr};
    Ptr<RoceMmu> m_mmu;
    std::vector<RoceNetDevice*> m_ports;
    std::vector<std::array<int64_t, RoceNetDevice::CLASSES>> m_pauseSent; //!< last XOFF
    Ptr<UniformRandomVariable> m_random;
    TracedCallback<uint32_t, uint32_t> m_dropTrace;
    TracedCallback<uint32_t> m_markTrace;
};

} // namespace ns3

#endif // ROCE_SWITCH_H
