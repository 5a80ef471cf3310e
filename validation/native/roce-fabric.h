/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#ifndef ROCE_FABRIC_H
#define ROCE_FABRIC_H

#include "rdma-nic.h"
#include "roce-fast-forward.h"
#include "roce-settings.h"
#include "roce-switch.h"
#include "roce-topology.h"

#include <map>
#include <memory>
#include <vector>

namespace ns3
{

/** Hosts, switches, links and flows of one run, on any graph. */
class RoceFabric : public Object
{
  public:
    static TypeId GetTypeId();

    /** One end of a link, as reported. */
    struct Port
    {
        int node;
        int peer;
        Ptr<RoceNetDevice> device;
    };

    RoceSettings& GetSettings();
    void AddNodes(int hosts, const std::vector<int>& switches);
    void AddLink(int a, int b, uint64_t bitRate, Time delay);
    /// @returns the new flow; routes are given as nodes
    RdmaQueuePair* AddFlow(uint64_t bytes,
                           const std::vector<int>& path,
                           const std::vector<int>& ackPath,
                           const RoceTopology::Tuple& tuple,
                           uint8_t priority);
    /// Nodes of the hashed way of a flow, or of its ACKs
    std::vector<int> Hash(const RoceTopology::Tuple& tuple) const;
    /// Fixes buffers, streams and windows; parameters count from here.
    void Build();
    /// Schedules the starts of all flows.
    void Start();
    /// Stops the run then at the latest.
    void StopAt(Time bound);

    const std::vector<Ptr<RdmaQueuePair>>& GetFlows() const;
    const std::vector<Port>& GetPorts() const;
    bool IsHost(int node) const;
    bool IsFinished() const;
    uint64_t GetFramesInUse() const;
    /// @returns picoseconds that were not simulated, and how often some were skipped
    int64_t GetSkippedTime() const;
    uint64_t GetSkips() const;

  protected:
    void DoDispose() override;

  private:
    Ptr<RoceNetDevice> MakePort(int node, int peer, uint64_t bitRate);
    Ptr<RdmaNic> GetNic(RoceNetDevice* device);
    void ScheduleStart(RdmaQueuePair* qp, int64_t now);
    void FlowFinished(RdmaQueuePair* qp);
    void FlowDelivered(RdmaQueuePair* qp);
    void Watch(uint64_t before);
    void StartFastForward();
    int64_t GetRoom() const;
    void SkipTime(int64_t time);

    RoceSettings m_settings;
    RoceFramePool m_pool;
    std::unique_ptr<RoceTopology> m_topology;
    std::map<int, Ptr<Node>> m_nodes;
    std::vector<Ptr<RoceSwitch>> m_switches;
    std::vector<Port> m_ports;
    std::map<RoceNetDevice*, Ptr<RdmaNic>> m_nics;
    std::vector<Ptr<RdmaQueuePair>> m_flows;
    Ptr<RdmaConfig> m_config;
    double m_nicRate{0};
    std::size_t m_left{0};
    EventId m_bound;
    std::unique_ptr<RoceFastForward> m_fastForward;
};

} // namespace ns3

#endif // ROCE_FABRIC_H
