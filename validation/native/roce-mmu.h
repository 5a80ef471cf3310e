/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#ifndef ROCE_MMU_H
#define ROCE_MMU_H

#include "roce-net-device.h"

#include "ns3/object.h"

#include <array>
#include <vector>

namespace ns3
{

/**
 * The buffer of a shared-memory switch, accounted by ingress port and class.
 *
 * Each (port, class) first uses its reserve, then the pool that all share, up to the dynamic
 * threshold alpha x (pool - pool in use), then the headroom of its port; a frame that finds the
 * threshold passed and the headroom full is dropped. XOFF is due when headroom is in use or the
 * threshold is reached; XON when headroom is empty and the shared part lies XonOffset below it.
 */
class RoceMmu : public Object
{
  public:
    static TypeId GetTypeId();

    /// Adds a port. @param headroom bytes, @param alpha its share of the free pool
    void AddPort(uint64_t headroom, double alpha);
    /// @returns false when reserves and headrooms leave no shared pool
    bool IsValid() const;

    bool MayAdmit(uint32_t port, uint8_t priority, uint32_t bytes) const;
    void Add(uint32_t port, uint8_t priority, uint32_t bytes);
    void Remove(uint32_t port, uint8_t priority, uint32_t bytes);
    /// @returns true once when the class must be paused, and notes it as paused
    bool TakePause(uint32_t port, uint8_t priority);
    /// @returns true once when the class may resume, and notes it as running
    bool TakeResume(uint32_t port, uint8_t priority);
    bool IsPaused(uint32_t port, uint8_t priority) const;
    uint64_t GetIngress(uint32_t port, uint8_t priority) const;
    uint64_t GetHeadroomUsed(uint32_t port, uint8_t priority) const;
    uint64_t GetMaxShared() const;

  private:
    struct Usage
    {
        uint64_t ingress{0}; //!< bytes outside headroom
        uint64_t headroom{0};
        bool paused{false};
    };

    struct Port
    {
        uint64_t headroom;
        double alpha;
        std::array<Usage, RoceNetDevice::CLASSES> usage;
    };

    uint64_t GetThreshold(const Port& port) const;
    uint64_t GetShared(const Usage& usage) const;

    uint64_t m_buffer;
    uint64_t m_reserve;
    uint64_t m_xonOffset;
    int64_t m_pool{0};
    uint64_t m_shared{0};
    uint64_t m_maxShared{0};
    std::vector<Port> m_ports;
};

} // namespace ns3

#endif // ROCE_MMU_H
