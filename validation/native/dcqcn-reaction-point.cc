/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#include "dcqcn-reaction-point.h"

#include "ns3/simulator.h"

#include <algorithm>
#include <cmath>

namespace ns3
{

void
DcqcnReactionPoint::Start(const DcqcnConfig* config, double lineRate)
{
    m_config = config;
    m_lineRate = m_rate = m_target = lineRate;
}

void
DcqcnReactionPoint::Stop()
{
    if (m_active)
    {
        m_cutEvent.Cancel();
        m_riseEvent.Cancel();
        m_active = false;
    }
}

void
DcqcnReactionPoint::Decay(int64_t ticks)
{
    m_alpha *= ticks == 1 ? 1 - m_config->g : std::pow(1 - m_config->g, ticks);
}

void
DcqcnReactionPoint::AdvanceAlpha(int64_t now)
{
    int64_t ticks = (now - m_alphaTick) / m_config->alphaTimer;
    if (ticks == 0)
    {
        return;
    }
    m_alphaTick += ticks * m_config->alphaTimer;
    if (m_alphaCnp)
    {
        m_alphaCnp = false;
        Decay(1);
        m_alpha += m_config->g;
        ticks--;
    }
    if (ticks)
    {
        Decay(ticks);
    }
}

void
DcqcnReactionPoint::CnpReceived()
{
    const int64_t now = Simulator::Now().GetTimeStep();
    if (!m_active)
    {
        m_active = true;
        m_alpha = 1;
        m_alphaTick = m_cutOrigin = now;
    }
    else
    {
        AdvanceAlpha(now);
        m_alphaCnp = m_config->alphaByTimer;
    }
    if (!m_config->cutTimer)
    {
        Cut(now);
    }
    else if (!m_cutEvent.IsPending())
    {
        // The next point of the grid, just after alpha's tick there.
        const int64_t period = m_config->cutTimer;
        const int64_t wait = period - (now - m_cutOrigin) % period + 1;
        m_cutEvent = Simulator::Schedule(TimeStep(wait), &DcqcnReactionPoint::CutDue, this);
    }
}

void
DcqcnReactionPoint::CutDue()
{
    Cut(Simulator::Now().GetTimeStep());
}

void
DcqcnReactionPoint::Cut(int64_t now)
{
    AdvanceAlpha(now);
    if (m_config->clamp || m_timeStage || m_byteStage)
    {
        m_target = m_rate;
    }
    m_rate = std::max(m_config->minRate, m_rate * (1 - m_alpha / 2));
    if (!m_config->alphaByTimer)
    {
        Decay(1);
        m_alpha += m_config->g;
        m_alphaTick = now;
    }
    m_timeStage = m_byteStage = 0;
    m_bytes = 0;
    m_riseAt = now + m_config->riseTimer;
    ArmRise(now);
}

void
DcqcnReactionPoint::ArmRise(int64_t now)
{
    if (!m_riseEvent.IsPending())
    {
        m_riseEvent =
            Simulator::Schedule(TimeStep(m_riseAt - now), &DcqcnReactionPoint::RiseDue, this);
    }
}

void
DcqcnReactionPoint::RiseDue()
{
    const int64_t now = Simulator::Now().GetTimeStep();
    if (now >= m_riseAt)
    {
        Rise();
        m_timeStage++;
        m_riseAt = now + m_config->riseTimer;
    }
    ArmRise(now);
}

void
DcqcnReactionPoint::BytesSent(uint32_t bytes)
{
    if (!m_active || !m_config->byteCounter)
    {
        return;
    }
    m_bytes += bytes;
    while (m_bytes >= m_config->byteCounter)
    {
        m_bytes -= m_config->byteCounter;
        Rise();
        m_byteStage++;
    }
}

void
DcqcnReactionPoint::Rise()
{
    const uint32_t stages = m_config->stages;
    const uint32_t low = std::min(m_timeStage, m_byteStage);
    const uint32_t high = std::max(m_timeStage, m_byteStage);
    double step = 0;
    if (high >= stages)
    {
        // Without a byte counter one additive step goes before the hyper ones (the reference);
        // with it both counters must have passed F (the paper), and the step grows.
        const bool hyper = m_config->byteCounter ? low > stages : high > stages;
        const double times = m_config->byteCounter && hyper ? low - stages : 1;
        step = hyper ? m_config->hai * times : m_config->ai;
    }
    m_target = std::min(m_lineRate, m_target + step);
    m_rate = (m_rate + m_target) / 2;
}

} // namespace ns3
