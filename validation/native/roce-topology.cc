/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#include "roce-topology.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <stdexcept>
#include <string>

namespace ns3
{

RoceTopology::RoceTopology(int hosts)
    : m_hosts(hosts)
{
}

void
RoceTopology::AddNode(int id)
{
    m_edges[id];
}

bool
RoceTopology::HasNode(int id) const
{
    return m_edges.contains(id);
}

bool
RoceTopology::IsHost(int id) const
{
    return id < m_hosts;
}

void
RoceTopology::AddEdge(int from, int to, RoceNetDevice* device)
{
    m_edges.at(from).push_back({to, device});
}

uint32_t
RoceTopology::HashTuple(const Tuple& tuple, uint32_t seed)
{
    // MurmurHash3_x86_32 (Appleby, public domain) over addresses and ports, as the reference.
    const auto address = [](int id) {
        return 0x0b000001U + static_cast<uint32_t>(id / 256) * 0x10000U +
               static_cast<uint32_t>(id % 256) * 0x100U;
    };
    const uint32_t words[] = {address(tuple.src),
                              address(tuple.dst),
                              tuple.srcPort | tuple.dstPort << 16};
    uint32_t h = seed;
    for (uint32_t k : words)
    {
        k = std::rotl(k * 0xcc9e2d51U, 15) * 0x1b873593U;
        h = std::rotl(h ^ k, 13) * 5 + 0xe6546b64U;
    }
    h ^= sizeof(words);
    h = (h ^ h >> 16) * 0x85ebca6bU;
    h = (h ^ h >> 13) * 0xc2b2ae35U;
    return h ^ h >> 16;
}

std::vector<RoceNetDevice*>
RoceTopology::Follow(const std::vector<int>& path, const Tuple& tuple) const
{
    std::vector<RoceNetDevice*> route;
    for (std::size_t i = 0; i + 1 < path.size(); i++)
    {
        std::vector<RoceNetDevice*> parallel;
        const auto at = m_edges.find(path[i]);
        if (at != m_edges.end())
        {
            for (const Edge& edge : at->second)
            {
                if (edge.to == path[i + 1])
                {
                    parallel.push_back(edge.device);
                }
            }
        }
        if (parallel.empty())
        {
            throw std::invalid_argument("path: no link from node " + std::to_string(path[i]) +
                                        " to node " + std::to_string(path[i + 1]));
        }
        const auto seed = static_cast<uint32_t>(path[i]);
        route.push_back(parallel[HashTuple(tuple, seed) % parallel.size()]);
    }
    return route;
}

const std::map<int, int>&
RoceTopology::GetDistances(int dst) const
{
    auto& distances = m_distances[dst];
    if (!distances.empty())
    {
        return distances;
    }
    distances[dst] = 0;
    std::deque<int> todo{dst};
    while (!todo.empty())
    {
        const int at = todo.front();
        todo.pop_front();
        if (at != dst && IsHost(at))
        {
            continue; // hosts do not forward
        }
        for (const Edge& edge : m_edges.at(at))
        {
            if (distances.try_emplace(edge.to, distances[at] + 1).second)
            {
                todo.push_back(edge.to);
            }
        }
    }
    return distances;
}

std::vector<int>
RoceTopology::Hash(const Tuple& tuple, uint32_t seed) const
{
    const auto& distances = GetDistances(tuple.dst);
    std::vector<int> path{tuple.src};
    if (!distances.contains(tuple.src))
    {
        throw std::invalid_argument("no way from host " + std::to_string(tuple.src) +
                                    " to host " + std::to_string(tuple.dst));
    }
    while (path.back() != tuple.dst)
    {
        const int at = path.back();
        std::vector<int> next;
        for (const Edge& edge : m_edges.at(at))
        {
            const auto found = distances.find(edge.to);
            if (found != distances.end() && found->second == distances.at(at) - 1 &&
                (edge.to == tuple.dst || !IsHost(edge.to)))
            {
                next.push_back(edge.to);
            }
        }
        // Highest id first: this is what matches the choices seen in the reference's runs.
        std::sort(next.rbegin(), next.rend());
        const auto here = static_cast<uint32_t>(at) ^ seed * 0x9e3779b9U;
        path.push_back(next[HashTuple(tuple, here) % next.size()]);
    }
    return path;
}

int64_t
RoceTopology::GetMaxRoundTrip(uint32_t payload) const
{
    int64_t longest = 0;
    for (int src = 0; src < m_hosts; src++)
    {
        std::map<int, int64_t> cost{{src, 0}};
        std::deque<int> todo{src};
        while (!todo.empty())
        {
            const int at = todo.front();
            todo.pop_front();
            longest = IsHost(at) ? std::max(longest, cost[at]) : longest;
            if (at != src && IsHost(at))
            {
                continue;
            }
            for (const Edge& edge : m_edges.at(at))
            {
                const auto channel = DynamicCast<RoceChannel>(edge.device->GetChannel());
                const auto wire = static_cast<int64_t>(payload * 8e12 / edge.device->GetBitRate());
                const int64_t step = 2 * channel->GetDelay().GetTimeStep() + wire;
                if (cost.try_emplace(edge.to, cost[at] + step).second)
                {
                    todo.push_back(edge.to);
                }
            }
        }
    }
    return longest;
}

} // namespace ns3
