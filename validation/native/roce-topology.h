/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#ifndef ROCE_TOPOLOGY_H
#define ROCE_TOPOLOGY_H

#include "roce-net-device.h"

#include <map>
#include <vector>

namespace ns3
{

/** The graph of ports, and the ways through it. */
class RoceTopology
{
  public:
    /// Hosts are 0 to hosts-1, other ids are switches.
    explicit RoceTopology(int hosts);
    void AddNode(int id);
    bool HasNode(int id) const;
    bool IsHost(int id) const;
    void AddEdge(int from, int to, RoceNetDevice* device);

    /// What ECMP hashes.
    struct Tuple
    {
        int src;
        int dst;
        uint32_t srcPort;
        uint32_t dstPort;
    };

    /// Sending devices along the given nodes. @throws std::invalid_argument when there is no link
    std::vector<RoceNetDevice*> Follow(const std::vector<int>& path, const Tuple& tuple) const;
    /// Nodes of a shortest way, ties broken by hash. @throws std::invalid_argument when none
    std::vector<int> Hash(const Tuple& tuple, uint32_t seed) const;
    /// The longest round trip of a full frame and a bare answer between hosts, picoseconds
    int64_t GetMaxRoundTrip(uint32_t payload) const;

  private:
    struct Edge
    {
        int to;
        RoceNetDevice* device;
    };

    const std::map<int, int>& GetDistances(int dst) const;
    static uint32_t HashTuple(const Tuple& tuple, uint32_t seed);

    int m_hosts;
    std::map<int, std::vector<Edge>> m_edges;
    mutable std::map<int, std::map<int, int>> m_distances; //!< by destination, in hops
};

} // namespace ns3

#endif // ROCE_TOPOLOGY_H
