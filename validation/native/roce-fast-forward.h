/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#ifndef ROCE_FAST_FORWARD_H
#define ROCE_FAST_FORWARD_H

#include "rdma-queue-pair.h"
#include "roce-net-device.h"

#include "ns3/callback.h"
#include "ns3/nstime.h"

#include <vector>

namespace ns3
{

/**
 * Skips whole periods of a steady state.
 *
 * At ACKs of one flow it compares the state of all flows and ports with that at an earlier ACK.
 * When it comes again, to the picosecond and byte, several times at even distances, and there
 * was no mark (nor a chance of one), pause, loss or CNP, it will until a flow starts or ends. So
 * whole periods are taken off the bytes left of every active flow, and off the time until the
 * next start; frames, queues and timers stay as they are. Simulated time is then
 * Simulator::Now() + GetSkipped().
 *
 * Where ACKs meet data at line rate, queues grow by a thousandth and no state comes again. There
 * a window with as much delivered in its second half as in its first will do, if no queue can
 * come near its threshold before the next flow starts or ends.
 */
class RoceFastForward
{
  public:
    /** What it must know of the fabric. */
    struct Limits
    {
        int64_t roundTrip; //!< the longest, picoseconds
        int64_t payload;   //!< of a full frame
        double queue;      //!< bytes that a queue may reach, at any rate
        double queuePer100; //!< and per 100 Gb/s
    };

    /// @param skip moves the starts still to come and the bound nearer
    /// @param room @returns time until the next of these
    RoceFastForward(const std::vector<Ptr<RdmaQueuePair>>& flows,
                    const Limits& limits,
                    Callback<int64_t> room,
                    Callback<void, int64_t> skip);

    /// A flow's sender has received an ACK that did not end it.
    void Acknowledged(RdmaQueuePair* qp);

    /// @returns picoseconds skipped so far
    int64_t GetSkipped() const
    {
        return m_skipped;
    }

    uint64_t GetSkips() const
    {
        return m_skips;
    }

  private:
    using Numbers = std::vector<int64_t>;

    /** The state at one ACK: what must be equal again, and what grows from period to period. */
    struct Moment
    {
        int64_t at{0};
        Numbers equal;
        Numbers growing;
        Numbers quiet;     //!< what happened so far that must not go on
        Numbers delivered; //!< of active flows
        Numbers backlog;   //!< of the devices
    };

    bool Observe(int64_t now, Moment& moment) const;
    bool SamePeriod(const Moment& now) const;
    void GiveUp(int64_t now);
    void WatchPeriods(Moment moment);
    bool WatchRates(const Moment& moment);
    void SkipPeriods(const Moment& now);
    bool SkipSteady(const Moment& now);
    void TakeOff(int64_t time, const Numbers& bytes);
    int64_t CountTime(const std::vector<double>& rates) const;
    void Restart(int64_t now);
    int64_t CountPeriods(int64_t period, const Numbers& growth) const;

    const std::vector<Ptr<RdmaQueuePair>>& m_flows;
    std::vector<RoceNetDevice*> m_devices; //!< those on a way of any flow
    Limits m_limits;
    int64_t m_window;                      //!< over which the state must have been periodic
    Callback<int64_t> m_room;
    Callback<void, int64_t> m_skip;
    RdmaQueuePair* m_reference{nullptr};
    int64_t m_quietUntil{0};
    int64_t m_backoff;
    uint32_t m_repeats{0};
    uint64_t m_since{0}; //!< comparisons since the base
    Moment m_base;
    Moment m_last;
    Moment m_first;  //!< of the window of rates
    Moment m_middle; //!< of it
    bool m_open{false};
    bool m_half{false};
    int64_t m_stretch{1};            //!< windows grow where they were too short to tell
    std::vector<double> m_unqueued; //!< bytes that would be queued, had nothing been skipped
    int64_t m_period{0};
    Numbers m_growth; //!< in one period
    int64_t m_skipped{0};
    uint64_t m_skips{0};
};

} // namespace ns3

#endif // ROCE_FAST_FORWARD_H
