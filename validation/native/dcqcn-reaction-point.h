/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#ifndef DCQCN_REACTION_POINT_H
#define DCQCN_REACTION_POINT_H

#include "dcqcn-config.h"

#include "ns3/event-id.h"

namespace ns3
{

/**
 * The sender's half of DCQCN: the rate of one queue pair.
 *
 * A CNP cuts the rate by alpha/2: at once (the paper), or, with a CutTimer, at its next tick; the
 * first CNP sets alpha to 1 and starts that timer, so that there is no cut before one period. The rate rises once per RiseTimer, and once per
 * ByteCounter bytes: half way to the target F times, then the target too, by AI or HAI. Alpha and
 * the cut timer are kept lazily: their ticks cost no event while no CNP comes.
 */
class DcqcnReactionPoint
{
  public:
    void Start(const DcqcnConfig* config, double lineRate);
    /// Cancels the timers; to be called before the simulator is destroyed.
    void Stop();
    void CnpReceived();
    void BytesSent(uint32_t bytes);

    /// @returns bit/s
    double GetRate() const
    {
        return m_rate;
    }

  private:
    void AdvanceAlpha(int64_t now);
    void Decay(int64_t ticks);
    void CutDue();
    void Cut(int64_t now);
    void RiseDue();
    void ArmRise(int64_t now);
    void Rise();

    const DcqcnConfig* m_config{nullptr};
    double m_lineRate{0};
    double m_rate{0};
    double m_target{0};
    double m_alpha{1};
    bool m_active{false};    //!< a CNP has come
    bool m_alphaCnp{false};  //!< a CNP since alpha's last tick
    int64_t m_alphaTick{0};  //!< when alpha was last moved
    int64_t m_cutOrigin{0};  //!< a point of the cut timer's grid
    uint32_t m_timeStage{0};
    uint32_t m_byteStage{0};
    uint64_t m_bytes{0};
    int64_t m_riseAt{0};
    EventId m_cutEvent;
    EventId m_riseEvent;
};

} // namespace ns3

#endif // DCQCN_REACTION_POINT_H
