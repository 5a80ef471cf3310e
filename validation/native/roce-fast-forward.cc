/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#include "roce-fast-forward.h"

#include "ns3/simulator.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace ns3
{

namespace
{

constexpr int64_t LEAST_WINDOW = 20'000'000; //!< 20 us
constexpr uint32_t REPEATS = 4;
constexpr uint64_t PATIENCE = 32; //!< ACKs in which the state must come again
constexpr int64_t MARGIN = 2;     //!< periods left to simulate before a flow ends
constexpr int64_t LEAST_PERIODS = 4;
constexpr int64_t HALF_FRAMES = 256; //!< of the slowest flow, in half a window of rates
constexpr double TOLERANCE = 0.003;  //!< between the rates in its halves, beside two frames

} // namespace

RoceFastForward::RoceFastForward(const std::vector<Ptr<RdmaQueuePair>>& flows,
                                 const Limits& limits,
                                 Callback<int64_t> room,
                                 Callback<void, int64_t> skip)
    : m_flows(flows),
      m_limits(limits),
      m_window(std::max(LEAST_WINDOW, 4 * limits.roundTrip)),
      m_room(room),
      m_skip(skip),
      m_backoff(m_window)
{
    for (const auto& qp : flows)
    {
        m_devices.insert(m_devices.end(), qp->dataRoute.begin(), qp->dataRoute.end());
        m_devices.insert(m_devices.end(), qp->ackRoute.begin(), qp->ackRoute.end());
    }
    std::sort(m_devices.begin(), m_devices.end());
    m_devices.erase(std::unique(m_devices.begin(), m_devices.end()), m_devices.end());
    m_unqueued.resize(m_devices.size());
}

void
RoceFastForward::Acknowledged(RdmaQueuePair* qp)
{
    const auto rate = [](const RdmaQueuePair* of) { return of->dataRoute.front()->GetBitRate(); };
    // The slowest sender's ACKs are the furthest apart.
    if (!m_reference || m_reference->finished >= 0 || rate(qp) < rate(m_reference))
    {
        m_reference = qp;
        m_since = 0;
        m_open = false;
    }
    if (qp != m_reference)
    {
        return;
    }
    const int64_t now = Simulator::Now().GetTimeStep();
    if (now < m_quietUntil)
    {
        return;
    }
    Moment moment;
    if (!Observe(now, moment))
    {
        GiveUp(now);
        return;
    }
    if (!WatchRates(moment))
    {
        WatchPeriods(std::move(moment));
    }
}

void
RoceFastForward::WatchPeriods(Moment moment)
{
    if (m_since == 0 || ++m_since > PATIENCE)
    {
        m_since = 1;
        m_base = moment;
        m_last = std::move(moment);
        m_repeats = 0;
        return;
    }
    if (moment.equal != m_base.equal)
    {
        return;
    }
    m_since = 1;
    m_repeats = SamePeriod(moment) ? m_repeats + 1 : 1;
    m_period = moment.at - m_last.at;
    m_growth.resize(moment.growing.size());
    std::transform(moment.growing.begin(),
                   moment.growing.end(),
                   m_last.growing.begin(),
                   m_growth.begin(),
                   std::minus<>());
    m_last = std::move(moment);
    if (m_repeats < REPEATS || m_last.at - m_base.at < m_window)
    {
        return;
    }
    SkipPeriods(m_last);
}

bool
RoceFastForward::WatchRates(const Moment& moment)
{
    if (!m_open || moment.quiet != m_first.quiet)
    {
        m_open = true;
        m_half = false;
        m_first = moment;
        return false;
    }
    if (!m_half)
    {
        int64_t frames = INT64_MAX;
        for (std::size_t i = 0; i < moment.delivered.size(); i++)
        {
            frames = std::min(frames, (moment.delivered[i] - m_first.delivered[i]) / m_limits.payload);
        }
        m_half = frames >= HALF_FRAMES * m_stretch &&
                 moment.at - m_first.at >= 2 * m_window * m_stretch;
        if (m_half)
        {
            m_middle = moment;
        }
        return false;
    }
    if (moment.at - m_middle.at < m_middle.at - m_first.at)
    {
        return false;
    }
    m_open = false;
    if (SkipSteady(moment))
    {
        m_stretch = 1;
        return true;
    }
    m_stretch = std::min<int64_t>(2 * m_stretch, 64);
    return false;
}

bool
RoceFastForward::SkipSteady(const Moment& now)
{
    const auto first = static_cast<double>(m_middle.at - m_first.at);
    const auto second = static_cast<double>(now.at - m_middle.at);
    std::vector<double> rates; // bytes per picosecond
    for (std::size_t i = 0; i < now.delivered.size(); i++)
    {
        const auto before = static_cast<double>(m_middle.delivered[i] - m_first.delivered[i]);
        const auto after = static_cast<double>(now.delivered[i] - m_middle.delivered[i]);
        const double expected = before / first * second;
        if (std::abs(after - expected) >
            TOLERANCE * expected + 2 * static_cast<double>(m_limits.payload))
        {
            return false;
        }
        rates.push_back((before + after) / (first + second));
    }
    const int64_t time = CountTime(rates);
    if (time < 2 * m_window)
    {
        return false;
    }
    std::vector<double> growth;
    for (std::size_t i = 0; i < m_devices.size(); i++)
    {
        const auto queued = static_cast<double>(now.backlog[i]);
        const double rate = (queued - static_cast<double>(m_first.backlog[i])) / (first + second);
        const auto ahead = static_cast<double>(time + 4 * m_window);
        const double peak = m_unqueued[i] + queued + std::max(0.0, rate * ahead);
        const double limit =
            std::min(m_limits.queue, m_limits.queuePer100 * m_devices[i]->GetBitRate() / 100e9);
        if (peak > limit)
        {
            return false;
        }
        growth.push_back(std::max(0.0, rate * static_cast<double>(time)));
    }
    Numbers bytes;
    for (double rate : rates)
    {
        const auto frames = static_cast<int64_t>(rate * static_cast<double>(time)) / m_limits.payload;
        bytes.push_back(frames * m_limits.payload);
    }
    TakeOff(time, bytes);
    for (std::size_t i = 0; i < m_devices.size(); i++)
    {
        auto& counters = m_devices[i]->GetCounters();
        const auto sent = now.growing[now.delivered.size() + i] -
                          m_first.growing[now.delivered.size() + i];
        counters.txBytes += static_cast<uint64_t>(static_cast<double>(sent) / (first + second) *
                                                  static_cast<double>(time));
        counters.maxBacklog += static_cast<uint64_t>(growth[i]);
        m_unqueued[i] += growth[i];
    }
    Restart(now.at);
    return true;
}

int64_t
RoceFastForward::CountTime(const std::vector<double>& rates) const
{
    auto time = static_cast<double>(m_room());
    std::size_t at = 0;
    for (const auto& qp : m_flows)
    {
        if (qp->started >= 0 && qp->finished < 0)
        {
            time = std::min(time, static_cast<double>(qp->size - qp->sndNext) / rates[at++]);
        }
    }
    return static_cast<int64_t>(time) - 2 * m_window;
}

void
RoceFastForward::Restart(int64_t now)
{
    m_since = 0;
    m_open = false;
    m_backoff = m_window;
    m_quietUntil = now + m_window;
}

void
RoceFastForward::TakeOff(int64_t time, const Numbers& bytes)
{
    std::size_t at = 0;
    for (const auto& qp : m_flows)
    {
        if (qp->started >= 0 && qp->finished < 0)
        {
            const auto off = static_cast<uint64_t>(bytes[at++]);
            qp->size -= off;
            qp->skippedBytes += off;
            qp->skippedTime += time;
            qp->nackSilentUntil -= time;
        }
    }
    m_skipped += time;
    m_skips++;
    m_skip(time);
}

bool
RoceFastForward::Observe(int64_t now, Moment& moment) const
{
    moment.at = now;
    for (const auto& qp : m_flows)
    {
        if (qp->started < 0 || qp->finished >= 0)
        {
            continue;
        }
        if (qp->cnpsReceived || qp->sndNext >= qp->size)
        {
            return false; // its rate may change; or it ends
        }
        moment.equal.insert(moment.equal.end(),
                            {qp->id,
                             static_cast<int64_t>(qp->sndNext - qp->sndUna),
                             static_cast<int64_t>(qp->sndNext - qp->expected),
                             static_cast<int64_t>(qp->sndMax - qp->sndNext),
                             qp->unacked,
                             static_cast<int64_t>(qp->retransmits),
                             std::max<int64_t>(qp->nextSend - now, 0)});
        moment.growing.push_back(static_cast<int64_t>(qp->sndNext));
        moment.quiet.insert(moment.quiet.end(), {qp->id, static_cast<int64_t>(qp->retransmits)});
        moment.delivered.push_back(static_cast<int64_t>(qp->expected));
    }
    for (RoceNetDevice* device : m_devices)
    {
        const auto& counters = device->GetCounters();
        if (device->IsPaused())
        {
            return false;
        }
        // Of what happened, only that no more of it did counts.
        moment.equal.insert(moment.equal.end(),
                            {static_cast<int64_t>(device->GetBacklog()),
                             std::max<int64_t>(device->GetBusyUntil() - now, 0),
                             static_cast<int64_t>(counters.pausesSent),
                             static_cast<int64_t>(counters.ecnDraws),
                             static_cast<int64_t>(counters.drops)});
        moment.quiet.insert(moment.quiet.end(),
                            {static_cast<int64_t>(counters.pausesSent),
                             static_cast<int64_t>(counters.ecnDraws),
                             static_cast<int64_t>(counters.drops)});
        moment.backlog.push_back(static_cast<int64_t>(device->GetBacklog()));
        moment.growing.push_back(static_cast<int64_t>(counters.txBytes));
    }
    return true;
}

bool
RoceFastForward::SamePeriod(const Moment& now) const
{
    if (!m_repeats || now.at - m_last.at != m_period)
    {
        return false;
    }
    for (std::size_t i = 0; i < m_growth.size(); i++)
    {
        if (now.growing[i] - m_last.growing[i] != m_growth[i])
        {
            return false;
        }
    }
    return true;
}

void
RoceFastForward::GiveUp(int64_t now)
{
    m_since = 0;
    m_open = false;
    m_quietUntil = now + m_backoff;
    m_backoff = std::min(2 * m_backoff, 64 * m_window);
}

int64_t
RoceFastForward::CountPeriods(int64_t period, const Numbers& growth) const
{
    int64_t periods = m_room() / period - MARGIN;
    std::size_t at = 0;
    for (const auto& qp : m_flows)
    {
        if (qp->started >= 0 && qp->finished < 0)
        {
            const int64_t sent = growth[at++];
            const auto left = static_cast<int64_t>(qp->size - qp->sndNext);
            periods = sent ? std::min(periods, left / sent - MARGIN) : 0;
        }
    }
    return periods;
}

void
RoceFastForward::SkipPeriods(const Moment& now)
{
    const int64_t periods = CountPeriods(m_period, m_growth);
    Restart(now.at);
    if (periods < LEAST_PERIODS)
    {
        return;
    }
    Numbers bytes(m_growth.begin(), m_growth.end());
    for (int64_t& one : bytes)
    {
        one *= periods;
    }
    const std::size_t flows = now.delivered.size();
    for (std::size_t i = 0; i < m_devices.size(); i++)
    {
        m_devices[i]->GetCounters().txBytes += static_cast<uint64_t>(bytes[flows + i]);
    }
    TakeOff(periods * m_period, bytes);
}

} // namespace ns3
