/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#ifndef ROCE_NET_DEVICE_H
#define ROCE_NET_DEVICE_H

#include "roce-channel.h"
#include "roce-frame.h"

#include "ns3/data-rate.h"
#include "ns3/mac48-address.h"
#include "ns3/net-device.h"
#include "ns3/node.h"
#include "ns3/traced-callback.h"

#include <array>

namespace ns3
{

class RdmaNic;
class RoceSwitch;

/**
 * A lossless Ethernet port with eight classes and priority flow control (IEEE 802.1Qbb).
 *
 * Class 0 carries control frames: strict priority, never paused. Classes 1 to 7 share the wire
 * round robin. A PFC frame goes ahead of all of them, after the frame on the wire. A pause takes
 * effect between frames, and the port that receives it reacts at once.
 *
 * A switch pushes frames into the port (Enqueue); a host's port pulls them from its RdmaNic.
 */
class RoceNetDevice : public NetDevice
{
  public:
    static constexpr uint8_t CLASSES = 8;

    /** What happened at this port. */
    struct Counters
    {
        uint64_t pausesSent{0};     //!< XOFF frames sent
        uint64_t pausesReceived{0}; //!< XOFF frames received
        int64_t pausedTime{0};      //!< picoseconds, summed over classes
        uint64_t ecnMarks{0};
        uint64_t ecnDraws{0}; //!< frames that might have been marked
        uint64_t drops{0};
        uint64_t maxBacklog{0};  //!< bytes in the egress queues of classes 1 to 7
        uint64_t maxIngress{0};  //!< bytes in the switch that came in here, per class
        uint64_t maxHeadroom{0}; //!< the part of them in headroom
        uint64_t txBytes{0};     //!< frame bytes sent
    };

    static TypeId GetTypeId();
    RoceNetDevice();

    void Attach(Ptr<RoceChannel> channel, RoceNetDevice* peer);
    void SetSwitch(RoceSwitch* owner, uint32_t port);
    void SetNic(RdmaNic* nic);

    /// Queues a frame for this port's wire.
    void Enqueue(RoceFrame* frame);
    /// Sends a PFC frame to the peer. @param pauseTime as RoceFrame::pauseTime
    void SendPfc(RoceFrame* frame, uint8_t priority, int64_t pauseTime);
    /// Starts the next frame when the wire is free and one may go.
    void TryTransmit();
    /// A frame has arrived whole.
    void Receive(RoceFrame* frame);

    bool IsPaused(uint8_t priority) const
    {
        return m_paused & (1U << priority);
    }

    /// @returns whether any class must wait
    bool IsPaused() const
    {
        return m_paused;
    }

    /// @returns when the frame on the wire has left it
    int64_t GetBusyUntil() const
    {
        return m_busyUntil;
    }

    RoceNetDevice* GetPeer() const
    {
        return m_peer;
    }

    uint32_t GetPort() const
    {
        return m_port;
    }

    uint64_t GetQueueBytes(uint8_t priority) const
    {
        return m_queueBytes[priority];
    }

    uint64_t GetBacklog() const
    {
        return m_backlog;
    }

    double GetBitRate() const
    {
        return m_bitRate;
    }

    /// @returns picoseconds that a frame takes at some rate (bit/s), the gap after it included
    int64_t GetWireTime(uint32_t bytes, double bitRate) const
    {
        const double exact = (bytes + m_wireOverhead) * (8e12 / bitRate);
        if (m_truncateNs)
        {
            return static_cast<int64_t>(exact / 1e3 + 1e-6) * 1000;
        }
        return static_cast<int64_t>(exact + 0.5);
    }

    Counters& GetCounters()
    {
        return m_counters;
    }

    /// Adds the pauses still in force to the counters.
    void CloseCounters();

    // NetDevice; the packet functions are not used here, RoCE frames travel by Enqueue.
    void SetIfIndex(const uint32_t index) override;
    uint32_t GetIfIndex() const override;
    Ptr<Channel> GetChannel() const override;
    void SetAddress(Address address) override;
    Address GetAddress() const override;
    bool SetMtu(const uint16_t mtu) override;
    uint16_t GetMtu() const override;
    bool IsLinkUp() const override;
    void AddLinkChangeCallback(Callback<void> callback) override;
    bool IsBroadcast() const override;
    Address GetBroadcast() const override;
    bool IsMulticast() const override;
    Address GetMulticast(Ipv4Address multicastGroup) const override;
    Address GetMulticast(Ipv6Address addr) const override;
    bool IsBridge() const override;
    bool IsPointToPoint() const override;
    bool Send(Ptr<Packet> packet, const Address& dest, uint16_t protocolNumber) override;
    bool SendFrom(Ptr<Packet> packet,
                  const Address& source,
                  const Address& dest,
                  uint16_t protocolNumber) override;
    Ptr<Node> GetNode() const override;
    void SetNode(Ptr<Node> node) override;
    bool NeedsArp() const override;
    void SetReceiveCallback(ReceiveCallback cb) override;
    void SetPromiscReceiveCallback(PromiscReceiveCallback cb) override;
    bool SupportsSendFrom() const override;

  protected:
    void DoDispose() override;

  private:
    /** The one event by which the port wakes itself; it may stand in the schedule twice. */
    class Wake : public EventImpl
    {
      public:
        RoceNetDevice* device{nullptr};

      protected:
        void Notify() override;
    };

    void WakeAt(int64_t now, int64_t when);
    RoceFrame* PopQueue(uint8_t priority);
    RoceFrame* SelectFrame(int64_t now);
    bool HasFrameReady() const;
    void Transmit(RoceFrame* frame, int64_t now);
    void HandlePfc(RoceFrame* frame);
    void Resume(uint8_t priority);
    void PauseExpired(uint8_t priority);

    DataRate m_rate;
    uint32_t m_wireOverhead;
    bool m_truncateNs;
    double m_bitRate{0};
    int64_t m_delay{0};
    int64_t m_busyUntil{0};
    int64_t m_wakeAt{INT64_MAX};
    Wake m_wake;
    RoceNetDevice* m_peer{nullptr};
    RoceSwitch* m_switch{nullptr};
    RdmaNic* m_nic{nullptr};
    uint32_t m_port{0};
    uint8_t m_paused{0};   //!< mask of classes that must wait
    uint8_t m_backlogged{0}; //!< mask of classes with frames queued
    uint8_t m_lastClass{0};
    std::array<RoceFrameQueue, CLASSES> m_queues;
    std::array<uint64_t, CLASSES> m_queueBytes{};
    std::array<int64_t, CLASSES> m_pausedSince{};
    std::array<int64_t, CLASSES> m_pauseEnds{};
    RoceFrameQueue m_pfcQueue;
    uint64_t m_backlog{0};
    Counters m_counters;
    uint32_t m_ifIndex{0};
    uint16_t m_mtu{9000};
    Ptr<RoceChannel> m_channel;
    Ptr<Node> m_node;
    Mac48Address m_address;
    TracedCallback<uint8_t, bool> m_pfcSendTrace;
    TracedCallback<uint8_t, bool> m_pfcReceiveTrace;
    TracedCallback<uint32_t> m_txTrace;
};

} // namespace ns3

#endif // ROCE_NET_DEVICE_H
